"""NVFP4 product: multiplies an element by the scale of its block."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib.wiring import In, Out

from ..block import Block
from ..configuration.formats import FloatFormat
from .nvfp4_scale import PRODUCT_BITS, require_wide_format, scale_layout

__all__ = ["Nvfp4Product"]


class Nvfp4Product(Block):
    """Multiplies an element (E2M1) by a scale. The product is exact.

    Timing: combinational.

    Parameters
    ----------
    fmt : FloatFormat
        Format of the product: fp16 or bf16. The least magnitude is 2^-10 and the largest 2688, so all are normal.

    Members
    -------
    element : In(4)
        The element.
    scale : In(scale_layout)
        The decoded scale, from `Nvfp4Scale`.
    product : Out(16)
        The product. It is NaN if the scale is.

    Raises
    ------
    ValueError
        If the format does not have 16 bits.

    Source: docs/core.md, "Tensors"; OCP Microscaling Formats (MX) v1.0, section 5.3.3.
    """

    def __init__(self, *, fmt: FloatFormat) -> None:
        self.fmt = require_wide_format(fmt)
        super().__init__({"element": In(4), "scale": In(scale_layout(fmt)), "product": Out(fmt.width)})

    def elaborate(self, platform):
        """Select one of the scale's two products, and add the element's exponent."""
        m = Module()
        fmt, scale, magnitude = self.fmt, self.scale, self.element[:3]
        selected = Signal.like(scale.half)
        is_three_quarters = Signal()  # of a power of two: 1.5, 3 and 6
        exponent = Signal(fmt.exponent_bits)
        sign = Signal()
        m.d.comb += [
            is_three_quarters.eq(magnitude[0] & magnitude[1:].any()),
            selected.eq(Mux(is_three_quarters, scale.three_quarters, scale.half)),
            exponent.eq(selected.exponent + magnitude[1:]),
            sign.eq(self.element[3] ^ scale.sign),
        ]
        zeros = Const(0, fmt.fraction_bits - PRODUCT_BITS)
        with m.If(scale.nan):
            m.d.comb += self.product.eq(((1 << fmt.exponent_bits + 1) - 1) << fmt.fraction_bits - 1)
        with m.Elif(scale.zero | (magnitude == 0)):
            m.d.comb += self.product.eq(Cat(Const(0, fmt.width - 1), sign))
        with m.Else():
            m.d.comb += self.product.eq(Cat(zeros, selected.fraction, exponent, sign))
        return m
