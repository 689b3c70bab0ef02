"""Fused result: converts a finished sum to FP32, with the patterns of zero, infinities and NaN."""

from amaranth.hdl import C, Cat, Const, Module, Mux, Signal, Value
from amaranth.lib.wiring import In, Out

from ..block import Block
from ..configuration.formats import FP32
from ..configuration.numerics import Fused
from ..layouts import RESULT_BITS, RawSumLayout
from .float_sum import EXPONENT_BITS, levels_up
from .normalizer import normalize

__all__ = ["FusedResult"]


class FusedResult(Block):
    """Registers a fused accumulator's sum as FP32 bits. Zero is +0, and NaN is 0x7FFFFFFF.

    Timing: one cycle, one sum per cycle.

    Parameters
    ----------
    accumulator : Fused
        The accumulator of the sums.

    Members
    -------
    sum : In(RawSumLayout)
        The sum: the upper bits of FP32, or FP16, and marks of infinities and NaN.
    load : In(1)
        Take the sum. Otherwise `value` does not change.
    value : Out(32)
        FP32 bits. An FP16 sum has the same value in FP32.
    non_finite : Out(1)
        `value` is an infinity or NaN.

    Raises
    ------
    TypeError
        If the accumulator is not fused.

    Source: docs/numerics.md, "fused".
    """

    def __init__(self, accumulator: Fused) -> None:
        if not isinstance(accumulator, Fused):
            raise TypeError(f"accumulator must be Fused, not {accumulator!r}")
        self.accumulator = accumulator
        layout = RawSumLayout(1 + accumulator.result_exponent_bits + accumulator.result_bits)
        super().__init__({"sum": In(layout), "load": In(1), "value": Out(RESULT_BITS), "non_finite": Out(1)})

    def elaborate(self, platform):
        m = Module()
        positive, negative = self.sum.positive, self.sum.negative
        value = Signal(RESULT_BITS, reset_less=True)
        magnitude = self.sum.number[:-1]
        cut = FP32.fraction_bits - self.accumulator.result_bits
        wide = magnitude if self.accumulator.result_exponent_bits == EXPONENT_BITS else self._widened(m)
        number = Cat(C(0, cut), wide, self.sum.number[-1] & magnitude.any())
        not_a_number = positive & negative
        infinity = Cat(C(0, 23), C(0xFF, 8), negative)
        m.d.comb += [self.value.eq(value), self.non_finite.eq(value[23:31].all())]
        with m.If(self.load):
            m.d.sync += value.eq(Mux(not_a_number, 0x7FFFFFFF, Mux(positive | negative, infinity, number)))
        return m

    def _widened(self, m: Module) -> Value:
        """Extend the magnitude to FP32's exponents. Subnormal numbers become normal."""
        result_bits, exponent_bits = self.accumulator.result_bits, self.accumulator.result_exponent_bits
        field = self.sum.number[result_bits:-1]
        normal = field.any()
        significand = Signal(result_bits + 1)
        m.d.comb += significand.eq(Cat(self.sum.number[:result_bits], normal))
        top, shift, _, _ = normalize(m, significand, Const(0, 1))
        exponent = Signal(EXPONENT_BITS)
        m.d.comb += exponent.eq(
            (Mux(normal, field, 1) + levels_up(exponent_bits) - shift) & top[-1].replicate(EXPONENT_BITS)
        )
        return Cat(top[:result_bits], exponent)
