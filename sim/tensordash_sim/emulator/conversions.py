"""Compiled conversions: numbers to bit patterns and back, and sums to results."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensordash.configuration.formats import FORMATS, FP32, FloatFormat, Format, IntegerFormat

from .kernels import convert
from .tables import checked_bits, floats, pattern_type

__all__ = ["decode", "encode", "result_bits"]

_SOURCES = {
    np.dtype(np.float16): FORMATS["fp16"],
    np.dtype(np.float32): FP32,
    np.dtype(np.float64): FloatFormat(name="fp64", exponent_bits=11, fraction_bits=52),
}
NOT_RANDOM = np.empty(0, np.uint16)
FieldsOfFormat = tuple[int, int, int, int, bool, int]


def _fields(fmt: FloatFormat) -> FieldsOfFormat:
    """Return a format's parameters for compiled code."""
    return fmt.width, fmt.fraction_bits, fmt.least_exponent, fmt.largest, fmt.infinities, fmt.beyond


def _converted(
    bits: NDArray,
    source: FloatFormat,
    target: FloatFormat,
    *,
    signed_nan: bool,
    relu: bool = False,
    toward_zero: bool = False,
    random: NDArray[np.uint16] = NOT_RANDOM,
    scale: int = 0,
) -> NDArray:
    out = np.empty(bits.shape, pattern_type(target))
    flat = np.ascontiguousarray(bits).reshape(-1)
    drawn = np.ascontiguousarray(random).reshape(-1)
    convert(flat, _fields(source), _fields(target), signed_nan, relu, toward_zero, drawn, out.reshape(-1), scale)
    return out


def encode(values: ArrayLike, fmt: Format, scale: int = 0) -> NDArray:
    """Convert numbers to bit patterns.

    Parameters
    ----------
    values : array, any shape
        For a floating-point format: float16, float32 or float64, rounded to nearest, ties to even. An array that
        already has the format keeps its bits. For an integer format: signed integers.
    fmt : Format
        The format of the patterns.
    scale : int
        Exponent of a power of two. Floats are multiplied by it exactly before they are rounded.

    Returns
    -------
    array of uint8, uint16 or uint32, the same shape
        A float that rounds beyond the largest finite magnitude gives an infinity; a NaN if the format has no
        infinities; the largest finite magnitude if it has neither.

    Raises
    ------
    TypeError
        If the values are of the wrong kind.
    ValueError
        If an integer is out of range, or a value is NaN and the format has no NaN.

    Examples
    --------
    >>> from tensordash.configuration.formats import FORMATS
    >>> [hex(bits) for bits in encode([1.0, -448.0, 1e6], FORMATS["fp8_e4m3"])]
    ['0x38', '0xfe', '0x7f']
    >>> [hex(bits) for bits in encode([2.0**-149, 3e38], FORMATS["fp16"], scale=149)]
    ['0x3c00', '0x7c00']
    """
    array = np.asarray(values)
    if isinstance(fmt, IntegerFormat):
        return _encode_integers(array, fmt)
    source = _SOURCES.get(array.dtype)
    if not isinstance(source, FloatFormat):
        raise TypeError(f"values must be an array of float16, float32 or float64, not of {array.dtype}")
    if not fmt.nan and np.isnan(array).any():
        raise ValueError(f"values must be numbers, since {fmt.name} has no NaN, not NaN")
    bits = array.view(f"u{array.dtype.itemsize}")
    if source == fmt and scale == 0:
        return bits
    return _converted(bits, source, fmt, signed_nan=True, scale=scale)


def _encode_integers(array: NDArray, fmt: IntegerFormat) -> NDArray:
    if not np.issubdtype(array.dtype, np.signedinteger):
        raise TypeError(f"values must be an array of signed integers, not of {array.dtype}")
    limit = 1 << (fmt.width - 1)
    outside = array[(array < -limit) | (array >= limit)]
    if outside.size:
        raise ValueError(f"values must be from {-limit} to {limit - 1}, not {outside[0]}")
    return array.astype(pattern_type(fmt))


def decode(bits: ArrayLike, fmt: Format) -> NDArray[np.float32]:
    """Convert bit patterns to float32, which represents the values of every format exactly.

    Parameters
    ----------
    bits : array of unsigned, any shape
        The patterns.
    fmt : Format
        An operand format, or FP32.

    Returns
    -------
    array of float32, the same shape

    Raises
    ------
    TypeError, ValueError
        If `bits` are not unsigned integers or are out of range.

    Examples
    --------
    >>> from tensordash.configuration.formats import FORMATS
    >>> decode(np.array([0x38, 0xFE, 0x7F], np.uint8), FORMATS["fp8_e4m3"])
    array([   1., -448.,   nan], dtype=float32)
    """
    array = checked_bits("bits", bits, fmt)
    if fmt == FP32:
        return array.view(np.float32)
    return floats(fmt)[array]


def result_bits(
    sums: NDArray[np.uint32],
    fmt: FloatFormat,
    *,
    relu: bool = False,
    mask: NDArray | None = None,
    toward_zero: bool = False,
    random: NDArray[np.uint16] | None = None,
    scale: int = 0,
) -> NDArray:
    """Round sums, including their bias, as a core's output unit does.

    Parameters
    ----------
    sums : array of uint32, any shape
        FP32 bits.
    fmt : FloatFormat
        Format of the results: an operand format, or FP32.
    relu : bool
        Replace negative results by zero.
    mask : array of unsigned, the same shape, optional
        Patterns of the format. Where they are zeros of either sign, results are +0.
    toward_zero : bool
        Round toward zero, even if there are random bits. FP32 results ignore this.
    random : array of uint16, the same shape, optional
        Random bits for stochastic rounding.
    scale : int
        Exponent of a power of two. Results are multiplied by it exactly before they are rounded.

    Returns
    -------
    array of unsigned, the same shape
        Results, by default rounded to nearest, ties to even. All NaN have the same pattern, without sign.

    Raises
    ------
    ValueError
        If `random` and `sums` differ in shape.

    Source: docs/core.md, "Multiply", 3 to 7, and "Stochastic rounding".

    Examples
    --------
    >>> from tensordash.configuration.formats import FORMATS
    >>> [hex(bits) for bits in result_bits(np.array([0x3F800000, 0xFFFFFFFF, 0x7F7FFFFF], np.uint32), FORMATS["fp16"])]
    ['0x3c00', '0x7e00', '0x7c00']
    """
    if random is not None and random.shape != sums.shape:
        raise ValueError(f"random must have the shape of the sums, {sums.shape}, not {random.shape}")
    drawn = NOT_RANDOM if random is None else random
    down = toward_zero and fmt != FP32
    made = _converted(sums, FP32, fmt, signed_nan=False, relu=relu, toward_zero=down, random=drawn, scale=scale)
    if mask is not None:
        made[mask & ((1 << (fmt.width - 1)) - 1) == 0] = 0
    return made
