"""Binned result: converts the bins of a finished sum to one number, rounded once to FP32."""

from functools import reduce
from operator import add, or_

from amaranth.hdl import C, Cat, Module, Mux, Signal, Value, signed
from amaranth.lib.data import View
from amaranth.lib.wiring import In, Out

from ..block import Block
from ..configuration.formats import FP32
from ..configuration.numerics import Numerics
from ..layouts import RESULT_BITS, BinnedShape, RawSumLayout
from .float_sum import EXPONENT_BITS, Rounding

__all__ = ["BinnedResult"]

TOP_AT_LEAST_NORMAL = 124
"""Bound for normal numbers: n bits, sign included, have their highest bit at or above FP32's least normal number if
their least bit has the exponent -124 - n or more."""
NAN = 0x7FC00000
BELOW_SUBNORMALS = 2
"""Places below FP32's least bit that rounding needs: a guard bit and a sticky bit."""


class BinnedResult(Block):
    """Adds the bins of a sum at their weights and rounds to FP32, to nearest with ties to even.

    Every zero is +0, and NaN is 0x7FC00000.

    Timing: one cycle, one sum per cycle. Bins are added in the cycle of `load`. Their sum is normalised and rounded
    after the register.

    Parameters
    ----------
    numerics : Numerics
        Floating-point formats, and a `Binned` accumulator.

    Members
    -------
    sum : In(RawSumLayout)
        The sum: bins and the number of the top bin (`BinnedShape`), and marks of infinities and NaN.
    load : In(1)
        Take the sum. Otherwise `value` does not change.
    value : Out(32)
        FP32 bits of the sum loaded last.
    non_finite : Out(1)
        `value` is an infinity or NaN.

    Attributes
    ----------
    has_subnormals : bool
        Results may be subnormal.

    Raises
    ------
    ValueError
        If the formats are not floating-point, or the accumulator is not binned.

    Source: docs/numerics.md, "binned"; IEEE 754-2019, section 4.3.1.
    """

    def __init__(self, numerics: Numerics) -> None:
        self.shape = shape = BinnedShape(numerics)
        total_bits = shape.bin_width + (shape.bins - 1) * shape.bin_bits + 1
        # If the top bin is bin 0: the exponent of the sum's least bit, and how far its highest bit may move up.
        least = shape.unit - (shape.bins - 1) * shape.bin_bits
        limit = least + total_bits + TOP_AT_LEAST_NORMAL
        # From this top bin on, the highest bit is not below FP32's least normal number.
        self.lowest_top = max(0, -(limit // shape.bin_bits))
        lowest_least = least + self.lowest_top * shape.bin_bits
        self.padding = max(0, lowest_least - FP32.least_exponent + BELOW_SUBNORMALS) if self.lowest_top else 0
        self.has_subnormals = self.lowest_top > 0
        self.total_bits = total_bits + self.padding + (self.lowest_top > 0)
        self.rounding = Rounding(
            fraction_bits=self.total_bits - 3,
            result_bits=FP32.fraction_bits,
            nearest=True,
            level_bits=max(1, (max(shape.max_top, self.lowest_top) * shape.bin_bits + max(0, limit)).bit_length()),
            lowest=-limit,
        )
        super().__init__(
            {"sum": In(RawSumLayout(shape.width)), "load": In(1), "value": Out(RESULT_BITS), "non_finite": Out(1)}
        )

    def elaborate(self, platform):
        """Add the bins, (move a small sum down,) register, and round."""
        m = Module()
        number = View(self.shape.layout, self.sum.number)
        total = Signal(signed(self.total_bits), reset_less=True)
        top = Signal(range(max(self.shape.max_top, self.lowest_top) + 1), reset_less=True)
        positive, negative = (Signal(name=name, reset_less=True) for name in ("positive", "negative"))
        padded = Signal(signed(self.total_bits - (self.lowest_top > 0)))
        added = reduce(add, (each << (place * self.shape.bin_bits) for place, each in enumerate(number.bins)))
        m.d.comb += padded.eq(added << self.padding)
        is_low = number.top < self.lowest_top
        with m.If(self.load):
            m.d.sync += [
                total.eq(self._moved_down(m, padded, number.top) if self.lowest_top else padded),
                top.eq(Mux(is_low, self.lowest_top, number.top)),
                positive.eq(self.sum.positive),
                negative.eq(self.sum.negative),
            ]
        level = Signal(self.rounding.level_bits)
        m.d.comb += level.eq(top * self.shape.bin_bits)
        rounded = self.rounding.apply(m, total, level, (positive, negative))
        magnitude = rounded.number[:-1]
        infinity = Cat(C(0, FP32.fraction_bits), C(-1, EXPONENT_BITS), rounded.negative)
        m.d.comb += [
            self.non_finite.eq(rounded.positive | rounded.negative),
            self.value.eq(Cat(magnitude, rounded.number[-1] & magnitude.any())),
        ]
        with m.If(rounded.positive & rounded.negative):
            m.d.comb += self.value.eq(NAN)
        with m.Elif(self.non_finite):
            m.d.comb += self.value.eq(infinity)
        return m

    def _moved_down(self, m: Module, padded: Signal, top: Value) -> Value:
        """Move the sum down by its distance from `lowest_top` in bins, with a sticky bit below it."""
        width, step = len(padded), self.shape.bin_bits
        farthest = min(self.lowest_top, -(-width // step))
        choices = []
        for distance in range(farthest + 1):
            here = Signal(name=f"down_{distance}")
            cut = min(distance * step, width)
            if distance == 0:
                m.d.comb += here.eq(top >= self.lowest_top)
            elif distance == farthest:
                m.d.comb += here.eq(top <= self.lowest_top - farthest)
            else:
                m.d.comb += here.eq(top == self.lowest_top - distance)
            moved = Cat(padded[:cut].any(), padded[cut:], padded[-1].replicate(cut))
            choices.append(moved & here.replicate(width + 1))
        return reduce(or_, choices)
