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
from .tables import INFINITE, NAN, Scaled, is_finite, marks, scaled

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


@njit(cache=True, nogil=True)
def _accumulate_together(
    a, a_exponent, b, b_exponent, chosen, ends, product_fraction, fraction_bits, nearest, largest, total, sums
):
    """As `_accumulated`, of finite numbers, for columns that share a schedule: `a` (K, columns).

    Without a branch inside a loop over columns, so that many are added in one instruction. Fraction bits are so few
    that 64 bits hold the sum. `largest`, `total` and `sums` have room for each column; `sums` gets the FP32 bits.
    """
    sums[:] = 0
    begin = np.int64(0)
    for end in ends:
        if end == begin:
            continue
        for m in range(len(sums)):
            largest[m] = max((sums[m] & 0x7FFFFFFF) >> FRACTION, 1) - 1 + LEAST + FRACTION
        for place in range(begin, end):
            k = chosen[place]
            added, factor = np.int64(b_exponent[k]) + product_fraction, np.int64(b[k])
            for m in range(len(sums)):
                exponent = a_exponent[k, m] + added
                largest[m] = max(largest[m], exponent if a[k, m] * factor != 0 else np.int64(LEAST))
        for m in range(len(sums)):
            field = (sums[m] & 0x7FFFFFFF) >> FRACTION
            significand = sums[m] & ((1 << FRACTION) - 1) | np.int64(field > 0) << FRACTION
            away = max(field, 1) - 1 + LEAST + fraction_bits - largest[m]
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
            # As in `round_magnitude`.
            least = largest[m] - fraction_bits
            unit = max(least + bit_length(np.uint64(magnitude)) - FRACTION - 1, LEAST)
            cut = max(unit - least, 0)
            significand = magnitude << max(least - unit, 0) >> cut
            rest, whole = magnitude & ((np.int64(1) << cut) - 1), np.int64(1) << cut
            up = (rest * 2 > whole) | ((rest * 2 == whole) & (significand & 1 == 1))
            significand += np.int64(nearest & up)
            pattern = min(((unit - LEAST) << FRACTION) + significand, BEYOND)
            pattern = pattern if significand else np.int64(0)
            made = np.int64((total[m] < 0) & (pattern > 0)) << 31 | pattern
            sums[m] = sums[m] if sums[m] & 0x7FFFFFFF == BEYOND else made
        begin = end


@njit(parallel=True, cache=True, nogil=True)
def _multiply(a_terms, b_terms, turned, shape, both, dense, depth, options, product_fraction, fused, out):
    """All results `out` (N, M) of significands, exponents and marks of special vectors, (M, K) and (N, K).

    `turned` are significands and exponents of the columns as (K, M), or empty if they are not to be added together.
    `shape` are rows and column vectors of a block, and lanes; `fused` are fraction bits, and whether it is to nearest.
    """
    (a, a_exponent, a_special), (b, b_exponent, b_special), (height, width, lanes) = a_terms, b_terms, shape
    together = turned[0].size > 0
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
            cycles = _order(sides[0], sides[1], both, lanes, depth, *options, chosen, ends)
        scratch = np.empty((3, columns), np.int64)
        for i in range(rows):
            if together:
                one, here = 0 if dense else i, slice(column, column + columns)
                _accumulate_together(
                    turned[0][:, here],
                    turned[1][:, here],
                    b[row + i],
                    b_exponent[row + i],
                    chosen[one],
                    ends[one, :cycles],
                    product_fraction,
                    fused[0],
                    fused[1],
                    scratch[0],
                    scratch[1],
                    scratch[2],
                )
                out[row + i, here] = scratch[2]
            for j in range(columns):
                if together and not (a_special[column + j] or b_special[row + i]):
                    continue
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
    both, lanes, depth = config.sparsity == "both", config.lanes, config.window_depth
    more = -columns.shape[1] % lanes
    a_terms = _terms(np.pad(columns, [(0, 0), (0, more)]), a)
    b_terms = _terms(np.pad(rows, [(0, 0), (0, more)]), b)
    product_fraction = a.fraction_bits + b.fraction_bits
    together = not both and accumulator.fraction_bits - product_fraction < 32
    turned = [np.ascontiguousarray(side.T if together else side[:0]) for side in a_terms[:2]]
    out = np.empty((len(rows), len(columns)), np.uint32)
    _multiply(
        a_terms,
        b_terms,
        (turned[0], turned[1]),
        (config.rows, config.columns if both else SHARED, lanes),
        both,
        config.sparsity == "none",
        depth,
        rules(config.options, lanes, depth),
        product_fraction,
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


def _terms(vectors: NDArray, fmt: FloatFormat) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.bool_]]:
    """Significands and exponents, and which vectors have an infinity or NaN."""
    significand, exponent = _table(fmt)
    return significand[vectors], exponent[vectors], ~is_finite(vectors, fmt).all(axis=1)
