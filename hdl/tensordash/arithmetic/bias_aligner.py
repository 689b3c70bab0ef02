"""Bias aligner: converts an FP32 number to a multiple of a sum's least bit."""

from amaranth.hdl import Cat, Const, Module, Signal
from amaranth.lib.wiring import In, Out

from ..block import Block
from ..configuration.parameters import require_int
from ..layouts import RESULT_BITS, RawSumLayout

__all__ = ["BiasAligner"]

FRACTION_BITS = 23
BIAS = 127
FINE = 3
MAX_SHIFT = 127


class BiasAligner(Block):
    """Places an FP32 number in a fixed-point sum. Bits below the sum's least bit are dropped.

    A magnitude of 2^127 least bits, or one that the sum has no bits for, counts as an infinity.

    Timing: combinational.

    Parameters
    ----------
    width : int
        Bits of a sum, sign included.
    least_exponent : int
        Weight of its least bit, as a power of two.

    Members
    -------
    value : In(32)
        FP32.
    enable : In(1)
        The number counts. Otherwise it is zero.
    aligned : Out(RawSumLayout)
        The number minus `carry`: for a negative number the complement of its magnitude.
    carry : Out(1)
        The number is negative.

    Raises
    ------
    ValueError
        If a number of the sum could leave FP32's normal numbers.

    Source: docs/core.md, "Multiply", 1.
    """

    def __init__(self, *, width: int, least_exponent: int) -> None:
        self.width = require_int("width", width, 2)
        # The exponent fields at which the hidden bit is the sum's least bit, and at which the sum has no bit for it.
        self.places = min(width - 1, MAX_SHIFT)
        self.lowest, self.beyond = least_exponent + BIAS, least_exponent + self.places + BIAS
        if self.lowest < 1 or self.beyond > 2 * BIAS + 1:
            raise ValueError(
                f"width {width} and least_exponent {least_exponent} must stay within FP32's normal numbers"
            )
        super().__init__(
            {
                "value": In(RESULT_BITS),
                "enable": In(1),
                "aligned": Out(RawSumLayout(width)),
                "carry": Out(1),
            }
        )

    def elaborate(self, platform):
        """Build a shift by 0 to 7 places, one by multiples of 8, and the complement."""
        m = Module()
        fraction, field, sign = self.value[:FRACTION_BITS], self.value[FRACTION_BITS:-1], self.value[-1]
        special, large, small = field.all(), field >= self.beyond, field < self.lowest
        places = Signal(range(self.places))  # place of the hidden bit
        fine = Signal(FRACTION_BITS + (1 << FINE))
        negative = Signal()
        m.d.comb += [
            places.eq(field - self.lowest),
            fine.eq(Cat(fraction, Const(1)) << places[:FINE]),
            negative.eq(sign & self.enable),
        ]
        counts = Signal()
        m.d.comb += counts.eq(self.enable & ~large & ~small)
        coarse = [
            Signal(len(fine), name=f"placed_{k}") for k in range((self.places - 1 >> FINE) + 1)
        ]  # shifted by a multiple of eight
        magnitude: list = [Const(0)] * (self.width - 1)
        for k, placed in enumerate(coarse):
            m.d.comb += placed.eq(fine & (counts & (places[FINE:] == k)).replicate(len(fine)))
            for j, bit in enumerate(placed):
                place = j + (k << FINE) - FRACTION_BITS
                if 0 <= place < len(magnitude):
                    magnitude[place] = magnitude[place] | bit
        infinite = self.enable & large & ~(special & fraction.any())
        not_a_number = self.enable & special & fraction.any()
        m.d.comb += [
            self.aligned.number.eq(Cat(*magnitude, Const(0)) ^ negative.replicate(self.width)),
            self.aligned.positive.eq(not_a_number | (infinite & ~sign)),
            self.aligned.negative.eq(not_a_number | (infinite & sign)),
            self.carry.eq(negative),
        ]
        return m
