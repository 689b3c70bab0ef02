"""Functions that shift, add and round floating-point terms, for the components that accumulate them."""

from collections.abc import Sequence
from functools import reduce
from operator import add

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib.data import View

from ..layouts import RawSumLayout
from .normalizer import normalize

__all__ = [
    "EXPONENT_BITS",
    "MIN_EXPONENT",
    "FloatAddition",
    "Rounding",
    "levels_up",
    "scaled",
    "shifted_right",
    "signed_total",
]

EXPONENT_BITS = 8
MIN_EXPONENT = -126
"""FP32's least exponent."""
BEHIND = 3
"""Bits after a fraction for rounding the sum of two numbers to nearest: a guard bit, a bit for normalisation, and a
sticky bit."""


def levels_up(exponent_bits: int) -> int:
    """Return how far the least level of a number with `exponent_bits` is above FP32's, which is 1."""
    return (1 << (EXPONENT_BITS - 1)) - (1 << (exponent_bits - 1))


def scaled(significand: Value, shift: int, width: int) -> Value:
    """Return `significand` times two to the `shift`, truncated, in `width` bits."""
    moved = Cat(Const(0, shift), significand) if shift >= 0 else significand[-shift:]
    return Cat(moved, Const(0, width))[:width]


def shifted_right(m: Module, bits: Value, distance: Value, name: str, *, marked: bool = False) -> Value:
    """Shift `bits` right by `distance` and truncate. The result is zero if `distance` is beyond them.

    With `marked` the lowest bit of the result is sticky: it is set if it, or any bit that was cut off, is a one.
    """
    width, stages = len(bits), (len(bits) - 1).bit_length()
    cut: Value = bits.any() & distance[stages:].any()
    for stage in range(stages):
        moved = Signal(width, name=f"{name}_{stage}")
        m.d.comb += moved.eq(Mux(distance[stage], bits >> (1 << stage), bits))
        if marked:
            cut = cut | (distance[stage] & bits[: 1 << stage].any())
        bits = moved
    near_bits = bits & (~distance[stages:].any()).replicate(width)
    return Cat(near_bits[0] | cut, near_bits[1:]) if marked else near_bits


def signed_total(m: Module, pairs: Sequence[tuple[Value, Value]], width: int) -> Signal:
    """Add (magnitude of `width` bits, sign) pairs. A negative one is complemented, and its sign added."""
    sum_width = width + len(pairs).bit_length() + 1
    total = Signal(signed(sum_width))
    signs = reduce(add, (negative for _, negative in pairs))
    complements = [Cat(bits ^ negative.replicate(width), negative).as_signed() for bits, negative in pairs]
    m.d.comb += total.eq(reduce(add, complements) + signs)
    return total


class Rounding:
    """Rounds a sum to a number with `result_bits` fraction bits, and with FP32's exponents or fewer.

    Parameters
    ----------
    fraction_bits : int
        Fraction bits of the sum, below its level.
    result_bits : int
        Fraction bits of the result, as in `Fused`.
    nearest : bool
        Round to nearest, ties to even. Otherwise toward zero.
    level_bits : int
        Bits of a level that is not below 1.
    below : int
        Maximum distance of a level below the level of the result's least normal number.
    exponent_bits : int
        Exponent bits of the result.
    lowest : int
        One less than the level of the result's least normal number. By default for levels of FP32's exponents.
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
        lowest: int | None = None,
    ) -> None:
        self.fraction_bits, self.result_bits, self.nearest = fraction_bits, result_bits, nearest
        self.level_bits, self.below, self.exponent_bits = level_bits, below, exponent_bits
        self.lowest = levels_up(exponent_bits) if lowest is None else lowest

    def apply(self, m: Module, total: Signal, level: Value, infinite: tuple[Value, Value]) -> View:
        """Normalise and round. A complemented negative number is its magnitude minus one, so ones follow it.

        Parameters
        ----------
        m : Module
            The module to build in.
        total : Signal
            The sum, two's complement, in units of two to the power of the exponent minus `fraction_bits`.
        level : Value
            The exponent minus FP32's least (or `lowest`), plus one.
        infinite : (Value, Value)
            Whether a positive and whether a negative infinity is among the terms. A NaN is both.

        Returns
        -------
        View of RawSumLayout
            The result with its marks.
        """
        result_bits = self.result_bits
        sign = total[-1]
        padding = max(0, result_bits + 4 - len(total))  # so that there are bits below the result's last place
        # At the lowest level, the top is at the place of the least normal number, or above.
        above = max(0, self.below - (len(total) - 1 - self.fraction_bits - 1))
        bits = Signal(len(total) - 1 + padding + above)
        limit = Signal(range((1 << self.level_bits) + len(bits)))
        magnitude = total[:-1] ^ sign.replicate(len(total) - 1)
        m.d.comb += [
            bits.eq(Cat(sign.replicate(padding), magnitude)),
            # How far the top may move until it is at the place of the least normal number.
            limit.eq(level + (len(bits) - 1 - padding - self.fraction_bits - 1 - self.lowest)),
        ]
        normal, shift, _, _ = normalize(m, bits, sign, limit)
        field = Signal(signed(len(limit) + 1))
        rounded = Signal(result_bits + len(field))
        up = Signal()
        rest, last, guard = normal[: -(result_bits + 1)], normal[-(result_bits + 1)], normal[-(result_bits + 2)]
        if self.nearest:
            below = normal[: -(result_bits + 2)]
            m.d.comb += up.eq(Mux(sign, guard | (below.all() & last), guard & (below.any() | last)))
        else:
            # Only the complement's missing 1: if all cut-off bits are ones, they and the ones after them add up to 1.
            m.d.comb += up.eq(sign & rest.all())
        m.d.comb += [
            field.eq((limit + 1 - shift) & normal[-1].replicate(len(field))),
            rounded.eq(Cat(normal[-(result_bits + 1) : -1], field) + up),
        ]
        width = 1 + self.exponent_bits + result_bits
        result = Signal(RawSumLayout(width))
        special, overflow = (Signal(name=name) for name in ("special", "overflow"))
        m.d.comb += [
            special.eq(infinite[0] | infinite[1]),
            overflow.eq(~special & (rounded[result_bits:] >= (1 << self.exponent_bits) - 1)),
            result.number.eq(Cat(rounded[: result_bits + self.exponent_bits], sign) & (~overflow).replicate(width)),
            result.positive.eq(infinite[0] | (overflow & ~sign)),
            result.negative.eq(infinite[1] | (overflow & sign)),
        ]
        return result


class FloatAddition:
    """Adds two numbers of one format, and rounds once to that format, to nearest with ties to even.

    Parameters
    ----------
    fraction_bits, exponent_bits : int
        Sizes of both numbers and of the sum.
    """

    def __init__(self, fraction_bits: int = 23, exponent_bits: int = EXPONENT_BITS) -> None:
        self.fraction_bits, self.exponent_bits = fraction_bits, exponent_bits
        self.rounding = Rounding(
            fraction_bits=fraction_bits + BEHIND,
            result_bits=fraction_bits,
            nearest=True,
            level_bits=exponent_bits,
            exponent_bits=exponent_bits,
            lowest=0,
        )

    def apply(self, m: Module, basis: View, added: View) -> View:
        """Add two numbers with their marks. The number with the smaller exponent moves down.

        Parameters
        ----------
        m : Module
            The module to build in.
        basis, added : View of RawSumLayout
            The numbers.

        Returns
        -------
        View of RawSumLayout
            The sum with its marks.
        """
        fraction_bits, exponent_bits = self.fraction_bits, self.exponent_bits
        levels, significands = [], []
        for name, term in (("basis", basis), ("added", added)):
            field = term.number[fraction_bits:-1]
            normal, level = Signal(name=f"{name}_normal"), Signal(exponent_bits, name=f"{name}_level")
            m.d.comb += [normal.eq(field.any()), level.eq(Cat(field[0] | ~normal, field[1:]))]
            levels.append(level)
            significands.append(Cat(term.number[:fraction_bits], normal))
        up, down = (Signal(exponent_bits + 1, name=name) for name in ("up", "down"))
        above = Signal()
        near, far = (Signal(fraction_bits + 1, name=name) for name in ("near", "far"))
        near_sign, far_sign = (Signal(name=name) for name in ("near_sign", "far_sign"))
        distance, top_level = (Signal(exponent_bits, name=name) for name in ("distance", "top_level"))
        m.d.comb += [
            up.eq(levels[0] - levels[1]),
            down.eq(levels[1] - levels[0]),
            above.eq(~up[-1]),
            distance.eq(Mux(above, up, down)),
            top_level.eq(Mux(above, *levels)),
            near.eq(Mux(above, *significands)),
            far.eq(Mux(above, *reversed(significands))),
            near_sign.eq(Mux(above, basis.number[-1], added.number[-1])),
            far_sign.eq(Mux(above, added.number[-1], basis.number[-1])),
        ]
        width = fraction_bits + 1 + BEHIND
        moved = shifted_right(m, Cat(Const(0, BEHIND), far), distance, "aligned", marked=True)
        total = signed_total(m, [(Cat(Const(0, BEHIND), near), near_sign), (moved, far_sign)], width)
        infinite = (basis.positive | added.positive, basis.negative | added.negative)
        return self.rounding.apply(m, total, top_level, infinite)
