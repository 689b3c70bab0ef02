"""Compiled loops of binned sums, up to rounding. They call nothing of another file, for the reason in `kernels`."""

import numpy as np

from ..jit import njit, prange

__all__ = ["NO_TERM", "add_bins", "add_together"]

NO_TERM = -(1 << 24)
"""Exponent of what is no term: zeros, infinities and NaN."""
MAX_SHIFT = 63


@njit(cache=True, nogil=True)
def _unpack(bits, unit):
    """Return signed significand, exponent and place of an FP32 number; what lies below ``2**unit`` is cut off."""
    field, fraction = np.int64(bits >> 23 & 0xFF), np.int64(bits & 0x7FFFFF)
    if field == 0xFF or field | fraction == 0:
        return np.int64(0), np.int64(NO_TERM), np.int64(NO_TERM)
    place = max(field, 1) - 127
    exponent = place - 23
    magnitude = (fraction | np.int64(field > 0) << 23) >> min(max(unit - exponent, 0), MAX_SHIFT)
    return (-magnitude if bits >> 31 else magnitude), max(exponent, np.int64(unit)), place


@njit(cache=True, nogil=True)
def _quantum(a_exponent, b_exponent, bias_place, first_place, unit, bins, bin_bits):
    """Return the exponent of the lowest place that counts; a product's highest is `first_place` above its least bit."""
    most = np.int32(2 * NO_TERM)
    for k in range(len(a_exponent)):
        most = max(most, a_exponent[k] + b_exponent[k])
    place = max(np.int64(most) + first_place, bias_place)
    top = max((place - unit) // bin_bits, 0)
    return unit + (top - bins + 1) * bin_bits


@njit(cache=True, nogil=True)
def _digit(signed, away, mask):
    """Return the signed digit of ``signed * 2**away`` below `mask`."""
    sign = signed >> 63
    # A term has 24 bits at most, and a bin no more than 32.
    digit = ((signed ^ sign) - sign) << min(max(away, 0), 40) >> min(max(-away, 0), MAX_SHIFT) & mask
    return (digit ^ sign) - sign


@njit(parallel=True, cache=True, nogil=True)
def add_together(a, a_exponent, b, b_exponent, added, shape, unit, high, low, exponents):
    """Sums in 64 bits that hold all bins, none of which wraps: (rows, columns), each in units of its quantum.

    `a`, `a_exponent` (columns, K) and `b`, `b_exponent` (rows, K) are significands and exponents; `added` are FP32 bits
    of one more term of each sum; `shape` is the bits of a product, the bins and their bits. `high` and `low` get the
    sums in 128 bits, `exponents` those of their quanta.
    """
    product_bits, bins, bin_bits = shape
    up, whole = bins * bin_bits - product_bits, (np.int64(1) << (bins * bin_bits)) - 1
    for row in prange(len(b)):
        for column in range(len(a)):
            more, exponent, place = _unpack(added[row, column], unit)
            quantum = _quantum(a_exponent[column], b_exponent[row], place, product_bits - 1, unit, bins, bin_bits)
            total, bias = _digit(more, exponent - quantum, whole), quantum + up
            for k in range(a.shape[1]):
                product = np.int64(a[column, k]) * np.int64(b[row, k])
                down = min(bias - np.int64(a_exponent[column, k] + b_exponent[row, k]), MAX_SHIFT)
                sign = product >> 63
                cut = (((product ^ sign) - sign) << up) >> down
                total += (cut ^ sign) - sign
            exponents[row, column] = quantum
            low[row, column] = np.uint64(total)
            high[row, column] = total >> 63


@njit(parallel=True, cache=True, nogil=True)
def add_bins(a, a_exponent, b, b_exponent, added, shape, width, unit, high, low, exponents):
    """Sums bin by bin, each of which wraps at `width` bits; otherwise as `add_together`."""
    product_bits, bins, bin_bits = shape
    mask = (np.int64(1) << bin_bits) - 1
    for row in prange(len(b)):
        sums = np.empty(bins, np.int64)
        for column in range(len(a)):
            more, exponent, place = _unpack(added[row, column], unit)
            quantum = _quantum(a_exponent[column], b_exponent[row], place, product_bits - 1, unit, bins, bin_bits)
            for digit in range(bins):
                lowest = quantum + digit * bin_bits
                total = _digit(more, exponent - lowest, mask)
                for k in range(a.shape[1]):
                    product = np.int64(a[column, k]) * np.int64(b[row, k])
                    total += _digit(product, np.int64(a_exponent[column, k] + b_exponent[row, k]) - lowest, mask)
                sums[digit] = total << (64 - width) >> (64 - width) if width < 64 else total
            for place in range(bins - 1):
                sums[place + 1] += sums[place] >> bin_bits
                sums[place] &= mask
            # Four wide bins leave 128 bits. Where the highest is more than a sign, rounding needs of the lowest a mark.
            long = bins == 4 and bin_bits > 16 and sums[3] != 0 and sums[3] != -1
            upper, lower = sums[bins - 1] >> 63, np.uint64(sums[bins - 1])
            for place in range(bins - 2, np.int64(long) - 1, -1):
                upper = upper << bin_bits | np.int64(lower >> np.uint64(64 - bin_bits))
                lower = lower << np.uint64(bin_bits) | np.uint64(sums[place])
            if long:
                upper = upper << 1 | np.int64(lower >> np.uint64(63))
                lower = lower << np.uint64(1) | np.uint64(sums[0] != 0)
                quantum += bin_bits - 1
            exponents[row, column] = quantum
            high[row, column], low[row, column] = upper, lower
