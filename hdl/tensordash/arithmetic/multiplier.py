"""Multiplier: one exact product of two floating-point operands."""

from amaranth.hdl import Cat, Module
from amaranth.lib.wiring import In, Out

from ..block import Block
from ..configuration.formats import FloatFormat
from ..layouts import FloatLayout, product_layout

__all__ = ["Multiplier"]


class Multiplier(Block):
    """Computes the exact product of two floating-point numbers, without normalisation.

    Timing: combinational.

    Parameters
    ----------
    a_format, b_format : FloatFormat
        Operand formats. They may differ.

    Members
    -------
    a, b : In(FloatLayout)
        Operands.
    product : Out(product_layout)
        Sign, product of the significands, and its shift above the least product of subnormals; or a mark: NaN for a NaN
        operand or infinity times zero, infinite for an infinite product.

    Source: IEEE 754-2019, sections 6 and 7; significands are multiplied without normalisation, as in tensor cores.
    """

    def __init__(self, *, a_format: FloatFormat, b_format: FloatFormat) -> None:
        self.a_format = a_format
        self.b_format = b_format
        super().__init__(
            {
                "a": In(FloatLayout(a_format)),
                "b": In(FloatLayout(b_format)),
                "product": Out(product_layout(a_format, b_format)),
            },
        )

    def elaborate(self, platform):
        """Multiply the significands and add the exponents."""
        m = Module()
        a, b, product = self.a, self.b, self.product
        a_normal, b_normal = ~a.is_subnormal, ~b.is_subnormal
        any_nan = a.is_nan | b.is_nan
        any_special = a.is_special | b.is_special
        m.d.comb += [
            # The hidden bit of a normal number is also the borrow: its shift is its exponent minus one.
            product.significand.eq(Cat(a.fraction, a_normal) * Cat(b.fraction, b_normal)),
            product.shift.eq((a.exponent + b.exponent) - (a_normal + b_normal)),
            product.sign.eq(a.sign ^ b.sign),
            product.nan.eq(any_nan | (any_special & (a.is_zero | b.is_zero))),
            product.infinite.eq(any_special & ~product.nan),
        ]
        return m
