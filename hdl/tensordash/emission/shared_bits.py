"""Output vectors of which one bit is made of another: tools take such a vector for a combinational loop."""

import re
from collections.abc import Iterable

from .unused import ASSIGN

__all__ = ["with_bits_apart"]

SELECT = re.compile(r"\b(\w+)\[(\d+)(?::(\d+))?\]")
BIT = re.compile(r"(\w+)\[(\d+)\]")


def with_bits_apart(lines: list[str], outputs: Iterable[str]) -> tuple[list[str], list[str]]:
    """The statements of a module, in which bits that such a vector shares have wires of their own.

    Parameters
    ----------
    lines : list of str
        The statements, one in a line.
    outputs : iterable of str
        The output ports.

    Returns
    -------
    list of str
        The statements.
    list of str
        The new wires.

    Examples
    --------
    >>> lines = ["  assign y[1] = ! a;", "  assign { y[3:2], y[0] } = { a, a, y[1] };"]
    >>> print(*with_bits_apart(lines, ["y"])[0], sep="\\n")
      assign y_1 = ! a;
      assign y[1] = y_1;
      assign { y[3:2], y[0] } = { a, a, y_1 };
    """
    words = set(re.findall(r"\w+", "\n".join(lines)))
    names: dict[tuple[str, int], str] = {}
    assigned = [found for line in lines if (found := ASSIGN.fullmatch(line))]
    for port in outputs:
        if not any(_bits(each[1], port) and _bits(each[2], port) for each in assigned):
            continue
        driven = {int(bit[2]) for each in assigned if (bit := BIT.fullmatch(each[1])) and bit[1] == port}
        read = set[int]().union(*(_bits(_sides(line)[1], port) for line in lines))
        for k in sorted(driven & read):
            name = f"{port}_{k}"
            while name in words:
                name += "_bit"
            names[port, k] = name
    if not names:
        return lines, []
    made = []
    for line in lines:
        target, source = _sides(line)
        source = SELECT.sub(lambda found: _apart(found, names), source)
        bit = BIT.fullmatch(target.removeprefix("  assign ").removesuffix(" = "))
        own = names.get((bit[1], int(bit[2]))) if bit and target else None
        made += [f"  assign {own} = {source}", f"{target}{own};"] if own else [target + source]
    return made, list(names.values())


def _sides(line: str) -> tuple[str, str]:
    """What is assigned, up to the equals sign, and all else."""
    found = ASSIGN.fullmatch(line)
    return (line[: found.start(2)], line[found.start(2) :]) if found else ("", line)


def _bits(text: str, name: str) -> set[int]:
    """The bits of a vector that are selected in a text."""
    found = (each for each in SELECT.finditer(text) if each[1] == name)
    return {bit for each in found for bit in range(int(each[3] or each[2]), int(each[2]) + 1)}


def _apart(found: re.Match[str], names: dict[tuple[str, int], str]) -> str:
    """A selection in which bits with a wire are those wires."""
    port, high, low = found[1], int(found[2]), int(found[3] or found[2])
    if not any((port, k) in names for k in range(low, high + 1)):
        return found[0]
    parts = [names.get((port, k), f"{port}[{k}]") for k in reversed(range(low, high + 1))]
    return parts[0] if len(parts) == 1 else f"{{ {', '.join(parts)} }}"
