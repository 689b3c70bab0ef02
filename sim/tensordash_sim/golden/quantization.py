"""Rounding of values to the number formats of a tile."""

import numpy as np
from numpy.typing import NDArray

from tensordash.configuration.formats import FloatFormat, Format

from .encoding import encode
from .numbers import to_float

__all__ = ["non_zeros", "quantized", "scale"]


def quantized(values: NDArray[np.float32], fmt: Format) -> NDArray:
    """Round values to nearest, ties to even, and return bit patterns of a format.

    For formats of at most 8 bits, whose range is small, the function first multiplies all values by the largest power
    of two that leaves them in range.

    Parameters
    ----------
    values : array of float, any shape
        Finite.
    fmt : Format
        The format.

    Returns
    -------
    array of unsigned int, the same shape

    Examples
    --------
    >>> from tensordash.configuration.formats import FORMATS
    >>> values = np.array([0.5, -0.0, 0.03125, -3.0], np.float32)
    >>> [hex(bits) for bits in quantized(values, FORMATS["fp16"])]
    ['0x3800', '0x8000', '0x2800', '0xc200']
    >>> [hex(bits) for bits in quantized(values, FORMATS["int8"])]  # scaled by 32: 16, 0, 1, -96
    ['0x10', '0x0', '0x1', '0xa0']
    """
    scaled = values.astype(np.float64) * 2.0 ** scale(values, fmt)
    return encode(scaled if isinstance(fmt, FloatFormat) else np.rint(scaled).astype(np.int64), fmt)


def scale(values: NDArray[np.float32], fmt: Format) -> int:
    """Return the exponent of the power of two by which `quantized` multiplies values; 0 for the 16-bit formats.

    Parameters
    ----------
    values : array of float, any shape
        Finite.
    fmt : Format
        The format.

    Examples
    --------
    >>> from tensordash.configuration.formats import FORMATS
    >>> values = np.array([0.5, -3.0], np.float32)
    >>> scale(values, FORMATS["int8"]), scale(values, FORMATS["fp8_e4m3"]), scale(values, FORMATS["fp16"])
    (5, 7, 0)
    """
    if fmt.width > 8 or not values.any():
        return 0
    top = to_float(fmt.largest, fmt) if isinstance(fmt, FloatFormat) else 2.0 ** (fmt.width - 1) - 1
    return int(np.floor(np.log2(top / np.abs(values.astype(np.float64)).max())))


def non_zeros(bits: NDArray, fmt: Format) -> NDArray[np.bool_]:
    """Return which bit patterns of a format are not zero; floating-point formats have two zeros."""
    magnitudes = bits & (1 << (fmt.width - 1)) - 1 if isinstance(fmt, FloatFormat) else bits
    return magnitudes != 0
