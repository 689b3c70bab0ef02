"""Equivalence from reset: whether any run distinguishes two views of a module."""

import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

from .aiger import Bit, Graph, Registers, literal_of
from .equivalence import views_of
from .register_pairs import CLOCK, RESET, counterparts
from .yosys import ABC, SynthesisError

__all__ = ["same_runs"]

SECONDS = 60
# Induction finds nets that are equal in all states; PDR decides the rest on reachable states.
SCRIPT = f"read runs.aig; scleanup; scorr; write_aiger left.aig; pdr -T {SECONDS}"

PAYLOAD = re.compile(r"(?P<channel>.*_|.*_a[rw]|.*_w)(payload|enable|address|data|addr|id|len|size|burst|strb|last)")
"""Outputs that are undefined while their channel's `valid` is low."""


def same_runs(one: str, other: str, name: str, folder: Path, boxes: Sequence[str] = ()) -> bool | None:
    """Return whether a module, with the modules below it, has equal outputs in two Verilog files in every run.

    The result is None if ABC finds no answer. A run begins after a reset. Registers that the reset does not change have
    any value, the same in both files. All inputs, `rst` included, are free in every cycle. Outputs must be equal in
    every cycle, with two exceptions: a payload while its `valid` is low, and a stream buffer's write while its `bank`
    is 0.

    Parameters
    ----------
    one, other, name, folder, boxes
        As in `same_logic`.

    Raises
    ------
    SynthesisError
        If Yosys or ABC fails.
    """
    views = views_of(one, other, name, folder, boxes)
    if set(views[0].outputs) != set(views[1].outputs):
        return None
    graph, differs = _product(*views)
    graph.write(folder / "runs.aig", [differs])
    try:
        done = subprocess.run(
            [ABC, "-c", SCRIPT], cwd=folder, capture_output=True, text=True, timeout=5 * SECONDS, check=True
        )
    except subprocess.TimeoutExpired:
        return None
    except subprocess.CalledProcessError as error:
        raise SynthesisError(f"runs of {name}: ABC ended with {error.returncode}") from error
    if "was asserted in frame" in done.stdout:
        return False
    return True if _is_constant_0(folder / "left.aig") or "Property proved" in done.stdout else None


def _is_constant_0(path: Path) -> bool:
    """Return whether the output of a graph from ABC is the constant 0; ABC then prints nothing."""
    lines = path.read_bytes().split(b"\n")
    states = int(lines[0].split()[3])
    return lines[1 + states] == b"0"


def _product(one: Registers, other: Registers) -> tuple[Graph, int]:
    """Return a graph of both views with the same inputs, and the literal that is true if they differ in a cycle."""
    graph, views = Graph(), (one, other)
    inputs = {bit: graph.input() for bit in sorted({*one.inputs, *other.inputs} - {CLOCK})} | {CLOCK: 1}
    begun = graph.state()  # 0 in the first cycle, 1 in all later cycles
    graph.states[begun] = 1
    resets = [_after_reset(view) for view in views]
    free = [
        {state: graph.input() for state in view.registers if state not in reset}
        for view, reset in zip(views, resets, strict=True)
    ]
    for state, counterpart in counterparts(one, other).items():
        if state in free[0] and counterpart is not None and counterpart & ~1 in free[1]:
            free[1][counterpart & ~1] = free[0][state] ^ (counterpart & 1)
    found: list[dict[Bit, int]] = []
    for view, reset, initial in zip(views, resets, free, strict=True):
        known = {literal: inputs[bit] for bit, literal in view.inputs.items()}
        held = {state: graph.state() for state in view.registers}
        for state, register in held.items():
            # A register of the graph begins at 0.
            known[state] = register ^ reset[state] if state in reset else graph.choice(begun, register, initial[state])
        graph.add(view, known)
        for state, register in held.items():
            graph.states[register] = literal_of(known, view.registers[state]) ^ reset.get(state, 0)
        found.append({bit: literal_of(known, literal) for bit, literal in view.outputs.items()})
    differs = 0
    for bit, literal in found[0].items():
        both, neither = graph.gate(literal, found[1][bit]), graph.gate(literal ^ 1, found[1][bit] ^ 1)
        defined = _is_defined(bit[0], found[0], graph)
        differs = graph.or_gate(differs, graph.gate(graph.gate(both ^ 1, neither ^ 1), defined))
    return graph, differs


def _is_defined(name: str, outputs: dict[Bit, int], graph: Graph) -> int:
    """Return the literal that is true if an output is defined in this cycle."""
    if (channel := PAYLOAD.fullmatch(name)) and (valid := outputs.get((f"{channel['channel']}valid", 0))) is not None:
        return valid
    prefix = name.rpartition("_")[0]
    if name != f"{prefix}_bank" and (f"{prefix}_bank", 0) in outputs:
        any_bank = 0
        for (other, _), literal in outputs.items():
            if other == f"{prefix}_bank":
                any_bank = graph.or_gate(any_bank, literal)
        return any_bank
    return 1


def _after_reset(view: Registers) -> dict[int, int]:
    """Return the value after reset of each register that a reset changes."""
    fixed = {CLOCK: 1, RESET: 1}
    values: dict[int, int | None] = {0: 0} | dict.fromkeys(view.registers)
    values |= {literal: fixed.get(bit) for bit, literal in view.inputs.items()}

    def value(literal: int) -> int | None:
        known = values[literal & ~1]
        return None if known is None else known ^ (literal & 1)

    for output, *taken in view.sorted_gates():
        inputs = [value(each) for each in taken]
        values[output] = 0 if 0 in inputs else 1 if inputs == [1, 1] else None
    found = {state: value(next_value) for state, next_value in view.registers.items()}
    return {state: constant for state, constant in found.items() if constant is not None}
