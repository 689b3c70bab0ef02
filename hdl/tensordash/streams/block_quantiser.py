"""Block quantiser: turns FP32 results into elements that share a power of two, the input of a tile with scales."""

from functools import reduce
from operator import or_

from amaranth.hdl import Cat, Module, Mux, Signal, Value, signed
from amaranth.lib import stream
from amaranth.lib.data import ArrayLayout, StructLayout
from amaranth.lib.wiring import In, Out

from ..arithmetic.converter import Converter
from ..arithmetic.largest import largest_of
from ..arithmetic.random_bits import RandomBits
from ..block import Block, placed
from ..configuration.formats import FP32, SCALE_ROUNDINGS, SCALES, FloatFormat
from ..configuration.parameters import require_choice, require_int

__all__ = ["BlockQuantiser", "step_layout"]

E8M0 = SCALES["e8m0"]


def step_layout(fmt: FloatFormat, lanes: int) -> StructLayout:
    """Return the layout of a step with its scale after it, as at a tile's ports."""
    return StructLayout({"elements": ArrayLayout(fmt.width, lanes), "scale": E8M0.width})


class BlockQuantiser(Block):
    """Rounds blocks of 32 FP32 numbers to MX elements. A block's scale is known once all of its numbers have entered.

    Blocks are in a ring of beats: a beat of the next block takes the place of each beat that leaves. An output never
    waits for an input.

    Timing: a block's first beat is valid in the cycle after its last beat entered. Then one beat enters and one leaves
    in every cycle, without a bubble between blocks. `out.valid` is low in the two cycles after `start`.

    Parameters
    ----------
    fmt : FloatFormat
        Format of the elements, of at most 8 bits.
    lanes : int
        Values of a beat. It must divide 32 into at least two beats.
    scale_rounding : "floor" or "up"
        How the scale is rounded to a power of two: "floor" as in the OCP specification, or "up" so that no element
        exceeds the format's largest.

    Members
    -------
    values : In(stream of 32 x lanes)
        FP32 numbers in the order of the block. Subnormal numbers count as zeros.
    out : Out(stream of step_layout)
        The element of each value, and the block's scale. A block with an infinity or NaN has a NaN scale and +0
        elements.
    rounding : In(2)
        Rounding of elements: 0 to nearest, ties to even; 1 stochastic; 2 toward zero. Magnitudes beyond the format's
        largest saturate. It must not change while a beat waits.
    seed : In(32), start : In(1)
        Restart the random bits with this seed. A reset restarts them with seed 0. They advance with every beat that
        leaves, whatever `rounding` is. `start` withdraws a waiting beat for two cycles.

    Raises
    ------
    ValueError
        For a parameter out of range.

    Source: OCP Microscaling Formats (MX) Specification 1.0, section 6.3; docs/numerics.md, "Quantisation".
    """

    def __init__(self, *, fmt: FloatFormat, lanes: int, scale_rounding: str = "floor") -> None:
        if fmt.width > 8:
            raise ValueError(f"fmt must have at most 8 bits, not {fmt.name} of {fmt.width}")
        self.fmt, self.lanes = fmt, require_int("lanes", lanes, 1, E8M0.block // 2)
        if E8M0.block % lanes:
            raise ValueError(f"lanes must divide the block of {E8M0.block}, not {lanes}")
        self.scale_rounding = require_choice("scale_rounding", scale_rounding, SCALE_ROUNDINGS)
        self._converters = [Converter(fmt=fmt, saturating=True) for _ in range(lanes)]
        self._random = RandomBits(columns=lanes)
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
        """Build a ring of beats with one-hot read and write pointers, and track the block's largest exponent."""
        m = Module()
        beats = E8M0.block // self.lanes
        cells = [Signal(ArrayLayout(FP32.width, self.lanes), name=f"beat_{k}", reset_less=True) for k in range(beats)]
        write = Signal(beats, init=1)
        read = Signal(beats, init=1)
        resident = Signal()  # a complete block is there
        ahead = Signal(beats - 1)  # its beats that have left; zero when the last one leaves
        moves_in = Signal()
        moves_out = Signal()
        m.d.comb += [
            self.out.valid.eq(resident & self._random.ready),
            moves_out.eq(self.out.valid & self.out.ready),
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

        scale = Signal(E8M0.width, reset_less=True)
        self._choose_scale(m, scale, moves_in, write[0], last_in)
        m.d.comb += self.out.payload.scale.eq(scale)

        factor = Signal(signed(8))
        m.d.comb += factor.eq(E8M0.bias - scale)
        m.submodules.random = placed(self._random, platform)
        m.d.comb += [
            self._random.seed.eq(self.seed),
            self._random.start.eq(self.start),
            self._random.step.eq(moves_out),
        ]
        for lane, converter in enumerate(self._converters):
            m.submodules[f"converter_{lane}"] = placed(converter, platform)
            value = reduce(or_, (cell[lane] & read[k].replicate(FP32.width) for k, cell in enumerate(cells)))
            m.d.comb += [
                converter.value.eq(value),
                converter.scale.eq(factor),
                Cat(converter.stochastic, converter.toward_zero).eq(self.rounding),
                converter.random.eq(self._random.bits[lane]),
                self.out.payload.elements[lane].eq(converter.result & (~scale.all()).replicate(self.fmt.width)),
            ]
        return m

    def _choose_scale(self, m: Module, scale: Signal, moves_in: Value, first: Value, last: Value) -> None:
        """Set the scale when the last beat enters, from the block's largest rank.

        A rank is an exponent field. With "up" it has one more bit below: the significand exceeds the largest element's.
        """
        rounds_up = self.scale_rounding == "up"
        top = (self.fmt.largest & ((1 << self.fmt.fraction_bits) - 1)) << (FP32.fraction_bits - self.fmt.fraction_bits)
        ranks = [
            Cat(value[: FP32.fraction_bits] > top, _field(value)) if rounds_up else _field(value)
            for value in self.values.payload
        ]
        seen = Signal(len(ranks[0]), reset_less=True)
        largest = largest_of(m, [Mux(first, 0, seen), *ranks], "larger")
        field = largest[-FP32.exponent_bits :]
        # The largest magnitude's exponent minus the largest element's exponent. E8M0 and FP32 have the same bias.
        most = (self.fmt.largest >> self.fmt.fraction_bits) - self.fmt.bias
        power = field + largest[0] if rounds_up else field
        with m.If(moves_in):
            m.d.sync += seen.eq(largest)
        with m.If(last):
            m.d.sync += scale.eq(Mux(field.all(), E8M0.nan, Mux(power > most, power - most, 0)))


def _field(value: Value) -> Value:
    """Return the exponent field of an FP32 number."""
    return value[FP32.fraction_bits : FP32.fraction_bits + FP32.exponent_bits]
