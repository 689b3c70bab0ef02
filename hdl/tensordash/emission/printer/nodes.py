"""Nets and nodes: what expressions of one module are made of."""

from dataclasses import dataclass, field

__all__ = ["COMMUTATIVE", "COMPARISONS", "Net", "Node"]

COMMUTATIVE = ("&", "|", "^")
COMPARISONS = {"==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">", "s<": "s>=", "s>=": "s<"}
COMPARISONS |= {"s>": "s<=", "s<=": "s>"}
"""Comparisons, each with its opposite; those that begin with s are of signed numbers."""


@dataclass(eq=False)
class Net:
    """A signal of a module.

    Parameters
    ----------
    name : str
        In the Verilog; free until names are given.
    width : int
        Bits.
    kind : str
        ``input``, ``output``, ``wire``, ``reg``.
    init : int
        What a register is after a reset, and a wire that nothing assigns.
    location : (str, int) or None
        Source file and line.
    states : dict of int to str
        Of a register of states or a value of an enumeration, the names of its values.
    fields : list of (str, int, int)
        Of a structure, each field's name, lowest bit and width.
    """

    name: str
    width: int
    kind: str = "wire"
    init: int = 0
    resets: bool = False
    location: tuple[str, int] | None = None
    states: dict[int, str] = field(default_factory=dict)
    fields: list[tuple[str, int, int]] = field(default_factory=list)
    driver: "Node | None" = None


class Node:
    """An expression.

    Parameters
    ----------
    kind : str
        ``const``, ``net``, ``slice``, ``cat`` (lowest bits first), ``repeat``, an operator as in Verilog (``r|`` for a
        reduction, ``s<`` for signed numbers), ``?:``, ``case`` (a test, then a value for each arm, then the default) or
        ``index`` (a net, then the place of a word).
    width : int
        Bits. Every operand has as many bits as its operator needs: nothing is extended or cut in passing.
    args : tuple of Node
        Operands.
    value
        Of a constant its value, of a net the net, of a slice its lowest bit, of a ``case`` the values of each arm.
    location : (str, int) or None
        Source file and line of the first place that made it.
    """

    __slots__ = ("args", "kind", "location", "value", "width")

    def __init__(self, kind: str, width: int, args: tuple["Node", ...], value, location) -> None:
        self.kind, self.width, self.args, self.value, self.location = kind, width, args, value, location

    @property
    def is_ones(self) -> bool:
        """A constant of ones."""
        return self.kind == "const" and self.value == (1 << self.width) - 1

    @property
    def is_zero(self) -> bool:
        """A constant of zeros."""
        return self.kind == "const" and self.value == 0

    @property
    def used_bits(self) -> int:
        """Bits without leading zeros that are known."""
        top = self.args[-1] if self.kind == "cat" else self
        return self.width - top.width + top.value.bit_length() if top.kind == "const" else self.width

    @property
    def is_nonnegative(self) -> bool:
        """The highest bit is known to be zero."""
        return self.used_bits < self.width
