"""Compiled loops of binned sums, up to rounding. They call no function of another file; `kernels` gives the reason."""

import numpy as np

from ..jit import njit, prange

__all__ = ["NO_TERM", "add_bins", "add_together"]

NO_TERM = -(1 << 24)
"""Exponent of zeros, infinities and NaN, which are no terms of a sum."""
MAX_SHIFT = 63


@njit(cache=True, nogil=True)
def _unpack(bits, unit):
    """Return signed significand, exponent and highest place of an FP32 number; bits below ``2**unit`` are cut off."""
    field, fraction = np.int64(bits >> 23 & 0xFF), np.int64(bits & 0x7FFFFF)
    if field == 0xFF or field | fraction == 0:
        return np.int64(0), np.int64(NO_TERM), np.int64(NO_TERM)
    place = max(field, 1) - 127
    exponent = place - 23
    magnitude = (fraction | np.int64(field > 0) << 23) >> min(max(unit - exponent, 0), MAX_SHIFT)
    return (-magnitude if bits >> 31 else magnitude), max(exponent, np.int64(unit)), place


@njit(cache=True, nogil=True)
def _quantum(a_exponent, b_exponent, bias_place, first_place, unit, bins, bin_bits):
    """Return the exponent of the lowest place that counts.

    A product's highest place is `first_place` above its least bit.
    """
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
    # A term has at most 24 bits, and a bin at most 32.
    digit = ((signed ^ sign) - sign) << min(max(away, 0), 40) >> min(max(-away, 0), MAX_SHIFT) & mask
    return (digit ^ sign) - sign


@njit(parallel=True, cache=True, nogil=True)
def add_together(a, a_exponent, b, b_exponent, added, shape, unit, high, low, exponents):
    """Add terms in 64 bits that hold all bins, if no bin wraps: sums (rows, columns), each in units of its quantum.

    `a`, `a_exponent` (columns, K) and `b`, `b_exponent` (rows, K) are significands and exponents. `added` are FP32 bits
    of one more term of each sum. `shape` is the bits of a product, the number of bins and their bits. The function
    writes sums of 128 bits to `high` and `low`, and the exponents of their quanta to `exponents`.
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
    """Add terms as `add_together` does, but bin by bin; each bin wraps at `width` bits."""
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
            # Four wide bins exceed 128 bits. If the highest bin is more than a sign, the lowest bin only affects
            # rounding: one bit that marks whether it is zero suffices.
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
