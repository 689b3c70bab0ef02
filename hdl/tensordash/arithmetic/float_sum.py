"""Sums of aligned floating-point terms: moving, adding and rounding, inside the components that accumulate them."""

from collections.abc import Sequence
from functools import reduce
from operator import add

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib.data import View

from ..layouts import RawSumLayout
from .normalizer import normalize

__all__ = ["EXPONENT_BITS", "LEAST", "Rounding", "levels_up", "scaled", "shifted_right", "signed_total"]

EXPONENT_BITS = 8
LEAST = -126
"""FP32's least exponent."""


def levels_up(exponent_bits: int) -> int:
    """How far the least level of a number with so many exponent bits lies above FP32's, which is 1."""
    return (1 << (EXPONENT_BITS - 1)) - (1 << (exponent_bits - 1))


def scaled(significand: Value, shift: int, width: int) -> Value:
    """`significand` times two to the `shift`, cut off below, in `width` bits."""
    moved = Cat(Const(0, shift), significand) if shift >= 0 else significand[-shift:]
    return Cat(moved, Const(0, width))[:width]


def shifted_right(m: Module, bits: Value, distance: Value, name: str, *, marked: bool = False) -> Value:
    """`bits` moved down by `distance`, cut off below; all gone if it is beyond them.

    `marked`: the lowest bit of the result says whether itself or anything that was cut off is a one.
    """
    width, stages = len(bits), (len(bits) - 1).bit_length()
    cut: Value = bits.any() & distance[stages:].any()
    for stage in range(stages):
        moved = Signal(width, name=f"{name}_{stage}")
        m.d.comb += moved.eq(Mux(distance[stage], bits >> (1 << stage), bits))
        if marked:
            cut = cut | (distance[stage] & bits[: 1 << stage].any())
        bits = moved
    kept = bits & (~distance[stages:].any()).replicate(width)
    return Cat(kept[0] | cut, kept[1:]) if marked else kept


def signed_total(m: Module, pairs: Sequence[tuple[Value, Value]], width: int) -> Signal:
    """The sum of (magnitude of `width` bits, sign): each negative one is complemented, and its sign added."""
    sum_width = width + len(pairs).bit_length() + 1
    total = Signal(signed(sum_width))
    signs = reduce(add, (negative for _, negative in pairs))
    complements = [Cat(bits ^ negative.replicate(width), negative).as_signed() for bits, negative in pairs]
    m.d.comb += total.eq(reduce(add, complements) + signs)
    return total


class Rounding:
    """How a sum becomes a number with `result_bits` fraction bits, of FP32's exponents or fewer.

    Parameters
    ----------
    fraction_bits : int
        Of the sum, below its level.
    result_bits : int
        Of the result, as of `Fused`.
    nearest : bool
        To nearest, ties to even; else toward zero.
    level_bits : int
        Of a level that is not below 1.
    below : int
        How far below that of the result's least normal number a level may be.
    exponent_bits : int
        Of the result.
    """

    def __init__(
        self,
        *,
        fraction_bits: int,
        result_bits: int,
        nearest: bool,
        level_bits: int,
        below: int = 0,
        exponent_bits: int = EXPONENT_BITS,
    ) -> None:
        self.fraction_bits, self.result_bits, self.nearest = fraction_bits, result_bits, nearest
        self.level_bits, self.below, self.exponent_bits = level_bits, below, exponent_bits

    def apply(self, m: Module, total: Signal, level: Value, infinite: tuple[Value, Value]) -> View:
        """Normalise and round. Without its sign a negative number is its magnitude less one: ones behind it.

        Parameters
        ----------
        m : Module
            Where the logic goes.
        total : Signal
            The sum, two's complement, in units of two to the exponent less `fraction_bits`.
        level : Value
            The exponent less FP32's least, plus one.
        infinite : (Value, Value)
            Whether an infinity of plus or of minus sign, or for both a NaN, is among the terms.

        Returns
        -------
        View of RawSumLayout
            The result with its marks.
        """
        kept = self.result_bits
        sign = total[-1]
        padding = max(0, kept + 4 - len(total))  # so that there is something below the result's last place
        # Of the lowest level the top is to be at the place of the least normal number, or above.
        above = max(0, self.below - (len(total) - 1 - self.fraction_bits - 1))
        bits = Signal(len(total) - 1 + padding + above)
        limit = Signal(range((1 << self.level_bits) + len(bits)))
        magnitude = total[:-1] ^ sign.replicate(len(total) - 1)
        m.d.comb += [
            bits.eq(Cat(sign.replicate(padding), magnitude)),
            # How far the top may move until it is the place of the least normal number.
            limit.eq(level + (len(bits) - 1 - padding - self.fraction_bits - 1 - levels_up(self.exponent_bits))),
        ]
        normal, shift, _, _ = normalize(m, bits, sign, limit)
        field = Signal(signed(len(limit) + 1))
        rounded = Signal(kept + len(field))
        up = Signal()
        rest, last, guard = normal[: -(kept + 1)], normal[-(kept + 1)], normal[-(kept + 2)]
        if self.nearest:
            below = normal[: -(kept + 2)]
            m.d.comb += up.eq(Mux(sign, guard | (below.all() & last), guard & (below.any() | last)))
        else:
            # Only what the complement lacks: cut-off bits of all ones, and the endless ones behind them, are a whole.
            m.d.comb += up.eq(sign & rest.all())
        m.d.comb += [
            field.eq((limit + 1 - shift) & normal[-1].replicate(len(field))),
            rounded.eq(Cat(normal[-(kept + 1) : -1], field) + up),
        ]
        width = 1 + self.exponent_bits + kept
        result = Signal(RawSumLayout(width))
        special, overflow = (Signal(name=name) for name in ("special", "overflow"))
        m.d.comb += [
            special.eq(infinite[0] | infinite[1]),
            overflow.eq(~special & (rounded[kept:] >= (1 << self.exponent_bits) - 1)),
            result.number.eq(Cat(rounded[: kept + self.exponent_bits], sign) & (~overflow).replicate(width)),
            result.positive.eq(infinite[0] | (overflow & ~sign)),
            result.negative.eq(infinite[1] | (overflow & sign)),
        ]
        return result
