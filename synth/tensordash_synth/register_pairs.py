"""Views of a module whose registers correspond by name: signals that must be equal are simulated and proven."""

import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from .aiger import Bit, Graph, Registers, literal_of
from .yosys import ABC, SynthesisError

__all__ = ["CLOCK", "RESET", "SCREENING_VECTORS", "Pairs", "counterparts"]

VECTORS = 1 << 20
SEED = 0
SCREENING_VECTORS = 1 << 10
"""Vectors that distinguish nets."""
CLOCK: Bit = ("clk", 0)
RESET: Bit = ("rst", 0)


class Pairs:
    """Signals that must be equal in two views of a module whose registers correspond by name.

    If the second view has merged a register with another register or a constant, the register corresponds to that. If
    the second view lacks a register, the register is the constant that it has after reset, if this is proven. Otherwise
    its value is free.

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
        input_of = {bit: graph.input() for bit in sorted({*one.inputs, *other.inputs} - {CLOCK})} | {CLOCK: 1}
        first, second = ({literal: input_of[bit] for bit, literal in view.inputs.items()} for view in (one, other))
        second |= {state: graph.input() for state in other.registers}
        second.setdefault(0, 0)
        counterpart_of = counterparts(one, other)
        if unmatched := set(other.registers) - {each & ~1 for each in counterpart_of.values() if each is not None}:
            raise SynthesisError(f"equivalence of {name}: no register of the RTL is {other.names[min(unmatched)][0]}")
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
                # A constant keeps its value.
                next_literal = other.registers.get(counterpart & ~1, 0) ^ (counterpart & 1)
                self.pairs.append((literal_of(first, one.registers[state]), literal_of(second, next_literal)))
        for state, value in constants.items():
            self.names.append(one.names[state][0])
            self.pairs.append((literal_of(first, one.registers[state]), value))
        shared = one.nets.keys() & other.nets.keys()
        self.nets = {bit: (literal_of(first, one.nets[bit]), literal_of(second, other.nets[bit])) for bit in shared}
        self.counterexample: np.ndarray | None = None

    def prove(self, folder: Path, seconds: int) -> str | None:
        """Prove all pairs equal. Return "", the name of a pair that differs, or None if the time limit was reached."""
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
        # ABC continues with an empty graph if it cannot read a file, so check the size of the compared graphs.
        read = re.search(r"i/o = *(\d+)/ *(\d+)", words)
        if read is None or (int(read[1]), int(read[2])) != (len(self._graph.inputs), len(self.pairs)):
            raise SynthesisError(f"ABC did not read what was written: {' '.join(words.split())[-300:]}")
        if "Networks are equivalent" in words:
            return ""
        if "NOT EQUIVALENT" not in words:
            return None
        wrong = re.search(r"Disproved .*number (\d+)\)", words)
        return self.try_vectors() or (
            "{}[{}] differs".format(*self.names[int(wrong[1])]) if wrong else "a signal differs"
        )

    def try_vectors(self, vectors: int = VECTORS) -> str:
        """Compare all pairs on random vectors. Return "" or the name of a pair that differs."""
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
    """Return the literal of each register in the other view; None if that view lacks it.

    Registers have the same name in both views, or synthesis gave a register the name of a net that always equals it.
    Such a net may be an output that selects between the register and zero. A wrong guess is safe, because corresponding
    registers must be proven equal.
    """
    found = {state: _counterpart(bits, other) for state, bits in one.names.items()}
    unmatched = set(other.registers) - {each & ~1 for each in found.values() if each is not None}
    if not unmatched:
        return found
    nets = [(bit, each) for bit, each in other.nets.items() if each & ~1 in unmatched and bit in one.nets]
    missing = [state for state, counterpart in found.items() if counterpart is None]
    values = _evaluate(one, [*missing, *(one.nets[bit] for bit, _ in nets)])
    states = {values[i].tobytes(): (state, 0) for i, state in enumerate(missing)}
    states |= {(~values[i]).tobytes(): (state, 1) for i, state in enumerate(missing)}
    for i, (_, literal) in enumerate(nets, len(missing)):
        if values[i].tobytes() in states:
            state, inverted = states[values[i].tobytes()]
            found[state] = literal ^ inverted
    return found


def _constants(view: Registers, states: Sequence[int]) -> dict[int, int]:
    """Return the registers that are constant on random vectors, with their value after reset or at power-up.

    The caller must prove that they are constant.
    """
    found: dict[int, int] = {}
    candidates, resets = list(states), RESET in view.inputs
    while candidates:
        fixed = found | {view.inputs[CLOCK]: 1} | ({view.inputs[RESET]: 1} if resets else {})
        values = _evaluate(view, [*candidates, *(view.registers[each] for each in candidates)], fixed)
        decided = dict(found)
        for state, before, after in zip(candidates, values, values[len(candidates) :], strict=False):
            rises, falls = bool((after & ~before).any()), bool((before & ~after).any())
            if resets and _same(after):
                found[state] = int(after.any())
            elif not resets and state not in found and rises != falls:
                found[state] = int(rises)
            elif state in found and (falls if found[state] else rises):  # It changes.
                del found[state]
        candidates = [state for state in candidates if state in found or state not in decided]
        if found == decided and not resets:
            break
        resets = False
    return found


def _evaluate(view: Registers, literals: Sequence[int], fixed: Mapping[int, int] | None = None) -> np.ndarray:
    """Evaluate literals on random vectors of inputs and states; `fixed` sets some of them to 0 or 1."""
    graph = Graph()
    known = {literal: graph.input() for literal in [*view.inputs.values(), *view.registers]} | dict(fixed or {})
    graph.add(view, known)
    values = np.random.default_rng(SEED).integers(0, 1 << 64, (len(graph.inputs), SCREENING_VECTORS // 64), np.uint64)
    return graph.simulate(values, [literal_of(known, each) for each in literals])


def _same(bits: np.ndarray) -> bool:
    """Return whether a bit is the same in all vectors."""
    return not bits.any() or not (~bits).any()


def _counterpart(bits: Sequence[Bit], other: Registers) -> int | None:
    """Return the literal in the other view of a register with these names; None if that view lacks it."""
    for bit in bits:
        literal = other.nets.get(bit)
        if literal is not None and (literal < 2 or literal & ~1 in other.registers):
            return literal
    return None
