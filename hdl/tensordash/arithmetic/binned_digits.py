"""Functions that cut numbers into digits of bins, for the components that sum them."""

from functools import reduce
from operator import or_
from typing import NamedTuple

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.utils import bits_for

from ..configuration.formats import FP32
from ..layouts import BinnedShape
from .accumulator import shifted_up

__all__ = ["BinnedTerm", "cut_digits", "digits_of", "distances", "fp32_term", "moved_down"]


class BinnedTerm(NamedTuple):
    """A number in bins, the lowest first, in one's complement. A negative number has a carry into each bin.

    `marks`: whether it is a positive infinity, and whether a negative one. A NaN is both.
    """

    bins: list[Value]
    top: Value
    carry: Value
    marks: list[Value]


def cut_digits(
    m: Module, shape: BinnedShape, significand: Value, negative: Value, place: Value, name: str
) -> tuple[Value, Value]:
    """Find the bin of a significand's highest place, and its digits. The top digit is the upper `bin_bits` bits.

    Digits are complemented before the shift, with the sign shifted in at both ends: fewer gates than after the shift.
    """
    number, offset = _split(m, place, shape.bin_bits, name)
    width, bits = len(significand) - 1 + shape.bin_bits, significand ^ negative.replicate(len(significand))
    shifted = shifted_up(m, list(bits), offset, below=negative, above=negative, width=width, name=name)
    return number, Cat(shifted)


def digits_of(shape: BinnedShape, cut: Value, negative: Value) -> list[Value]:
    """Return the digits of `cut_digits`, the top one first, at most one per bin."""
    parts = []
    for end in range(len(cut), 0, -shape.bin_bits)[: shape.bins]:
        part = cut[max(0, end - shape.bin_bits) : end]
        parts.append(Cat(negative.replicate(shape.bin_bits - len(part)), part))
    return parts


def fp32_term(m: Module, shape: BinnedShape, bits: Value, name: str, *, enable: Value | None = None) -> BinnedTerm:
    """Place an FP32 number in bins. Bits below bin 0 are dropped, and a number above `max_top` is an infinity.

    The number is zero while `enable` is low.
    """
    fraction, field, sign = bits[: FP32.fraction_bits], bits[FP32.fraction_bits : -1], bits[-1]
    special, payload, normal = field.all(), fraction.any(), field.any()
    counts, negative = Signal(name=f"{name}_counts"), Signal(name=f"{name}_negative")
    # The exponent fields of the lowest place of bin 0, and of the lowest place above all bins.
    lowest, beyond = (FP32.bias + shape.unit + places for places in (0, (shape.max_top + 1) * shape.bin_bits))
    counted, infinite, nan = bits[:-1].any() & ~special, special, payload
    if lowest > 1:
        counted = counted & (field >= lowest)
    if beyond <= 2 * FP32.bias:
        counted, infinite, nan = counted & (field < beyond), field >= beyond, special & payload
    if enable is not None:
        counted, infinite = counted & enable, infinite & enable
    m.d.comb += [counts.eq(counted), negative.eq(sign & counts)]
    significand = Cat(fraction, normal) & counts.replicate(FP32.significand_bits)
    # The least exponent field above zero is 1.
    place = Cat(field[0] | ~normal, field[1:]) + (-FP32.bias - shape.unit)
    if lowest > 1:
        place = place[: bits_for((shape.max_top + 1) * shape.bin_bits - 1)]
    top, cut = cut_digits(m, shape, significand, negative, place, f"{name}_digits")
    parts = digits_of(shape, cut, negative)
    if lowest > 1:
        parts = [Mux(top < below, negative.replicate(len(part)), part) for below, part in enumerate(parts)]
    parts += [negative.replicate(shape.bin_bits)] * (shape.bins - len(parts))
    return BinnedTerm(
        [Cat(part, negative).as_signed() for part in reversed(parts)],
        top & counts.replicate(len(top)),
        negative,
        [infinite & (nan | ~sign), infinite & (nan | sign)],
    )


def distances(m: Module, top: Value, basis: Value, bins: int, name: str) -> tuple[list[Value], list[Value]]:
    """Compute the one-hot distances, in bins, of the larger top bin from `basis` and from `top`."""
    rise = Signal(signed(len(basis) + 1), name=f"{name}_rise")
    m.d.comb += rise.eq(top - basis)
    old, new = ([rise == sign * i for i in range(1, bins)] for sign in (1, -1))
    return [rise <= 0, *old], [rise >= 0, *new]


def moved_down(bins: list[Value], down: list[Value]) -> list[Value]:
    """Move bins, the lowest first, down by a one-hot distance. Bins below the lowest are dropped."""
    bits = [each.as_unsigned() for each in bins]
    return [
        reduce(or_, (each & by.replicate(len(each)) for each, by in zip(bits[place:], down, strict=False)))
        for place in range(len(bits))
    ]


def _split(m: Module, place: Value, bin_bits: int, name: str) -> tuple[Value, Value]:
    """Find the number of a place's bin, and the place's offset in the bin."""
    low = (bin_bits - 1).bit_length()
    if (1 << len(place)) <= bin_bits:
        return Const(0, 1), place
    if bin_bits == 1 << low:
        return place[low:], place[:low]
    # A division by multiplication with the shortest reciprocal that is exact for every place.
    count = 1 << len(place)
    power = next(
        power
        for power in range(low, 2 * len(place) + 2)
        if all(x * ((1 << power) // bin_bits + 1) >> power == x // bin_bits for x in range(count))
    )
    number = Signal(range((count - 1) // bin_bits + 1), name=f"{name}_bin")
    offset = Signal(range(bin_bits), name=f"{name}_offset")
    m.d.comb += [
        number.eq(place * ((1 << power) // bin_bits + 1) >> power),
        offset.eq(place - number * bin_bits),
    ]
    return number, offset
