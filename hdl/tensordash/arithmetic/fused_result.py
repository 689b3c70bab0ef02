"""Fused result: a finished FP32 sum gets the patterns of zero, infinities and NaN."""

from amaranth.hdl import C, Cat, Module, Mux, Signal
from amaranth.lib.wiring import In, Out

from ..block import Block
from ..configuration.parameters import require_int
from ..layouts import RESULT_BITS, RawSumLayout

__all__ = ["FusedResult"]


class FusedResult(Block):
    """Registers a fused accumulator's sum as FP32 bits; zero is +0, NaN is 0x7FFFFFFF.

    Timing: one cycle, one sum per cycle.

    Parameters
    ----------
    width : int
        Bits of a sum, sign included: FP32's upper ones, 16 to 32.

    Members
    -------
    sum : In(RawSumLayout(width))
        The sum: the upper bits of a finite FP32 number, and whether it is infinite or NaN instead.
    load : In(1)
        Take it; otherwise `value` stays.
    value : Out(32)
        FP32 bits.
    non_finite : Out(1)
        It is an infinity or NaN.

    Raises
    ------
    ValueError
        For a width out of range.

    Source: docs/numerics.md, "fused".
    """

    def __init__(self, *, width: int = RESULT_BITS) -> None:
        self.cut = RESULT_BITS - require_int("width", width, 16, RESULT_BITS)
        layout = RawSumLayout(width)
        super().__init__({"sum": In(layout), "load": In(1), "value": Out(RESULT_BITS), "non_finite": Out(1)})

    def elaborate(self, platform):
        """Patterns, register."""
        m = Module()
        positive, negative = self.sum.positive, self.sum.negative
        value = Signal(RESULT_BITS, reset_less=True)
        magnitude = self.sum.number[:-1]
        number = Cat(C(0, self.cut), magnitude, self.sum.number[-1] & magnitude.any())
        not_a_number = positive & negative
        infinity = Cat(C(0, 23), C(0xFF, 8), negative)
        m.d.comb += [self.value.eq(value), self.non_finite.eq(value[23:31].all())]
        with m.If(self.load):
            m.d.sync += value.eq(Mux(not_a_number, 0x7FFFFFFF, Mux(positive | negative, infinity, number)))
        return m
