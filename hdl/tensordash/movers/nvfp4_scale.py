"""NVFP4 scale: decodes the scale of a block for the multiplication with its elements."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib.data import StructLayout
from amaranth.lib.wiring import In, Out

from ..block import Block
from ..configuration.formats import FORMATS, FloatFormat

__all__ = ["PRODUCT_BITS", "Nvfp4Scale", "require_wide_format", "scale_layout"]

SCALE = FORMATS["fp8_e4m3"]
PRODUCT_BITS = 5
"""Bits of a product's fraction: three of the scale, one of the element, and one of a carry."""


def require_wide_format(fmt: FloatFormat) -> FloatFormat:
    """Check that a format has 16 bits, and return it."""
    if not isinstance(fmt, FloatFormat) or fmt.width != 16:
        raise ValueError(f"fmt must be fp16 or bf16, not {fmt!r}")
    return fmt


def scale_layout(fmt: FloatFormat) -> StructLayout:
    """Return the layout of a decoded scale.

    `half` and `three_quarters` are its products with 0.5 and with 0.75: the exponent's field in the format, and the
    highest bits of the fraction. They are undefined if the scale is zero or NaN.
    """
    product = StructLayout({"fraction": PRODUCT_BITS, "exponent": fmt.exponent_bits})
    return StructLayout({"half": product, "three_quarters": product, "sign": 1, "zero": 1, "nan": 1})


class Nvfp4Scale(Block):
    """Decodes a scale (E4M3) into its products with 0.5 and with 0.75.

    Each magnitude of E2M1 is a power of two times one of them.

    Timing: combinational.

    Parameters
    ----------
    fmt : FloatFormat
        Format of the products: fp16 or bf16.

    Members
    -------
    bits : In(8)
        The scale.
    decoded : Out(scale_layout)
        The decoded scale.

    Raises
    ------
    ValueError
        If the format does not have 16 bits.

    Source: docs/core.md, "Tensors"; OCP 8-bit Floating Point Specification (OFP8), table 1.
    """

    def __init__(self, *, fmt: FloatFormat) -> None:
        self.fmt = require_wide_format(fmt)
        super().__init__({"bits": In(8), "decoded": Out(scale_layout(fmt))})

    def elaborate(self, platform):
        """Normalise the significand, and multiply it by three."""
        m = Module()
        decoded, exponent, fraction = self.decoded, self.bits[3:7], self.bits[:3]
        significand = Signal(4)  # in eighths, from 8 on
        tripled = Signal(6)  # in sixteenths
        offset = self.fmt.bias - SCALE.bias - 1
        m.d.comb += decoded.half.exponent.eq(exponent + offset)
        with m.If(exponent != 0):
            m.d.comb += significand.eq(Cat(fraction, 1))
        for shift in range(1, 4):  # subnormal scales
            with m.Elif(fraction[3 - shift]):
                m.d.comb += [significand.eq(fraction << shift), decoded.half.exponent.eq(offset + 1 - shift)]
        m.d.comb += [
            tripled.eq((significand << 1) + significand),
            decoded.half.fraction.eq(significand[:3] << 2),
            decoded.three_quarters.fraction.eq(Mux(tripled[5], tripled[:5], tripled[:4] << 1)),
            decoded.three_quarters.exponent.eq(decoded.half.exponent + tripled[5]),
            decoded.sign.eq(self.bits[7]),
            decoded.zero.eq(~self.bits[:7].any()),
            decoded.nan.eq(self.bits[:7].all()),
        ]
        return m
