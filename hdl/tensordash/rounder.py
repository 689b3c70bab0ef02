"""Rounder: an accumulated sum becomes an FP32 number."""

from amaranth.hdl import C, Cat, Module, Mux, Signal
from amaranth.lib.wiring import In, Out

from .block import Block
from .formats import FloatFormat
from .layouts import FixedPoint, RawBlockLayout

__all__ = ["Rounder"]

BIAS = 127
FRACTION_BITS = 23


class Rounder(Block):
    """Rounds a fixed-point sum once, to nearest even, to FP32.

    A zero sum is +0, NaN is 0x7FC00000. The range of a sum lies within FP32's normal numbers for every operand format
    and headroom of an exact accumulator, so neither overflow nor subnormal results arise.

    Timing: one cycle, one sum per cycle. Normalised in the cycle of `load`, rounded behind the register.

    Parameters
    ----------
    a_format, b_format : FloatFormat
        Formats of the operands.
    headroom_bits : int
        Bits of the sum above the largest product.

    Members
    -------
    block : In(RawBlockLayout)
        The sum.
    load : In(1)
        Take `block` now; otherwise `value` stays.
    value : Out(32)
        FP32 bits of the sum loaded last.

    Source: IEEE 754-2019, section 4.3.1.
    """

    def __init__(self, *, a_format: FloatFormat, b_format: FloatFormat, headroom_bits: int) -> None:
        self.shape = FixedPoint(a_format, b_format, headroom_bits)
        super().__init__(
            {"block": In(RawBlockLayout(self.shape.width)), "load": In(1), "value": Out(32)},
            identity=(a_format, b_format, headroom_bits),
        )

    def elaborate(self, platform):
        """Normalise; register; round."""
        m = Module()
        # Without its sign a negative number is its magnitude less one: m. Taking m and an endless string of ones
        # behind it for the magnitude saves the carry chain of a negation.
        sign = self.block.number[-1]
        bits = Signal(self.shape.width - 1)
        m.d.comb += bits.eq(self.block.number[:-1] ^ sign.replicate(len(bits)))
        normal, shift = _normalise(m, bits, sign)

        kept = Signal(FRACTION_BITS + 1, reset_less=True)
        guard, rest_all, rest_any, sign_q = (
            Signal(name=name, reset_less=True) for name in ("guard", "rest_all", "rest_any", "sign_q")
        )
        exponent = Signal(8, reset_less=True)
        special = Signal(3, reset_less=True)
        rest = normal[: -(FRACTION_BITS + 2)]
        top = self.shape.least_exponent + len(bits) - 1 + BIAS
        with m.If(self.load):
            m.d.sync += [
                kept.eq(normal[-(FRACTION_BITS + 1) :]),
                guard.eq(normal[-(FRACTION_BITS + 2)]),
                rest_all.eq(rest.all()),
                rest_any.eq(rest.any()),
                exponent.eq(C(top, 8) - shift),
                sign_q.eq(sign),
                special.eq(Cat(self.block.positive, self.block.negative, ~(normal[-1] | sign))),
            ]

        # Ones behind the number turn "guard 0, all ones after it" into a tie and "guard 1" into more than one.
        up = Signal()
        rounded = Signal(FRACTION_BITS + 8)
        positive, negative, zero = special
        m.d.comb += [
            up.eq(
                Mux(
                    sign_q,
                    guard | (rest_all & kept[0]),
                    guard & (rest_any | kept[0]),
                )
            ),
            rounded.eq(Cat(kept[:-1], exponent) + up),
        ]
        with m.If(positive & negative):
            m.d.comb += self.value.eq(0x7FC00000)
        with m.Elif(positive | negative):
            m.d.comb += self.value.eq(Cat(C(0xFF << FRACTION_BITS, 31), negative))
        with m.Elif(~zero):
            m.d.comb += self.value.eq(Cat(rounded, sign_q))
        return m


def _normalise(m: Module, bits: Signal, fill):
    """Shift the first one of `bits` to the top, `fill` behind; return the result and the shift.

    The shift stops at the width rounded up to a power of two less one, so that all zeros (or, behind a negative
    sign, the magnitude one) come out as `fill` at the top.
    """
    width = len(bits)
    shift: list = []
    for stage in reversed(range(width.bit_length())):
        reach = 1 << stage
        empty, moved = Signal(name=f"empty_{stage}"), Signal(width, name=f"normal_{stage}")
        m.d.comb += [
            empty.eq(~bits[width - reach :].any()),
            moved.eq(Mux(empty, Cat(fill.replicate(reach), bits[: width - reach]), bits)),
        ]
        shift.insert(0, empty)
        bits = moved
    return bits, Cat(shift)
