"""Binned accumulators: find each sum's largest bin, then add the terms, cut off at its quantum."""

from functools import cache

import numpy as np
from numpy.typing import NDArray

from tensordash.configuration.config import TileConfig
from tensordash.configuration.formats import FloatFormat
from tensordash.configuration.numerics import Binned

from .binned_kernels import NO_TERM, add_bins, add_together
from .kernels import round_sums
from .specials import bounded, insert_specials
from .tables import INFINITE, NAN, ZERO, Operand, Scaled, marks, operand_formats, scaled

__all__ = ["binned_products"]

SUM_BITS = 63
"""Bits of a sum's magnitude in one 64-bit integer."""


def binned_products(
    columns: NDArray, rows: NDArray, config: TileConfig, added: NDArray[np.uint32] | None = None
) -> NDArray[np.uint32]:
    """Return sums of products in a binned accumulator.

    Parameters
    ----------
    columns : array of unsigned, (M, K)
    rows : array of unsigned, (N, K)
        Bit patterns of both sides, with scales if there are any (`operand_formats`).
    config : TileConfig
        Formats, accumulator and sparsity.
    added : array of uint32, (N, M), optional
        FP32 bits of a core's biases, one more term of each sum (docs/core.md, "Binned sums").

    Returns
    -------
    array of uint32, (N, M)
        FP32 bits.

    Source: docs/numerics.md, "`binned`" and "Products".
    """
    accumulator, a_format, b_format = config.numerics.accumulator, config.a_format, config.b_format
    assert isinstance(accumulator, Binned)
    assert isinstance(a_format, FloatFormat)
    assert isinstance(b_format, FloatFormat)
    a, b = operand_formats(config)
    (a_values, a_exponents), (b_values, b_exponents) = _terms(a), _terms(b)
    operands = a_values[columns], a_exponents[columns], b_values[rows], b_exponents[rows]
    unit = a.least_exponent + b.least_exponent  # type: ignore[union-attr]
    shape = a_format.significand_bits + b_format.significand_bits, accumulator.bins, accumulator.bin_bits
    results = len(rows), len(columns)
    high, low, exponents = np.empty(results, np.int64), np.empty(results, np.uint64), np.empty(results, np.int64)
    terms = columns.shape[1] + (added is not None)
    if added is not None:
        most = int(a_exponents.max() + b_exponents.max()) + shape[0] - 1
        beyond = unit + ((most - unit) // accumulator.bin_bits + 1) * accumulator.bin_bits
        added = bounded(added, beyond)
    more = np.zeros(results, np.uint32) if added is None else added
    if terms <= 1 << accumulator.headroom_bits and shape[1] * shape[2] + terms.bit_length() <= SUM_BITS:
        add_together(*operands, more, shape, unit, high, low, exponents)
    else:
        width = accumulator.bin_bits + 1 + accumulator.headroom_bits
        add_bins(*operands, more, shape, width, unit, high, low, exponents)
    out = np.empty(results, np.uint32)
    round_sums(high, low, exponents, out)
    insert_specials(columns[None], rows[None], config, out[None], None if added is None else added[None])
    return out


@cache
def _terms(fmt: Operand) -> Scaled:
    """Tabulate a format as `scaled` does, but with `NO_TERM` for zeros, infinities and NaN."""
    significand, exponent = scaled(fmt)
    none = marks(fmt) & (ZERO | INFINITE | NAN) != 0
    return Scaled(np.where(none, 0, significand).astype(np.int32), np.where(none, NO_TERM, exponent).astype(np.int32))
