"""Nets and nodes: the elements of a module's expressions."""

from dataclasses import dataclass, field

__all__ = ["COMMUTATIVE", "COMPARISONS", "Net", "Node"]

COMMUTATIVE = ("&", "|", "^")
COMPARISONS = {"==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">", "s<": "s>=", "s>=": "s<"}
COMPARISONS |= {"s>": "s<=", "s<=": "s>"}
"""Comparisons, each with its opposite. Those that begin with s compare signed numbers."""


@dataclass(eq=False)
class Net:
    """A signal of a module.

    Parameters
    ----------
    name : str
        Name in the Verilog. Not unique until `name_nets` has run.
    width : int
        Bits.
    kind : str
        ``input``, ``output``, ``wire``, ``reg``.
    init : int
        Value of a register after a reset, and of a wire without assignments.
    location : (str, int) or None
        Source file and line.
    states : dict of int to str
        Names of the values of a state register or an enumeration.
    fields : list of (str, int, int)
        Name, lowest bit and width of each field of a structure.
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
        reduction, ``s<`` for signed numbers), ``?:``, ``case`` (a test, a value for each arm, the default) or ``index``
        (a net, the place of a word).
    width : int
        Bits. Every operand has the width that its operator needs: nothing is extended or truncated implicitly.
    args : tuple of Node
        Operands.
    value
        A constant's value, a net's `Net`, a slice's lowest bit, or the values of each arm of a ``case``.
    location : (str, int) or None
        Source file and line of the first place that made it.
    """

    __slots__ = ("args", "kind", "location", "value", "width")

    def __init__(self, kind: str, width: int, args: tuple["Node", ...], value, location) -> None:
        self.kind, self.width, self.args, self.value, self.location = kind, width, args, value, location

    @property
    def is_ones(self) -> bool:
        """Whether this is a constant of ones."""
        return self.kind == "const" and self.value == (1 << self.width) - 1

    @property
    def is_zero(self) -> bool:
        """Whether this is a constant of zeros."""
        return self.kind == "const" and self.value == 0

    @property
    def used_bits(self) -> int:
        """Number of bits without constant leading zeros."""
        top = self.args[-1] if self.kind == "cat" else self
        return self.width - top.width + top.value.bit_length() if top.kind == "const" else self.width

    @property
    def is_nonnegative(self) -> bool:
        """Whether the highest bit is a constant zero."""
        return self.used_bits < self.width
