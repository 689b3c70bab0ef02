"""Exact accumulators: error-free products of integer matrices, computed from products of digits in float64.

Fixed-point values are split into short digits, so that float64 represents a sum of their products exactly, in any
order (an error-free splitting, as in the Ozaki scheme). BLAS therefore computes the matrix products. The sums of
digits' products add up to 128 bits, which wrap at the accumulator's width and are rounded once.
"""

from itertools import product

import numpy as np
from numpy.typing import NDArray

from tensordash.configuration.config import TileConfig
from tensordash.configuration.formats import IntegerFormat
from tensordash.configuration.numerics import Exact

from .kernels import add_biases, add_digits, cut, round_sums, wrap
from .specials import bounded, insert_specials
from .tables import Digits, digits, operand_formats

__all__ = ["exact_products"]

FLOAT64_BITS = 53
BLOCK = 2048
"""Vectors of each side in a matrix product: bounds the memory for digits."""
BLOCK_VALUES = 1 << 18
"""Values and results of a batch of products, so that their digits fit the cache."""
MAX_PIECE_LENGTH = 1 << 13
"""Values of a vector in a matrix product, so that their digits fit the cache."""
MAX_BIAS_EXPONENT = 127
"""Exponent, in units of a sum's least bit, of the power of two from which a bias is an infinity for every width."""


def exact_products(
    columns: NDArray, rows: NDArray, config: TileConfig, added: NDArray[np.uint32] | None = None
) -> NDArray[np.uint32]:
    """Return sums of products in an exact accumulator.

    Parameters
    ----------
    columns : array of unsigned, (products, M, K)
    rows : array of unsigned, (products, N, K)
        Bit patterns of both sides, with scales if there are any (`operand_formats`).
    config : TileConfig
        Formats, accumulator and sparsity.
    added : array of uint32, (products, N, M), optional
        Addends: FP32 bits, added before sums are rounded. Bits below a sum's least bit are dropped, and an addend that
        is too large becomes an infinity (docs/core.md, "Multiply", 1). For integers: INT32 bits, added modulo 2^32.

    Returns
    -------
    array of uint32, (products, N, M)
        FP32 or INT32 bits.

    Source: docs/numerics.md, "`exact`" and "Products".
    """
    count, down, across = len(rows), rows.shape[1], columns.shape[1]
    out = np.empty((count, down, across), np.uint32)
    together = max(1, BLOCK_VALUES // (down * across + (down + across) * columns.shape[2]))
    for first, i, j in product(range(0, count, together), range(0, down, BLOCK), range(0, across, BLOCK)):
        products, place = slice(first, first + together), (slice(i, i + BLOCK), slice(j, j + BLOCK))
        more = None if added is None else np.ascontiguousarray(added[products, *place])
        out[products, *place] = _block(columns[products, place[1]], rows[products, place[0]], config, more)
    return out


def _block(columns: NDArray, rows: NDArray, config: TileConfig, added: NDArray[np.uint32] | None) -> NDArray[np.uint32]:
    """`exact_products` for operands below the float64 limit."""
    a, b = operand_formats(config)
    a_digits, b_digits, accumulator = digits(a), digits(b), config.numerics.accumulator
    assert isinstance(accumulator, Exact)
    high, low = _sums(columns, rows, a_digits, b_digits)
    width = (a_digits.largest * b_digits.largest).bit_length() + 1 + accumulator.headroom_bits
    sums = high.reshape(-1, high.shape[-1]), low.reshape(-1, low.shape[-1])
    if isinstance(a, IntegerFormat) or isinstance(b, IntegerFormat):
        wrap(*sums, width)
        return (low if added is None else low + added).astype(np.uint32)
    if added is not None:
        exponent = a.least_exponent + b.least_exponent
        added = bounded(added, min(width - 1, MAX_BIAS_EXPONENT) + exponent)
        add_biases(*sums, exponent, added.reshape(sums[0].shape))
    if width < 128:
        wrap(*sums, width)
    out = np.empty(high.shape, np.uint32)
    exponents = np.broadcast_to(np.int64(a.least_exponent + b.least_exponent), sums[0].shape)
    round_sums(*sums, exponents, out.reshape(sums[0].shape))
    insert_specials(columns, rows, config, out, added)
    return out


def _sums(columns: NDArray, rows: NDArray, a: Digits, b: Digits) -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
    """Return the high and the low 64 bits of sums, which hold up to 2**46 - 1 products."""
    shape = len(rows), rows.shape[1], columns.shape[1]
    high, low = np.zeros(shape, np.int64), np.zeros(shape, np.uint64)
    longest = min(MAX_PIECE_LENGTH, 1 << (FLOAT64_BITS - a.bits - b.bits))
    counts = len(a.values), len(b.values)
    for begin in range(0, columns.shape[2], longest):
        piece = slice(begin, begin + longest)
        left, right = _cut(rows[..., piece], b), _cut(columns[..., piece], a)
        products = (left @ right.mT).reshape(len(rows), counts[1], shape[1], counts[0], shape[2])
        add_digits(high, low, products, counts, (a.bits, b.bits))
    return high, low


def _cut(vectors: NDArray, table: Digits) -> NDArray[np.float64]:
    """Return the digits of vectors, (products, digits * vectors, K): all lowest digits first."""
    products, count, length = vectors.shape
    out = np.empty((products, len(table.values), count, length))
    cut(vectors, table.values, out)
    return out.reshape(products, -1, length)
