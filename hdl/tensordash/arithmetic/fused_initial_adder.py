"""Fused initial adder: adds C to the sum of a fused accumulator as it leaves."""

from amaranth.hdl import Module, Signal
from amaranth.lib.wiring import In, Out

from ..block import Block
from ..configuration.numerics import Fused, Numerics
from ..layouts import RESULT_BITS, RawSumLayout, accumulator_shape
from .float_sum import FloatAddition
from .fused_accumulator import cut_c

__all__ = ["FusedInitialAdder"]


class FusedInitialAdder(Block):
    """Adds C, truncated to the bits of a sum, to a sum. The result is rounded to nearest with ties to even.

    Timing: one cycle, one sum per cycle.

    Parameters
    ----------
    numerics : Numerics
        Floating-point formats, and a `Fused` accumulator with its addend last.

    Members
    -------
    sum : In(RawSumLayout)
        The sum: the upper bits of FP32, or FP16, and marks of infinities and NaN.
    c : In(32)
        C, as FP32.
    load : In(1)
        Take `sum` and `c`. Otherwise `total` does not change.
    total : Out(RawSumLayout)
        The sum plus C, in the format of the sum.

    Raises
    ------
    ValueError
        If the accumulator is not fused with its addend last.

    Source: docs/numerics.md, "fused", `addend = "last"`.
    """

    def __init__(self, numerics: Numerics) -> None:
        accumulator = numerics.accumulator
        if not isinstance(accumulator, Fused) or accumulator.addend != "last":
            raise ValueError(f'numerics must have a fused accumulator with addend = "last", not {accumulator}')
        self.numerics = numerics
        self.addition = FloatAddition(accumulator.result_bits, accumulator.result_exponent_bits)
        self.layout = RawSumLayout(accumulator_shape(numerics)[0])
        super().__init__(
            {"sum": In(self.layout), "c": In(RESULT_BITS), "load": In(1), "total": Out(self.layout)},
        )

    def elaborate(self, platform):
        """Truncate C, add it, and register the total."""
        m = Module()
        added = Signal(self.layout)
        held = Signal(self.layout, reset_less=True)
        cut_c(m, self.c, added, self.numerics)
        next_sum = self.addition.apply(m, self.sum, added)
        m.d.comb += self.total.eq(held)
        with m.If(self.load):
            m.d.sync += held.eq(next_sum)
        return m
