"""Printing of instances: neighbours of one module together, each on one line if it fits."""

from collections.abc import Callable, Iterator, Sequence

from .collect import Cell, Item
from .text import LINE, Text, broken, target

__all__ = ["gathered", "instance"]


def gathered(items: Sequence[Item], belongs: Callable[[Item, Item], bool]) -> Iterator[list[Item]]:
    """Yield items in runs. A run has consecutive instances, gathered by their module, or one other item.

    Parameters
    ----------
    items : sequence of Item
        A module's items.
    belongs : callable
        Returns whether an instance can be gathered with an earlier one.
    """
    at = 0
    while at < len(items):
        first = items[at]
        if not isinstance(first, Cell):
            yield [first]
            at += 1
            continue
        runs: dict[str, list[Item]] = {}
        while at < len(items) and isinstance(item := items[at], Cell) and belongs(first, item):
            runs.setdefault(item.module, []).append(item)
            at += 1
        yield from runs.values()


def instance(item: Cell, text: Text) -> list[str]:
    """Return the lines of an instance, with its ports by name."""
    connections = {}
    for port in item.ports:
        if port in item.inputs:
            connections[port] = text.operand(item.inputs[port])
            continue
        connections[port] = target(item.outputs[port])
    rows: list[str] = []
    for port, connection in connections.items():
        first, *rest = broken(f".{port}({connection})", LINE - 5)
        if rows and not rest and len(rows[-1]) + len(first) + 3 <= LINE and rows[-1].startswith("    ."):
            rows[-1] += f", {first}"
            continue
        rows += [f"    {line}" for line in (first, *rest)]
        if len(rows) > 1 + len(rest):
            rows[-2 - len(rest)] += ","
    head = f"  {item.module} {item.name} ("
    if len(rows) == 1 and len(head) + len(rows[0].lstrip()) + 2 <= LINE:
        return [f"{head}{rows[0].lstrip()});"]
    return [head, *rows, "  );"]
