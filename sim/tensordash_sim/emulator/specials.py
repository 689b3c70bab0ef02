"""Infinities and NaN of exact and binned sums, added separately from finite terms."""

import numpy as np
from numpy.typing import NDArray

from tensordash.configuration.config import TileConfig

from .kernels import EXACT_NAN, mark_specials
from .tables import is_finite, marks, operand_formats

__all__ = ["bounded", "insert_specials"]

FP32_EXPONENTS = 128
"""Exponent of the smallest power of two that is not a finite FP32 number."""


def bounded(added: NDArray[np.uint32], exponent: int) -> NDArray[np.uint32]:
    """Replace FP32 numbers with a magnitude of at least ``2**exponent`` by infinities."""
    if exponent >= FP32_EXPONENTS:
        return added
    numbers = added.view(np.float32)
    beyond = np.abs(numbers) >= 2.0**exponent
    return np.where(beyond, np.copysign(np.float32(np.inf), numbers), numbers).view(np.uint32)


def insert_specials(
    columns: NDArray, rows: NDArray, config: TileConfig, out: NDArray[np.uint32], added: NDArray[np.uint32] | None
) -> None:
    """Overwrite sums whose products or biases include an infinity or NaN.

    Parameters
    ----------
    columns : array of unsigned, (products, M, K)
    rows : array of unsigned, (products, N, K)
        Bit patterns of both sides, with scales if there are any (`operand_formats`).
    config : TileConfig
        Formats and sparsity.
    out : array of uint32, (products, N, M)
        FP32 bits of the sums of finite terms.
    added : array of uint32, (products, N, M), optional
        FP32 bits of the biases.

    Source: docs/numerics.md, "Products".
    """
    a, b = operand_formats(config)
    beyond = out if added is None else np.zeros_like(out)
    special: NDArray[np.bool_] = ~np.asarray(is_finite(columns, a).all(1) & is_finite(rows, b).all(1))
    for each in np.flatnonzero(special.any(1)):
        a_marks, b_marks = marks(a)[columns[each][:, special[each]]], marks(b)[rows[each][:, special[each]]]
        mark_specials(a_marks, b_marks, config.sparsity == "both", config.sparsity != "none", EXACT_NAN, beyond[each])
    if added is None:
        return
    numbers = added.view(np.float32)
    place = (beyond != 0) | ~np.isfinite(numbers)
    with np.errstate(invalid="ignore"):
        made = beyond.view(np.float32)[place] + numbers[place]
    out[place] = np.where(np.isnan(made), np.uint32(EXACT_NAN), made.view(np.uint32))
