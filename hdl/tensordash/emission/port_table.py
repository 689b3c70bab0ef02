"""Markdown tables of a design's ports: names and widths from the component, purposes from `port_table.toml`."""

import re
import tomllib
from collections import ChainMap
from collections.abc import Iterable
from pathlib import Path

__all__ = ["describe_port", "port_table"]

_DATA = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
MEANINGS: dict[str, dict[str, str]] = {
    name: dict(ChainMap(top["ports"], *(_DATA["groups"][group] for group in top["groups"])))
    for name, top in _DATA["tops"].items()
}
"""For each top: the purposes of its ports."""


def shared_name(name: str) -> tuple[str, int | None]:
    """Return the name of a port with C or R for the number of its column or row, and the number.

    >>> shared_name("b_3_last"), shared_name("irq")
    (('b_R_last', 3), ('irq', None))
    """
    found = re.fullmatch(r"(s_axis_|)([ab])(_?)(\d+)(_\w+)", name)
    if not found:
        return name, None
    return f"{found[1]}{found[2]}{found[3]}{'C' if found[2] == 'a' else 'R'}{found[5]}", int(found[4])


def describe_port(top: str, name: str, order: str) -> str:
    """Return a port's purpose in one line of Markdown.

    Parameters
    ----------
    top : str
        One of `MEANINGS`.
    name : str
        The port.
    order : str
        Order of a tile's steps on its inputs.

    Raises
    ------
    KeyError
        For a port that `MEANINGS` lacks.
    """
    meanings = MEANINGS[top]
    shared, _ = shared_name(name)
    meaning = meanings.get(shared, meanings.get(re.sub(r"(s_axis_|^)[ab]_?[CR](_\w+)", r"\1S\2", shared)))
    if meaning is None:
        raise KeyError(f"{name} of {top}")
    return meaning.format(order=order)


def port_table(top: str, ports: Iterable[tuple[str, str, int]], order: str) -> str:
    """Return a Markdown table. Ports that differ only in their row or column number share a line.

    Parameters
    ----------
    top : str
        One of `MEANINGS`.
    ports : iterable of (name, "input" or "output", bits)
        Ports in the order of the table.
    order : str
        Order of a tile's steps on its inputs.

    Raises
    ------
    KeyError
        For a port that `MEANINGS` lacks.

    Examples
    --------
    >>> ports = [("b_0_last", "input", 1), ("b_1_last", "input", 1), ("cycles", "output", 32)]
    >>> print(port_table("tile", ports, "oldest first"), end="")
    | port | direction | bits | what |
    |---|---|---|---|
    | `b_R_last`, R = 0 to 1 | in | 1 | the step at `available - 1` ends its stream |
    | `cycles` | out | 32 | counter: cycles with a schedule |
    """
    lines: dict[str, str] = {}
    highest: dict[str, int] = {}
    for name, direction, bits in ports:
        shared, number = shared_name(name)
        if number is not None:
            highest[shared] = max(number, highest.get(shared, 0))
        lines[shared] = f"{direction.removesuffix('put')} | {bits} | {describe_port(top, name, order)} |"
    rows = ["| port | direction | bits | what |", "|---|---|---|---|"]
    for shared, line in lines.items():
        numbers = f", {'R' if 'R' in shared else 'C'} = 0 to {highest[shared]}" if shared in highest else ""
        rows.append(f"| `{shared}`{numbers} | {line}")
    return "\n".join(rows) + "\n"
