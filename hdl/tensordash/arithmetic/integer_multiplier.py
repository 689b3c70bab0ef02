"""Integer multiplier: the product of two two's complement operands."""

from amaranth.hdl import Module, signed
from amaranth.lib.wiring import In, Out

from ..block import Block
from ..configuration.formats import IntegerFormat

__all__ = ["IntegerMultiplier"]


class IntegerMultiplier(Block):
    """Computes the exact product of two integers.

    Timing: combinational.

    Parameters
    ----------
    a_format, b_format : IntegerFormat
        Operand formats.

    Members
    -------
    a, b : In(width)
        Operands.
    product : Out(signed)
        As wide as both operands together.

    Source: docs/numerics.md, "Products".
    """

    def __init__(self, *, a_format: IntegerFormat, b_format: IntegerFormat) -> None:
        super().__init__(
            {
                "a": In(signed(a_format.width)),
                "b": In(signed(b_format.width)),
                "product": Out(signed(a_format.width + b_format.width)),
            },
        )

    def elaborate(self, platform):
        m = Module()
        m.d.comb += self.product.eq(self.a * self.b)
        return m
