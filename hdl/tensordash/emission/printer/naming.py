"""Naming of shared expressions, of fields of structures, and of nets with equal names."""

import re
from collections.abc import Callable, Iterable, Iterator

from ..keywords import KEYWORDS
from .collect import Cell, Item, Memory, ModuleModel, Registers, Wire, assignments
from .inlining import Substitution
from .lowering import Assignment, Statement
from .nodes import COMPARISONS, Net, Node
from .source import variable
from .text import Text
from .uses import driven, roots, uses_of

__all__ = ["hoist_choices", "name_fields", "name_nets", "name_shared", "require_names"]

WORTH = 45
"""Minimum number of characters that a name must save, over all its uses."""

WORDS = {
    "&": "all", "|": "any", "^": "differ", "+": "sum", "-": "difference", "*": "product", "<<": "shifted", "~": "not",
    ">>": "shifted", "s>>": "shifted", "?:": "choice", "case": "choice", "cat": "joined", "neg": "negative",
    "repeat": "mask", "index": "word", "slice": "part", "r|": "nonzero", "r&": "ones", "r^": "parity",
}  # fmt: skip
"""Suffix of the name of an expression without a variable in the source."""


def require_names(model: ModuleModel) -> None:
    """Check that everything in a module has a valid Verilog name.

    Raises
    ------
    ValueError
        For an invalid name, or a Verilog keyword.
    """
    names = {net.name for item in model.items for net in driven(item)}
    names |= {net.name for net in model.ports}
    names |= {item.name for item in model.items if isinstance(item, Cell | Memory)}
    for name in sorted(names):
        if name in KEYWORDS:
            raise ValueError(f"a signal or submodule {name}, which is a Verilog keyword")
        if not re.fullmatch(r"[A-Za-z_]\w*", name):
            raise ValueError(f"a signal or submodule without a name ({name}): give it one")


def name_nets(model: ModuleModel, taken: Iterable[str]) -> set[str]:
    """Make the names of all nets and instances unique: ports and instances first, then registers. Return the names."""
    used = set(taken) | {net.name for net in model.ports}
    for item in model.items:
        if isinstance(item, Cell | Memory):
            item.name = free(item.name, used)
    read = {node.value for node in uses_of(model.items)[0] if node.kind == "net"}
    for item in model.items:
        if isinstance(item, Cell):
            for net in driven(item):
                if net.kind == "wire" and net not in read and "unused" not in net.name:
                    net.name += "_unused"
    nets: dict[Net, int] = {}
    for item in model.items:
        rank = 0 if isinstance(item, Registers | Memory) else 1 if isinstance(item, Cell) else 2
        for net in driven(item):
            nets[net] = min(rank, nets.get(net, rank))
    for net in sorted(nets, key=lambda each: nets[each]):
        if net not in model.ports:
            net.name = free(net.name, used)
    return used


def free(name: str, used: set[str]) -> str:
    """Return an unused name, `name` itself or with a number after it, and add it to `used`."""
    found, number = name, 2
    while found in used or found in KEYWORDS:
        found, number = f"{name}_{number}", number + 1
    used.add(found)
    return found


def hoist_choices(model: ModuleModel) -> None:
    """Turn choices among many values into wires, because each becomes a statement of its own."""
    made: dict[Node, Net] = {}
    items: list[Item] = []
    for item in model.items:
        for purpose, root in _purposes(item):
            own = isinstance(item, Wire) and len(item.pieces) == 1
            stack = list(root.args) if own else [root]
            while stack:
                node = stack.pop()
                if node.kind == "case" and node not in made:
                    made[node] = Net(_name(node, purpose), node.width)
                    items.append(Wire(made[node], [(0, node)], None))
                stack.extend(node.args)
        items.append(item)
    if not made:
        return
    for item in items:
        keep = item.pieces[0][1] if isinstance(item, Wire) and item.net in made.values() else None

        def replaced(node: Node, keep: Node | None = keep) -> Node | None:
            return model.make.net(made[node]) if node in made and node is not keep else None

        substitution = Substitution(model.make, replaced)
        substitution.item(item)
    model.items = items


def name_fields(model: ModuleModel, used: set[str]) -> None:
    """Turn fields that are read into wires with the field's name, next to the driver of their structure."""
    made: dict[tuple[Net, str], Net] = {}

    def replaced(node: Node) -> Node | None:
        inner = node.args[0] if node.kind == "slice" else node
        if inner.kind != "net" or not inner.value.fields:
            return None
        net: Net = inner.value
        if node is inner and all(width < net.width for _, _, width in net.fields):
            return None
        found = [each for each in net.fields if _holds(each, node)]
        if not found:
            return None
        name, low, width = min(found, key=lambda each: each[2])
        key = net, name
        if key not in made:
            base = re.sub(r"_\d+$", "", net.name)  # one word of several: the field's name is without its number
            made[key] = Net(free(f"{base}_{name}", used), width, location=None)
        start = node.value if node.kind == "slice" else 0
        return model.make.slice(model.make.net(made[key]), start - low, node.width)

    substitution = Substitution(model.make, replaced)
    for item in model.items:
        substitution.item(item)
    _assign_fields(model, used, made)
    if not made:
        return
    wires = {net: Wire(net, [(0, _field(model, whole, name))], None) for (whole, name), net in made.items()}
    at_begin = [wires[net] for (whole, _), net in made.items() if whole.kind == "input"]
    items: list[Item] = [*at_begin]
    for item in model.items:
        items.append(item)
        whole = set(driven(item))
        items += [wires[net] for (of, _), net in made.items() if of in whole and wires[net] not in items]
    model.items = items


def _assign_fields(model: ModuleModel, used: set[str], read: dict[tuple[Net, str], Net]) -> None:
    """Assign structures of several pieces field by field, with a wire for each. Remove those wires from `read`."""
    items: list[Item] = []
    for item in model.items:
        if isinstance(item, Wire) and item.net.fields and len(item.pieces) > 1:
            fields = sorted(item.net.fields, key=lambda each: each[1])
            parts = [
                [(at - low, node) for at, node in item.pieces if low <= at and at + node.width <= low + width]
                for _, low, width in fields
            ]
            whole = sum(node.width for part in parts for _, node in part) == item.net.width
            if whole and any(node.args and node.kind != "slice" for _, node in item.pieces):
                pieces = []
                for (name, low, width), part in zip(fields, parts, strict=True):
                    node = part[0][1]
                    net = read.pop((item.net, name), None)
                    if net or len(part) > 1 or (node.args and node.kind != "slice"):
                        net = net or Net(free(f"{item.net.name}_{name}", used), width)
                        items.append(Wire(net, part, item.location))
                        node = model.make.net(net)
                    pieces.append((low, node))
                item.pieces = pieces
        items.append(item)
    model.items = items


def _holds(field: tuple[str, int, int], node: Node) -> bool:
    """Return whether a slice is within a field."""
    _, low, width = field
    start = node.value if node.kind == "slice" else 0
    return low <= start and start + node.width <= low + width


def _field(model: ModuleModel, net: Net, name: str) -> Node:
    low, width = next((low, width) for field, low, width in net.fields if field == name)
    return model.make.slice(model.make.net(net), low, width)


def name_shared(model: ModuleModel, used: set[str]) -> dict[Node, Net]:
    """Name expressions that are shared, or read only in part, by wires before their first use.

    Return the net of every named expression.
    """
    _narrow(model)
    uses, parents = uses_of(model.items)
    names: dict[Node, Net] = {}
    for item in model.items:
        if isinstance(item, Wire) and len(item.pieces) == 1:
            node = item.pieces[0][1]
            if node.args and node.kind != "slice" and uses[node] > 1:
                names.setdefault(node, item.net)
    text = Text(names)
    lengths: dict[Node, int] = {}
    items: list[Item] = []
    for item in model.items:
        own = item.net if isinstance(item, Wire) else None
        for purpose, root in _purposes(item):
            stack: list[tuple[Node, bool]] = [(root, False)]
            while stack:
                node, ready = stack.pop()
                if node in lengths:
                    continue
                if not ready:
                    stack.append((node, True))
                    stack.extend((arg, False) for arg in reversed(node.args) if arg not in lengths)
                    continue
                lengths[node] = len(text.flat(node)) if node not in names else len(names[node].name)
                if node in names or not node.args:
                    continue
                kinds = parents.get(node, set())
                forced = bool(kinds & {"slice", "index0"}) or (node.kind == "case" and node is not root)
                worth = (uses[node] - 1) * (lengths[node] - 12)
                wired = node.kind == "slice" or (node.kind in ("cat", "repeat") and worth < 2 * WORTH)
                if forced or (worth >= WORTH and not wired):
                    if node is root and own is not None and isinstance(item, Wire) and len(item.pieces) == 1:
                        names[node] = own
                        continue
                    net = Net(free(_name(node, purpose), used), node.width, location=None)
                    names[node] = net
                    lengths[node] = len(net.name)
                    items.append(Wire(net, [(0, node)], None))
        items.append(item)
    model.items = items
    return names


def _purposes(item: Item) -> Iterable[tuple[str, Node]]:
    if isinstance(item, Wire):
        return [(item.net.name, node) for _, node in item.pieces]
    if isinstance(item, Cell):
        return [(f"{item.name}__{port}", node) for port, node in item.inputs.items()]
    if isinstance(item, Memory):
        return [(item.name, node) for node in roots(item)]
    return _of_statements(item.statements)


def _of_statements(statements: Iterable[Statement]) -> Iterator[tuple[str, Node]]:
    """Yield the expressions of statements, each with the name of the register that it is for."""
    for statement in statements:
        purpose = next(assignments([statement])).targets[0][0].name
        if isinstance(statement, Assignment):
            yield purpose, statement.value
            continue
        if statement.test is not None:
            yield purpose, statement.test
        for condition, body, _ in statement.arms:
            if isinstance(condition, Node):
                yield next((each.targets[0][0].name for each in assignments(body)), purpose), condition
            yield from _of_statements(body)


def _name(node: Node, purpose: str) -> str:
    """Return the expression's variable in the source, or a name from its purpose and its operator."""
    found = variable(node).strip("_")
    if found and not re.fullmatch(r".", found):
        return found
    if node.kind in COMPARISONS and node.args[0].kind in ("net", "slice") and node.args[1].kind == "const":
        base = re.sub(r"\W+", "_", Text({}).flat(node.args[0])).strip("_") if _named(node.args[0]) else ""
        states = node.args[0].value.states if node.args[0].kind == "net" else {}
        value = states.get(node.args[1].value, str(node.args[1].value)).lower()
        word = {"==": "is", "!=": "is_not"}.get(node.kind)
        if base and word:
            return f"{base}_{word}_{'zero' if value == '0' else value}"
    if node.kind in COMPARISONS:
        return f"{purpose}_compared"
    return f"{purpose}_{WORDS[node.kind]}"


def _named(node: Node) -> bool:
    return node.kind == "net" or node.args[0].kind == "net"


def _narrow(model: ModuleModel) -> None:
    """Narrow the expressions whose upper bits are never read."""
    for _ in range(4):
        uses, _ = uses_of(model.items)
        wanted: dict[Node, int] = {}
        counted: dict[Node, int] = {}
        for node in uses:
            if node.kind == "slice":
                inner = node.args[0]
                wanted[inner] = max(wanted.get(inner, 0), node.value + node.width)
                counted[inner] = counted.get(inner, 0) + 1
        less = {
            node: bits
            for node, bits in wanted.items()
            if bits < node.width
            and counted[node] == uses[node]
            and node.kind in ("+", "-", "*", "<<", "?:", "&", "|", "^", "~")
        }
        if not less:
            return
        _rebuild(model, less)


def _rebuild(model: ModuleModel, less: dict[Node, int]) -> None:
    make = model.make

    def replaced(node: Node) -> Node | None:
        if node.kind == "slice" and node.args[0] in less:
            inner = node.args[0]
            narrow = _cut(make, inner, less[inner])
            return make.slice(narrow, node.value, node.width) if narrow is not inner else None
        return None

    substitution = Substitution(make, replaced)
    for item in model.items:
        substitution.item(item)


def _cut(make, node: Node, width: int) -> Node:
    low: Callable[[Node], Node] = lambda each: make.slice(each, 0, width)  # noqa: E731
    make.location = node.location
    if node.kind == "?:":
        return make.choose(node.args[0], *map(low, node.args[1:]))
    if node.kind == "~":
        return make.invert(low(node.args[0]))
    if node.kind in ("&", "|", "^"):
        return make.bitwise(node.kind, list(map(low, node.args)))
    return make.slice(node, 0, width)
