"""Equivalence of a mapped netlist and its RTL, module by module, for every input in every state of the registers."""

import re
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from tensordash import TileConfig
from tensordash.configuration.core_config import CoreConfig

from .aiger import Bit, Graph, Registers, literal_of, read_aiger
from .equivalence_report import Equivalence, EquivalenceReport
from .hierarchy import Hierarchy, hierarchy_of
from .liberty import Liberty
from .mapping import Mapped
from .run import Progress, Run, running
from .yosys import ABC, SynthesisError, run_yosys

__all__ = [
    "CLOCK",
    "EDGES",
    "PLAIN_SECONDS",
    "RESET",
    "SCREENING_VECTORS",
    "Pairs",
    "compare",
    "counterparts",
    "prove_equivalence",
    "same_logic",
    "views_of",
]

PLAIN_SECONDS = 45
SECONDS = 900
VECTORS = 1 << 20
SEED = 0
SCREENING_VECTORS = 1 << 10
"""Vectors that tell nets apart."""
PLAIN = ["proc", "flatten", "opt_clean"]
ELABORATED = "synth -flatten -noabc -booth -top {top}"
# A clock net carries whether the cycle ends with an edge on it: 1 on the clock itself, the enable after a clock gate.
EDGES = """\
(* techmap_celltype = "$_DFF_P_" *)
module _edge (input D, C, output Q);
  wire next;
  \\$_MUX_ hold (.A(Q), .B(D), .S(C), .Y(next));
  \\$_FF_ state (.D(next), .Q(Q));
endmodule
"""
CLOCK: Bit = ("clk", 0)
RESET: Bit = ("rst", 0)


def prove_equivalence(
    config: TileConfig | CoreConfig,
    *,
    liberty: str | Path | None = None,
    clock_ns: float = 2.0,
    progress: Progress | None = None,
    jobs: int | None = None,
) -> EquivalenceReport:
    """Map a tile or a core and prove each module's netlist equal to its RTL.

    Registers correspond by name, so that nothing but logic is compared: from any state, with any inputs, both give the
    same outputs and go to the same state. Whatever state the netlist has at power-up, the RTL can have. A core's
    memories are cut off, as are modules below a module: what goes into them must be the same.

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
        What it was mapped to.
    folder : Path
        An existing, empty folder for temporary files.
    """
    began = time.monotonic()
    # As it is mapped: registers that have no name are called the same there and here.
    (folder / "rtl.v").write_text(design.source(name), encoding="utf-8")
    (folder / "netlist.v").write_text(mapped.netlist, encoding="utf-8")
    (folder / "cells.lib").symlink_to(library.path.resolve())
    (folder / "edges.v").write_text(EDGES, encoding="utf-8")
    (folder / "clock_gates.v").write_text(_clock_gates(library), encoding="utf-8")
    boxes = design.black_boxes(name)
    netlist = _netlist(name, boxes, folder)
    plain = _rtl(name, boxes, PLAIN, "plain", folder)
    how, pairs = "cec", Pairs(plain, netlist, name)
    verdict = pairs.proven(folder, PLAIN_SECONDS)
    if verdict is None:
        how = "cec, word level"
        elaborated = _rtl(name, boxes, [ELABORATED.format(top=name)], "elaborated", folder)
        verdict = Pairs(elaborated, netlist, name).proven(folder, SECONDS)
        if verdict is None:
            raise SynthesisError(f"equivalence of {name}: ABC has no answer after {SECONDS} seconds")
        verdict = verdict or Pairs(plain, elaborated, name).tried() or _multipliers(name, boxes, folder)
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
    """Models of clock gates: the edge passes where an enable is high."""
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
    commands += [*_opened(boxes), "opt_clean", "techmap", "simplemap", "dffunmap", "opt_clean"]
    return _graph(commands, label, name, folder)


def _netlist(name: str, boxes: Sequence[str], folder: Path) -> Registers:
    commands = ["read_liberty -ignore_miss_func cells.lib", "read_verilog -overwrite clock_gates.v"]
    if boxes:
        commands += ["read_verilog rtl.v", f"delete {name}", *_blackbox(boxes)]
    # Names stay where only the complement of a register is used: it is found by its own.
    named = f"setattr -set keep 1 {name}/w:*"
    commands += ["read_verilog netlist.v", f"hierarchy -check -top {name}", named, "proc", "flatten", "opt_clean"]
    # The models have one register for Q and one for QN, which hold the same.
    commands += [*_opened(boxes), "opt_merge"]
    return _graph(commands, "netlist", name, folder)


def _blackbox(boxes: Sequence[str]) -> list[str]:
    return [f"blackbox {' '.join(boxes)}"] if boxes else []


def _opened(boxes: Sequence[str]) -> list[str]:
    """Cut off other modules: their inputs are outputs here, their outputs inputs."""
    return [f"expose -evert {' '.join(f't:{box}' for box in boxes)}"] if boxes else []


def _graph(commands: Sequence[str], label: str, name: str, folder: Path) -> Registers:
    ending = ["techmap -map edges.v", "aigmap", "opt_clean"]
    run_yosys([*commands, *ending, f"write_aiger -ascii -symbols -vmap {label}.map {label}.aag"], folder, name)
    return read_aiger(folder / f"{label}.aag")


def same_logic(one: str, other: str, name: str, folder: Path, boxes: Sequence[str] = ()) -> bool | None:
    """Return whether a module, with those below it, does the same in two files of Verilog; None if ABC finds no answer.

    From any state of the registers, which have the same names in both.

    Parameters
    ----------
    one, other : str
        Verilog with the module and those below it.
    name : str
        The module.
    folder : Path
        An existing folder for temporary files.
    boxes : sequence of str
        Modules below it that are cut off: what goes into them must be the same.
    """
    views = views_of(one, other, name, folder, boxes)
    try:
        pairs = Pairs(*views, name)
        # Most of what differs does so at once.
        verdict = pairs.tried(SCREENING_VECTORS) or pairs.proven(folder, PLAIN_SECONDS)
    except SynthesisError:  # a register is gone, or became another
        return None
    return None if verdict is None else not verdict


def views_of(one: str, other: str, name: str, folder: Path, boxes: Sequence[str] = ()) -> tuple[Registers, Registers]:
    """A module's logic and registers, with those below it, in two files of Verilog; parameters as of `same_logic`."""
    (folder / "edges.v").write_text(EDGES, encoding="utf-8")

    def view(label: str, text: str) -> Registers:
        (folder / "rtl.v").write_text(text, encoding="utf-8")
        return _rtl(name, boxes, PLAIN, f"{label}_rtl", folder)

    return view("one", one), view("other", other)


class Pairs:
    """What must be equal in two views of a module whose registers correspond by name.

    A register of the first that the second has merged with another, or found constant, is what it was merged with. One
    that the second lacks is what a reset makes it, if that is proven to stay; if not, it may hold anything.

    Attributes
    ----------
    nets : dict of Bit to (int, int)
        Literals, in both views, of each net with the same name in both.
    counterexample : array of uint64, (inputs, 1), or None
        Inputs on which a pair differs, if random vectors found one.
    """

    def __init__(self, one: Registers, other: Registers, name: str) -> None:
        if missing := set(one.outputs) ^ set(other.outputs):
            raise SynthesisError(f"equivalence of {name}: the output {min(missing)[0]} is in one view only")
        self._graph = graph = Graph()
        places = {bit: graph.input() for bit in sorted({*one.inputs, *other.inputs} - {CLOCK})} | {CLOCK: 1}
        first, second = ({literal: places[bit] for bit, literal in view.inputs.items()} for view in (one, other))
        second |= {state: graph.input() for state in other.registers}
        second.setdefault(0, 0)
        counterpart_of = counterparts(one, other)
        if lonely := set(other.registers) - {each & ~1 for each in counterpart_of.values() if each is not None}:
            raise SynthesisError(f"equivalence of {name}: no register of the RTL is {other.names[min(lonely)][0]}")
        constants = _constants(one, [state for state, counterpart in counterpart_of.items() if counterpart is None])
        for state, counterpart in counterpart_of.items():
            if counterpart is not None:
                first[state] = second[counterpart & ~1] ^ (counterpart & 1)
            else:
                first[state] = constants[state] if state in constants else graph.input()
        graph.add(one, first)
        graph.add(other, second)

        self.names: list[Bit] = []
        self.pairs: list[tuple[int, int]] = []
        for bit in sorted(one.outputs):
            self.names.append(bit)
            self.pairs.append((literal_of(first, one.outputs[bit]), literal_of(second, other.outputs[bit])))
        for state, counterpart in counterpart_of.items():
            if counterpart is not None:
                self.names.append(one.names[state][0])
                # A constant stays what it is.
                became = other.registers.get(counterpart & ~1, 0) ^ (counterpart & 1)
                self.pairs.append((literal_of(first, one.registers[state]), literal_of(second, became)))
        for state, value in constants.items():
            self.names.append(one.names[state][0])
            self.pairs.append((literal_of(first, one.registers[state]), value))
        shared = one.nets.keys() & other.nets.keys()
        self.nets = {bit: (literal_of(first, one.nets[bit]), literal_of(second, other.nets[bit])) for bit in shared}
        self.counterexample: np.ndarray | None = None

    def proven(self, folder: Path, seconds: int) -> str | None:
        """Empty if all pairs are proven equal, the name of one that differs, None without an answer in time."""
        for i, file in enumerate(("one.aig", "other.aig")):
            self._graph.write(folder / file, [pair[i] for pair in self.pairs])
        try:
            done = subprocess.run(
                [ABC, "-c", "&r one.aig; &ps; &cec -v other.aig"],
                cwd=folder,
                capture_output=True,
                text=True,
                timeout=seconds,
            )
        except subprocess.TimeoutExpired:
            return None
        words = done.stdout
        # ABC goes on with an empty graph when it cannot read a file: the counts say what it has compared.
        read = re.search(r"i/o = *(\d+)/ *(\d+)", words)
        if read is None or (int(read[1]), int(read[2])) != (len(self._graph.inputs), len(self.pairs)):
            raise SynthesisError(f"ABC did not read what was written: {' '.join(words.split())[-300:]}")
        if "Networks are equivalent" in words:
            return ""
        if "NOT EQUIVALENT" not in words:
            return None
        wrong = re.search(r"Disproved .*number (\d+)\)", words)
        return self.tried() or ("{}[{}] differs".format(*self.names[int(wrong[1])]) if wrong else "a signal differs")

    def tried(self, vectors: int = VECTORS) -> str:
        """Empty if all pairs are equal on random vectors."""
        rng = np.random.default_rng(SEED)
        values = rng.integers(0, 1 << 64, (len(self._graph.inputs), vectors // 64), np.uint64)
        one, other = self.simulate(values, self.pairs)
        wrong = np.flatnonzero((one != other).any(axis=1))
        if not len(wrong):
            return ""
        word = np.flatnonzero(one[wrong[0]] != other[wrong[0]])[0]
        bits = int(one[wrong[0], word] ^ other[wrong[0], word])
        self.counterexample = values[:, [word]] >> np.uint64(bits.bit_length() - 1) & np.uint64(1)
        return "{}[{}] differs".format(*self.names[wrong[0]])

    def simulate(self, values: np.ndarray, pairs: Sequence[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
        """Return values of the first and of the second literal of each pair."""
        one, other = (self._graph.simulate(values, [pair[i] for pair in pairs]) for i in (0, 1))
        return one, other


def counterparts(one: Registers, other: Registers) -> dict[int, int | None]:
    """Return the literal, in the other view, of each register; None if it is not there.

    Registers are called the same in both, or synthesis has called one by a net that is nothing but it: an output that
    is a choice between a register and zero for instance. A wrong guess is no danger: what corresponds must be equal.
    """
    found = {state: _counterpart(bits, other) for state, bits in one.names.items()}
    lonely = set(other.registers) - {each & ~1 for each in found.values() if each is not None}
    if not lonely:
        return found
    nets = [(bit, each) for bit, each in other.nets.items() if each & ~1 in lonely and bit in one.nets]
    missing = [state for state, counterpart in found.items() if counterpart is None]
    seen = _seen(one, [*missing, *(one.nets[bit] for bit, _ in nets)])
    states = {seen[i].tobytes(): (state, 0) for i, state in enumerate(missing)}
    states |= {(~seen[i]).tobytes(): (state, 1) for i, state in enumerate(missing)}
    for i, (_, literal) in enumerate(nets, len(missing)):
        if seen[i].tobytes() in states:
            state, inverted = states[seen[i].tobytes()]
            found[state] = literal ^ inverted
    return found


def _constants(view: Registers, states: Sequence[int]) -> dict[int, int]:
    """Return which of these registers stay at a value that they are reset to, or may have at power-up, and at which.

    What random vectors cannot tell from a constant: that it is one is to be proven.
    """
    found: dict[int, int] = {}
    left, resets = list(states), RESET in view.inputs
    while left:
        fixed = found | {view.inputs[CLOCK]: 1} | ({view.inputs[RESET]: 1} if resets else {})
        seen = _seen(view, [*left, *(view.registers[each] for each in left)], fixed)
        decided = dict(found)
        for state, before, after in zip(left, seen, seen[len(left) :], strict=False):
            rises, falls = bool((after & ~before).any()), bool((before & ~after).any())
            if resets and _same(after):
                found[state] = int(after.any())
            elif not resets and state not in found and rises != falls:
                found[state] = int(rises)
            elif state in found and (falls if found[state] else rises):  # it does not stay
                del found[state]
        left = [state for state in left if state in found or state not in decided]
        if found == decided and not resets:
            break
        resets = False
    return found


def _seen(view: Registers, literals: Sequence[int], fixed: Mapping[int, int] | None = None) -> np.ndarray:
    """Evaluate literals on random vectors of inputs and states, of which some may be fixed to 0 or 1."""
    graph = Graph()
    known = {literal: graph.input() for literal in [*view.inputs.values(), *view.registers]} | dict(fixed or {})
    graph.add(view, known)
    values = np.random.default_rng(SEED).integers(0, 1 << 64, (len(graph.inputs), SCREENING_VECTORS // 64), np.uint64)
    return graph.simulate(values, [literal_of(known, each) for each in literals])


def _same(bits: np.ndarray) -> bool:
    """Return whether a bit is the same in all vectors."""
    return not bits.any() or not (~bits).any()


def _counterpart(bits: Sequence[Bit], other: Registers) -> int | None:
    """Return the literal, in the other view, of a register with these names; None if it is not there."""
    for bit in bits:
        literal = other.nets.get(bit)
        if literal is not None and (literal < 2 or literal & ~1 in other.registers):
            return literal
    return None


def _multipliers(name: str, boxes: Sequence[str], folder: Path) -> str:
    """Empty if Yosys' Booth multipliers, of every shape in a module, are right for all operands."""
    commands = ["read_verilog rtl.v", *_blackbox(boxes), f"hierarchy -check -top {name}", *PLAIN]
    commands.append("wreduce t:$mul")  # as the flow does: Verilog extends operands to the width of the product
    text = run_yosys([*commands, "dump t:$mul"], folder, name)
    shapes = set(_shapes(text))
    for a, b, y, signed in sorted(shapes):
        if a + b > 24:
            raise SynthesisError(f"equivalence of {name}: a multiplier of {a}x{b} bits has too many operands to try")
        kind = "signed " if signed else ""
        source = f"module m (input {kind}[{a - 1}:0] a, input {kind}[{b - 1}:0] b, output {kind}[{y - 1}:0] y);"
        (folder / "multiplier.v").write_text(f"{source} assign y = a * b; endmodule\n", encoding="utf-8")
        read = ["read_verilog multiplier.v", ELABORATED.format(top="m")]
        view = _graph(read, "multiplier", name, folder)
        if not _right(view, a, b, y, signed):
            return f"Yosys' {a}x{b} bit multiplier is wrong"
    return ""


def _shapes(text: str) -> Iterator[tuple[int, int, int, bool]]:
    """Widths of operands and product, and whether they are signed, of every multiplier in a dump."""
    for cell in text.split("cell $mul")[1:]:
        a, b, y, signed = (
            int(re.search(rf"parameter (?:signed )?\\{key} (?:\d+'(?=[01]+\s))?(\d+)", cell)[1])  # type: ignore[index]
            for key in ("A_WIDTH", "B_WIDTH", "Y_WIDTH", "A_SIGNED")
        )
        yield a, b, y, bool(signed)


def _right(view: Registers, a: int, b: int, y: int, signed: bool) -> bool:
    """Return whether a multiplier's logic gives the product of all operands."""
    graph = Graph()
    inputs = [("a", i) for i in range(a)] + [("b", i) for i in range(b)]
    places = {bit: graph.input() for bit in inputs}
    known = {literal: places[bit] for bit, literal in view.inputs.items()}
    graph.add(view, known)
    literals = [view.outputs["y", i] for i in range(y)]
    runs = np.arange(max(64, 1 << (a + b)), dtype=np.int64)
    one, other = runs & ((1 << a) - 1), (runs >> a) & ((1 << b) - 1)
    values = np.stack([_packed(one >> i) for i in range(a)] + [_packed(other >> i) for i in range(b)])
    found = graph.simulate(values, [literal_of(known, each) for each in literals])
    if signed:
        one, other = one - ((one >> (a - 1)) << a), other - ((other >> (b - 1)) << b)
    return all((found[i] == _packed((one * other) >> i)).all() for i in range(y))


def _packed(bits: np.ndarray) -> np.ndarray:
    return np.packbits((bits & 1).astype(np.uint8), bitorder="little").view(np.uint64)
