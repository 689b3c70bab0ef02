"""Rounder: rounds an accumulated sum to FP32."""

from amaranth.hdl import C, Cat, Const, Module, Mux, Signal
from amaranth.lib.wiring import In, Out

from ..block import Block
from ..configuration.parameters import require_int
from ..layouts import RESULT_BITS, RawSumLayout
from .normalizer import normalize

__all__ = ["Rounder"]

BIAS = 127
FRACTION_BITS = 23


class Rounder(Block):
    """Rounds a fixed-point sum once, to nearest even, to FP32.

    A zero sum is +0, and NaN is 0x7FC00000. Sums are within FP32's normal numbers for every operand format and headroom
    of an exact accumulator, so no result overflows or is subnormal. The constructor checks this.

    Timing: one cycle, one sum per cycle. The sum is normalised in the cycle of `load`, and rounded after the register.

    Parameters
    ----------
    width : int
        Bits of a sum, sign included.
    least_exponent : int
        Weight of its least bit, as a power of two.
    bypassed : bool
        Whether a result may bypass the rounder.

    Members
    -------
    sum : In(RawSumLayout)
        The sum.
    load : In(1)
        Take `sum`. Otherwise `value` does not change.
    value : Out(32)
        FP32 bits of the sum loaded last.
    non_finite : Out(1)
        `value` is an infinity or NaN.
    bypass : In(1), other : In(32)
        Only if `bypassed`: `value` becomes `other`, unless the sum is infinite or NaN.

    Raises
    ------
    ValueError
        If a sum could leave FP32's normal numbers.

    Source: IEEE 754-2019, section 4.3.1; docs/numerics.md, "exact".
    """

    def __init__(self, *, width: int, least_exponent: int, bypassed: bool = False) -> None:
        self.width = require_int("width", width, 2)
        # Sums of narrow products get zeros after them, so that there are bits to cut off.
        self.padding = max(0, FRACTION_BITS + 4 - width)
        # The biased exponents of a sum's least and greatest bit; rounding up may carry into the next.
        self.least, self.top = least_exponent + BIAS, least_exponent + width - 2 + BIAS
        if self.least < 1 or self.top > 2 * BIAS - 1:
            raise ValueError(
                f"width {width} and least_exponent {least_exponent} must stay within FP32's normal numbers"
            )
        self.bypassed = bypassed
        members: dict = {"sum": In(RawSumLayout(width)), "load": In(1), "value": Out(RESULT_BITS), "non_finite": Out(1)}
        if bypassed:
            members |= {"bypass": In(1), "other": In(RESULT_BITS)}
        super().__init__(members)

    def elaborate(self, platform):
        m = Module()
        # The complement of a negative number is its magnitude minus one. With an endless string of ones after it, it
        # stands for the magnitude, which saves the carry chain of a negation.
        sign = self.sum.number[-1]
        bits = Signal(self.width + self.padding - 1)
        number = Cat(Const(0, self.padding), self.sum.number[:-1]) if self.padding else self.sum.number[:-1]
        m.d.comb += bits.eq(number ^ sign.replicate(len(bits)))
        normal, shift, below_any, below_all = normalize(m, bits, sign, wanted=FRACTION_BITS + 2)

        significand = Signal(FRACTION_BITS, reset_less=True)
        guard, rest_all, rest_any, sign_q = (
            Signal(name=name, reset_less=True) for name in ("guard", "rest_all", "rest_any", "sign_q")
        )
        exponent = Signal(8, reset_less=True)
        special = Signal(3, reset_less=True)
        with m.If(self.load):
            m.d.sync += [
                significand.eq(normal[1 : FRACTION_BITS + 1]),
                guard.eq(normal[0]),
                rest_all.eq(below_all),
                rest_any.eq(below_any),
                exponent.eq(C(self.top, 8) - shift),
                sign_q.eq(sign),
                special.eq(Cat(self.sum.positive, self.sum.negative, ~(normal[-1] | sign))),
            ]

        # Ones after the number turn "guard 0, all ones after it" into a tie, and "guard 1" into more than a tie.
        up = Signal()
        rounded = Signal(FRACTION_BITS + 8)
        positive, negative, zero = special
        m.d.comb += [
            self.non_finite.eq(positive | negative),
            up.eq(
                Mux(
                    sign_q,
                    guard | (rest_all & significand[0]),
                    guard & (rest_any | significand[0]),
                )
            ),
            rounded.eq(Cat(significand, exponent) + up),
        ]
        result = Mux(zero, 0, Cat(rounded, sign_q))
        if self.bypassed:
            bypass = Signal(reset_less=True)
            other = Signal(RESULT_BITS, reset_less=True)
            with m.If(self.load):
                m.d.sync += [bypass.eq(self.bypass), other.eq(self.other)]
            result = Mux(bypass, other, result)
        with m.If(positive & negative):
            m.d.comb += self.value.eq(0x7FC00000)
        with m.Elif(positive | negative):
            m.d.comb += self.value.eq(Cat(C(0xFF << FRACTION_BITS, 31), negative))
        with m.Else():
            m.d.comb += self.value.eq(result)
        return m
