"""Compiled results of a core's integer sums: scaling by a power of two, rounding, saturation, ReLU and masks."""

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

from tensordash.configuration.formats import IntegerFormat

from .tables import pattern_type

__all__ = ["integer_result_bits"]

NEAREST, TOWARD_ZERO, STOCHASTIC = range(3)
MAX_LEFT_SHIFT = 24
"""Left shift that saturates every integer but 0, for formats of up to 16 bits."""
MAX_RIGHT_SHIFT = 48
"""Right shift from which nothing rounds up: 32 bits of a sum and 16 random bits."""
NOT_RANDOM = np.empty(0, np.uint16)


def integer_result_bits(
    sums: NDArray[np.uint32],
    fmt: IntegerFormat,
    *,
    relu: bool = False,
    mask: NDArray | None = None,
    toward_zero: bool = False,
    random: NDArray[np.uint16] | None = None,
    scale: int = 0,
) -> NDArray:
    """Round and saturate INT32 sums as a core's output unit does.

    Parameters
    ----------
    sums : array of uint32, any shape
        INT32 bits, including biases.
    fmt : IntegerFormat
        Format of the results.
    relu, mask, toward_zero, random, scale
        As for `result_bits`; a mask is zero where its pattern is 0.

    Returns
    -------
    array of unsigned, the same shape

    Raises
    ------
    ValueError
        If `random` and `sums` differ in shape.

    Source: docs/core.md, "Integers".

    Examples
    --------
    >>> from tensordash.configuration.formats import FORMATS
    >>> sums = np.array([5, 7, 1000, -1000], np.int32).view(np.uint32)
    >>> integer_result_bits(sums, FORMATS["int8"], scale=-1).view(np.int8)
    array([   2,    4,  127, -128], dtype=int8)
    """
    if random is not None and random.shape != sums.shape:
        raise ValueError(f"random must have the shape of the sums, {sums.shape}, not {random.shape}")
    drawn = NOT_RANDOM if random is None else np.ascontiguousarray(random).reshape(-1)
    rounding = TOWARD_ZERO if toward_zero else NEAREST if random is None else STOCHASTIC
    out = np.empty(sums.shape, pattern_type(fmt))
    flat = np.ascontiguousarray(sums).reshape(-1).view(np.int32)
    _convert(flat, 1 << (fmt.width - 1), relu, rounding, drawn, scale, out.reshape(-1))
    if mask is not None:
        out[mask == 0] = 0
    return out


@njit(parallel=True, cache=True, nogil=True)
def _convert(sums, half, relu, rounding, random, scale, out):
    """Round ``sums * 2**scale`` and saturate them to -half and half - 1."""
    left, right = min(max(scale, 0), MAX_LEFT_SHIFT), min(max(-scale, 0), MAX_RIGHT_SHIFT)
    for index in prange(sums.size):
        value = np.int64(sums[index])
        magnitude = abs(value) << left
        whole = magnitude >> right
        rest = magnitude - (whole << right)
        if rounding == STOCHASTIC:
            whole += ((rest << 16 >> right) + np.int64(random[index])) >> 16
        elif rounding == NEAREST and right > 0:
            tie = np.int64(1) << (right - 1)
            whole += rest > tie or (rest == tie and whole & 1 == 1)
        if value < 0:
            out[index] = 0 if relu else -min(whole, half)
        else:
            out[index] = min(whole, half - 1)
