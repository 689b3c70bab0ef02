"""Binned bias: converts an FP32 number to a term of a binned sum."""

from amaranth.hdl import Cat, Module, Value
from amaranth.lib.wiring import In, Out

from ..block import Block
from ..configuration.numerics import Numerics
from ..layouts import RESULT_BITS, BinnedShape, RawSumLayout
from .binned_digits import fp32_term

__all__ = ["BinnedBias"]


class BinnedBias(Block):
    """Places the digits of an FP32 number in bins. Bits below the unit are dropped.

    A number whose top bin is above the largest top bin of a product counts as an infinity.

    Timing: combinational.

    Parameters
    ----------
    numerics : Numerics
        Floating-point formats, and a `Binned` accumulator.

    Members
    -------
    value : In(32)
        FP32.
    enable : In(1)
        The number counts. Otherwise it is zero.
    aligned : Out(RawSumLayout)
        The number as a binned sum (`BinnedShape`) minus `carry` in each bin: for a negative number its complemented
        digits.
    carry : Out(1)
        The number is negative.

    Raises
    ------
    ValueError
        If the formats are not floating-point, or the accumulator is not binned.

    Source: docs/core.md, "Binned sums".
    """

    def __init__(self, numerics: Numerics) -> None:
        self.shape = BinnedShape(numerics)
        super().__init__(
            {
                "value": In(RESULT_BITS),
                "enable": In(1),
                "aligned": Out(RawSumLayout(self.shape.width)),
                "carry": Out(1),
            }
        )

    def elaborate(self, platform):
        """Cut the significand into digits, complemented if it is negative."""
        m = Module()
        shape = self.shape
        term = fp32_term(m, shape, self.value, "bias", enable=self.enable)
        number = self.aligned.number
        for place, digit in enumerate(term.bins):
            first = place * shape.bin_width
            extended = Cat(digit, digit[-1].replicate(shape.bin_width - len(digit)))
            m.d.comb += number[first : first + shape.bin_width].eq(extended)
        m.d.comb += [
            number[shape.bins * shape.bin_width :].eq(Value.cast(term.top)),
            self.aligned.positive.eq(term.marks[0]),
            self.aligned.negative.eq(term.marks[1]),
            self.carry.eq(term.carry),
        ]
        return m
