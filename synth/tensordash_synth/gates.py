"""A mapped netlist as gates and flip-flops; Liberty functions define the cells, so any library works."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .hierarchy import MEMORY, role
from .liberty import ClockGate, Liberty
from .yosys import SynthesisError, run_yosys

__all__ = ["CLOCK", "MAX_INPUTS", "GateCell", "GateNetlist", "read_netlist"]

MAX_INPUTS = 6
CONSTANTS: dict[int | str, int] = {"0": 0, "1": 1, "x": 0, "z": 0}
CLOCK = "clk"
GATES: dict[str, Callable[..., int]] = {
    "$_NOT_": lambda a: 1 - a,
    "$_BUF_": lambda a: a,
    "$_AND_": lambda a, b: a & b,
    "$_OR_": lambda a, b: a | b,
    "$_XOR_": lambda a, b: a ^ b,
}
FLIP_FLOP = "$_DFF_P_"
OPPOSITE = {"input": "output", "output": "input"}


@dataclass(frozen=True, kw_only=True)
class _Model:
    """Function of a cell: truth tables over its inputs in order, then the state of a flip-flop.

    `needed` has the indices of the inputs that each output depends on: Q of a flip-flop does not depend on its D.
    """

    inputs: tuple[str, ...]
    tables: dict[str, int]
    needed: dict[str, frozenset[int]]
    next_state: int | None
    clock: str | None


@dataclass(frozen=True, kw_only=True)
class GateCell:
    """A cell of a netlist.

    Parameters
    ----------
    path : tuple of str
        Names of the enclosing instances, from the top.
    kind : str
        Its name in the library.
    pins : dict of str to int
        Nets of its pins.
    """

    path: tuple[str, ...]
    kind: str
    pins: Mapping[str, int]


@dataclass(frozen=True, kw_only=True)
class GateNetlist:
    """A mapped design without hierarchy; nets are numbers, 0 and 1 the constants.

    Parameters
    ----------
    ports : dict of str to (str, array of int32)
        Direction and nets of every port of the top, the lowest bit first. Ports of memories are PATH.PORT; the read
        data of a memory are inputs of the netlist.
    cells : list of GateCell
        Every cell.
    outputs, operands, tables : array of int32 (n,), int32 (n, 6), uint64 (n,)
        Gates in an order in which they can be evaluated: output net, input nets, truth table over these.
    states, next_operands, next_tables : array
        Nets of the flip-flops' states; operands and truth tables of their next states.
    enables : array of int32 (n,)
        Net of each flip-flop that is high in the cycles that end with a clock edge for it.
    gated : dict of int to int
        Nets of gated clocks, and of their enables.
    clock : int
        The net of the clock.
    nets : int
        Number of nets.
    """

    ports: Mapping[str, tuple[str, NDArray[np.int32]]]
    cells: list[GateCell]
    outputs: NDArray[np.int32]
    operands: NDArray[np.int32]
    tables: NDArray[np.uint64]
    states: NDArray[np.int32]
    next_operands: NDArray[np.int32]
    next_tables: NDArray[np.uint64]
    enables: NDArray[np.int32]
    gated: Mapping[int, int]
    clock: int
    nets: int

    def verilog(self, top: str, source: str) -> str:
        """Return one flat module with cells g0, g1, ... and the clock as its only port, for simple tools.

        Parameters
        ----------
        top : str
            The module's name.
        source : str
            Name of a cell with pins CK and Q that drives inputs and constants.
        """
        inputs = {int(net) for direction, nets in self.ports.values() if direction == "input" for net in nets} | {0, 1}
        names = {net: f"n{net}" for net in range(self.nets)} | {self.clock: CLOCK}
        lines = [f"module {top} ({CLOCK});", f"  input {CLOCK};"]
        lines += [f"  {source} s{net} (.CK({CLOCK}), .Q({names[net]}));" for net in sorted(inputs - {self.clock})]
        for i, cell in enumerate(self.cells):
            pins = ", ".join(f".{name}({names[net]})" for name, net in cell.pins.items())
            lines.append(f"  {cell.kind} g{i} ({pins});")
        return "\n".join([*lines, "endmodule\n"])


def read_netlist(text: str, top: str, library: Liberty, folder: Path) -> GateNetlist:
    """Read the Verilog of a mapped design.

    Parameters
    ----------
    text : str
        Modules of cells, the top among them; memories are black boxes.
    top : str
        Name of the top.
    library : Liberty
        The library that it was mapped to.
    folder : Path
        An existing, empty folder for temporary files.

    Raises
    ------
    SynthesisError
        If a cell is neither a gate of at most six inputs nor a flip-flop on the rising edge.
    """
    (folder / "netlist.v").write_text(text, encoding="utf-8")
    (folder / "cells.lib").symlink_to(library.path.resolve())
    commands = ["read_liberty -lib cells.lib", "read_verilog netlist.v", f"hierarchy -check -top {top}"]
    commands += ["write_json netlist.json", "design -reset", "read_liberty -ignore_miss_func cells.lib"]
    run_yosys([*commands, "write_json cells.json"], folder, top)
    modules = _modules(folder / "netlist.json")
    clock_gates = {cell.name: cell.clock_gate for cell in library.cells if cell.clock_gate is not None}
    return _Flattening(modules, _modules(folder / "cells.json"), clock_gates, top).netlist()


def _modules(path: Path) -> dict[str, Any]:
    modules: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))["modules"]
    return modules


class _Flattening:
    """Collects gates and flip-flops while it walks down the hierarchy."""

    def __init__(
        self, modules: Mapping[str, Any], cells: Mapping[str, Any], clock_gates: Mapping[str, ClockGate], top: str
    ) -> None:
        self._modules, self._cells, self._clock_gates, self._top = modules, cells, clock_gates, top
        self._models: dict[str, _Model] = {}
        self._nets = 2
        self._same: dict[int, int] = {}
        self._placed: list[tuple[tuple[str, ...], str, dict[str, int]]] = []
        self._gates: list[tuple[int, list[int], int]] = []
        self._states: list[tuple[int, list[int], int]] = []
        self._clocks: list[int] = []
        self._gated: dict[int, tuple[int, ...]] = {}
        self._memories: dict[str, tuple[str, list[int]]] = {}

    def netlist(self) -> GateNetlist:
        ports = self._modules[self._top]["ports"]
        known: dict[int | str, int] = dict(CONSTANTS)
        self._walk(self._top, (), known)
        root = self._root
        self._gates = [(root(output), list(map(root, operands)), table) for output, operands, table in self._gates]
        self._states = [(state, list(map(root, operands)), table) for state, operands, table in self._states]
        clock = root(known.get(ports[CLOCK]["bits"][0], 0)) if CLOCK in ports else 0
        gated = {root(net): self._enable([*map(root, enables)]) for net, enables in self._gated.items()}
        order = _order(self._gates, self._nets)
        all_ports = {
            name: (port["direction"], [known.get(bit, 0) for bit in port["bits"]]) for name, port in ports.items()
        } | self._memories
        outputs, operands, tables = _arrays([self._gates[i] for i in order])
        states, next_operands, next_tables = _arrays(self._states)
        return GateNetlist(
            ports={
                name: (direction, np.array([root(net) for net in nets], np.int32))
                for name, (direction, nets) in all_ports.items()
            },
            cells=[
                GateCell(path=path, kind=kind, pins={name: root(net) for name, net in pins.items()})
                for path, kind, pins in self._placed
            ],
            outputs=outputs,
            operands=operands,
            tables=tables,
            states=states,
            next_operands=next_operands,
            next_tables=next_tables,
            enables=np.array([self._enabled(root(net), clock, gated) for net in self._clocks], np.int32),
            gated=gated,
            clock=clock,
            nets=self._nets,
        )

    def _enable(self, nets: list[int]) -> int:
        """Return the net that enables a clock gate; its test enable is tied to 0."""
        nets = [net for net in nets if net]
        if len(nets) != 1:
            raise SynthesisError("a clock gate with two enables is not simulated")
        return nets[0]

    def _enabled(self, net: int, clock: int, gated: Mapping[int, int]) -> int:
        if net not in {clock, *gated}:
            raise SynthesisError(f"a flip-flop's clock is neither {CLOCK} nor a clock gate's")
        return gated.get(net, 1)

    def _walk(self, module: str, path: tuple[str, ...], nets: dict[int | str, int]) -> None:
        """Collect one instance. `nets` maps its ports to nets; the method adds its internal nets."""
        for name, cell in self._modules[module]["cells"].items():
            connections = {port: [self._net(nets, bit) for bit in bits] for port, bits in cell["connections"].items()}
            kind = cell["type"]
            if kind in self._modules and "blackbox" not in self._modules[kind]["attributes"]:
                inner: dict[int | str, int] = dict(CONSTANTS)
                for port, bits in connections.items():
                    for bit, net in zip(self._modules[kind]["ports"][port]["bits"], bits, strict=True):
                        self._join(net, inner.setdefault(bit, net))
                self._walk(kind, (*path, name), inner)
            elif role(kind) == MEMORY:
                for port, port_nets in connections.items():
                    direction = self._modules[kind]["ports"][port]["direction"]
                    if port != CLOCK:
                        self._memories[".".join((*path, name, port))] = (OPPOSITE[direction], port_nets)
            else:
                self._add(kind, path, {port: bits[0] for port, bits in connections.items() if bits})

    def _net(self, nets: dict[int | str, int], bit: int | str) -> int:
        if bit not in nets:
            nets[bit] = self._nets
            self._nets += 1
        return nets[bit]

    def _join(self, one: int, other: int) -> None:
        """Merge two nets: an output that is connected to an input, another output or a constant."""
        low, high = sorted((self._root(one), self._root(other)))
        if low != high:
            self._same[high] = low

    def _root(self, net: int) -> int:
        while net in self._same:
            net = self._same[net]
        return net

    def _add(self, kind: str, path: tuple[str, ...], nets: dict[str, int]) -> None:
        self._placed.append((path, kind, nets))
        if kind in self._clock_gates:
            gate = self._clock_gates[kind]
            self._gated[nets[gate.output]] = tuple(nets[name] for name in gate.enables if name in nets)
            return
        if kind not in self._models:
            self._models[kind] = _model(kind, self._cells[kind])
        model = self._models[kind]
        operands = [nets.get(name, 0) for name in model.inputs]
        if model.next_state is not None:
            state = self._nets
            self._nets += 1
            operands.append(state)
            self._states.append((state, operands, model.next_state))
            self._clocks.append(nets[str(model.clock)])
        for name, table in model.tables.items():
            if name in nets:
                needed = model.needed[name]
                self._gates.append((nets[name], [net * (k in needed) for k, net in enumerate(operands)], table))


def _depends(table: int, variable: int, variables: int) -> bool:
    """Return whether a truth table depends on a variable."""
    rows = (row for row in range(1 << variables) if not row >> variable & 1)
    return any((table >> row & 1) != (table >> (row | 1 << variable) & 1) for row in rows)


def _order(gates: list[tuple[int, list[int], int]], nets: int) -> list[int]:
    """Return the gates in topological order."""
    driver = {output: i for i, (output, _, _) in enumerate(gates)}
    waiting = [0] * len(gates)
    readers: list[list[int]] = [[] for _ in range(nets)]
    for i, (_, operands, _) in enumerate(gates):
        for net in set(operands):
            if net in driver:
                waiting[i] += 1
                readers[net].append(i)
    order = [i for i, count in enumerate(waiting) if not count]
    for i in order:  # The loop itself appends to the list.
        for reader in readers[gates[i][0]]:
            waiting[reader] -= 1
            if not waiting[reader]:
                order.append(reader)
    if len(order) < len(gates):
        raise SynthesisError("the netlist has a loop without a flip-flop")
    return order


def _arrays(gates: list[tuple[int, list[int], int]]) -> tuple[NDArray, NDArray, NDArray]:
    operands = np.zeros((len(gates), MAX_INPUTS), np.int32)
    for i, (_, nets, _) in enumerate(gates):
        operands[i, : len(nets)] = nets
    outputs = np.array([output for output, _, _ in gates], np.int32)
    return outputs, operands, np.array([table for _, _, table in gates], np.uint64)


def _model(kind: str, module: Mapping[str, Any]) -> _Model:
    """Return a cell's truth tables, computed from Yosys' gates for its Liberty functions."""
    ports, cells = module["ports"], list(module["cells"].values())
    flip_flops = [cell for cell in cells if cell["type"] == FLIP_FLOP]
    clocks = {bit for cell in flip_flops for bit in cell["connections"]["C"]}
    inputs = [
        name for name, port in ports.items() if port["direction"] == "input" and not clocks.intersection(port["bits"])
    ]
    # Yosys creates a flip-flop for Q and one for QN, with the same clock and data.
    sources = {(cell["connections"]["C"][0], cell["connections"]["D"][0]) for cell in flip_flops}
    if len(sources) > 1 or any(cell["type"] not in (*GATES, FLIP_FLOP) for cell in cells):
        raise SynthesisError(f"the cell {kind} is not one that is simulated: a gate, or a flip-flop on a rising edge")
    if len(inputs) + len(sources) > MAX_INPUTS:
        raise SynthesisError(f"the cell {kind} has {len(inputs)} inputs, more than are simulated")
    drivers = {cell["connections"]["Y"][0]: cell for cell in cells if cell["type"] != FLIP_FLOP}
    variables = [[ports[name]["bits"][0]] for name in inputs]
    variables += [[cell["connections"]["Q"][0] for cell in flip_flops]] if flip_flops else []

    def table(bit: int | str) -> int:
        rows = product((0, 1), repeat=len(variables))  # The first variable is the lowest bit of a row's number.
        known = ({bit: value for bits, value in zip(variables, row[::-1], strict=True) for bit in bits} for row in rows)
        return sum(_value(bit, values, drivers) << i for i, values in enumerate(known))

    outputs = {name: port["bits"][0] for name, port in ports.items() if port["direction"] == "output"}
    tables = {name: table(bit) for name, bit in outputs.items()}
    places = range(len(variables))
    return _Model(
        inputs=tuple(inputs),
        tables=tables,
        needed={
            name: frozenset(k for k in places if _depends(found, k, len(variables))) for name, found in tables.items()
        },
        next_state=table(flip_flops[0]["connections"]["D"][0]) if flip_flops else None,
        clock=next((name for name, port in ports.items() if clocks.intersection(port["bits"])), None),
    )


def _value(bit: int | str, values: Mapping[int | str, int], drivers: Mapping[int | str, Any]) -> int:
    if isinstance(bit, str):
        return CONSTANTS[bit]
    if bit in values:
        return values[bit]
    cell = drivers[bit]
    operands = [cell["connections"][port][0] for port in "AB" if port in cell["connections"]]
    return GATES[cell["type"]](*(_value(each, values, drivers) for each in operands))
