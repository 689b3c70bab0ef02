"""Conversion of numbers to bit patterns."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensordash.configuration.formats import FloatFormat, Format, IntegerFormat

__all__ = ["encode"]

_PATTERNS = {4: np.uint8, 6: np.uint8, 8: np.uint8, 16: np.uint16, 19: np.uint32, 32: np.uint32}
_NATIVE = {"fp16": np.float16, "fp32": np.float32}


def encode(values: ArrayLike, fmt: Format) -> NDArray:
    """Convert numbers to bit patterns.

    Parameters
    ----------
    values : array, any shape
        For a floating-point format: floats, each rounded to nearest, ties to even. float16 and float32 arrays keep
        their bits if the format is the same. For an integer format: signed integers.
    fmt : Format
        The format of the patterns.

    Returns
    -------
    array of uint8, uint16 or uint32, the same shape
        The narrowest of these types that holds the format. A float that rounds beyond the largest finite magnitude
        gives an infinity; a NaN if the format has no infinities (OCP's non-saturating mode); the largest finite
        magnitude if it has neither.

    Raises
    ------
    TypeError
        If the values are of the wrong kind.
    ValueError
        If an integer is out of range, or a value is NaN and the format has no NaN.

    Examples
    --------
    >>> from tensordash.configuration.formats import FORMATS
    >>> [hex(bits) for bits in encode([1.0, -0.0, 1e6], FORMATS["fp16"])]
    ['0x3c00', '0x8000', '0x7c00']
    >>> [hex(bits) for bits in encode([1.0, -448.0, 1e6], FORMATS["fp8_e4m3"])]
    ['0x38', '0xfe', '0x7f']
    >>> encode([0.25, 0.75, -7.0, np.inf], FORMATS["fp4_e2m1"])
    array([ 0,  2, 15,  7], dtype=uint8)
    >>> encode([-1, 127], FORMATS["int8"])
    array([255, 127], dtype=uint8)
    """
    array = np.asarray(values)
    if isinstance(fmt, IntegerFormat):
        return _encode_integers(array, fmt)
    if not np.issubdtype(array.dtype, np.floating):
        raise TypeError(f"values must be an array of floats, not of {array.dtype}")
    pattern = _PATTERNS[fmt.width]
    if array.dtype.type is _NATIVE.get(fmt.name):
        return array.view(pattern)
    return _encode_floats(array, fmt).astype(pattern)


def _encode_integers(array: NDArray, fmt: IntegerFormat) -> NDArray:
    if not np.issubdtype(array.dtype, np.signedinteger):
        raise TypeError(f"values must be an array of signed integers, not of {array.dtype}")
    limit = 1 << (fmt.width - 1)
    outside = array[(array < -limit) | (array >= limit)]
    if outside.size:
        raise ValueError(f"values must be from {-limit} to {limit - 1}, not {outside[0]}")
    return array.astype(_PATTERNS[fmt.width])


def _encode_floats(array: NDArray, fmt: FloatFormat) -> NDArray[np.int64]:
    with np.errstate(invalid="ignore"):  # signalling NaN
        wide = array.astype(np.result_type(array, np.float64))
    finite = np.where(np.isfinite(wide), np.abs(wide), 0)
    # The weight of the result's least bit; the rest as in `round_fixed`.
    least = np.maximum(np.frexp(finite)[1] - fmt.significand_bits, fmt.least_exponent)
    least = np.where(finite == 0, fmt.least_exponent, least).astype(np.int64)
    significand = np.rint(np.ldexp(finite, -least)).astype(np.int64)
    pattern = ((least - fmt.least_exponent) << fmt.fraction_bits) + significand
    if not fmt.nan and np.isnan(wide).any():
        raise ValueError(f"values must be numbers, since {fmt.name} has no NaN, not NaN")
    beyond = fmt.beyond
    pattern = np.where(np.isfinite(wide), np.minimum(pattern, beyond), beyond)
    nan = beyond | (1 << (fmt.fraction_bits - 1))
    pattern = np.where(np.isnan(wide), nan, pattern)
    return pattern | (np.signbit(wide).astype(np.int64) << (fmt.width - 1))
