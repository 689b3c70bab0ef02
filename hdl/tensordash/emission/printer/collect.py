"""Model of a component's module: nets and their drivers, registers and instances, in the source's order."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from amaranth.hdl import Fragment, Instance, Signal, Value
from amaranth.hdl._mem import MemoryInstance

from .expression import Expressions
from .lowering import Assignment, Lowering, Statement
from .nodes import Net, Node

__all__ = ["Cell", "Memory", "ModuleModel", "Registers", "Wire", "assignments", "collect"]

Location = tuple[str, int] | None


@dataclass(eq=False)
class Wire:
    """A net that is assigned: its pieces as (lowest bit, value), lowest first."""

    net: Net
    pieces: list[tuple[int, Node]]
    location: Location


@dataclass(eq=False)
class Registers:
    """Statements that share registers."""

    statements: list[Statement]
    location: Location


@dataclass(eq=False)
class Cell:
    """An instance: the expressions of its inputs, and the parts of nets that its outputs drive, by port."""

    name: str
    module: str
    ports: list[str]
    inputs: dict[str, Node]
    outputs: dict[str, list[tuple[Net, int, int]]]
    location: Location


@dataclass(eq=False)
class Memory:
    """An array of words with its ports, each (enable, address, data)."""

    name: str
    width: int
    depth: int
    writes: list[tuple[Node, Node, Node]]
    reads: list[tuple[Node, Node, Net]]
    location: Location


Item = Wire | Registers | Cell | Memory


@dataclass(eq=False)
class ModuleModel:
    """A module: its ports and its items, in order."""

    make: Expressions
    ports: list[Net]
    items: list[Item] = field(default_factory=list)
    clock: Net | None = None
    reset: Net | None = None


def assignments(statements: Iterable[Statement]) -> Iterator[Assignment]:
    """Yield every assignment within statements."""
    for statement in statements:
        if isinstance(statement, Assignment):
            yield statement
        else:
            for _, body, _ in statement.arms:
                yield from assignments(body)


def collect(ports: Sequence[tuple[str, Value, bool]], fragment: Fragment) -> ModuleModel:
    """Return the module of a fragment whose signals have their names.

    Parameters
    ----------
    ports : sequence of (str, Value, bool)
        Name of each member, its signal, and whether it is an input.
    fragment : Fragment
        The elaborated component. Its submodules are instances or memories.

    Raises
    ------
    TypeError
        For a clock domain other than sync, another kind of submodule, or a construct that Verilog lacks.
    """
    lowering = Lowering(Expressions())
    model = ModuleModel(lowering.make, [], clock=lowering.clock, reset=lowering.reset)
    for name, value, is_input in ports:
        assert isinstance(value, Signal)
        net = lowering.net(value)
        net.name, net.kind = name, "input" if is_input else "output"
        if net.width:
            model.ports.append(net)
    statements = fragment.statements
    others = set(statements) - {"comb", "sync"}
    if others:
        raise TypeError(f"a clock domain other than sync: {', '.join(sorted(others))}")
    comb, sync = (statements.get(domain, []) for domain in ("comb", "sync"))
    for statement in (*comb, *sync):
        _count(lowering, statement)
    cells = [_cell(lowering, inner, str(name), place) for inner, name, place in fragment.subfragments]
    registers = _grouped(lowering.synchronous(sync))
    for group in registers:
        for assignment in assignments(group.statements):
            for net, _, _ in assignment.targets:
                if net.kind == "wire":
                    net.kind = "reg"
    wires = list(_wires(lowering, comb))
    driven = {id(wire.net) for wire in wires}
    driven |= {id(net) for cell in cells for net in _driven(cell)}
    driven |= {id(net) for group in registers for each in assignments(group.statements) for net, _, _ in each.targets}
    for signal in lowering.signals:
        net = lowering.net(signal)
        if id(net) not in driven and net.kind != "input" and net.width:
            wires.append(Wire(net, [(0, lowering.make.const(net.init, net.width))], net.location))
    model.items = _merged(wires, registers, cells)
    return model


def _driven(cell: Cell | Memory) -> Iterator[Net]:
    if isinstance(cell, Memory):
        yield from (net for _, _, net in cell.reads)
    else:
        yield from (net for targets in cell.outputs.values() for net, _, _ in targets)


def _count(lowering: Lowering, statement: Any) -> None:
    if hasattr(statement, "rhs"):
        lowering.count_uses(statement.rhs)
    else:
        lowering.count_uses(statement.test)
        for _, body, _ in statement.cases:
            for inner in body:
                _count(lowering, inner)


def _cell(lowering: Lowering, inner: Any, name: str, place: Location) -> Cell | Memory:
    make = lowering.make
    if isinstance(inner, MemoryInstance):
        width, depth = len(inner._read_ports[0]._data), inner._data.depth
        writes = [
            (lowering.bits(port._en), lowering.bits(port._addr), lowering.bits(port._data))
            for port in inner._write_ports
        ]
        reads = []
        for read in inner._read_ports:
            if read._domain == "comb" or read._transparent_for:
                raise TypeError(f"the memory {name} is read in the cycle of the address: no Verilog for that")
            ((net, _, _),) = lowering.targets(read._data)
            if net.kind == "wire":
                net.kind = "reg"
            reads.append((lowering.bits(read._en), lowering.bits(read._addr), net))
        return Memory(name, width, depth, writes, reads, place)
    if not isinstance(inner, Instance):
        raise TypeError(f"a submodule that is not placed: {name}")
    inputs: dict[str, Node] = {}
    outputs: dict[str, list[tuple[Net, int, int]]] = {}
    for port, (value, direction) in inner.ports.items():
        if direction == "i":
            lowering.count_uses(value)
            make.location = place
            inputs[port] = lowering.bits(value)
        else:
            outputs[port] = lowering.targets(value)
    return Cell(name, inner.type, list(inner.ports), inputs, outputs, place)


def _grouped(statements: Sequence[Statement]) -> list[Registers]:
    """Group the statements that share a register."""
    groups: list[tuple[set[int], list[Statement]]] = []
    for statement in statements:
        nets = {id(net) for each in assignments([statement]) for net, _, _ in each.targets}
        met = [group for group in groups if group[0] & nets]
        if not met:
            groups.append((nets, [statement]))
            continue
        first = met[0]
        first[0].update(nets)
        for other in met[1:]:
            first[0].update(other[0])
            first[1].extend(other[1])
            groups.remove(other)
        first[1].append(statement)
    order = {id(statement): place for place, statement in enumerate(statements)}
    return [Registers(sorted(body, key=lambda each: order[id(each)]), body[0].location) for _, body in groups]


def _wires(lowering: Lowering, statements: Sequence[Any]) -> Iterator[Wire]:
    make = lowering.make
    nets: dict[int, Net] = {}
    marks: dict[int, set[int]] = {}
    first: dict[int, Location] = {}
    for statement in statements:
        for net, low, width in lowering.assigned([statement]):
            nets[id(net)] = net
            marks.setdefault(id(net), {0, net.width}).update((low, low + width))
            first.setdefault(id(net), statement.src_loc)
    cuts = {key: sorted(found) for key, found in marks.items()}
    values = {
        (key, low, high - low): make.const(net.init >> low, high - low)
        for key, net in nets.items()
        for low, high in zip(cuts[key], cuts[key][1:], strict=False)
    }
    lowering.combinational(statements, values, cuts)
    for key, net in nets.items():
        pieces = [(low, values[key, low, high - low]) for low, high in zip(cuts[key], cuts[key][1:], strict=False)]
        if net.width:
            yield Wire(net, pieces, first[key])


def _merged(wires: Sequence[Wire], registers: Sequence[Registers], cells: Sequence[Cell | Memory]) -> list[Item]:
    """Merge all items in the order of the source's lines, as far as each list keeps its own order."""
    items: list[Item] = list(wires)
    for others in (registers, cells):
        at = 0
        for other in others:
            place = other.location
            while at < len(items) and not _later(items[at].location, place):
                at += 1
            items.insert(at, other)
            at += 1
    return items


def _later(location: Location, than: Location) -> bool:
    return location is not None and than is not None and location[0] == than[0] and location[1] > than[1]
