"""NVFP4 expander: turns groups of NVFP4 elements and scales into groups of a 16-bit format."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import stream
from amaranth.lib.data import StructLayout, View
from amaranth.lib.wiring import In, Out

from ..block import Block
from ..configuration.formats import FORMATS, FloatFormat
from ..configuration.parameters import require_int

__all__ = ["Nvfp4Expander"]

SCALE = FORMATS["fp8_e4m3"]
PRODUCT_BITS = 5
"""Bits of a product's fraction."""


class Nvfp4Expander(Block):
    """Multiplies the elements of a group by their blocks' scales. Every product is a value of the format, exactly.

    The beats of a group have `lanes * lanes` elements of 4 bits, then `lanes` scales of 8 bits. Other bits are ignored.
    Scale i belongs to position i of the group, or to channel i.

    Timing: combinational from a group's last beat. With one beat per group, a group leaves in each cycle.

    Parameters
    ----------
    lanes : int
        Positions, and channels, of a group: 4 or 8.
    fmt : FloatFormat
        Format of the results: fp16 or bf16. The least product is 2^-10 and the largest 2688, so that all are normal.
    data_bits : int
        Bits of a beat, a divisor of the `8 * lanes * lanes` bits of a group.

    Members
    -------
    by_channel : In(1)
        A scale belongs to a channel. It does not change within a group.
    beats : In(stream of data_bits)
        The beats of groups.
    out : Out(stream of lanes * lanes * 16 bits)
        Groups. A product with a NaN scale is NaN.

    Raises
    ------
    TypeError, ValueError
        For a parameter out of range.

    Source: docs/core.md, "Tensors"; NVIDIA 2025, arXiv:2509.25149, section 2.
    """

    def __init__(self, *, lanes: int, fmt: FloatFormat, data_bits: int) -> None:
        require_int("lanes", lanes, 4, 8)
        if not isinstance(fmt, FloatFormat) or fmt.width != 16:
            raise ValueError(f"fmt must be fp16 or bf16, not {fmt!r}")
        product = StructLayout({"fraction": PRODUCT_BITS, "exponent": fmt.exponent_bits})
        flags = {"sign": 1, "zero": 1, "nan": 1}
        self._scale_layout = StructLayout({"half": product, "three_quarters": product, **flags})
        self.lanes, self.fmt, self.data_bits = lanes, fmt, require_int("data_bits", data_bits, 1)
        self.number = 8 * lanes * lanes // data_bits  # beats of a group
        if self.number * data_bits != 8 * lanes * lanes:
            raise ValueError(f"data_bits must be a divisor of {8 * lanes * lanes}, not {data_bits}")
        super().__init__(
            {
                "by_channel": In(1),
                "beats": In(stream.Signature(data_bits)),
                "out": Out(stream.Signature(lanes * lanes * fmt.width)),
            }
        )

    def elaborate(self, platform):
        """Store all beats of a group but the last, decode each scale, and multiply each element."""
        m = Module()
        beats, out, lanes = self.beats, self.out, self.lanes
        group: Value = beats.payload
        last: Value = Const(1, 1)
        if self.number > 1:
            earlier = Signal((self.number - 1) * self.data_bits, reset_less=True)
            index = Signal(range(self.number))
            group = Cat(earlier, beats.payload)
            last = index == self.number - 1
            with m.If(beats.valid & beats.ready):
                m.d.sync += [index.eq(Mux(last, 0, index + 1)), earlier.eq(group[self.data_bits :])]
        m.d.comb += [out.valid.eq(beats.valid & last), beats.ready.eq(out.ready | ~last)]
        first_scale = lanes * lanes // 2  # counted in bytes
        scales = [self._decode_scale(m, group.word_select(first_scale + i, 8), f"scale_{i}") for i in range(lanes)]
        values: list[Value] = []
        for position in range(lanes):
            for channel in range(lanes):
                name = f"value_{position}_{channel}"
                scale = Signal.like(scales[0], name=f"{name}_scale")
                m.d.comb += scale.eq(Mux(self.by_channel, scales[channel], scales[position]))
                values.append(self._multiply(m, group.word_select(position * lanes + channel, 4), scale, name))
        m.d.comb += out.payload.eq(Cat(*values))
        return m

    def _decode_scale(self, m: Module, bits: Value, name: str) -> View:
        """Compute the products of a scale with 0.5 and with 0.75."""
        scale = Signal(self._scale_layout, name=name)
        exponent, fraction = bits[3:7], bits[:3]
        significand = Signal(4, name=f"{name}_significand")  # in eighths; from 8 on unless the scale is zero
        tripled = Signal(6, name=f"{name}_tripled")  # in sixteenths
        offset = self.fmt.bias - SCALE.bias - 1
        m.d.comb += scale.half.exponent.eq(exponent + offset)
        with m.If(exponent != 0):
            m.d.comb += significand.eq(Cat(fraction, 1))
        for shift in range(1, 4):  # subnormal scales
            with m.Elif(fraction[3 - shift]):
                m.d.comb += [significand.eq(fraction << shift), scale.half.exponent.eq(offset + 1 - shift)]
        m.d.comb += [
            tripled.eq((significand << 1) + significand),
            scale.half.fraction.eq(significand[:3] << 2),
            scale.three_quarters.fraction.eq(Mux(tripled[5], tripled[:5], tripled[:4] << 1)),
            scale.three_quarters.exponent.eq(scale.half.exponent + tripled[5]),
            scale.sign.eq(bits[7]),
            scale.zero.eq(~bits[:7].any()),
            scale.nan.eq(bits[:7].all()),
        ]
        return scale

    def _multiply(self, m: Module, element: Value, scale: View, name: str) -> Signal:
        """Return an element's product with its scale, as a bit pattern of the format."""
        fmt = self.fmt
        value = Signal(fmt.width, name=name)
        product = Signal.like(scale.half, name=f"{name}_product")
        magnitude = element[:3]
        exponent = Signal(fmt.exponent_bits, name=f"{name}_exponent")
        has_fraction = magnitude[0] & magnitude[1:].any()  # 1.5, 3 and 6
        m.d.comb += [
            product.eq(Mux(has_fraction, scale.three_quarters, scale.half)),
            exponent.eq(product.exponent + magnitude[1:]),
        ]
        with m.If(scale.nan):
            m.d.comb += value.eq(((1 << fmt.exponent_bits + 1) - 1) << fmt.fraction_bits - 1)
        with m.Elif(scale.zero | (magnitude == 0)):
            m.d.comb += value.eq(Cat(Const(0, fmt.width - 1), element[3] ^ scale.sign))
        with m.Else():
            zeros = Const(0, fmt.fraction_bits - PRODUCT_BITS)
            m.d.comb += value.eq(Cat(zeros, product.fraction, exponent, element[3] ^ scale.sign))
        return value
