"""Compiled loops of binned sums, up to rounding. They call nothing of another file, for the reason in `kernels`."""

import numpy as np

from ..jit import njit, prange

__all__ = ["NO_TERM", "add_bins", "add_together"]

NO_TERM = -(1 << 24)
"""Exponent of what is no term: zeros, infinities and NaN."""
MAX_SHIFT = 63


@njit(cache=True, nogil=True)
def _quantum(a_exponent, b_exponent, first_place, unit, bins, bin_bits):
    """Return the exponent of the lowest place that counts; a product's highest is `first_place` above its least bit."""
    most = np.int32(2 * NO_TERM)
    for k in range(len(a_exponent)):
        most = max(most, a_exponent[k] + b_exponent[k])
    top = np.int64(0)
    if most > NO_TERM:
        top = (np.int64(most) + first_place - unit) // bin_bits
    return unit + (top - bins + 1) * bin_bits


@njit(parallel=True, cache=True, nogil=True)
def add_together(a, a_exponent, b, b_exponent, shape, unit, high, low, exponents):
    """Sums in 64 bits that hold all bins, none of which wraps: (rows, columns), each in units of its quantum.

    `a`, `a_exponent` (columns, K) and `b`, `b_exponent` (rows, K) are significands and exponents; `shape` is the bits
    of a product, the bins and their bits. `high` and `low` get the sums in 128 bits, `exponents` those of their quanta.
    """
    product_bits, bins, bin_bits = shape
    up = bins * bin_bits - product_bits
    for row in prange(len(b)):
        for column in range(len(a)):
            quantum = _quantum(a_exponent[column], b_exponent[row], product_bits - 1, unit, bins, bin_bits)
            total, bias = np.int64(0), quantum + up
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
def add_bins(a, a_exponent, b, b_exponent, shape, width, unit, high, low, exponents):
    """Sums bin by bin, each of which wraps at `width` bits; otherwise as `add_together`."""
    product_bits, bins, bin_bits = shape
    mask = (np.int64(1) << bin_bits) - 1
    for row in prange(len(b)):
        sums = np.empty(bins, np.int64)
        for column in range(len(a)):
            quantum = _quantum(a_exponent[column], b_exponent[row], product_bits - 1, unit, bins, bin_bits)
            for place in range(bins):
                total, lowest = np.int64(0), quantum + place * bin_bits
                for k in range(a.shape[1]):
                    product = np.int64(a[column, k]) * np.int64(b[row, k])
                    away = np.int64(a_exponent[column, k] + b_exponent[row, k]) - lowest
                    sign = product >> 63
                    magnitude = (product ^ sign) - sign
                    # A product has 22 bits at most, and a bin no more than 32.
                    digit = magnitude << min(max(away, 0), 40) >> min(max(-away, 0), MAX_SHIFT) & mask
                    total += (digit ^ sign) - sign
                sums[place] = total << (64 - width) >> (64 - width) if width < 64 else total
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
