"""Block quantiser: FP32 results become elements that share a power of two, as a tile with scales takes them."""

from functools import reduce
from operator import or_

from amaranth.hdl import C, Cat, Module, Mux, Signal, Value, signed
from amaranth.lib import stream
from amaranth.lib.data import ArrayLayout, StructLayout
from amaranth.lib.wiring import In, Out

from ..arithmetic.converter import Converter
from ..arithmetic.largest import largest_of
from ..arithmetic.random_bits import RandomBits
from ..block import Block, placed
from ..configuration.formats import FP32, SCALES, FloatFormat
from ..configuration.parameters import require_int

__all__ = ["BlockQuantiser", "step_layout"]

E8M0 = SCALES["e8m0"]
GOLDEN_RATIO = 0x9E3779B9


def step_layout(fmt: FloatFormat, lanes: int) -> StructLayout:
    """A step with its scale behind it, as a tile's ports have it."""
    return StructLayout({"elements": ArrayLayout(fmt.width, lanes), "scale": E8M0.width})


class BlockQuantiser(Block):
    """Rounds blocks of 32 FP32 numbers to MX elements: the scale is known once all of a block are there.

    The block's room is a ring of beats: as one leaves, the next block's takes its place. An output never waits for an
    input.

    Timing: a block's first beat is valid the cycle after its last one entered; then one beat in and one out every
    cycle, without a bubble between blocks.

    Parameters
    ----------
    fmt : FloatFormat
        Of the elements, of at most 8 bits.
    lanes : int
        Values of a beat; must divide 32, and leave two beats at least.

    Members
    -------
    values : In(stream of 32 x lanes)
        FP32 numbers, a block's first ones first. Subnormal ones count as zeros.
    out : Out(stream of step_layout)
        Elements, each of its value, and the block's scale. A block with an infinity or NaN has a NaN scale and elements
        of +0.
    rounding : In(2)
        Of elements: 0 to nearest, ties to even; 1 stochastically; 2 toward zero. Magnitudes beyond the largest become
        it. Must stay while a beat waits.
    seed : In(32), start : In(1)
        Generators of random bits, one for each lane, begin anew; they step with each beat that leaves.

    Raises
    ------
    ValueError
        For a parameter out of range.

    Source: OCP Microscaling Formats (MX) Specification 1.0, section 6.3; docs/numerics.md, "Quantisation".
    """

    def __init__(self, *, fmt: FloatFormat, lanes: int) -> None:
        if fmt.width > 8:
            raise ValueError(f"fmt must have at most 8 bits, not {fmt.name} of {fmt.width}")
        self.fmt, self.lanes = fmt, require_int("lanes", lanes, 1, E8M0.block // 2)
        if E8M0.block % lanes:
            raise ValueError(f"lanes must divide the block of {E8M0.block}, not {lanes}")
        self._converters = [Converter(fmt=fmt, saturating=True) for _ in range(lanes)]
        self._generators = [RandomBits() for _ in range(lanes)]
        super().__init__(
            {
                "values": In(stream.Signature(ArrayLayout(FP32.width, lanes))),
                "out": Out(stream.Signature(step_layout(fmt, lanes))),
                "rounding": In(2),
                "seed": In(32),
                "start": In(1),
            },
        )

    def elaborate(self, platform):
        """A ring of beats with a read and a write pointer (one-hot); the largest exponent of what came in."""
        m = Module()
        beats = E8M0.block // self.lanes
        cells = [Signal(ArrayLayout(FP32.width, self.lanes), name=f"beat_{k}", reset_less=True) for k in range(beats)]
        write = Signal(beats, init=1)
        read = Signal(beats, init=1)
        resident = Signal()  # a whole block is there
        ahead = Signal(beats - 1)  # its beats that have left; with the last one all have
        moves_in = Signal()
        moves_out = Signal()
        m.d.comb += [
            self.out.valid.eq(resident),
            moves_out.eq(resident & self.out.ready),
            self.values.ready.eq(~resident | (write & (ahead | (read & moves_out.replicate(beats)))).any()),
            moves_in.eq(self.values.valid & self.values.ready),
        ]
        for k, cell in enumerate(cells):
            with m.If(moves_in & write[k]):
                m.d.sync += cell.eq(self.values.payload)
        last_in, last_out = moves_in & write[-1], moves_out & read[-1]
        with m.If(moves_in):
            m.d.sync += write.eq(write.rotate_left(1))
        with m.If(moves_out):
            m.d.sync += [read.eq(read.rotate_left(1)), ahead.eq(ahead | read)]
        with m.If(last_out):
            m.d.sync += [ahead.eq(0), resident.eq(0)]
        with m.If(last_in):
            m.d.sync += resident.eq(1)

        seen = Signal(FP32.exponent_bits, reset_less=True)
        scale = Signal(E8M0.width, reset_less=True)
        largest = largest_of(m, [Mux(write[0], 0, seen), *(_field(value) for value in self.values.payload)], "larger")
        # The exponent of the largest magnitude, less that of the largest element; E8M0 and FP32 have one bias.
        most = (self.fmt.largest >> self.fmt.fraction_bits) - self.fmt.bias
        with m.If(moves_in):
            m.d.sync += seen.eq(largest)
        with m.If(last_in):
            m.d.sync += scale.eq(Mux(largest.all(), E8M0.nan, Mux(largest > most, largest - most, 0)))
        m.d.comb += self.out.payload.scale.eq(scale)

        factor = Signal(signed(8))
        m.d.comb += factor.eq(E8M0.bias - scale)
        for lane, (converter, generator) in enumerate(zip(self._converters, self._generators, strict=True)):
            m.submodules[f"converter_{lane}"] = placed(converter, platform)
            m.submodules[f"generator_{lane}"] = placed(generator, platform)
            value = reduce(or_, (cell[lane] & read[k].replicate(FP32.width) for k, cell in enumerate(cells)))
            m.d.comb += [
                generator.seed.eq(self.seed ^ C((lane + 1) * GOLDEN_RATIO % (1 << 32), 32)),
                generator.start.eq(self.start),
                generator.step.eq(moves_out),
                converter.value.eq(value),
                converter.scale.eq(factor),
                Cat(converter.stochastic, converter.toward_zero).eq(self.rounding),
                converter.random.eq(generator.bits),
                self.out.payload.elements[lane].eq(converter.result & (~scale.all()).replicate(self.fmt.width)),
            ]
        return m


def _field(value: Value) -> Value:
    """The exponent field of an FP32 number."""
    return value[FP32.fraction_bits : FP32.fraction_bits + FP32.exponent_bits]
