"""Tables of the values of all bit patterns of a format."""

from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensordash.configuration.config import TileConfig
from tensordash.configuration.formats import FloatFormat, Format, IntegerFormat, ScaleFormat

__all__ = [
    "INFINITE",
    "NAN",
    "NEGATIVE",
    "ZERO",
    "Digits",
    "Operand",
    "Scaled",
    "ScaledFormat",
    "checked_bits",
    "digits",
    "floats",
    "is_finite",
    "marks",
    "operand_formats",
    "pattern_type",
    "scaled",
    "with_scales",
]

ZERO = 1
INFINITE = 2
NAN = 4
NEGATIVE = 8
"""The last of the marks of a bit pattern; marks are flags that combine by `|`."""
MAX_DIGIT_BITS = 20
"""Bits of a digit: 2**13 products of two digits are below 2**53."""


class Scaled(NamedTuple):
    """A format's finite values, ``significand * 2**exponent``; the entries of infinities and NaN are undefined.

    Attributes
    ----------
    significand, exponent : array of int32, (2**width,)
        The significand is signed.
    """

    significand: NDArray[np.int32]
    exponent: NDArray[np.int32]


class ScaledFormat(NamedTuple):
    """Patterns of values with their scales; the scale's bits are above the element's bits.

    Attributes
    ----------
    element : FloatFormat
        Format of the lower bits.
    scale : ScaleFormat
        Format of the upper bits.
    """

    element: FloatFormat
    scale: ScaleFormat

    @property
    def width(self) -> int:
        return self.element.width + self.scale.width

    @property
    def least_exponent(self) -> int:
        """Weight of a value's least bit, as a power of two."""
        number = self.scale.number
        return self.element.least_exponent + (-self.scale.bias if number is None else number.least_exponent)

    def both(self, table: NDArray, of_scales: NDArray) -> tuple[NDArray, NDArray]:
        """Combine the tables of elements and of scales for every pattern."""
        every = np.arange(1 << self.width)
        return table[every % (1 << self.element.width)], of_scales[every >> self.element.width]


Operand = Format | ScaledFormat
"""Format of an operand's patterns."""


class Digits(NamedTuple):
    """Values as integers in units of the smallest positive value, split into signed digits; infinities and NaN are 0.

    Attributes
    ----------
    bits : int
        Bits of a digit's magnitude.
    largest : int
        The largest magnitude of a value.
    values : array of float32, (digits, 2**width)
        The lowest digit first; exact.
    """

    bits: int
    largest: int
    values: NDArray[np.float32]


def pattern_type(fmt: Format) -> np.dtype:
    """Return the narrowest unsigned type, of 8, 16 or 32 bits, that holds a format's patterns.

    >>> from tensordash.configuration.formats import FORMATS
    >>> [pattern_type(FORMATS[name]).itemsize for name in ("fp8_e4m3", "fp16", "tf32")]
    [1, 2, 4]
    """
    return np.dtype(np.uint8 if fmt.width <= 8 else np.uint16 if fmt.width <= 16 else np.uint32)


def _patterns(fmt: Format) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return all patterns without sign, and their signs."""
    every = np.arange(1 << fmt.width)
    return every & ((1 << (fmt.width - 1)) - 1), every >> (fmt.width - 1) == 1


def is_finite(bits: NDArray, fmt: Operand) -> NDArray[np.bool_]:
    """Return which patterns are neither infinities nor NaN.

    >>> from tensordash.configuration.formats import FORMATS
    >>> is_finite(np.array([0x00, 0xFE, 0xFF], np.uint8), FORMATS["fp8_e4m3"])
    array([ True,  True, False])
    """
    if isinstance(fmt, IntegerFormat):
        return np.ones(bits.shape, bool)
    if isinstance(fmt, ScaledFormat):
        sound: NDArray[np.bool_] = marks(fmt)[bits] & (INFINITE | NAN) == 0
        return sound
    finite: NDArray[np.bool_] = bits & bits.dtype.type((1 << (fmt.width - 1)) - 1) <= fmt.largest
    return finite


@cache
def _scales(scale: ScaleFormat) -> tuple[Scaled, NDArray[np.uint8]]:
    """Return significands, exponents and marks of all patterns of a scale."""
    if scale.number is not None:
        return scaled(scale.number), marks(scale.number)
    powers = np.arange(256, dtype=np.int32) - np.int32(scale.bias)
    marked = np.where(np.arange(256) == scale.nan, NAN, 0).astype(np.uint8)
    return Scaled(np.ones(256, np.int32), powers), marked


@cache
def scaled(fmt: Operand) -> Scaled:
    """Return the significand and the exponent of every pattern.

    >>> from tensordash.configuration.formats import FORMATS
    >>> table = scaled(FORMATS["bf16"])
    >>> [(int(table.significand[bits]), int(table.exponent[bits])) for bits in (0x3F80, 0x8001)]
    [(128, -7), (-1, -133)]
    """
    if isinstance(fmt, ScaledFormat):
        elements, (scales, _) = scaled(fmt.element), _scales(fmt.scale)
        significands = fmt.both(elements.significand, scales.significand)
        exponents = fmt.both(elements.exponent, scales.exponent)
        return Scaled(significands[0] * significands[1], exponents[0] + exponents[1])
    magnitude, negative = _patterns(fmt)
    if isinstance(fmt, IntegerFormat):
        return Scaled((magnitude - (negative << (fmt.width - 1))).astype(np.int32), np.zeros(1 << fmt.width, np.int32))
    field = magnitude >> fmt.fraction_bits
    hidden = np.where(field > 0, 1 << fmt.fraction_bits, 0)
    significand = (magnitude & ((1 << fmt.fraction_bits) - 1)) + hidden
    exponent = np.maximum(field, 1) - 1 + fmt.least_exponent
    return Scaled(np.where(negative, -significand, significand).astype(np.int32), exponent.astype(np.int32))


@cache
def marks(fmt: Operand) -> NDArray[np.uint8]:
    """Return every pattern's marks: `ZERO`, `INFINITE`, `NAN` and `NEGATIVE`.

    >>> from tensordash.configuration.formats import FORMATS
    >>> marks(FORMATS["fp16"])[[0x8000, 0x3C00, 0xFC00, 0x7C01]].tolist()
    [9, 0, 10, 4]
    """
    if isinstance(fmt, ScaledFormat):
        element, of_scale = fmt.both(marks(fmt.element), _scales(fmt.scale)[1])
        unlike: NDArray[np.uint8] = (element ^ of_scale) & NEGATIVE
        # A zero with a NaN scale keeps the mark of a zero, because the tile skips it.
        kinds = (element | of_scale) & (ZERO | INFINITE | NAN)
        kinds = np.where(kinds & NAN, kinds & (ZERO | NAN), kinds)
        return np.asarray(kinds | unlike, np.uint8)
    magnitude, negative = _patterns(fmt)
    if isinstance(fmt, IntegerFormat):
        made = np.where((magnitude == 0) & ~negative, ZERO, 0)
    else:
        beyond = np.where((magnitude == fmt.largest + 1) & fmt.infinities, INFINITE, NAN)
        made = np.where(magnitude > fmt.largest, beyond, 0) + np.where(magnitude == 0, ZERO, 0)
    return (made + np.where(negative, NEGATIVE, 0)).astype(np.uint8)


@cache
def digits(fmt: Operand) -> Digits:
    """Return the digits of every pattern's value; float32 represents each digit exactly.

    >>> from tensordash.configuration.formats import FORMATS
    >>> table = digits(FORMATS["fp16"])
    >>> table.bits, table.values[:, 0xFBFF].tolist()  # -65504, in units of 2**-24
    (20, [0.0, -1048064.0])
    """
    values, exponent = scaled(fmt)
    least = 0 if isinstance(fmt, IntegerFormat) else fmt.least_exponent
    finite = is_finite(np.arange(1 << fmt.width), fmt)
    fixed = np.where(finite, values.astype(np.int64) << np.where(finite, exponent - least, 0), 0)
    magnitude = np.abs(fixed)
    largest = int(magnitude.max())
    count = -(-largest.bit_length() // MAX_DIGIT_BITS)
    bits = -(-largest.bit_length() // count)
    cut = np.array([magnitude >> (k * bits) & ((1 << bits) - 1) for k in range(count)])
    return Digits(bits, largest, np.where(fixed < 0, -cut, cut).astype(np.float32))


@cache
def floats(fmt: Format) -> NDArray[np.float32]:
    """Return the exact value of every pattern.

    >>> from tensordash.configuration.formats import FORMATS
    >>> floats(FORMATS["fp16"])[[0x3C00, 0xFC00, 0x7C01]]
    array([  1., -inf,  nan], dtype=float32)
    """
    significand, exponent = scaled(fmt)
    marked = marks(fmt)
    finite = np.ldexp(significand.astype(np.float64), exponent)
    infinite = np.where(marked & NEGATIVE, -np.inf, np.inf)
    values = np.where(marked & INFINITE, infinite, np.where(marked & NAN, np.nan, finite))
    return np.where(marked & ZERO, np.where(marked & NEGATIVE, -0.0, 0.0), values).astype(np.float32)


def operand_formats(config: TileConfig) -> tuple[Operand, Operand]:
    """Return the formats of the patterns of sides a and b; for a tile with scales, both are `ScaledFormat`."""
    a, b, scale = config.a_format, config.b_format, config.numerics.scale
    if scale is None:
        return a, b
    assert isinstance(a, FloatFormat)
    assert isinstance(b, FloatFormat)
    return ScaledFormat(a, scale), ScaledFormat(b, scale)


def with_scales(name: str, bits: NDArray, scales: ArrayLike, fmt: ScaledFormat) -> NDArray[np.uint16]:
    """Join elements, (..., K), and the scales of their blocks, (..., blocks), to patterns of `fmt`.

    Raises
    ------
    TypeError, ValueError
        If the scales have the wrong type, shape or values.
    """
    array, scale = np.asarray(scales), fmt.scale
    if not np.issubdtype(array.dtype, np.unsignedinteger):
        raise TypeError(f"scales of {name} must be an array of {scale.name} bit patterns, not of {array.dtype}")
    shape = (*bits.shape[:-1], -(-bits.shape[-1] // scale.block))
    if array.shape != shape:
        raise ValueError(f"scales of {name} must have shape {shape}, one for {scale.block} values, not {array.shape}")
    if array.size and array.max() >= 1 << scale.width:
        raise ValueError(f"scales of {name} must hold {scale.name} bit patterns below 256, not {array.max()}")
    each = np.repeat(array.astype(np.uint16), scale.block, axis=-1)[..., : bits.shape[-1]]
    return np.asarray(bits | each << np.uint16(fmt.element.width), np.uint16)


def checked_bits(name: str, values: ArrayLike, fmt: Format) -> NDArray:
    """Convert an operand to an array of its format's `pattern_type`.

    Raises
    ------
    TypeError, ValueError
        If `values` are not unsigned integers or are out of range.
    """
    array = np.asarray(values)
    if not np.issubdtype(array.dtype, np.unsignedinteger):
        raise TypeError(f"{name} must be an array of {fmt.name} bit patterns (unsigned integers), not of {array.dtype}")
    pattern = pattern_type(fmt)
    if 8 * array.dtype.itemsize > fmt.width and array.size and array.max() >= 1 << fmt.width:
        raise ValueError(f"{name} must hold {fmt.name} bit patterns below 2**{fmt.width}, not {array.max()}")
    return array.astype(pattern, copy=False)
