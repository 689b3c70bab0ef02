"""NVFP4 expander: turns groups of NVFP4 elements and scales into groups of a 16-bit format."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import stream
from amaranth.lib.wiring import In, Out

from ..block import Block, placed
from ..configuration.formats import FloatFormat
from ..configuration.parameters import require_int
from .nvfp4_product import Nvfp4Product
from .nvfp4_scale import Nvfp4Scale, require_wide_format

__all__ = ["Nvfp4Expander"]


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
        self.lanes, self.fmt, self.data_bits = lanes, require_wide_format(fmt), require_int("data_bits", data_bits, 1)
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
        """Store all beats of a group but the last, and multiply each element by its scale."""
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
        scales = []
        for i in range(lanes):
            scale = Nvfp4Scale(fmt=self.fmt)
            m.submodules[f"scale_{i}"] = placed(scale, platform)
            m.d.comb += scale.bits.eq(group.word_select(first_scale + i, 8))
            scales.append(scale.decoded)
        for position in range(lanes):
            for channel in range(lanes):
                product, index = Nvfp4Product(fmt=self.fmt), position * lanes + channel
                m.submodules[f"product_{position}_{channel}"] = placed(product, platform)
                m.d.comb += [
                    product.element.eq(group.word_select(index, 4)),
                    product.scale.eq(Mux(self.by_channel, scales[channel], scales[position])),
                    out.payload.word_select(index, self.fmt.width).eq(product.product),
                ]
        return m
