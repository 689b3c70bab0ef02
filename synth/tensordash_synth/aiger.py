"""And-inverter graphs of Yosys: read with the names of their nets, cut at the registers, and simulated."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numba
import numpy as np
from numpy.typing import NDArray

__all__ = ["Bit", "Graph", "Registers", "literal_of", "read_aiger"]

Bit = tuple[str, int]
"""A net's name and the number of its bit."""


@dataclass(frozen=True, kw_only=True)
class Registers:
    """A module from Yosys' `write_aiger -ascii -vmap`; a literal is twice the variable, plus 1 if it is inverted.

    Parameters
    ----------
    inputs, outputs : dict of Bit to int
        Literals of the ports that are used.
    nets : dict of Bit to int
        Literals of all named nets.
    registers : dict of int to int
        Literals of the next state of each register, by its state.
    names : dict of int to list of Bit
        Names of each register.
    ands : list of (int, int, int)
        Gates: output and inputs.
    """

    inputs: Mapping[Bit, int]
    outputs: Mapping[Bit, int]
    nets: Mapping[Bit, int]
    registers: Mapping[int, int]
    names: Mapping[int, list[Bit]]
    ands: list[tuple[int, int, int]]

    def sorted_gates(self) -> Iterator[tuple[int, int, int]]:
        """Return the gates in topological order, which Yosys' files lack."""
        gates = {output: (one, other) for output, one, other in self.ands}
        done: set[int] = set()
        for root in gates:
            waiting = [root]
            while waiting:
                output = waiting[-1]
                needed = [] if output in done else [each & ~1 for each in gates[output]]
                needed = [each for each in needed if each in gates and each not in done]
                waiting += needed
                if not needed:
                    waiting.pop()
                    if output not in done:
                        done.add(output)
                        yield output, *gates[output]


def literal_of(known: Mapping[int, int], literal: int) -> int:
    """Translate a literal to another graph; `known` maps variables to that graph."""
    return known[literal & ~1] ^ (literal & 1)


def read_aiger(path: Path) -> Registers:
    """Read ``path`` (.aag) and the map of the same name (.map)."""
    lines = iter(path.read_text(encoding="utf-8").splitlines())
    _, inputs, latches, outputs, ands = map(int, next(lines).split()[1:6])
    input_literals = [int(next(lines)) for _ in range(inputs)]
    states = [(int(state), int(next_)) for state, next_, *_ in (next(lines).split() for _ in range(latches))]
    output_literals = [int(next(lines)) for _ in range(outputs)]
    gates = [tuple(map(int, next(lines).split())) for _ in range(ands)]
    found: dict[str, dict[Bit, int]] = {"input": {}, "output": {}, "wire": {}}
    names: dict[int, list[Bit]] = {state: [] for state, _ in states}
    # The map omits constant outputs; the file itself has them.
    for number, name, bit in re.findall(r"^o(\d+) (\S+?)(?:\[(\d+)\])?$", "\n".join(lines), re.MULTILINE):
        if output_literals[int(number)] < 2:
            found["output"][name, int(bit or 0)] = output_literals[int(number)]
    for line in path.with_suffix(".map").read_text(encoding="utf-8").splitlines():
        kind, number, bit, name = line.split(None, 3)
        key = (name.strip(), int(bit))
        if kind == "latch":
            found["wire"][key] = states[int(number)][0]
            names[states[int(number)][0]].append(key)
        elif kind == "wire":
            found["wire"][key] = int(number)
        elif kind in found:
            found[kind][key] = (input_literals if kind == "input" else output_literals)[int(number)]
    named = set(found["input"].values())
    # Undefined bits are inputs without a name. Undefined bits of two views are different inputs.
    found["input"] |= {
        (f"undefined in {path.stem}", literal): literal for literal in input_literals if literal not in named
    }
    return Registers(
        inputs=found["input"],
        outputs=found["output"],
        nets=found["wire"],
        registers=dict(states),
        names=names,
        ands=[(gate[0], gate[1], gate[2]) for gate in gates],
    )


@dataclass
class Graph:
    """Logic, built literal by literal; 0 is false and 1 is true.

    Parameters
    ----------
    inputs : list of int
        Literals of the inputs.
    gates : list of (int, int)
        Inputs of each gate.
    states : dict of int to int
        Registers, which begin at 0, and their next states.
    """

    inputs: list[int] = field(default_factory=list)
    gates: list[tuple[int, int]] = field(default_factory=list)
    states: dict[int, int] = field(default_factory=dict)
    _variables: int = 0
    _outputs: list[int] = field(default_factory=list)

    def input(self) -> int:
        self._variables += 1
        self.inputs.append(2 * self._variables)
        return 2 * self._variables

    def state(self) -> int:
        """Add a register, which stays at 0 until `states` defines its next state."""
        self._variables += 1
        self.states[2 * self._variables] = 0
        return 2 * self._variables

    def gate(self, one: int, other: int) -> int:
        """Add an AND gate and return its literal."""
        self._variables += 1
        self.gates.append((one, other))
        self._outputs.append(2 * self._variables)
        return 2 * self._variables

    def or_gate(self, one: int, other: int) -> int:
        """Add an OR gate and return its literal."""
        return self.gate(one ^ 1, other ^ 1) ^ 1

    def choice(self, select: int, one: int, other: int) -> int:
        """Add a multiplexer, which returns the first if `select` is true, and return its literal."""
        return self.or_gate(self.gate(select, one), self.gate(select ^ 1, other))

    def add(self, module: Registers, known: dict[int, int]) -> None:
        """Add a module's gates. `known` maps its inputs and states to this graph; the method adds the gates."""
        known.setdefault(0, 0)
        for output, one, other in module.sorted_gates():
            known[output] = self.gate(literal_of(known, one), literal_of(known, other))

    def write(self, path: Path, outputs: Iterable[int]) -> None:
        """Write the graph in binary AIGER, which ABC reads."""
        order = [*self.inputs, *self.states, *self._outputs]
        number = {0: 0} | {literal: 2 * (i + 1) for i, literal in enumerate(order)}
        ends = [literal_of(number, each) for each in (*self.states.values(), *outputs)]
        counts = (len(self.inputs), len(self.states), len(ends) - len(self.states), len(self.gates))
        text = bytearray(f"aig {len(order)} {' '.join(map(str, counts))}\n".encode())
        text += "".join(f"{each}\n" for each in ends).encode()
        for output, gate in zip(self._outputs, self.gates, strict=True):
            low, high = sorted(literal_of(number, each) for each in gate)
            for delta in (number[output] - high, high - low):
                while delta > 127:
                    text.append(delta & 127 | 128)
                    delta >>= 7
                text.append(delta)
        path.write_bytes(bytes(text))

    def simulate(self, values: NDArray[np.uint64], outputs: Iterable[int]) -> NDArray[np.uint64]:
        """Simulate a graph without registers, 64 runs in a word.

        Parameters
        ----------
        values : array of uint64, (inputs, n)
            Values of the inputs.
        outputs : iterable of int
            Literals whose values are returned.

        Returns
        -------
        array of uint64, (outputs, n)
        """
        gates = np.array(self.gates, np.int64).reshape(-1, 2)
        arrays = [np.array(each, np.int64) for each in (self.inputs, self._outputs, list(outputs))]
        inputs, gate_literals, output_literals = arrays
        return _simulate(values, gates, inputs, gate_literals, output_literals, self._variables + 1)


@numba.njit(cache=True)
def _simulate(values, gates, inputs, gate_literals, outputs, variables):
    results = np.zeros((len(outputs), values.shape[1]), np.uint64)
    now = np.zeros(variables, np.uint64)
    inverted = np.array([0, 0xFFFFFFFFFFFFFFFF], np.uint64)
    for run in range(values.shape[1]):
        for i in range(len(inputs)):
            now[inputs[i] >> 1] = values[i, run]
        for i in range(len(gates)):
            one = now[gates[i, 0] >> 1] ^ inverted[gates[i, 0] & 1]
            other = now[gates[i, 1] >> 1] ^ inverted[gates[i, 1] & 1]
            now[gate_literals[i] >> 1] = one & other
        for i in range(len(outputs)):
            results[i, run] = now[outputs[i] >> 1] ^ inverted[outputs[i] & 1]
    return results
