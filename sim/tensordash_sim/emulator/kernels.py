"""All compiled loops that compute numbers.

They are in one file, since Numba's cache checks only the caller's file: a caller in another file would keep using
old code after a change here.
"""

import numpy as np
from llvmlite import ir
from numba import njit, prange, types
from numba.extending import intrinsic

from tensordash.configuration.formats import FP32

from .tables import INFINITE, NAN, ZERO

__all__ = [
    "EXACT_NAN",
    "FAR",
    "FUSED_NAN",
    "add_biases",
    "add_digits",
    "add_fused",
    "convert",
    "cut",
    "mark_specials",
    "round_sums",
    "scan",
    "wrap",
]

EXACT_NAN = 0x7FC00000
FUSED_NAN = 0x7FFFFFFF
FRACTION = FP32.fraction_bits
MIN_EXPONENT = FP32.least_exponent
BEYOND = FP32.largest + 1
HALF = np.uint64(1 << 63)
TOWARD_ZERO = 0
"""Rounding mode that adds 0 to the dropped bits. Stochastic rounding passes 16 random bits as its mode."""
NEAREST = -1
"""Rounding to nearest, ties to even."""
FAR = 1 << 14
"""Exponent of infinities. A NaN has four times this exponent, so the sum of two exponents identifies special values."""
BLOCK_COLUMNS = 128
"""Columns of a block, so that their sums fit in the L1 cache."""


@intrinsic
def _leading_zeros(typingctx, bits):
    """Count leading zeros of 64 bits; Numba has no such function."""

    def generate(context, builder, signature, arguments):
        return builder.ctlz(arguments[0], ir.Constant(ir.IntType(1), 0))

    return types.uint64(types.uint64), generate


@njit(cache=True, nogil=True)
def _bit_length(magnitude):
    """Return the bit length of a uint64, as `int.bit_length` does."""
    return 64 - np.int64(_leading_zeros(magnitude))


@njit(cache=True, nogil=True)
def _round_magnitude(magnitude, exponent, fraction_bits, least_exponent, beyond, rounding):
    """Round ``magnitude * 2**exponent`` to the pattern of a format without its sign (IEEE 754-2019, section 4.3).

    `magnitude` is a uint64. If its highest bit is set, its lowest bit may be a sticky bit for bits that were cut off.
    `beyond` is the pattern of a magnitude that is too large. `rounding` is NEAREST (ties to even), TOWARD_ZERO, or 16
    random bits: round up if they plus the first 16 dropped bits reach 2^16.
    """
    if magnitude == 0:
        return 0
    # The weight of the result's least bit: set by the number of significand bits, but never below the subnormals' bit.
    least = max(exponent + _bit_length(magnitude) - fraction_bits - 1, least_exponent)
    shift = least - exponent
    if shift <= 0:
        significand = np.int64(magnitude << np.uint64(-shift))
    elif shift > 64:
        significand = 0  # below a quarter of the least bit
    else:
        significand = np.int64(magnitude >> np.uint64(shift - 1) >> np.uint64(1))
        rest = magnitude << np.uint64(64 - shift)
        if rounding != NEAREST:
            significand += (np.int64(rest >> np.uint64(48)) + np.int64(rounding)) >> 16
        elif rest > HALF or (rest == HALF and significand & 1):
            significand += 1
    # A hidden bit adds 1 to the exponent field. A significand that was rounded up to 2 adds another 1.
    return min(((least - least_exponent) << fraction_bits) + significand, beyond)


@njit(parallel=True, cache=True, nogil=True)
def convert(bits, source, target, signed_nan, relu, toward_zero, random, out, scale):
    """Multiply patterns of one format by ``2**scale`` and round them to another format.

    `relu`: patterns with the sign bit set, except NaN, give +0. Rounding is toward zero with `toward_zero`, and then no
    finite number becomes an infinity. Otherwise it is stochastic if `random` has 16 bits for each pattern, and to
    nearest, ties to even, if `random` is empty.
    """
    width, fraction_bits, least_exponent, largest, infinities, _ = source
    to_width, to_fraction_bits, to_least_exponent, to_largest, _, to_beyond = target
    most = to_largest if toward_zero else to_beyond
    for index in prange(bits.size):
        pattern = np.uint64(bits[index])
        sign = np.int64(pattern >> np.uint64(width - 1))
        magnitude = np.int64(pattern & np.uint64((1 << (width - 1)) - 1))
        if magnitude > largest and not (infinities and magnitude == largest + 1):
            made = to_beyond | 1 << (to_fraction_bits - 1)
            sign = sign if signed_nan else 0
        elif relu and sign:
            made, sign = 0, 0
        elif magnitude > largest:
            made = to_beyond
        else:
            field = magnitude >> fraction_bits
            significand = magnitude & ((1 << fraction_bits) - 1) | (field > 0) << fraction_bits
            exponent = max(field, 1) - 1 + least_exponent + np.int64(scale)
            drawn = np.int64(random[index]) if random.size else NEAREST
            rounding = TOWARD_ZERO if toward_zero else drawn
            made = _round_magnitude(
                np.uint64(significand), exponent, to_fraction_bits, to_least_exponent, most, rounding
            )
        out[index] = sign << (to_width - 1) | made


@njit(parallel=True, cache=True, nogil=True)
def scan(bits, sign, largest):
    """Return the patterns' largest finite magnitude and the numbers of zeros and of non-finite patterns.

    `sign` is the sign bit's value, `largest` the pattern of the format's largest finite number.
    """
    most, zeros, others = np.int64(0), 0, 0
    for index in prange(bits.size):
        magnitude = np.int64(bits[index]) & (sign - 1)
        if magnitude > largest:
            others += 1
        else:
            most = max(most, magnitude)
            zeros += magnitude == 0
    return most, zeros, others


@njit(parallel=True, cache=True, nogil=True)
def cut(vectors, digits, out):
    """Look up the digits of patterns (products, vectors, K) in a table; write (products, digits, vectors, K)."""
    products, count, length = vectors.shape
    for item in prange(products * count):
        product, vector = np.int64(item) // count, np.int64(item) % count
        for digit in range(len(digits)):
            for k in range(length):
                out[product, digit, vector, k] = digits[digit, vectors[product, vector, k]]


@njit(parallel=True, cache=True, nogil=True)
def add_digits(high, low, products, counts, bits):
    """Add products of digits, (products, digits of b, vectors, digits of a, vectors), to sums of 128 bits."""
    count, rows, columns = high.shape
    for item in prange(count * rows):
        product, row = np.int64(item) // rows, np.int64(item) % rows
        for j in range(counts[1]):
            for i in range(counts[0]):
                shift = i * bits[0] + j * bits[1]
                for column in range(columns):
                    value = np.int64(products[product, j, row, i, column])
                    added = np.uint64(value) << np.uint64(shift)
                    total = low[product, row, column] + added
                    above = value >> np.int64(63) if shift == 0 else value >> np.int64(64 - shift)
                    high[product, row, column] += above + np.int64(total < added)
                    low[product, row, column] = total


@njit(parallel=True, cache=True, nogil=True)
def wrap(high, low, width):
    """Wrap sums to two's complement in `width` bits, fewer than 128."""
    for row in prange(high.shape[0]):
        for column in range(high.shape[1]):
            if width <= 64:
                beyond = np.int64(64 - width)
                value = np.int64(low[row, column]) << beyond >> beyond
                low[row, column] = np.uint64(value)
                high[row, column] = value >> np.int64(63)
            else:
                beyond = np.int64(128 - width)
                high[row, column] = high[row, column] << beyond >> beyond


@njit(cache=True, nogil=True)
def _round_signed(high, low, exponent):
    """Round a sum in units of ``2**exponent`` to FP32 bits, to nearest, ties to even. Every zero is +0."""
    upper, lower = np.uint64(high), low
    sign = np.int64(upper >> np.uint64(63))
    if sign:
        lower = ~lower + np.uint64(1)
        upper = ~upper + np.uint64(lower == 0)
    pattern = _round_pair(upper, lower, np.int64(exponent))
    return np.uint32((sign << 31 if pattern else 0) | pattern)


@njit(parallel=True, cache=True, nogil=True)
def round_sums(high, low, exponents, out):
    """Round all sums, each with its own exponent (`_round_signed`)."""
    for row in prange(high.shape[0]):
        for column in range(high.shape[1]):
            out[row, column] = _round_signed(high[row, column], low[row, column], exponents[row, column])


@njit(cache=True, nogil=True)
def _moved(upper, lower, places):
    """Return ``(upper * 2**64 + lower) * 2**places`` in 128 bits, `places` from -127 to 127.

    The lowest bit is a sticky bit for bits that are cut off below it.
    """
    if places >= 64:
        return lower << np.uint64(places - 64), np.uint64(0)
    if places >= 0:
        above = lower >> np.uint64(1) >> np.uint64(63 - places)
        return upper << np.uint64(places) | above, lower << np.uint64(places)
    marked = np.uint64(0)
    if places <= -64:
        marked = np.uint64(lower != 0)
        upper, lower, places = np.uint64(0), upper, places + 64
    if places < 0:
        marked |= np.uint64(lower << np.uint64(64 + places) != 0)
        lower = upper << np.uint64(64 + places) | lower >> np.uint64(-places)
        upper = upper >> np.uint64(-places)
    return upper, lower | marked


@njit(cache=True, nogil=True)
def _round_pair(upper, lower, unit):
    """Round ``(upper * 2**64 + lower) * 2**unit`` to an FP32 pattern without sign."""
    if upper:
        moved = np.int64(64) - np.int64(_bit_length(upper))
        unit += np.int64(64) - moved
        _, lower = _moved(upper, lower, moved - np.int64(64))
    return _round_magnitude(lower, unit, FRACTION, MIN_EXPONENT, BEYOND, NEAREST)


@njit(parallel=True, cache=True, nogil=True)
def add_biases(high, low, exponent, added):
    """Add FP32 numbers `added` to sums in units of ``2**exponent``; bits below a unit are dropped.

    The function ignores infinities and NaN. Other numbers must be below 2**127 units.
    """
    for row in prange(high.shape[0]):
        for column in range(high.shape[1]):
            bits = np.int64(added[row, column])
            field = bits >> FRACTION & 0xFF
            if field == 0xFF:
                continue
            lower = np.uint64(bits & ((1 << FRACTION) - 1) | np.int64(field > 0) << FRACTION)
            upper, places = np.uint64(0), max(field, 1) - 1 + MIN_EXPONENT - np.int64(exponent)
            if places >= 0:
                upper, lower = _moved(upper, lower, places)
            else:
                lower = lower >> np.uint64(min(-places, 63))
            if bits >> 31:
                lower = ~lower + np.uint64(1)
                upper = ~upper + np.uint64(lower == 0)
            total = low[row, column] + lower
            high[row, column] += np.int64(upper) + np.int64(total < lower)
            low[row, column] = total


@njit(parallel=True, cache=True, nogil=True)
def mark_specials(a_marks, b_marks, skips_a, skips_b, nan, out):
    """Overwrite sums that have infinities or NaN: `a_marks` (columns, K), `b_marks` (rows, K)."""
    for row in prange(out.shape[0]):
        for column in range(out.shape[1]):
            signs = 0
            for k in range(a_marks.shape[1]):
                a, b = a_marks[column, k], b_marks[row, k]
                if (skips_b and b & ZERO) or (skips_a and a & ZERO):
                    continue
                if (a | b) & NAN or ((a | b) & INFINITE and (a | b) & ZERO):
                    signs = 3
                elif (a | b) & INFINITE:
                    signs |= 1 << ((a ^ b) >> 3)
                if signs == 3:
                    break
            if signs:
                out[row, column] = nan if signs == 3 else 0x7F800000 | (signs - 1) << 31


@njit(cache=True, nogil=True)
def _aligned(magnitude, shift):
    """Return ``magnitude * 2**shift``, truncated to an integer, as words in units of 2**32 and 1.

    Sums of 33 such words fit in 64 bits.
    """
    if shift >= 32:
        return magnitude << (shift - 32), np.int64(0)
    if shift >= 0:
        return np.int64(0), magnitude << shift
    return np.int64(0), magnitude >> min(-shift, 63)


@njit(cache=True, nogil=True)
def _rounded(high, low, least, nearest, result_bits, least_result, beyond):
    """Round ``(high * 2**32 + low) * 2**least`` to the result's format; return an FP32 sign and pattern."""
    sign = np.int64(0)
    if high:
        high += low >> np.int64(32)
        low &= np.int64(0xFFFFFFFF)
        if high < 0:
            sign, high, low = np.int64(1), -high - (low != 0), (-low) & np.int64(0xFFFFFFFF)
        # `high` is at most 2**47: take the highest 64 bits and a sticky bit for the bits below.
        moved = max(_bit_length(np.uint64(high)) - 32, 0)
        cut = low & ((np.int64(1) << moved) - 1)
        magnitude = np.uint64(high) << np.uint64(32 - moved) | np.uint64(low >> moved) | np.uint64(cut != 0)
        least += moved
    else:
        if low < 0:
            sign = np.int64(1)
        magnitude = np.uint64(abs(low))
    rounding = NEAREST if nearest else TOWARD_ZERO
    pattern = _round_magnitude(magnitude, least, result_bits, least_result, beyond, rounding)
    if least_result == MIN_EXPONENT + FRACTION - result_bits:  # FP32's exponents
        return sign, pattern << (FRACTION - result_bits)
    if pattern == beyond:
        return sign, np.int64(BEYOND)
    field = pattern >> result_bits
    significand = np.uint64(pattern & ((1 << result_bits) - 1) | np.int64(field > 0) << result_bits)
    return sign, _round_magnitude(
        significand, max(field, 1) - 1 + least_result, FRACTION, MIN_EXPONENT, BEYOND, NEAREST
    )


@njit(cache=True, nogil=True)
def _unpack(pattern):
    """Return the significand of an FP32 pattern without sign, and the exponent of its least bit."""
    field = pattern >> FRACTION
    return pattern & ((1 << FRACTION) - 1) | np.int64(field > 0) << FRACTION, max(field, 1) - 1 + MIN_EXPONENT


@njit(cache=True, nogil=True)
def _fp32_sum(sign, pattern, other_sign, other):
    """Add two finite FP32 numbers, rounded to nearest; return sign and pattern, +0 for a zero."""
    if pattern < other:
        sign, pattern, other_sign, other = other_sign, other, sign, pattern
    significand, exponent = _unpack(pattern)
    less, less_exponent = _unpack(other)
    # 32 bits below the larger number's significand hold the smaller number, or all that rounding needs.
    down = min(exponent - less_exponent, 62)
    moved = (less << 32 >> down) | np.int64((less << 32) & ((np.int64(1) << down) - 1) != 0)
    total = (significand << 32) + (moved if sign == other_sign else -moved)
    made = _round_magnitude(np.uint64(total), exponent - 32, FRACTION, MIN_EXPONENT, BEYOND, NEAREST)
    return (sign if made else np.int64(0)), made


@njit(cache=True, nogil=True)
def _accumulated(column, row, schedule, product_fraction, fused):
    """Return FP32 bits of one PE's result: each cycle adds its products and the previous sum in one step.

    `column` and `row` are significands and exponents. With `after`, each cycle adds its products in one step and their
    sum to the previous sum in a second step.
    """
    (a, a_exponent), (b, b_exponent), (chosen, ends) = column, row, schedule
    fraction_bits, nearest, zero_exponent, after, result_bits, least_result, beyond = fused
    sign, pattern, signs, begin = np.int64(0), np.int64(0), np.int64(0), np.int64(0)
    for end in ends:
        if end == begin:
            continue
        significand, weight = _unpack(np.int64(0) if after else pattern)
        largest = np.int64(zero_exponent)
        if significand:  # a subnormal number has the exponent of the smallest normal one
            largest = max(weight + FRACTION, least_result + result_bits)
        these = np.int64(0)
        for place in range(begin, end):
            k = chosen[place]
            exponent = np.int64(a_exponent[k]) + b_exponent[k]
            product = np.int64(a[k]) * b[k]
            if exponent >= FAR // 2:
                these |= 3 if exponent >= 3 * FAR or product == 0 else 1 << np.int64(product < 0)
            elif product and exponent + product_fraction > largest:
                largest = exponent + product_fraction
        if not these and (after or not signs):
            least = largest - fraction_bits
            high, low = _aligned(significand, weight - least)
            if sign:
                high, low = -high, -low
            for place in range(begin, end):
                k = chosen[place]
                product = np.int64(a[k]) * b[k]
                above, below = _aligned(abs(product), np.int64(a_exponent[k]) + b_exponent[k] - least)
                high += -above if product < 0 else above
                low += -below if product < 0 else below
            made_sign, made = _rounded(high, low, least, nearest, result_bits, least_result, beyond)
            if made == BEYOND:
                these = np.int64(1) << made_sign
            elif not signs:
                sign, pattern = _fp32_sum(sign, pattern, made_sign, made) if after else (made_sign, made)
                if pattern == BEYOND:
                    these = np.int64(1) << sign
                elif pattern == 0:
                    sign = np.int64(0)
        signs |= these
        begin = end
    if signs:
        return FUSED_NAN if signs == 3 else (signs - 1) << 31 | BEYOND
    return sign << 31 | pattern


@njit(cache=True, nogil=True)
def _accumulate_together(columns, row, schedule, product_fraction, fused, scratch):
    """Accumulate finite numbers as `_accumulated` does, for columns (K, columns) that share a schedule.

    Loops over columns have no branch, so the compiler can vectorise them. The caller ensures that a sum fits in 64
    bits and that results have FP32's exponent bits. `scratch` has three int64 for each column; the function writes FP32
    bits to the last one.
    """
    (a, a_exponent), (b, b_exponent), (chosen, ends) = columns, row, schedule
    largest, total, sums = scratch
    fraction_bits, nearest, zero_exponent, _, result_bits, _, _ = fused
    without = FRACTION - result_bits
    sums[:] = 0
    begin = np.int64(0)
    for end in ends:
        if end == begin:
            continue
        for m in range(len(sums)):
            magnitude = sums[m] & 0x7FFFFFFF
            least = max(magnitude >> FRACTION, 1) - 1 + MIN_EXPONENT + FRACTION
            largest[m] = least if magnitude else np.int64(zero_exponent)
        for place in range(begin, end):
            k = chosen[place]
            added, factor = np.int64(b_exponent[k]) + product_fraction, np.int64(b[k])
            for m in range(len(sums)):
                exponent = a_exponent[k, m] + added
                largest[m] = max(largest[m], exponent if a[k, m] * factor != 0 else np.int64(MIN_EXPONENT))
        for m in range(len(sums)):
            field = (sums[m] & 0x7FFFFFFF) >> FRACTION
            significand = sums[m] & ((1 << FRACTION) - 1) | np.int64(field > 0) << FRACTION
            away = max(field, 1) - 1 + MIN_EXPONENT + fraction_bits - largest[m]
            magnitude = significand << max(away, 0) >> min(max(-away, 0), 63)
            total[m] = -magnitude if sums[m] >> 31 else magnitude
        for place in range(begin, end):
            k = chosen[place]
            added, factor = np.int64(b_exponent[k]) + fraction_bits, np.int64(b[k])
            for m in range(len(sums)):
                product = a[k, m] * factor
                away = a_exponent[k, m] + added - largest[m]
                magnitude = abs(product) << max(min(away, 32), 0) >> min(max(-away, 0), 63)
                total[m] += -magnitude if product < 0 else magnitude
        for m in range(len(sums)):
            magnitude = abs(total[m])
            # As in `_round_magnitude`.
            least = largest[m] - fraction_bits
            unit = max(least + _bit_length(np.uint64(magnitude)) - result_bits - 1, MIN_EXPONENT + without)
            cut = min(max(unit - least, 0), 62)  # magnitudes are below 2**61
            significand = magnitude << max(least - unit, 0) >> cut
            rest, whole = magnitude & ((np.int64(1) << cut) - 1), np.int64(1) << cut
            up = (rest * 2 > whole) | ((rest * 2 == whole) & (significand & 1 == 1))
            significand += np.int64(nearest & up)
            pattern = min((((unit - MIN_EXPONENT - without) << result_bits) + significand) << without, BEYOND)
            pattern = pattern if significand else np.int64(0)
            made = np.int64((total[m] < 0) & (pattern > 0)) << 31 | pattern
            sums[m] = sums[m] if sums[m] & 0x7FFFFFFF == BEYOND else made
        begin = end


@njit(parallel=True, cache=True, nogil=True)
def add_fused(a_terms, b_terms, turned, order, block, dense, product_fraction, fused, out):
    """Compute all results `out` (N, M).

    `a_terms` and `b_terms` are significands and exponents, (M, K) and (N, K), and marks of vectors with special values.
    `turned` are the columns' significands and exponents as (K, M), or empty arrays if columns are added one by one.
    `order` is the schedule of each block of rows. `block` is the number of rows of a block and of schedulers of a row.
    `fused` are the fraction bits, whether rounding is to nearest, the exponent of zero, and whether the addend comes
    after; then for results the fraction bits, the exponent of the least bit, and the pattern of too large magnitudes.
    """
    (a, a_exponent, a_special), (b, b_exponent, b_special), (cycles, chosen, ends) = a_terms, b_terms, order
    turned_values, turned_exponents = turned
    together, across = turned_values.size > 0, -(-len(a) // BLOCK_COLUMNS)
    for item in prange(len(b) * across):
        row, first = np.int64(item) // across, np.int64(item) % across * BLOCK_COLUMNS
        stop = min(first + BLOCK_COLUMNS, len(a))
        group, one = (0, 0) if dense else (row // block[0], row % block[0] * block[1])
        end = cycles[group]
        if together:
            scratch = np.empty((3, stop - first), np.int64)
            columns = turned_values[:, first:stop], turned_exponents[:, first:stop]
            schedule = chosen[group, one], ends[group, one, :end]
            _accumulate_together(columns, (b[row], b_exponent[row]), schedule, product_fraction, fused, scratch)
            out[row, first:stop] = scratch[2]
        for column in range(first, stop):
            if not together or a_special[column] or b_special[row]:
                mine = one + column if block[1] > 1 else one
                schedule = chosen[group, mine], ends[group, mine, :end]
                terms = a[column], a_exponent[column]
                out[row, column] = _accumulated(terms, (b[row], b_exponent[row]), schedule, product_fraction, fused)
