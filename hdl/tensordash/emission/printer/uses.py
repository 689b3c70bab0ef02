"""Reads and drivers of a module: expressions of items, uses of nodes, and live items."""

from collections import Counter
from collections.abc import Iterable, Iterator

from .collect import Cell, Item, Memory, ModuleModel, Registers, Wire, assignments
from .lowering import Assignment, Branch, Statement
from .nodes import Net, Node

__all__ = ["driven", "live", "roots", "uses_of"]


def roots(item: Item) -> Iterator[Node]:
    """Yield the expressions of an item."""
    if isinstance(item, Wire):
        yield from (node for _, node in item.pieces)
    elif isinstance(item, Cell):
        yield from item.inputs.values()
    elif isinstance(item, Memory):
        for port in (*item.writes, *item.reads):
            yield from (each for each in port if isinstance(each, Node))
    else:
        yield from _of_statements(item.statements)


def _of_statements(statements: Iterable[Statement]) -> Iterator[Node]:
    for statement in statements:
        if isinstance(statement, Assignment):
            yield statement.value
            continue
        if statement.test is not None:
            yield statement.test
        for condition, body, _ in statement.arms:
            if isinstance(condition, Node):
                yield condition
            yield from _of_statements(body)


def uses_of(items: Iterable[Item]) -> tuple[Counter[Node], dict[Node, set[str]]]:
    """Return the number of uses of each expression in others and in statements, and the kinds of its users."""
    uses: Counter[Node] = Counter()
    parents: dict[Node, set[str]] = {}
    waiting = []
    for item in items:
        for root in roots(item):
            uses[root] += 1
            waiting.append(root)
    seen: set[Node] = set()
    while waiting:
        node = waiting.pop()
        if node in seen:
            continue
        seen.add(node)
        for place, arg in enumerate(node.args):
            uses[arg] += 1
            parents.setdefault(arg, set()).add(f"{node.kind}0" if node.kind == "index" and place == 0 else node.kind)
            waiting.append(arg)
    return uses, parents


def live(model: ModuleModel) -> list[Item]:
    """Return the items that outputs or instances depend on. Registers that are never read are dropped."""
    drivers: dict[int, list[Item]] = {}
    for item in model.items:
        for net in driven(item):
            drivers.setdefault(id(net), []).append(item)
    needed = {id(item) for item in model.items if isinstance(item, Cell | Memory)}
    read: set[int] = set()
    nodes: set[Node] = set()
    stack = [node for item in model.items if id(item) in needed for node in roots(item)]
    stack += [model.make.net(net) for net in model.ports if net.kind == "output"]
    while stack:
        node = stack.pop()
        if node in nodes:
            continue
        nodes.add(node)
        stack.extend(node.args)
        if node.kind == "net" and id(node.value) not in read:
            read.add(id(node.value))
            for item in drivers.get(id(node.value), ()):
                needed.add(id(item))
                if isinstance(item, Registers):
                    stack.extend(_of_statements(_pruned(item.statements, {id(node.value)})))
                else:
                    stack.extend(roots(item))
    result: list[Item] = []
    for item in model.items:
        if isinstance(item, Registers):
            item.statements = _pruned(item.statements, read)
        if id(item) in needed and not (isinstance(item, Registers) and not item.statements):
            result.append(item)
    return result


def _pruned(statements: Iterable[Statement], read: set[int]) -> list[Statement]:
    """Return statements without assignments to registers that are never read."""
    found: list[Statement] = []
    for statement in statements:
        if isinstance(statement, Assignment):
            if any(id(net) in read for net, _, _ in statement.targets):
                found.append(statement)
            continue
        arms = [(condition, _pruned(body, read), place) for condition, body, place in statement.arms]
        while arms and not arms[-1][1]:
            arms.pop()
        if statement.test is not None and not any(condition is None for condition, _, _ in arms):
            arms = [arm for arm in arms if arm[1]]
        if any(body for _, body, _ in arms):
            found.append(Branch(statement.test, arms, statement.location))
    return found


def driven(item: Item) -> Iterator[Net]:
    """Yield the nets that an item drives."""
    if isinstance(item, Wire):
        yield item.net
    elif isinstance(item, Cell):
        yield from (net for targets in item.outputs.values() for net, _, _ in targets)
    elif isinstance(item, Memory):
        yield from (net for _, _, net in item.reads)
    else:
        yield from (net for each in assignments(item.statements) for net, _, _ in each.targets)
