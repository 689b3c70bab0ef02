"""Floating-point bit patterns as exact integers, and back."""

from dataclasses import dataclass
from enum import Enum
from functools import cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensordash.formats import FloatFormat

__all__ = [
    "FP32",
    "FP32_NAN",
    "Decoded",
    "Kind",
    "decode",
    "encode",
    "fixed_values",
    "is_finite",
    "is_nan",
    "is_zero",
    "round_fixed",
    "to_float",
]

FP32 = FloatFormat(name="fp32", exponent_bits=8, fraction_bits=23)
"""The format of results."""

FP32_NAN = 0x7FC00000
"""The only NaN that results hold."""


class Kind(Enum):
    """What a bit pattern stands for."""

    ZERO = "zero"
    SUBNORMAL = "subnormal"
    NORMAL = "normal"
    INFINITE = "infinite"
    NAN = "nan"


@dataclass(frozen=True, slots=True)
class Decoded:
    """A bit pattern taken apart.

    Parameters
    ----------
    kind : Kind
        What it stands for.
    sign : int
        1 if the sign bit is set, else 0.
    significand : int
        Hidden bit included; of an infinity or NaN it means nothing.
    exponent : int
        Weight of the significand's least bit, as a power of two: a finite value is
        ``(-1)**sign * significand * 2**exponent``.
    """

    kind: Kind
    sign: int
    significand: int
    exponent: int


def decode(bits: int, fmt: FloatFormat) -> Decoded:
    """Take a bit pattern apart (IEEE 754-2019, section 3.4).

    Parameters
    ----------
    bits : int
        The pattern, 0 to ``2**fmt.width - 1``.
    fmt : FloatFormat
        Its format.

    Raises
    ------
    ValueError
        If `bits` is no pattern of the format.

    Examples
    --------
    >>> from tensordash.formats import FORMATS
    >>> one = decode(0x3C00, FORMATS["fp16"])  # 1.0 = 2**10 * 2**-10
    >>> one.significand, one.exponent
    (1024, -10)
    """
    if not 0 <= bits < 1 << fmt.width:
        raise ValueError(f"bits must be a bit pattern of {fmt.name}, 0 to 2**{fmt.width} - 1, not {bits}")
    fraction = bits & ((1 << fmt.fraction_bits) - 1)
    field = (bits >> fmt.fraction_bits) & ((1 << fmt.exponent_bits) - 1)
    sign = bits >> (fmt.width - 1)
    if field == (1 << fmt.exponent_bits) - 1:
        return Decoded(Kind.NAN if fraction else Kind.INFINITE, sign, fraction, 0)
    if field == 0:
        return Decoded(Kind.SUBNORMAL if fraction else Kind.ZERO, sign, fraction, fmt.least_exponent)
    significand = fraction + (1 << fmt.fraction_bits)
    return Decoded(Kind.NORMAL, sign, significand, field - fmt.bias - fmt.fraction_bits)


def is_zero(bits: int, fmt: FloatFormat) -> bool:
    """Whether the pattern is +0 or -0, the values that are skipped."""
    return decode(bits, fmt).kind is Kind.ZERO


def is_nan(bits: int, fmt: FloatFormat) -> bool:
    """Whether the pattern is a NaN."""
    return decode(bits, fmt).kind is Kind.NAN


def is_finite(bits: int, fmt: FloatFormat) -> bool:
    """Whether the pattern is neither an infinity nor a NaN."""
    return decode(bits, fmt).kind not in (Kind.INFINITE, Kind.NAN)


class _FixedValues(dict[int, int | None]):
    """Bit pattern to value in units of ``2**fmt.least_exponent``; None if it is not finite. Filled on first use."""

    def __init__(self, fmt: FloatFormat) -> None:
        super().__init__()
        self.fmt = fmt

    def __missing__(self, bits: int) -> int | None:
        number = decode(bits, self.fmt)
        value = None
        if number.kind not in (Kind.INFINITE, Kind.NAN):
            magnitude = number.significand << (number.exponent - self.fmt.least_exponent)
            value = -magnitude if number.sign else magnitude
        self[bits] = value
        return value


@cache
def fixed_values(fmt: FloatFormat) -> dict[int, int | None]:
    """A format's finite values as integers: bit pattern to value in units of ``2**fmt.least_exponent``.

    Infinities and NaN give None, both zeros 0. The mapping is filled on first use, so that each value is decoded once.

    Examples
    --------
    >>> from tensordash.formats import FORMATS
    >>> table = fixed_values(FORMATS["fp16"])
    >>> table[0x0001], table[0x8001], table[0x3C00] == 2**24, table[0x7C00]
    (1, -1, True, None)
    """
    return _FixedValues(fmt)


def round_fixed(value: int, exponent: int, fmt: FloatFormat = FP32) -> int:
    """Round ``value * 2**exponent`` to a bit pattern, to nearest, ties to even (IEEE 754-2019, section 4.3.1).

    Parameters
    ----------
    value, exponent : int
        The exact number. Zero gives +0.
    fmt : FloatFormat
        Format of the result.

    Returns
    -------
    int
        The pattern: an infinity on overflow, a subnormal or a zero of the number's sign where it is too small.

    Examples
    --------
    >>> hex(round_fixed(3, -1))  # 1.5
    '0x3fc00000'
    >>> hex(round_fixed(2**24 + 1, 0)), hex(round_fixed(2**24 + 3, 0))  # ties: down to even, up to even
    ('0x4b800000', '0x4b800002')
    """
    if value == 0:
        return 0
    sign = (1 << (fmt.width - 1)) if value < 0 else 0
    magnitude = abs(value)
    # The result's least bit: as many significant bits as the format has, but never below the subnormals' bit.
    least = max(exponent + magnitude.bit_length() - fmt.significand_bits, fmt.least_exponent)
    shift = least - exponent
    if shift <= 0:
        significand = magnitude << -shift
    else:
        significand = magnitude >> shift
        rest, half = magnitude - (significand << shift), 1 << (shift - 1)
        if rest > half or (rest == half and significand % 2 == 1):
            significand += 1
    hidden = 1 << fmt.fraction_bits
    if significand == 2 * hidden:  # rounded up to the next power of two
        significand, least = hidden, least + 1
    if significand < hidden:  # subnormal: exponent field 0
        return sign | significand
    field = least - fmt.least_exponent + 1
    all_ones = (1 << fmt.exponent_bits) - 1
    if field >= all_ones:
        return sign | (all_ones << fmt.fraction_bits)
    return sign | (field << fmt.fraction_bits) | (significand - hidden)


def encode(values: ArrayLike, fmt: FloatFormat) -> NDArray[np.uint16]:
    """Bit patterns of real values, each rounded to nearest, ties to even.

    Parameters
    ----------
    values : array of float, any shape
        float16 is taken as it is.
    fmt : FloatFormat
        The format wanted; fp16 only, for now.

    Returns
    -------
    array of uint16, the same shape
        Overflow gives infinities.

    Raises
    ------
    TypeError
        If the values are not floats.
    ValueError
        If the format is not fp16.

    Examples
    --------
    >>> from tensordash.formats import FORMATS
    >>> [hex(bits) for bits in encode([1.0, -0.0, 1e6], FORMATS["fp16"])]
    ['0x3c00', '0x8000', '0x7c00']
    """
    array = np.asarray(values)
    if not np.issubdtype(array.dtype, np.floating):
        raise TypeError(f"values must be an array of floats, not of {array.dtype}")
    if fmt.name != "fp16":
        raise ValueError(f"floats can be encoded as fp16 only, not as {fmt.name}: give bit patterns")
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        return array.astype(np.float16).view(np.uint16)


def to_float(bits: int, fmt: FloatFormat) -> float:
    """The value of a bit pattern; exact for every format that a Python float holds.

    >>> to_float(0xC2280000, FP32)
    -42.0
    """
    number = decode(bits, fmt)
    if number.kind is Kind.NAN:
        return float("nan")
    magnitude = float("inf") if number.kind is Kind.INFINITE else number.significand * 2.0**number.exponent
    return -magnitude if number.sign else magnitude
