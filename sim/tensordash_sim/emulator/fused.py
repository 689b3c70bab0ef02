"""Fused accumulators: what each cycle of a tile adds at once, as the tile's schedulers would choose it."""

from functools import cache

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

from tensordash.configuration.config import TileConfig
from tensordash.configuration.formats import FP32, FloatFormat
from tensordash.configuration.numerics import Fused

from ..cycles.kernels import consume
from ..cycles.scheduler import rules
from .rounding import bit_length, round_magnitude
from .tables import INFINITE, NAN, Scaled, marks, scaled

__all__ = ["fused_products"]

FRACTION, LEAST = FP32.fraction_bits, FP32.least_exponent
BEYOND = FP32.largest + 1
FUSED_NAN = 0x7FFFFFFF
FAR = 1 << 14
"""Exponent of infinities; NaN have four times as much, so that the sum of two exponents tells what there is."""
SHARED = 128
"""Column vectors for which a block of rows is scheduled once."""


@njit(cache=True, nogil=True)
def _enter(window, b, a, both, lanes, step, begin, depth):
    """Steps from `step` on enter the schedulers' windows at `begin` and above: which positions are not zero."""
    columns = len(a) if both else 1
    for place in range(begin, depth):
        first = (step + place) * lanes
        for row in range(len(b)):
            for column in range(columns):
                word = np.uint32(0)
                if first < b.shape[1]:
                    for lane in range(lanes):
                        present = b[row, first + lane] != 0 and not (both and a[column, first + lane] == 0)
                        word |= np.uint32(present) << np.uint32(lane)
                window[place, row * columns + column] = word


@njit(cache=True, nogil=True)
def _order(b, a, both, lanes, depth, levels, steps, ups, downs, chosen, ends):
    """Schedule a block: positions in the order in which each scheduler takes them, and where cycles end.

    Significands `b` (rows, K) and, with `both`, `a` (columns, K); gets `chosen` (schedulers, K) and `ends` (schedulers,
    steps). All schedulers advance together. The number of cycles.
    """
    schedulers, count = len(chosen), b.shape[1] // lanes
    window, before = np.empty((depth, schedulers), np.uint32), np.empty((depth, schedulers), np.uint32)
    scratch, places = np.empty((2, schedulers), np.uint32), np.zeros(schedulers, np.int64)
    _enter(window, b, a, both, lanes, 0, 0, depth)
    step, cycles = 0, 0
    while step < count:
        before[:] = window
        consume(window, scratch[0], scratch[1], levels, steps, ups, downs)
        left = min(depth, count - step)
        advance = left
        for one in range(schedulers):
            drained = left
            for place in range(left - 1, -1, -1):
                taken = before[place, one] ^ window[place, one]
                lane = 0
                while taken:
                    if taken & np.uint32(1):
                        chosen[one, places[one]] = (step + place) * lanes + lane
                        places[one] += 1
                    taken >>= np.uint32(1)
                    lane += 1
                if window[place, one]:
                    drained = place
            ends[one, cycles] = places[one]
            advance = min(advance, drained)
        step += advance
        cycles += 1
        for place in range(depth - advance):
            window[place] = window[place + advance]
        _enter(window, b, a, both, lanes, step, depth - advance, depth)
    return cycles


@njit(cache=True, nogil=True)
def _aligned(magnitude, shift):
    """``magnitude * 2**shift``, cut off below 1, in units of 2**32 and of 1: sums of 33 fit in 64 bits each."""
    if shift >= 32:
        return magnitude << (shift - 32), np.int64(0)
    if shift >= 0:
        return np.int64(0), magnitude << shift
    return np.int64(0), magnitude >> min(-shift, 63)


@njit(cache=True, nogil=True)
def _rounded(high, low, least, nearest):
    """``(high * 2**32 + low) * 2**least`` as FP32's sign and pattern."""
    sign = np.int64(0)
    if high:
        high += low >> np.int64(32)
        low &= np.int64(0xFFFFFFFF)
        if high < 0:
            sign, high, low = np.int64(1), -high - (low != 0), (-low) & np.int64(0xFFFFFFFF)
        # At most 2**47: the highest 64 bits, and a mark for what is below them.
        moved = max(bit_length(np.uint64(high)) - 32, 0)
        cut = low & ((np.int64(1) << moved) - 1)
        magnitude = np.uint64(high) << np.uint64(32 - moved) | np.uint64(low >> moved) | np.uint64(cut != 0)
        least += moved
    else:
        if low < 0:
            sign = np.int64(1)
        magnitude = np.uint64(abs(low))
    return sign, round_magnitude(magnitude, least, FRACTION, LEAST, BEYOND, nearest)


@njit(cache=True, nogil=True)
def _accumulated(a, a_exponent, b, b_exponent, chosen, ends, product_fraction, fraction_bits, nearest):
    """FP32 bits of one PE's result: the products of each cycle and the sum before are added at once."""
    sign, pattern, signs, begin = np.int64(0), np.int64(0), np.int64(0), np.int64(0)
    for end in ends:
        if end == begin:
            continue
        field = pattern >> FRACTION
        significand = pattern & ((1 << FRACTION) - 1) | np.int64(field > 0) << FRACTION
        weight = max(field, 1) - 1 + LEAST
        largest = weight + FRACTION
        for place in range(begin, end):
            k = chosen[place]
            exponent = np.int64(a_exponent[k]) + b_exponent[k]
            product = np.int64(a[k]) * b[k]
            if exponent >= FAR // 2:
                signs |= 3 if exponent >= 3 * FAR or product == 0 else 1 << np.int64(product < 0)
            elif product and exponent + product_fraction > largest:
                largest = exponent + product_fraction
        if not signs:
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
            sign, pattern = _rounded(high, low, least, nearest)
            if pattern == BEYOND:
                signs = np.int64(1) << sign
            elif pattern == 0:
                sign = np.int64(0)
        begin = end
    if signs:
        return FUSED_NAN if signs == 3 else (signs - 1) << 31 | BEYOND
    return sign << 31 | pattern


@njit(parallel=True, cache=True, nogil=True)
def _multiply(
    a, a_exponent, b, b_exponent, shape, both, dense, depth, levels, steps, ups, downs, product_fraction, fused, out
):
    """All results: significands and exponents of vectors `a` (M, K) and `b` (N, K), `out` (N, M).

    `shape` are rows and column vectors of a block, and lanes; `fused` are fraction bits, and whether it is to nearest.
    """
    height, width, lanes = shape
    across, length = -(-len(a) // width), a.shape[1]
    for item in prange(across * -(-len(b) // height)):
        row, column = item // across * height, item % across * width
        rows, columns = min(height, len(b) - row), min(width, len(a) - column)
        schedulers = 1 if dense else rows * columns if both else rows
        chosen = np.empty((schedulers, length), np.int32)
        ends = np.empty((schedulers, length // lanes), np.int32)
        cycles = length // lanes
        if dense:
            chosen[0] = np.arange(length)
            ends[0] = np.arange(lanes, length + 1, lanes)
        else:
            sides = b[row : row + rows], a[column : column + columns]
            cycles = _order(sides[0], sides[1], both, lanes, depth, levels, steps, ups, downs, chosen, ends)
        for i in range(rows):
            for j in range(columns):
                one = 0 if dense else i * columns + j if both else i
                out[row + i, column + j] = _accumulated(
                    a[column + j],
                    a_exponent[column + j],
                    b[row + i],
                    b_exponent[row + i],
                    chosen[one],
                    ends[one, :cycles],
                    product_fraction,
                    fused[0],
                    fused[1],
                )


def fused_products(columns: NDArray, rows: NDArray, config: TileConfig) -> NDArray[np.uint32]:
    """Sums of products in a fused accumulator.

    Parameters
    ----------
    columns : array of unsigned, (M, K)
    rows : array of unsigned, (N, K)
        Bit patterns of both sides.
    config : TileConfig
        Formats, accumulator, and the tile: its schedule decides what is added at once.

    Returns
    -------
    array of uint32, (N, M)
        FP32 bits.

    Source: docs/numerics.md, "`fused(F, rounding)`".
    """
    a, b, accumulator = config.a_format, config.b_format, config.numerics.accumulator
    assert isinstance(accumulator, Fused)
    assert isinstance(a, FloatFormat)
    assert isinstance(b, FloatFormat)
    both, lanes = config.sparsity == "both", config.lanes
    more = -columns.shape[1] % lanes
    a_significand, a_exponent = _terms(np.pad(columns, [(0, 0), (0, more)]), a)
    b_significand, b_exponent = _terms(np.pad(rows, [(0, 0), (0, more)]), b)
    out = np.empty((len(rows), len(columns)), np.uint32)
    _multiply(
        a_significand,
        a_exponent,
        b_significand,
        b_exponent,
        (config.rows, config.columns if both else SHARED, lanes),
        both,
        config.sparsity == "none",
        config.window_depth,
        *rules(config.options, lanes, config.window_depth),
        a.fraction_bits + b.fraction_bits,
        (accumulator.fraction_bits, accumulator.rounding == "nearest"),
        out,
    )
    return out


@cache
def _table(fmt: FloatFormat) -> Scaled:
    """As `scaled`, but for the exponents of infinities and NaN."""
    significand, exponent = scaled(fmt)
    marked = marks(fmt)
    far = np.where(marked & INFINITE, FAR, np.where(marked & NAN, 4 * FAR, exponent))
    return Scaled(significand, far.astype(np.int32))


def _terms(vectors: NDArray, fmt: FloatFormat) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Significands and exponents."""
    significand, exponent = _table(fmt)
    return significand[vectors], exponent[vectors]
