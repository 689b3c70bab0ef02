"""Inlining: removes wires that a person would not write, such as those read once and copies of a net."""

import re
from collections.abc import Callable, Iterable, Iterator

from .collect import Cell, Item, Memory, ModuleModel, Registers, Wire, assignments
from .expression import Expressions
from .lowering import Assignment, Branch, Statement
from .nodes import COMMUTATIVE, COMPARISONS, Net, Node
from .text import Text
from .uses import driven, live, uses_of

__all__ = [
    "LEAVES",
    "SHORT",
    "Substitution",
    "inline",
    "is_field",
]

SHORT = 100
"""Maximum length in characters of an expression that is inlined. A longer one keeps its name."""

WIDE = 64
"""Minimum width in bits of a vector whose named parts keep their names."""

LEAVES = ("const", "net", "slice")
NUMBER = re.compile(r"_\d+$")


class Substitution:
    """Rebuilds expressions with some subexpressions replaced.

    Parameters
    ----------
    make : Expressions
        Makes the expressions.
    replaced : callable
        Returns an expression's replacement, which is rebuilt in turn, or None.
    """

    def __init__(self, make: Expressions, replaced: Callable[[Node], Node | None]) -> None:
        self.make, self.replaced = make, replaced
        self._done: dict[Node, Node] = {}

    def __call__(self, node: Node) -> Node:
        """Return the expression with all replacements."""
        if node not in self._done:
            other = self.replaced(node)
            self._done[node] = self(other) if other is not None and other is not node else self._rebuilt(node)
        return self._done[node]

    def _rebuilt(self, node: Node) -> Node:
        if not node.args:
            return node
        args = [self(arg) for arg in node.args]
        if all(new is old for new, old in zip(args, node.args, strict=True)):
            return node
        self.make.location = node.location
        return rebuilt(self.make, node, args)

    def item(self, item: Item) -> None:
        """Rebuild an item's expressions in place."""
        if isinstance(item, Wire):
            item.pieces = [(low, self(node)) for low, node in item.pieces]
        elif isinstance(item, Cell):
            item.inputs = {port: self(node) for port, node in item.inputs.items()}
        elif isinstance(item, Memory):
            item.writes = [(self(a), self(b), self(c)) for a, b, c in item.writes]
            item.reads = [(self(a), self(b), net) for a, b, net in item.reads]
        else:
            item.statements = self._statements(item.statements)

    def _statements(self, statements: Iterable[Statement]) -> list[Statement]:
        found: list[Statement] = []
        for statement in statements:
            if isinstance(statement, Assignment):
                found.append(Assignment(statement.targets, self(statement.value), statement.location))
                continue
            test = statement.test if statement.test is None else self(statement.test)
            arms = [
                (self(condition) if isinstance(condition, Node) else condition, self._statements(body), place)
                for condition, body, place in statement.arms
            ]
            found.append(Branch(test, arms, statement.location))
        return found


def rebuilt(make: Expressions, node: Node, args: list[Node]) -> Node:
    """Return an expression of the same kind with other operands."""
    kind = node.kind
    if kind == "slice":
        return make.slice(args[0], node.value, node.width)
    if kind == "cat":
        return make.cat(args)
    if kind == "repeat":
        return make.repeat(args[0], node.value)
    if kind == "~":
        return make.invert(args[0])
    if kind in COMMUTATIVE:
        return make.bitwise(kind, args)
    if kind in ("r|", "r&", "r^"):
        return make.reduce(kind, args[0])
    if kind in COMPARISONS:
        return make.compare(kind, *args)
    if kind == "?:":
        return make.choose(*args)
    if kind == "case":
        return make.select(args[0], list(zip(node.value, args[1:-1], strict=True)), args[-1])
    if kind == "index":
        return make.index(args[0], args[1], node.width)
    if kind in ("+", "-", "*", "<<"):
        return {"+": make.add, "-": make.subtract, "*": make.multiply, "<<": make.shift_left}[kind](*args)
    if kind == "neg":
        return make.subtract(make.const(0, node.width), args[0])
    assert kind in (">>", "s>>"), kind
    return make.shift_right(args[0], args[1], signed=kind == "s>>")


def inline(model: ModuleModel) -> None:
    """Inline wires that need no name, until no such wire is left."""
    _join_outputs(model)
    _join_registers(model)
    for _ in range(8):
        model.items = live(model)
        chosen = _chosen(model)
        if not chosen:
            break
        drivers = {net: model.make.cat(node for _, node in wire.pieces) for net, wire in chosen.items()}

        def replaced(node: Node, drivers: dict[Net, Node] = drivers) -> Node | None:
            return drivers.get(node.value) if node.kind == "net" else None

        substitution = Substitution(model.make, replaced)
        model.items = [item for item in model.items if not (isinstance(item, Wire) and item.net in drivers)]
        for item in model.items:
            substitution.item(item)
    for item in model.items:
        if isinstance(item, Registers):
            item.statements = _join_assignments(model.make, item.statements)


def _join_assignments(make: Expressions, statements: Iterable[Statement]) -> list[Statement]:
    """Join assignments to neighbouring bits of a register whose values are neighbouring bits, too."""
    found: list[Statement] = []
    for statement in statements:
        if isinstance(statement, Branch):
            arms = [(condition, _join_assignments(make, body), place) for condition, body, place in statement.arms]
            found.append(Branch(statement.test, arms, statement.location))
            continue
        last = found[-1] if found else None
        if isinstance(last, Assignment) and len(statement.targets) == 1:
            (net, low, width), (other, start, more) = last.targets[-1], statement.targets[0]
            value = make.cat([last.value, statement.value])
            if net is other and low + width == start and value.kind != "cat":
                found[-1] = Assignment([*last.targets[:-1], (net, low, width + more)], value, last.location)
                continue
            if value.kind in ("net", "slice") and NUMBER.sub("", net.name) == NUMBER.sub("", other.name) != other.name:
                found[-1] = Assignment([*last.targets, *statement.targets], value, last.location)
                continue
        found.append(statement)
    return found


def _join_outputs(model: ModuleModel) -> None:
    """Let an instance's output drive a net, or a part of one, directly if nothing else reads the output."""
    model.items = live(model)
    uses, _ = uses_of(model.items)
    make = model.make
    aliases: dict[Net, list[tuple[Wire, int]]] = {}
    for wire in model.items:
        if isinstance(wire, Wire):
            for low, node in wire.pieces:
                if node.kind == "net":
                    aliases.setdefault(node.value, []).append((wire, low))
    pins = {
        id(node.value)
        for item in model.items
        if isinstance(item, Cell)
        for node in item.inputs.values()
        if node.kind == "net" and "__" in node.value.name
    }
    renamed: dict[Net, Node] = {}
    taken: set[tuple[int, int]] = set()
    for item in model.items:
        if not isinstance(item, Cell):
            continue
        for port, targets in item.outputs.items():
            net, low, width = targets[0]
            if len(targets) != 1 or (low, width) != (0, net.width) or net.kind != "wire":
                continue
            # A net has the name of the instance output that drives it, not of another instance's input.
            found = [
                (wire, low)
                for wire, low in aliases.get(net, [])
                if (id(wire), low) not in taken and (len(wire.pieces) > 1 or id(wire.net) not in pins)
            ]
            whole = [each for each in found if len(each[0].pieces) == 1]
            if whole:
                wire, low = min(whole, key=lambda each: each[0].net.kind != "output")
            elif len(found) == 1 and uses[make.net(net)] == 1:
                wire, low = found[0]
            else:
                continue
            item.outputs[port] = [(wire.net, low, net.width)]
            renamed[net] = make.slice(make.net(wire.net), low, net.width)
            taken.add((id(wire), low))
    for item in model.items:
        if isinstance(item, Wire):
            item.pieces = [(low, node) for low, node in item.pieces if (id(item), low) not in taken]
    model.items = [item for item in model.items if not isinstance(item, Wire) or item.pieces]
    substitution = Substitution(make, lambda node: renamed.get(node.value) if node.kind == "net" else None)
    for item in model.items:
        substitution.item(item)


def _join_registers(model: ModuleModel) -> None:
    """Replace an output that only copies a register by that register."""
    registers = {net for item in model.items if isinstance(item, Registers) for net in driven(item)}
    outputs: dict[Net, Wire] = {}
    for item in model.items:
        if isinstance(item, Wire) and item.net.kind == "output" and len(item.pieces) == 1:
            node = item.pieces[0][1]
            if node.kind == "net" and node.width == item.net.width and node.value in registers - set(model.ports):
                outputs.setdefault(node.value, item)
    for source, item in outputs.items():
        item.net.init, item.net.resets, item.net.states = source.init, source.resets, source.states or item.net.states
        item.net.fields = item.net.fields or source.fields
        item.net.location = source.location
    gone = {id(item) for item in outputs.values()}
    model.items = [item for item in model.items if id(item) not in gone]
    substitution = Substitution(
        model.make,
        lambda node: model.make.net(outputs[node.value].net) if node.kind == "net" and node.value in outputs else None,
    )
    for item in model.items:
        substitution.item(item)
        if isinstance(item, Registers):
            for each in assignments(item.statements):
                each.targets[:] = [
                    (outputs[net].net if net in outputs else net, low, width) for net, low, width in each.targets
                ]


def _chosen(model: ModuleModel) -> dict[Net, Wire]:
    """Return the wires to inline in this round, without those that depend on themselves."""
    uses, parents = uses_of(model.items)
    slices: dict[Node, list[Node]] = {}
    for node in uses:
        if node.kind == "slice":
            slices.setdefault(node.args[0], []).append(node)
    text = Text({})
    lengths: dict[Node, int] = {}
    candidates: dict[Net, Wire] = {}
    for wire in model.items:
        if not isinstance(wire, Wire) or wire.net.kind == "output" or not _is_whole(wire):
            continue
        node = model.make.net(wire.net)
        if _is_inlined(
            model.make, wire, node, uses, parents, slices.get(node, []), lambda each: _length(text, each, lengths)
        ):
            candidates[wire.net] = wire
    return _without_circles(candidates)


def _is_whole(wire: Wire) -> bool:
    """Return whether no instance drives a piece of the wire."""
    return sum(node.width for _, node in wire.pieces) == wire.net.width


def _length(text: Text, node: Node, lengths: dict[Node, int]) -> int:
    if node not in lengths:
        lengths[node] = len(text.flat(node)) if _size(node, 60) < 60 else 1000
    return lengths[node]


def _size(node: Node, limit: int) -> int:
    """Return the number of nodes of an expression, at most `limit`."""
    count, stack = 0, [node]
    while stack and count < limit:
        count += 1
        stack.extend(stack.pop().args)
    return count


def _is_inlined(
    make: Expressions, wire: Wire, node: Node, uses, parents, slices: list[Node], length: Callable[[Node], int]
) -> bool:
    count = uses[node]
    if len(wire.pieces) == 1:
        driver = wire.pieces[0][1]
        if is_field(wire.net, driver):
            return False
        if not wire.net.name or driver.kind == "net" or (driver.kind == "const" and not wire.net.states):
            return True
        if (
            driver.kind == "slice"
            and driver.args[0].kind == "net"
            and driver.args[0].width >= WIDE
            and "__" not in wire.net.name
        ):
            return False
        if driver.kind == "slice" and driver.args[0].kind == "net" and parents.get(node, set()) <= {"slice"}:
            return count == 1 or parents.get(node) == {"slice"}
        if driver.kind == "case":
            return False
        if count == 1 and not parents.get(node, set()) & {"slice", "index0"}:
            return length(driver) <= SHORT
        if count == 1:
            return driver.kind == "cat" and uses[slices[0]] == 1 if slices else False
        return False
    if count == 1 and not slices:
        return (
            all(piece.kind in LEAVES for _, piece in wire.pieces)
            or length(make.cat(p for _, p in wire.pieces)) <= SHORT
        )
    if not slices or parents.get(node) != {"slice"} or count != len(slices):
        return False
    for part in slices:
        inside = [
            piece for low, piece in wire.pieces if low < part.value + part.width and part.value < low + piece.width
        ]
        cheap = all(piece.kind in ("net", "slice", "const") for piece in inside)
        if not cheap and (uses[part] > 1 or len(inside) > 1 or length(inside[0]) > SHORT):
            return False
        if not cheap and inside[0].width != part.width and inside[0].kind != "cat":
            return False
    return True


def is_field(net: Net, driver: Node) -> bool:
    """Return whether a wire's name is its driver's name plus a field. A number at the end of a name is ignored."""
    whole = driver.args[0] if driver.kind == "slice" else driver
    return whole.kind == "net" and re.match(f"{NUMBER.sub('', whole.value.name)}_[a-z]", net.name) is not None


def _without_circles(candidates: dict[Net, Wire]) -> dict[Net, Wire]:
    """Return the candidates without those on a cycle of candidates."""
    state: dict[Net, int] = {}
    bad: set[Net] = set()
    reads = {net: list(_nets(wire)) for net, wire in candidates.items()}

    def visit(net: Net, path: list[Net]) -> None:
        state[net] = 1
        path.append(net)
        for other in reads[net]:
            if other not in reads or other in bad:
                continue
            if state.get(other) == 1:
                bad.add(other)
            elif other not in state:
                visit(other, path)
        path.pop()
        state[net] = 2

    for net in candidates:
        if net not in state:
            visit(net, [])
    return {net: wire for net, wire in candidates.items() if net not in bad}


def _nets(wire: Wire) -> Iterator[Net]:
    stack, seen = [node for _, node in wire.pieces], set()
    while stack:
        node = stack.pop()
        if node not in seen:
            seen.add(node)
            if node.kind == "net":
                yield node.value
            stack.extend(node.args)
