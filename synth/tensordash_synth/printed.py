"""Equivalence of the printed Verilog and Amaranth's RTLIL, module by module, for every input in every state."""

import hashlib
import re
import tempfile
import time
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from amaranth.back import rtlil
from amaranth.hdl._ir import PortDirection  # the public converter takes it, but no public module exports it

from tensordash import TileConfig
from tensordash.configuration.core_config import CoreConfig
from tensordash.core.core import Core
from tensordash.emission.library import Library, members
from tensordash.emission.verilog import companions
from tensordash.streams.axi_stream import AxiStreamTile

from .aiger import read_aiger
from .equivalence import EDGES, PLAIN_SECONDS
from .register_pairs import SCREENING_VECTORS, Pairs
from .yosys import SynthesisError, run_yosys

__all__ = ["PrintedModule", "library_of", "module_texts", "prove_module", "prove_printed", "rtlil_of"]

PORT = re.compile(r"wire (?:width (\d+) )?(?:signed )?(input|output) \d+ +(?:signed )?(\S+)")
WIRE = re.compile(r"  wire .*?(\\\S+)")
NAME = re.compile(r"\\\S+")
CONTENTS = re.compile(r"^  cell \$meminit_v2 .*?^  end\n", re.MULTILINE | re.DOTALL)
MEMORIES = [
    # Muxes and enables around a synchronous read become part of the memory, as they are in RTLIL.
    "opt_expr -mux_undef",
    "opt_dff",
    "opt_clean",
    "memory -nomap",
    "opt_clean",
]


# Data of a disabled write has no effect. It is set to 0, because Yosys joins partial writes of Verilog into one port.
MASKED_WRITES = """
(* techmap_celltype = "$mem_v2" *)
module masked_writes(RD_CLK, RD_EN, RD_ARST, RD_SRST, RD_ADDR, RD_DATA, WR_CLK, WR_EN, WR_ADDR, WR_DATA);
  parameter MEMID = "";
  parameter signed SIZE = 0, OFFSET = 0, ABITS = 0, WIDTH = 0, RD_PORTS = 0, WR_PORTS = 0;
  parameter INIT = 0, RD_CLK_ENABLE = 0, RD_CLK_POLARITY = 0, RD_TRANSPARENCY_MASK = 0, RD_COLLISION_X_MASK = 0;
  parameter RD_WIDE_CONTINUATION = 0, RD_CE_OVER_SRST = 0, RD_ARST_VALUE = 0, RD_SRST_VALUE = 0, RD_INIT_VALUE = 0;
  parameter WR_CLK_ENABLE = 0, WR_CLK_POLARITY = 0, WR_PRIORITY_MASK = 0, WR_WIDE_CONTINUATION = 0;
  input [RD_PORTS-1:0] RD_CLK, RD_EN, RD_ARST, RD_SRST;
  input [RD_PORTS*ABITS-1:0] RD_ADDR;
  output [RD_PORTS*WIDTH-1:0] RD_DATA;
  input [WR_PORTS-1:0] WR_CLK;
  input [WR_PORTS*WIDTH-1:0] WR_EN, WR_DATA;
  input [WR_PORTS*ABITS-1:0] WR_ADDR;
  \\$mem_v2 #(
    .MEMID(MEMID), .SIZE(SIZE), .OFFSET(OFFSET), .ABITS(ABITS), .WIDTH(WIDTH), .INIT(INIT), .RD_PORTS(RD_PORTS),
    .RD_CLK_ENABLE(RD_CLK_ENABLE), .RD_CLK_POLARITY(RD_CLK_POLARITY), .RD_TRANSPARENCY_MASK(RD_TRANSPARENCY_MASK),
    .RD_COLLISION_X_MASK(RD_COLLISION_X_MASK), .RD_WIDE_CONTINUATION(RD_WIDE_CONTINUATION),
    .RD_CE_OVER_SRST(RD_CE_OVER_SRST), .RD_ARST_VALUE(RD_ARST_VALUE), .RD_SRST_VALUE(RD_SRST_VALUE),
    .RD_INIT_VALUE(RD_INIT_VALUE), .WR_PORTS(WR_PORTS), .WR_CLK_ENABLE(WR_CLK_ENABLE),
    .WR_CLK_POLARITY(WR_CLK_POLARITY), .WR_PRIORITY_MASK(WR_PRIORITY_MASK),
    .WR_WIDE_CONTINUATION(WR_WIDE_CONTINUATION)
  ) _TECHMAP_REPLACE_ (
    .RD_CLK(RD_CLK), .RD_EN(RD_EN), .RD_ARST(RD_ARST), .RD_SRST(RD_SRST), .RD_ADDR(RD_ADDR), .RD_DATA(RD_DATA),
    .WR_CLK(WR_CLK), .WR_EN(WR_EN), .WR_ADDR(WR_ADDR), .WR_DATA(WR_DATA & WR_EN)
  );
endmodule
"""

# Merge registers that load the same value under the same enable: their value at power-up is undefined and may be equal.
MERGE_REGISTERS = ["opt_dff", "opt_merge", "opt_clean"]


@dataclass(frozen=True, kw_only=True)
class PrintedModule:
    """Result of comparing a printed module with Amaranth's RTLIL.

    Parameters
    ----------
    name : str
        The module.
    proven : bool
        Whether every output, input of a submodule or memory, and next state is equal.
    difference : str
        The difference, or the reason for a missing proof; empty if proven.
    seconds : float
        Time of the proof.
    """

    name: str
    proven: bool
    difference: str
    seconds: float


def library_of(config: TileConfig | CoreConfig) -> Library:
    """Return all modules that `generate` prints for a configuration."""
    library = Library()
    if isinstance(config, CoreConfig):
        library.module(Core(config))
    else:
        for block in (AxiStreamTile(config), *companions(config).values()):
            library.module(block)
    return library


def module_texts(verilog: str) -> dict[str, str]:
    """Return the text of each module of a Verilog file, by name."""
    found = re.finditer(r"^module (\w+).*?^endmodule\n", verilog, re.MULTILINE | re.DOTALL)
    return {module[1]: module[0] for module in found}


def rtlil_of(library: Library) -> dict[str, str]:
    """Return Amaranth's RTLIL of every module of a library, with names that are legal in Verilog."""
    texts = {}
    for name, block in library.blocks.items():
        ports = {
            port: (value, PortDirection.Input if is_input else PortDirection.Output)
            for port, value, is_input in members(block)
        }
        with library.fragment(block) as fragment:
            texts[name] = _tidy(rtlil.convert(fragment, name=name, platform=library, ports=ports, emit_src=False))
    return texts


def _tidy(text: str) -> str:
    """Remove contents of memories, wires for fields of structures, attributes, and an unread reset from RTLIL."""
    lines = [
        line
        for line in CONTENTS.sub("", text).splitlines()
        if not line.lstrip().startswith("attribute ") and not re.match(r"connect \\\S*[.\[]", line)
    ]
    lines = [line for line in lines if not ((wire := WIRE.fullmatch(line)) and re.search(r"[.\[]", wire[1]))]
    if not any("\\rst" in NAME.findall(line) for line in lines if not line.startswith("  wire ")):
        lines = [line for line in lines if not ((wire := WIRE.fullmatch(line)) and wire[1] == "\\rst")]
    found = dict.fromkeys(name for line in lines for name in NAME.findall(line))
    used, renamed = set(found), {}
    for name in found:
        base, dollar, _ = name.rpartition("$")
        if dollar and len(base) > 1:  # Amaranth numbered it.
            number = 2
            while (candidate := f"{base}_{number}") in used:
                number += 1
            used.add(candidate)
            renamed[name] = candidate
    return NAME.sub(lambda found: renamed.get(found[0], found[0]), "\n".join(lines) + "\n")


def prove_printed(
    library: Library,
    verilog: str,
    *,
    modules: Collection[str] = (),
    skip: Collection[str] = (),
    jobs: int = 1,
    seconds: int = PLAIN_SECONDS,
    progress: Callable[[PrintedModule], None] = lambda module: None,
) -> dict[str, PrintedModule]:
    """Prove each printed module equal to its RTLIL; submodules are cut off.

    Registers and instances correspond by name. From any state and for any inputs, both have the same outputs, the same
    inputs of submodules and memories, and the same next state. Registers have no value at power-up.

    Parameters
    ----------
    library : Library
        The modules.
    verilog : str
        Printed text of all modules.
    modules : collection of str
        Names of the modules to prove; all if empty.
    skip : collection of str
        Digests of modules that an earlier run has proven.
    jobs : int
        Number of proofs at a time.
    seconds : int
        Time limit of a proof.
    progress : callable
        Called with each result.

    Returns
    -------
    dict of str to PrintedModule
        Results by digest of both texts.
    """
    printed = module_texts(verilog)
    rtlil = rtlil_of(library)
    chosen = [name for name in rtlil if not modules or name in modules]
    with tempfile.TemporaryDirectory() as scratch, ThreadPoolExecutor(jobs) as pool:
        pending = {}
        for name in chosen:
            boxes = {each: rtlil[each] for each in _submodules(rtlil, name)}
            key = [name, rtlil[name], printed.get(name, ""), *(_interface(text) for text in boxes.values())]
            digest = hashlib.sha256("\0".join(key).encode()).hexdigest()
            if digest not in skip:
                folder = Path(scratch) / name
                work = pool.submit(_prove, name, rtlil[name], printed.get(name), folder, boxes, seconds)
                pending[work] = digest
        results = {}
        for work in as_completed(pending):
            results[pending[work]] = work.result()
            progress(work.result())
        return results


def _prove(
    name: str, rtlil: str, verilog: str | None, folder: Path, boxes: dict[str, str], seconds: int
) -> PrintedModule:
    began = time.monotonic()
    folder.mkdir()
    try:
        verdict = (
            "the module is not printed"
            if verilog is None
            else prove_module(name, rtlil, verilog, folder, boxes=boxes, seconds=seconds)
        )
    except SynthesisError as error:
        verdict = str(error)
    proven, difference = verdict == "", "unproven: no answer in time" if verdict is None else verdict
    return PrintedModule(name=name, proven=proven, difference=difference, seconds=time.monotonic() - began)


def prove_module(
    name: str, rtlil: str, verilog: str, folder: Path, *, boxes: dict[str, str], seconds: int = PLAIN_SECONDS
) -> str | None:
    """Prove a module equal in RTLIL and Verilog.

    Parameters
    ----------
    name : str
        The module.
    rtlil, verilog : str
        The module in both languages.
    folder : Path
        An existing, empty folder for temporary files.
    boxes : dict of str to str
        RTLIL of its submodules, by name.
    seconds : int
        Time limit.

    Returns
    -------
    str or None
        Empty if proven, else the difference; None if the time limit was reached.

    Raises
    ------
    SynthesisError
        If Yosys rejects a text, or a register of the Verilog is not in the RTLIL.
    """
    (folder / "edges.v").write_text(EDGES, encoding="utf-8")
    (folder / "masked_writes.v").write_text(MASKED_WRITES, encoding="utf-8")
    (folder / "boxes.il").write_text("".join(map(_interface, boxes.values())), encoding="utf-8")
    (folder / "rtlil.il").write_text(rtlil, encoding="utf-8")
    (folder / "verilog.v").write_text("`default_nettype none\n" + verilog, encoding="utf-8")
    passes = MEMORIES if "  memory " in rtlil else []
    return (verdict := _compare(name, folder, list(boxes), passes, seconds)) and (
        # Merging may remove names, so the first verdict is more useful in a report.
        verdict if _compare(name, folder, list(boxes), [*passes, *MERGE_REGISTERS], seconds) else ""
    )


def _compare(name: str, folder: Path, boxes: list[str], passes: list[str], seconds: int) -> str | None:
    commands: list[str] = []
    cells = " ".join(f"t:{each}" for each in ("$mem_v2", *boxes))
    for label, read in (("rtlil", "read_rtlil rtlil.il"), ("verilog", "read_verilog verilog.v")):
        commands += ["design -reset", read, "read_rtlil boxes.il", f"hierarchy -check -top {name}", "proc", "opt_clean"]
        commands += ["check -assert"] if label == "verilog" else []
        commands += [*passes, f"dump -o {label}.dump x:* a:init {cells}"]
        commands += ["techmap -max_iter 1 -map masked_writes.v t:$mem_v2", f"expose -evert {cells}", "opt_clean"]
        # Verilog extends operands to the width of the product.
        commands += [
            "wreduce t:$mul",
            "techmap",
            "simplemap",
            "dffunmap",
            "opt_clean",
            "techmap -map edges.v",
            "aigmap",
        ]
        # The proof covers every value of undefined bits.
        commands += ["setundef -anyseq", "opt_clean", f"write_aiger -ascii -symbols -vmap {label}.map {label}.aag"]
    run_yosys(commands, folder, name)
    shapes = [set(_shape((folder / f"{label}.dump").read_text(encoding="utf-8"))) for label in ("rtlil", "verilog")]
    if shapes[0] != shapes[1]:
        one, other = (sorted(shapes[i] - shapes[1 - i]) for i in (0, 1))
        return f"only in RTLIL: {', '.join(one) or '-'}; only in Verilog: {', '.join(other) or '-'}"
    views = [read_aiger(folder / f"{label}.aag") for label in ("rtlil", "verilog")]
    try:
        pairs = Pairs(views[0], views[1], name)
    except SynthesisError as error:  # Only one view has an output or a register.
        return str(error)
    verdict = pairs.try_vectors(SCREENING_VECTORS) or pairs.prove(folder, seconds)
    return verdict + _first_difference(pairs) if verdict and pairs.counterexample is not None else verdict


def _submodules(rtlil: dict[str, str], name: str) -> list[str]:
    return sorted(set(re.findall(r"^  cell \\(\w+) ", rtlil[name], re.MULTILINE)) & rtlil.keys())


def _interface(rtlil: str) -> str:
    """Return a module in RTLIL with its ports only."""
    head = re.search(r"^module \S+$", rtlil, re.MULTILINE)
    assert head is not None
    lines = [f"  {found[0]}" for found in PORT.finditer(rtlil)]
    return "\n".join(["attribute \\blackbox 1", head[0], *lines, "end", ""])


def _shape(dump: str) -> Iterator[str]:
    """Yield the properties that both views must share: ports, submodules, initial values, parameters of memories."""
    cell = ""
    for line in map(str.strip, dump.splitlines()):
        if port := PORT.fullmatch(line):
            yield f"{port[2]} {port[3][1:]} of {port[1] or 1} bits"
        elif line.startswith("cell "):
            kind, cell = line.split()[1:]
            yield f"{kind.removeprefix(chr(92))} {cell[1:]}"
        elif line.startswith("attribute \\init"):
            yield f"initial value {line.split()[-1]}"
        elif line.startswith("parameter ") and "RD_COLLISION_X_MASK" not in line:
            # Yosys sets that mask if it proves that a read and a write never have the same address in a cycle.
            yield f"{cell[1:]} {line}"


def _first_difference(pairs: Pairs) -> str:
    """Return the named signal nearest to the inputs that differs on the counterexample, and its values."""
    assert pairs.counterexample is not None
    bits = list(pairs.nets)
    one, other = pairs.simulate(pairs.counterexample, list(pairs.nets.values()))
    wrong = np.flatnonzero((one & 1) != (other & 1))
    if not len(wrong):
        return ""
    first, _ = bits[min(wrong, key=lambda i: pairs.nets[bits[i]][1])]
    values = [
        sum(int(view[i, 0] & 1) << bit for i, (name, bit) in enumerate(bits) if name == first) for view in (one, other)
    ]
    return f"; first difference: {first} is {values[0]:#x} in RTLIL, {values[1]:#x} in Verilog"
