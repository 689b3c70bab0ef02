"""Equivalence of a mapped netlist and its RTL, module by module, for every input in every state of the registers."""

import time
from collections.abc import Sequence
from pathlib import Path

from tensordash import TileConfig
from tensordash.configuration.core_config import CoreConfig

from .aiger import Registers, read_aiger
from .equivalence_report import Equivalence, EquivalenceReport
from .hierarchy import Hierarchy, hierarchy_of
from .liberty import Liberty
from .mapping import Mapped, elaborate
from .multipliers import is_correct, multiplier_shapes
from .register_pairs import SCREENING_VECTORS, Pairs
from .run import Progress, Run, running
from .yosys import SynthesisError, run_yosys

__all__ = ["EDGES", "PLAIN_SECONDS", "compare", "prove_equivalence", "same_logic", "views_of"]

PLAIN_SECONDS = 45
SECONDS = 900
PLAIN = ["proc", "flatten", "opt_clean"]
# A clock net is 1 in the cycles that end with an edge on it: always on the clock itself, if enabled after a clock gate.
EDGES = """\
(* techmap_celltype = "$_DFF_P_" *)
module _edge (input D, C, output Q);
  wire next;
  \\$_MUX_ hold (.A(Q), .B(D), .S(C), .Y(next));
  \\$_FF_ state (.D(next), .Q(Q));
endmodule
"""


def prove_equivalence(
    config: TileConfig | CoreConfig,
    *,
    liberty: str | Path | None = None,
    clock_ns: float = 2.0,
    progress: Progress | None = None,
    jobs: int | None = None,
) -> EquivalenceReport:
    """Map a tile or a core and prove each module's netlist equal to its RTL.

    Registers correspond by name, so only logic is compared: from any state, with any inputs, both have the same outputs
    and the same next state. The RTL can have any power-up state of the netlist. A core's memories, and modules below a
    module, are cut off: their inputs must be equal.

    Parameters
    ----------
    config : TileConfig or CoreConfig
        The tile or the core.
    liberty, clock_ns, progress, jobs
        As in `synthesize`.

    Raises
    ------
    LibertyError
        If the library cannot be used.
    SynthesisError
        If Yosys or ABC fails, or no correspondence of registers is found.
    """
    design = hierarchy_of(config)
    with running(liberty, clock_ns, progress, jobs) as run:
        pending = [run.submit(_module, run, design, name) for name in design.logic]
        run.wait()
        modules = tuple(future.result() for future in pending)
        return EquivalenceReport(digest=config.digest, library=run.library.name, modules=modules)


def _module(run: Run, design: Hierarchy, name: str) -> Equivalence:
    mapped = run.module(design, name, name)
    found = compare(design, name, mapped, run.library, run.room())
    run.progress(f"{name}: {'equal' if found.equal else found.difference}, {found.seconds:.1f} s")
    return found


def compare(design: Hierarchy, name: str, mapped: Mapped, library: Liberty, folder: Path) -> Equivalence:
    """Compare one module's netlist with its RTL.

    Parameters
    ----------
    design : Hierarchy
        The RTL.
    name : str
        The module.
    mapped : Mapped
        Its netlist.
    library : Liberty
        The library of the netlist's cells.
    folder : Path
        An existing, empty folder for temporary files.
    """
    began = time.monotonic()
    # This is the mapped source, so unnamed registers have the same generated names.
    (folder / "rtl.v").write_text(design.source(name), encoding="utf-8")
    (folder / "netlist.v").write_text(mapped.netlist, encoding="utf-8")
    (folder / "cells.lib").symlink_to(library.path.resolve())
    (folder / "edges.v").write_text(EDGES, encoding="utf-8")
    (folder / "clock_gates.v").write_text(_clock_gates(library), encoding="utf-8")
    boxes = design.black_boxes(name)
    netlist = _netlist(name, boxes, folder)
    plain = _rtl(name, boxes, PLAIN, "plain", folder)
    how, pairs = "cec", Pairs(plain, netlist, name)
    verdict = pairs.prove(folder, PLAIN_SECONDS)
    if verdict is None:
        how = "cec, word level"
        elaborated = _rtl(name, boxes, elaborate(name), "elaborated", folder)
        verdict = Pairs(elaborated, netlist, name).prove(folder, SECONDS)
        if verdict is None:
            raise SynthesisError(f"equivalence of {name}: ABC has no answer after {SECONDS} seconds")
        verdict = verdict or Pairs(plain, elaborated, name).try_vectors() or _multipliers(name, boxes, folder)
    return Equivalence(
        module=name,
        registers=len(netlist.registers),
        outputs=len(netlist.outputs),
        how=how,
        equal=not verdict,
        difference=verdict,
        seconds=time.monotonic() - began,
    )


def _clock_gates(library: Liberty) -> str:
    """Return Verilog models of clock gates: the edge passes if an enable is high."""
    models = []
    for cell in library.cells:
        if (gate := cell.clock_gate) is not None:
            ports = ", ".join([f"input {gate.clock}", *(f"input {each}" for each in gate.enables)])
            passes = f"{gate.clock} & ({' | '.join(gate.enables)})"
            models.append(
                f"module {cell.name} ({ports}, output {gate.output}); assign {gate.output} = {passes}; endmodule\n"
            )
    return "".join(models)


def _rtl(name: str, boxes: Sequence[str], passes: Sequence[str], label: str, folder: Path) -> Registers:
    """Return the RTL's logic and registers."""
    commands = ["read_verilog rtl.v", *_blackbox(boxes), f"hierarchy -check -top {name}", *passes]
    commands += [*_expose(boxes), "opt_clean", "techmap", "simplemap", "dffunmap", "opt_clean"]
    return _graph(commands, label, name, folder)


def _netlist(name: str, boxes: Sequence[str], folder: Path) -> Registers:
    commands = ["read_liberty -ignore_miss_func cells.lib", "read_verilog -overwrite clock_gates.v"]
    if boxes:
        commands += ["read_verilog rtl.v", f"delete {name}", *_blackbox(boxes)]
    # Keep all names: if only the complement of a register is used, its own name identifies it.
    named = f"setattr -set keep 1 {name}/w:*"
    commands += ["read_verilog netlist.v", f"hierarchy -check -top {name}", named, "proc", "flatten", "opt_clean"]
    # The cell models have one register for Q and one for QN, with equal contents.
    commands += [*_expose(boxes), "opt_merge"]
    return _graph(commands, "netlist", name, folder)


def _blackbox(boxes: Sequence[str]) -> list[str]:
    return [f"blackbox {' '.join(boxes)}"] if boxes else []


def _expose(boxes: Sequence[str]) -> list[str]:
    """Return commands that cut off other modules: their inputs become outputs, and their outputs inputs."""
    return [f"expose -evert {' '.join(f't:{box}' for box in boxes)}"] if boxes else []


def _graph(commands: Sequence[str], label: str, name: str, folder: Path) -> Registers:
    ending = ["techmap -map edges.v", "aigmap", "opt_clean"]
    run_yosys([*commands, *ending, f"write_aiger -ascii -symbols -vmap {label}.map {label}.aag"], folder, name)
    return read_aiger(folder / f"{label}.aag")


def same_logic(one: str, other: str, name: str, folder: Path, boxes: Sequence[str] = ()) -> bool | None:
    """Return whether two Verilog files have the same logic in a module and the modules below it; None if undecided.

    Both start from any state of the registers, which have the same names in both files.

    Parameters
    ----------
    one, other : str
        Verilog with the module and the modules below it.
    name : str
        The module.
    folder : Path
        An existing folder for temporary files.
    boxes : sequence of str
        Modules below it that are cut off: their inputs must be equal.
    """
    views = views_of(one, other, name, folder, boxes)
    try:
        pairs = Pairs(*views, name)
        # Vectors find most differences quickly.
        verdict = pairs.try_vectors(SCREENING_VECTORS) or pairs.prove(folder, PLAIN_SECONDS)
    except SynthesisError:  # A register was removed, or merged with another.
        return None
    return None if verdict is None else not verdict


def views_of(one: str, other: str, name: str, folder: Path, boxes: Sequence[str] = ()) -> tuple[Registers, Registers]:
    """Return the logic and registers of a module in two Verilog files; parameters as in `same_logic`."""
    (folder / "edges.v").write_text(EDGES, encoding="utf-8")

    def view(label: str, text: str) -> Registers:
        (folder / "rtl.v").write_text(text, encoding="utf-8")
        return _rtl(name, boxes, PLAIN, f"{label}_rtl", folder)

    return view("one", one), view("other", other)


def _multipliers(name: str, boxes: Sequence[str], folder: Path) -> str:
    """Check Yosys' Booth multipliers of every shape in a module for all operands; "" if they are correct."""
    commands = ["read_verilog rtl.v", *_blackbox(boxes), f"hierarchy -check -top {name}", *PLAIN]
    commands.append("wreduce t:$mul")  # As in the flow: Verilog extends operands to the width of the product.
    text = run_yosys([*commands, "dump t:$mul"], folder, name)
    shapes = set(multiplier_shapes(text))
    for a, b, y, signed in sorted(shapes):
        if a + b > 24:
            raise SynthesisError(f"equivalence of {name}: a multiplier of {a}x{b} bits has too many operands to try")
        kind = "signed " if signed else ""
        source = f"module m (input {kind}[{a - 1}:0] a, input {kind}[{b - 1}:0] b, output {kind}[{y - 1}:0] y);"
        (folder / "multiplier.v").write_text(f"{source} assign y = a * b; endmodule\n", encoding="utf-8")
        read = ["read_verilog multiplier.v", *elaborate("m")]
        view = _graph(read, "multiplier", name, folder)
        if not is_correct(view, a, b, y, signed):
            return f"Yosys' {a}x{b} bit multiplier is wrong"
    return ""
