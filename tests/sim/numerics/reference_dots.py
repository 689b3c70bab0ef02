"""Compute sums of products in rational arithmetic by docs/numerics.md, independently of the golden model.

Only parameters' names are shared with the golden model and the hardware.
Every number is an integer multiple of 2**-320, far below every product's last bit.
"""

import math
import struct
from collections import Counter
from collections.abc import Iterable, Sequence
from fractions import Fraction
from functools import cache

import numpy as np

from tensordash.configuration.numerics import Binned, Fused

from .format_values import SIDE, scale_table, table

UNIT = 2 * SIDE  # Products, C and sums are multiples of 2**-320.
EXACT_NAN, FUSED_NAN = 0x7FC00000, 0x7FFFFFFF
FP16_LEAST = -14  # FP16's least normal number is 2**-14.
INFINITIES = {math.inf: 0x7F800000, -math.inf: 0xFF800000}

Pairs = Iterable[tuple[int, ...]]
"""Bits (a, b) that one cycle multiplies; with scales, (a, b, scale of a, scale of b)."""
Names = tuple[str, ...]
"""Formats of a and b, and of their scales if present."""


def _fp32(bits: int) -> tuple[int, float]:
    """Return an FP32 number's units, or the number itself if it is not finite."""
    (value,) = struct.unpack("<f", struct.pack("<I", bits))
    return (int(math.ldexp(value, 149)) << (UNIT - 149), 0.0) if math.isfinite(value) else (0, value)


def _products(names: Names, pairs: Pairs) -> tuple[list[tuple[int, int]], float]:
    """Return nonzero finite products as (units, exponent), and the sum of all others by IEEE 754."""
    a_table, b_table = table(names[0]), table(names[1])
    terms, special = [], 0.0
    for a, b, *scales in pairs:
        factor = math.prod((scale_table(names[2])[bits] for bits in scales), start=1.0)  # Exact.
        left, right = a_table.floats[a], b_table.floats[b]
        if math.isnan(factor) or not (math.isfinite(left) and math.isfinite(right)):
            special += left * right * factor
            continue
        product = Fraction(factor) * (a_table.units[a] * b_table.units[b])
        assert product.denominator == 1
        if product:
            exponent = math.frexp(factor)[1] - 1 if scales else 0  # exact for powers of two; no others occur
            terms.append((int(product), a_table.exponents[a] + b_table.exponents[b] + exponent))
    return terms, special


def _round(total: int, rounding: str, seen: Counter, significand_bits: int = 23, least: int = -126) -> int:
    """Round a number of units to `significand_bits` fraction bits, toward "zero" or to "nearest"; return FP32 bits.

    `least` is the exponent of the least normal number: FP32's or FP16's. Patterns count multiples of the last place,
    also across powers of two. Ties round to even.
    """
    if total == 0:
        return 0
    exponent = max(abs(total).bit_length() - 1 - UNIT, least)
    last = 1 << (exponent - significand_bits + UNIT)
    count, rest = divmod(abs(total), last)
    seen["rounded"] += rest > 0
    seen["tie"] += 2 * rest == last
    if rounding == "nearest" and (2 * rest > last or (2 * rest == last and count % 2)):
        count += 1
    if least == FP16_LEAST:
        value = math.ldexp(count, exponent - significand_bits)
        seen["subnormal result"] += value < 2.0**FP16_LEAST
        seen["overflow"] += value >= 65536
        (bits,) = struct.unpack("<I", struct.pack("<f", math.inf if value >= 65536 else value))
        return bits | (0x80000000 if total < 0 else 0)
    pattern = (((exponent + 126) << significand_bits) + count) << (23 - significand_bits)
    seen["subnormal result"] += pattern < 1 << 23
    seen["overflow"] += pattern >= INFINITIES[math.inf]
    return min(pattern, INFINITIES[math.inf]) | (0x80000000 if total < 0 else 0)


def exact_dot(
    names: Names, steps: Sequence[Pairs], c: int = 0, width: int | None = None, seen: Counter | None = None
) -> tuple[int, bool]:
    """Return C plus all products, rounded once.

    Parameters
    ----------
    names : tuple of str
        Floating-point formats of a and b, and of their scales.
    steps : sequence of iterable of (a, b)
        Bits, by cycle.
    c : int
        FP32 bits.
    width : int, optional
        Bits of the accumulator: the sum of products wraps after each cycle. None: unlimited.
    seen : Counter, optional
        Counts the classes of inputs that this case has.

    Returns
    -------
    bits, overflow : int, bool
        FP32; whether the accumulator wrapped.

    Examples
    --------
    >>> hex(exact_dot(("fp16", "fp16"), [[(0x3C00, 0x4000)], [(0x0001, 0x0001)]])[0])  # 1 * 2 + 2**-48
    '0x40000000'
    """
    seen = Counter() if seen is None else seen
    total, special, overflow, terms = 0, 0.0, False, 0
    for pairs in steps:
        products, other = _products(names, pairs)
        terms += len(products)
        special += other
        total += sum(product for product, _ in products)
        if width is not None:
            wrapped = _wrap(total, width, _least(names[0]) * _least(names[1]) >> (18 if len(names) > 2 else 0))
            overflow |= wrapped != total
            total = wrapped
    c_units, c_special = _fp32(c)
    special += c_special
    if special != 0.0:
        seen["nan" if math.isnan(special) else "infinity"] += 1
        return (EXACT_NAN if math.isnan(special) else INFINITIES[special]), overflow
    seen["c alone"] += c_units != 0 and terms == 0
    seen["c cancels"] += c_units != 0 and total != 0 and c_units == -total
    seen["cancellation"] += total == 0 and terms > 0
    seen["wrapped"] += overflow
    return _round(total + c_units, "nearest", seen), overflow


def binned_dot(
    names: Names,
    steps: Sequence[Pairs],
    c: int | None,
    accumulator: Binned,
    seen: Counter | None = None,
    *,
    is_bias: bool = False,
) -> int:
    """Return FP32 bits of C plus all products, each cut to a multiple of the quantum. Bins do not wrap.

    Parameters
    ----------
    names, steps, seen
        As for `exact_dot`.
    c : int or None
        FP32 bits; None without a C input.
    accumulator : Binned
        Its parameters.
    is_bias : bool
        C is a core's bias: it does not change the unit, and becomes an infinity above all products' bins.

    Examples
    --------
    >>> one, large = (0x3F80, 0x3F80), (0x4980, 0x3F80)  # 1 and 2**20; then 2**-40, with and without these
    >>> small, minus = (0x2B80, 0x3F80), [(0xC980, 0x3F80), (0xBF80, 0x3F80)]
    >>> [hex(binned_dot(("bf16", "bf16"), [[small, *more]], None, Binned(3))) for more in ([], [one, large, *minus])]
    ['0x2b800000', '0x0']
    """
    seen = Counter() if seen is None else seen
    terms, special = [], 0.0
    for pairs in steps:
        products, other = _products(names, pairs)
        special += other
        terms += [(units, exponent + 1) for units, exponent in products]
    unit = (_least(names[0]) * _least(names[1])).bit_length() - 1 - UNIT - 254 * (len(names) > 2)
    if c is not None:
        units, other = _fp32(c)
        place = max(abs(units).bit_length() - 1 - UNIT, -126)
        if is_bias:
            largest = sum(max(table(name).exponents) for name in names) + 1
            if units and (place - unit) // accumulator.bin_bits > (largest - unit) // accumulator.bin_bits:
                units, other = 0, math.copysign(math.inf, units)
        else:
            unit -= max(0, -(-(unit + 149) // accumulator.bin_bits)) * accumulator.bin_bits
        special += other
        if units:
            terms.append((units, place))
    if special != 0.0:
        seen["nan" if math.isnan(special) else "infinity"] += 1
        return EXACT_NAN if math.isnan(special) else INFINITIES[special]
    top = max(0, *((place - unit) // accumulator.bin_bits for _, place in terms), 0)
    quantum = 1 << UNIT + unit + max(0, top - accumulator.bins + 1) * accumulator.bin_bits
    cut = [(abs(units) // quantum * quantum) * (-1 if units < 0 else 1) for units, _ in terms]
    seen["truncated"] += cut != [units for units, _ in terms]
    seen["cancellation"] += sum(cut) == 0 and len(terms) > 0
    bits = _round(sum(cut), "nearest", seen)
    return bits if bits != 0x80000000 else 0


def int8_dot(
    steps: Sequence[Pairs], c: int = 0, headroom: int = 16, seen: Counter | None = None
) -> tuple[int, bool, bool]:
    """Return C plus all products of int8, modulo 2**32.

    Returns
    -------
    bits, wrapped, overflow : int, bool, bool
        INT32; whether the accumulator wrapped; whether adding C overflowed INT32.

    Examples
    --------
    >>> hex(int8_dot([[(0x80, 0x80)], [(0x01, 0xFF)]], c=2)[0])  # 16384 - 1 + 2
    '0x4001'
    """
    seen = Counter() if seen is None else seen
    values = table("int8").floats
    total, wrapped = 0, False
    for pairs in steps:
        exact = total + sum(int(values[a] * values[b]) for a, b in pairs)
        total = _wrap(exact, 16 + headroom, 1)
        wrapped |= total != exact
    with_c = total + _wrap(c, 32, 1)
    seen["wrapped"] += wrapped
    seen["overflow"] += with_c != _wrap(with_c, 32, 1)
    seen["cancellation"] += total == 0
    return with_c % 2**32, wrapped, with_c != _wrap(with_c, 32, 1)


@cache
def _least(name: str) -> int:
    """Return the least positive value of a format, in units of an operand."""
    return min(number for number in table(name).units if number > 0)


def _wrap(number: int, width: int, unit: int) -> int:
    """Wrap to the range of two's complement numbers of `width` bits that count `unit`."""
    half = unit << (width - 1)
    return (number + half) % (2 * half) - half


def fused_dot(names: Names, steps: Sequence[Pairs], c: int, accumulator: Fused, seen: Counter | None = None) -> int:
    """Return FP32 bits after one aligned multi-operand addition per step.

    Parameters
    ----------
    names, steps, c, seen
        As for `exact_dot`.
    accumulator : Fused
        Its parameters.

    Examples
    --------
    >>> one, tiny = 0x3C00, 0x0001  # 1, and 2**-24, which F = 23 truncates
    >>> [hex(fused_dot(("fp16", "fp16"), [[(one, one), (one, tiny), (one, tiny)]], 0, Fused(f, "zero")))
    ...  for f in (23, 24)]
    ['0x3f800000', '0x3f800001']
    """
    seen = Counter() if seen is None else seen
    last = accumulator.addend == "last"
    bits = 0 if last else _start(c, accumulator)
    for pairs in steps:
        pairs = list(pairs)
        if not pairs:
            continue
        if accumulator.addend == "after":
            bits = _fp32_sum(bits, _fused_step(names, pairs, 0, accumulator, seen), seen)
        else:
            bits = _fused_step(names, pairs, bits, accumulator, seen)
    return _last_sum(bits, _start(c, accumulator), accumulator, seen) if last else bits


def _last_sum(total: int, c: int, accumulator: Fused, seen: Counter) -> int:
    """Add a finished sum and C, both in the results' format, and round once to nearest."""
    (left, left_special), (right, right_special) = _fp32(total), _fp32(c)
    special = left_special + right_special
    if special != 0.0:
        return FUSED_NAN if math.isnan(special) else INFINITIES[special]
    classes = Counter[str]()
    bits = _round(left + right, "nearest", classes, accumulator.result_bits, _least_normal(accumulator))
    seen.update({f"C, {name}": number for name, number in classes.items()})
    seen["C, cancels"] += left + right == 0 and left != 0
    return bits if bits != 0x80000000 else 0


def _least_normal(accumulator: Fused) -> int:
    """Return the exponent of the least normal result."""
    return FP16_LEAST if accumulator.result_exponent_bits == 5 else -126


def _start(c: int, accumulator: Fused) -> int:
    """Return C at the start of a stream, with one zero and one NaN, truncated to the stored bits."""
    (value,) = struct.unpack("<f", struct.pack("<I", c))
    if math.isnan(value):
        return FUSED_NAN
    if accumulator.result_exponent_bits == 5 and math.isfinite(value):
        c = _round(_fp32(c)[0], "zero", Counter(), accumulator.result_bits, FP16_LEAST)
    c -= c % (1 << (23 - accumulator.result_bits))
    return c if c & 0x7FFFFFFF else 0


def _fp32_sum(left: int, right: int, seen: Counter) -> int:
    """Add two FP32 numbers with NumPy: to nearest, ties to even."""
    bits = np.array([left, right], np.uint32)
    with np.errstate(over="ignore", invalid="ignore"):
        total = np.add(*bits.view(np.float32), dtype=np.float32)
    (found,) = np.array([total], np.float32).view(np.uint32).tolist()
    exact = _fp32(left)[0] + _fp32(right)[0]
    seen["added, rounded"] += math.isfinite(total) and _fp32(found)[0] != exact
    seen["added, beyond"] += math.isinf(total) and not any(_fp32(term)[1] for term in (left, right))
    seen["added, cancels"] += exact == 0 and _fp32(left)[0] != 0
    return FUSED_NAN if np.isnan(total) else found if found != 0x80000000 else 0


def _fused_step(names: Names, pairs: Pairs, addend: int, accumulator: Fused, seen: Counter) -> int:
    terms, special = _products(names, pairs)
    c_units, c_special = _fp32(addend)
    special += c_special
    if special != 0.0:
        seen["nan" if math.isnan(special) else "infinity"] += 1
        return FUSED_NAN if math.isnan(special) else INFINITIES[special]
    largest = max((exponent for _, exponent in terms), default=accumulator.zero_exponent)
    c_exponent = (
        max(abs(c_units).bit_length() - 1 - UNIT, _least_normal(accumulator)) if c_units else accumulator.zero_exponent
    )
    e_max = max(largest, c_exponent)
    quantum = 1 << max(e_max - accumulator.fraction_bits + UNIT, 0)
    total = nothing_lost = 0
    for units in [units for units, _ in terms] + [c_units]:
        truncated = abs(units) // quantum * quantum
        nothing_lost += truncated == abs(units)
        total += truncated if units > 0 else -truncated
    if terms:
        seen["c decides"] += c_units != 0 and c_exponent > largest
        seen["floor decides"] += largest < c_exponent and c_units == 0
        seen["below FP32"] += e_max < -126
        seen["truncated"] += nothing_lost <= len(terms)
        seen["cancellation"] += total == 0
    bits = _round(total, accumulator.rounding, seen, accumulator.result_bits, _least_normal(accumulator))
    return bits if bits != 0x80000000 else 0
