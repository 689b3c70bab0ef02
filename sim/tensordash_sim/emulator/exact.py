"""Exact accumulators: products of matrices of integers, without an error, from those of digits in float64.

Values in fixed point are cut into digits so short that float64 holds a sum of their products, in any order (an
error-free splitting, as in the Ozaki scheme): the matrix product of a library for floating point does all of the work.
Sums of digits' products make up 128 bits, which wrap at the accumulator's width and are rounded once.
"""

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

from tensordash.configuration.config import TileConfig
from tensordash.configuration.formats import FP32, FloatFormat
from tensordash.configuration.numerics import Exact

from .rounding import bit_length, round_magnitude
from .tables import INFINITE, NAN, ZERO, Digits, digits, is_finite, marks

__all__ = ["exact_products"]

FLOAT64_BITS = 53
BLOCK = 2048
"""Vectors of each side that are multiplied together, so that digits need little room."""
LONGEST = 1 << 13
"""Their pieces, for the same reason; never above what float64 allows."""
EXACT_NAN = 0x7FC00000


@njit(parallel=True, cache=True, nogil=True)
def _add_digits(high, low, products, counts, bits):
    """Add products of digits, (digits of b, vectors, digits of a, vectors), to sums of 128 bits."""
    rows, columns = high.shape
    for row in prange(rows):
        for j in range(counts[1]):
            for i in range(counts[0]):
                shift = i * bits[0] + j * bits[1]
                for column in range(columns):
                    value = np.int64(products[j, row, i, column])
                    added = np.uint64(value) << np.uint64(shift)
                    total = low[row, column] + added
                    above = value >> np.int64(63) if shift == 0 else value >> np.int64(64 - shift)
                    high[row, column] += above + np.int64(total < added)
                    low[row, column] = total


@njit(parallel=True, cache=True, nogil=True)
def _wrap(high, low, width):
    """Sums in two's complement of so many bits, below 128."""
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


@njit(parallel=True, cache=True, nogil=True)
def _round(high, low, exponent, fraction_bits, least_exponent, beyond, out):
    """Sums in units of ``2**exponent`` as FP32 bits, to nearest, ties to even."""
    for row in prange(high.shape[0]):
        for column in range(high.shape[1]):
            upper, lower = np.uint64(high[row, column]), low[row, column]
            sign = np.int64(upper >> np.uint64(63))
            if sign:
                lower = ~lower + np.uint64(1)
                upper = ~upper + np.uint64(lower == 0)
            unit = np.int64(exponent)
            if upper:
                moved = np.uint64(64 - bit_length(upper))
                cut = lower << moved
                lower = upper << moved | (lower >> np.uint64(1) >> (np.uint64(63) - moved)) | np.uint64(cut != 0)
                unit += np.int64(64) - np.int64(moved)
            pattern = round_magnitude(lower, unit, fraction_bits, least_exponent, beyond, True)
            out[row, column] = np.uint32(sign << 31 | pattern)


@njit(parallel=True, cache=True, nogil=True)
def _mark_specials(a_marks, b_marks, skips_a, skips_b, nan, out):
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


def exact_products(columns: NDArray, rows: NDArray, config: TileConfig) -> NDArray[np.uint32]:
    """Sums of products in an exact accumulator.

    Parameters
    ----------
    columns : array of unsigned, (M, K)
    rows : array of unsigned, (N, K)
        Bit patterns of both sides.
    config : TileConfig
        Formats, accumulator and what is skipped.

    Returns
    -------
    array of uint32, (N, M)
        FP32 or INT32 bits.

    Source: docs/numerics.md, "`exact`" and "Products".
    """
    out = np.empty((len(rows), len(columns)), np.uint32)
    for i in range(0, len(rows), BLOCK):
        for j in range(0, len(columns), BLOCK):
            place = slice(i, i + BLOCK), slice(j, j + BLOCK)
            out[place] = _block(columns[place[1]], rows[place[0]], config)
    return out


def _block(columns: NDArray, rows: NDArray, config: TileConfig) -> NDArray[np.uint32]:
    """As `exact_products`, of what is small enough."""
    a_digits, b_digits, accumulator = digits(config.a_format), digits(config.b_format), config.numerics.accumulator
    assert isinstance(accumulator, Exact)
    high, low = _sums(columns, rows, a_digits, b_digits)
    width = (a_digits.largest * b_digits.largest).bit_length() + 1 + accumulator.headroom_bits
    if width < 128:
        _wrap(high, low, width)
    if config.numerics.result == "int32":
        return low.astype(np.uint32)
    a, b = config.a_format, config.b_format
    assert isinstance(a, FloatFormat)
    assert isinstance(b, FloatFormat)
    out = np.empty(high.shape, np.uint32)
    exponent = a.least_exponent + b.least_exponent
    _round(high, low, exponent, FP32.fraction_bits, FP32.least_exponent, FP32.largest + 1, out)
    special = np.flatnonzero(~(is_finite(columns, a).all(0) & is_finite(rows, b).all(0)))
    if special.size:
        a_marks, b_marks = marks(a)[columns[:, special]], marks(b)[rows[:, special]]
        _mark_specials(a_marks, b_marks, config.sparsity == "both", config.sparsity != "none", EXACT_NAN, out)
    return out


def _sums(columns: NDArray, rows: NDArray, a: Digits, b: Digits) -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
    """The high and the low 64 bits of sums; those of fewer than 2**46 products fit."""
    shape = len(rows), len(columns)
    high, low = np.zeros(shape, np.int64), np.zeros(shape, np.uint64)
    longest = min(LONGEST, 1 << (FLOAT64_BITS - a.bits - b.bits))
    counts = len(a.values), len(b.values)
    for begin in range(0, columns.shape[1], longest):
        piece = slice(begin, begin + longest)
        left, right = _cut(rows[:, piece], b), _cut(columns[:, piece], a)
        products = (left @ right.T).reshape(counts[1], shape[0], counts[0], shape[1])
        _add_digits(high, low, products, counts, (a.bits, b.bits))
    return high, low


def _cut(vectors: NDArray, table: Digits) -> NDArray[np.float64]:
    """All vectors' lowest digits, then the next ones: (digits * vectors, K)."""
    return np.concatenate([values[vectors] for values in table.values])
