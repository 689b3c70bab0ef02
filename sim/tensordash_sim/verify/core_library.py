"""Build, cache and load a shared library that simulates a core's Verilog and a memory."""

import ctypes
import hashlib
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from tensordash import TensorDashError
from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.descriptors import UNITS
from tensordash.emission.core_files import core_verilog
from tensordash_storage.files import annotate_oserror, scratch

from .builds import build_key, load_cached, store_cached, verilator_environment

__all__ = ["CoreState", "VerilatedError", "build_library", "core_library", "core_states", "verilog_of"]

DEVICE = ctypes.c_void_p
NUMBER = ctypes.c_uint64
WORD = ctypes.c_uint32
INT = ctypes.c_int
REAL = ctypes.c_double
NUMBERS = ctypes.POINTER(NUMBER)
FUNCTIONS: Mapping[str, tuple[Any, Sequence[Any]]] = MappingProxyType(
    {
        "new": (DEVICE, [NUMBER, NUMBER, ctypes.c_uint, ctypes.c_uint, REAL, NUMBER]),
        "delete": (None, [DEVICE]),
        "memory": (ctypes.POINTER(ctypes.c_uint8), [DEVICE]),
        "cycle": (NUMBER, [DEVICE]),
        "write": (INT, [DEVICE, WORD, WORD]),
        "read": (INT, [DEVICE, WORD, ctypes.POINTER(WORD)]),
        "idle": (INT, [DEVICE]),
        "behave": (None, [DEVICE, ctypes.c_uint, ctypes.c_uint, REAL, INT]),
        "faults": (None, [DEVICE, np.ctypeslib.ndpointer(np.uint64, flags="C"), ctypes.c_size_t]),
        "run": (INT, [DEVICE, NUMBER]),
        "until": (INT, [DEVICE, ctypes.c_uint, NUMBER, NUMBER, NUMBER]),
        "silence": (None, [DEVICE, INT, NUMBER]),
        "patience": (None, [DEVICE, NUMBER]),
        "waited": (NUMBERS, [DEVICE]),
        "moved": (NUMBERS, [DEVICE]),
        "errors": (NUMBERS, [DEVICE]),
        "fetching": (INT, [DEVICE, INT]),
        "seed": (None, [DEVICE, NUMBER]),
        "irq": (ctypes.c_uint, [DEVICE]),
        "states": (NUMBER, [DEVICE]),
        "at_reset": (NUMBER, [DEVICE]),
        "bus_at_reset": (ctypes.c_uint, [DEVICE]),
        "waves": (INT, [DEVICE, ctypes.c_char_p]),
    }
)
"""Result and argument types of the library's functions."""
CORE = "tensordash_core"
MULTICORE = "tensordash_multicore"
HARNESS = Path(__file__).with_name("core_harness.cpp")
SHARED = ("pe", "row_scheduler", "staging_ring", "result_pipeline")
"""Modules with many instances in a core: Verilator shares their code between instances, which saves CPU cache."""
SPLIT = (
    ("scheduler", "select"),
    ("row_scheduler", "scheduler__select"),
    ("bias_fetch", "read_enable"),
    ("output", "bias_fetch__read_enable"),
)
"""Signals in which one bit depends on another; unsplit, Verilator would evaluate them repeatedly until they settle."""


@dataclass(frozen=True, kw_only=True)
class CoreState:
    """A register with the state of one part of a core.

    Parameters
    ----------
    name : str
        Name of the part.
    signal : str
        Hierarchical name of the register in the core.
    low, width : int
        Its lowest bit in the vector of all states, and its width.
    values : int
        Number of states; the register has values from 0 to ``values - 1``.
    """

    name: str
    signal: str
    low: int
    width: int
    values: int


class VerilatedError(TensorDashError, RuntimeError):
    """A core that cannot be built, or a program that does not end; the message is one line."""


@cache
def verilog_of(config: CoreConfig, cores: int = 1) -> str:
    """Return the Verilog emitted for a core, or for several at one memory port."""
    return core_verilog(config, cores)


@cache
def core_library(verilog: str, quick: bool, waves: bool) -> ctypes.CDLL:
    """Return the library of a core's Verilog."""
    with scratch("tensordash-core-") as folder:
        made = build_library(verilog, folder, quick=quick, waves=waves)
        try:
            library = ctypes.CDLL(str(made))
        except OSError as error:
            raise VerilatedError(f"the library of a core cannot be loaded: {error}") from None
    for name, (result, arguments) in FUNCTIONS.items():
        function = getattr(library, f"core_{name}")
        function.restype, function.argtypes = result, arguments
    return library


def build_library(verilog: str, folder: Path, *, quick: bool = False, waves: bool = False) -> Path:
    """Build the library of a core's Verilog in a folder, or load it from the cache; return its file.

    Parameters
    ----------
    verilog : str
        The core's Verilog, whose top is ``tensordash_core`` or ``tensordash_multicore``.
    folder : Path
        An existing folder.
    quick, waves : bool
        See `VerilatedCore`.

    Raises
    ------
    VerilatedError
        If Verilator or the compiler fails.
    """
    made = folder / f"core-{hashlib.sha256(verilog.encode()).hexdigest()[:16]}.so"
    key = build_key(f"core {quick=} {waves=}", _hints(verilog) + verilog + _clocked(verilog), HARNESS.read_bytes())
    if not load_cached(key, made, link=False):
        with annotate_oserror(folder, if_nameless=True):
            _build(verilog, folder, made.name, quick=quick, waves=waves)
        store_cached(key, made)
    return made


@cache
def core_states(verilog: str) -> tuple[CoreState, ...]:
    """Return the state registers: soft reset (the first bit), error, busy units, and all state machines.

    Registers that the Verilog lacks are omitted; a hand-written core may have none. Those of a multicore are omitted.
    """
    if _top(verilog) != CORE:
        return ()
    modules = dict(re.findall(r"^module (\w+)\(\n(.*?)^endmodule", verilog, flags=re.MULTILINE | re.DOTALL))
    placed = re.findall(r"^  (tensordash_\w+) (\w+) \(", modules.get(CORE, ""), flags=re.MULTILINE)
    found = []
    for module, signal, name in (
        ("tensordash_registers", "registers.halt", "reset"),
        ("tensordash_sequencer", "sequencer.failed", "error"),
        *(("tensordash_sequencer", f"sequencer.running[{k}]", unit) for k, unit in enumerate(UNITS)),
    ):
        if re.search(
            rf"^  output (?:wire|reg) [^/\n]*\b{signal.split('.')[1].split('[')[0]}\b",
            modules.get(module, ""),
            re.MULTILINE,
        ):
            found.append((name, signal, 1, 2))
    for module, instance in placed:
        numbers = re.findall(r"^  localparam \[\d+:0\] \w+ = \d+'d(\d+);", modules[module], flags=re.MULTILINE)
        for bits, name in re.findall(
            r"^  reg \[(\d+):0\] (?:.*, )?(\w+_state)[,;]", modules[module], flags=re.MULTILINE
        ):
            values = 1 + max(map(int, numbers))
            found.append((f"{instance} state", f"{instance}.{name}", int(bits) + 1, values))
    made, low = [], 0
    for name, signal, width, values in found:
        made.append(CoreState(name=name, signal=signal, low=low, width=width, values=values))
        low += width
    return tuple(made)


def _top(verilog: str) -> str:
    """Return the name of the top: a multicore's, or a core's."""
    return MULTICORE if re.search(rf"^module {MULTICORE}\b", verilog, flags=re.MULTILINE) else CORE


def _hints(verilog: str) -> str:
    """Return Verilator's hints for a core's modules."""
    lines = [f'no_inline -module "tensordash_{name}"' for name in SHARED]
    lines += [f'split_var -module "tensordash_{module}" -var "{signal}"' for module, signal in SPLIT]
    modules = set(re.findall(r"^module (\w+)", verilog, flags=re.MULTILINE))
    return "\n".join(["`verilator_config", *(line for line in lines if line.split('"')[1] in modules), ""])


def _clocked(verilog: str) -> str:
    """Return a module around the core that registers all inputs except the clock.

    Verilator evaluates all logic that depends on a model's inputs at each call: before a clock edge and after it.
    The tile depends on AXI's ready. Registered inputs change with the clock, so all logic is evaluated once.
    """
    top = _top(verilog)
    header = re.search(rf"^module {top}\(\n(.*?)^\);", verilog, flags=re.MULTILINE | re.DOTALL)
    if header is None:
        raise VerilatedError(f"the Verilog must have a module {top}")
    declared = re.findall(r"(input|output) wire (\[\d+:0\] )?(\w+(?:,\s*(?!(?:input|output)\b)\w+)*)", header[1])
    ports = [(kind, bits, name) for kind, bits, names in declared for name in re.split(r",\s*", names)]
    driven = [(bits, name) for kind, bits, name in ports if kind == "input" and name != "clk"]
    at = {name: f"{name}_at_clock" for _, name in driven}
    states = [f"core.{each.signal}" for each in reversed(core_states(verilog))]
    lines = [
        f"module tensordash_clocked(\n{header[1].rstrip()},\n  output wire [63:0] states\n);",
        *(f"  reg {bits}{at[name]} = {1 if name == 'rst' else 0};" for bits, name in driven),
        "  always @(posedge clk) begin",
        *(f"    {at[name]} <= {name};" for _, name in driven),
        "  end",
        f"  {top} core({', '.join(f'.{name}({at.get(name, name)})' for _, _, name in ports)});",
        f"  assign states = {{ {', '.join(states)} }};" if states else "  assign states = 64'd0;",
        "endmodule",
    ]
    return "\n".join([*lines, ""])


def _build(verilog: str, folder: Path, name: str, *, quick: bool, waves: bool) -> None:
    """Build Verilator's model and the harness as a library."""
    (folder / "core.v").write_text(verilog + _clocked(verilog), encoding="utf-8")
    (folder / "core.vlt").write_text(_hints(verilog), encoding="utf-8")
    log = folder / "build.log"
    verilate = [
        *("verilator", "-cc", "--exe", "--prefix", "Vcore", "--top-module", "tensordash_clocked", "-o", name),
        *("-Mdir", ".", "-Wno-fatal", "--x-initial", "fast", "-O3", "-CFLAGS", "-fPIC", "-LDFLAGS", "-shared"),
        *(("--trace",) if waves else ()),
        *("core.vlt", "core.v", str(HARNESS)),
    ]
    # Optimise the code of every cycle; the rest runs once.
    make = [
        "make",
        "-j2",
        "-f",
        "Vcore.mk",
        f"OPT_FAST={'-O0' if quick else '-O3 -fno-semantic-interposition'}",
        "OPT_SLOW=-O0",
        f"OPT_GLOBAL={'-O0' if quick else '-O1'}",
    ]
    with log.open("w", encoding="utf-8") as file:
        for command in (verilate, make):
            ran = subprocess.run(
                command, cwd=folder, env=verilator_environment(), stdout=file, stderr=subprocess.STDOUT
            )
            if ran.returncode:
                words = " ".join(log.read_text(encoding="utf-8", errors="replace").split()[-40:])
                raise VerilatedError(f"{command[0]} ended with {ran.returncode}: {words}")
