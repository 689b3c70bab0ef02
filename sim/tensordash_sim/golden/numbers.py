"""Conversion of bit patterns to exact integers, and back to floating point."""

from collections.abc import Callable
from enum import Enum
from functools import cache, lru_cache
from typing import Generic, NamedTuple, TypeVar

from tensordash.configuration.formats import FP32, FloatFormat, Format, IntegerFormat, ScaleFormat

__all__ = [
    "FP32_NAN",
    "Decoded",
    "Kind",
    "decode",
    "decode_scale",
    "fixed_values",
    "float_values",
    "is_finite",
    "is_nan",
    "is_zero",
    "round_fixed",
    "to_float",
]

FP32_NAN = 0x7FC00000
"""The only NaN that exact results hold."""

Value = TypeVar("Value")


class Kind(Enum):
    """Class of the number that a bit pattern encodes."""

    ZERO = "zero"
    SUBNORMAL = "subnormal"
    NORMAL = "normal"
    INFINITE = "infinite"
    NAN = "nan"


class Decoded(NamedTuple):
    """The fields of a bit pattern.

    Attributes
    ----------
    kind : Kind
        Class of the number.
    sign : int
        1 if the sign bit is set, else 0.
    significand : int
        Includes the hidden bit. For an integer: the magnitude. For an infinity or NaN: undefined.
    exponent : int
        Weight of the significand's least significant bit, as a power of two: a finite value is
        ``(-1)**sign * significand * 2**exponent``.
    """

    kind: Kind
    sign: int
    significand: int
    exponent: int


@lru_cache(maxsize=1 << 16)
def decode(bits: int, fmt: Format) -> Decoded:
    """Decode a bit pattern (IEEE 754-2019, section 3.4; E4M3: OCP 8-bit floating point specification, section 5;
    6 and 4 bits: OCP MX specification 1.0, section 5.3).

    Parameters
    ----------
    bits : int
        The pattern, 0 to ``2**fmt.width - 1``.
    fmt : Format
        Its format. An integer is zero or normal, with exponent 0.

    Raises
    ------
    ValueError
        If `bits` is out of range.

    Examples
    --------
    >>> from tensordash.configuration.formats import FORMATS
    >>> one = decode(0x3C00, FORMATS["fp16"])  # 1.0 = 2**10 * 2**-10
    >>> one.significand, one.exponent
    (1024, -10)
    >>> decode(0x80, FORMATS["int8"])
    Decoded(kind=<Kind.NORMAL: 'normal'>, sign=1, significand=128, exponent=0)
    """
    if not 0 <= bits < 1 << fmt.width:
        raise ValueError(f"bits must be a bit pattern of {fmt.name}, 0 to 2**{fmt.width} - 1, not {bits}")
    sign = bits >> (fmt.width - 1)
    if isinstance(fmt, IntegerFormat):
        value = bits - (sign << fmt.width)
        return Decoded(Kind.NORMAL if value else Kind.ZERO, sign, abs(value), 0)
    fraction = bits & ((1 << fmt.fraction_bits) - 1)
    field = (bits >> fmt.fraction_bits) & ((1 << fmt.exponent_bits) - 1)
    special = field == (1 << fmt.exponent_bits) - 1
    if special and fmt.infinities:
        return Decoded(Kind.NAN if fraction else Kind.INFINITE, sign, fraction, 0)
    if special and fmt.nan and fraction == (1 << fmt.fraction_bits) - 1:
        return Decoded(Kind.NAN, sign, fraction, 0)
    if field == 0:
        return Decoded(Kind.SUBNORMAL if fraction else Kind.ZERO, sign, fraction, fmt.least_exponent)
    significand = fraction + (1 << fmt.fraction_bits)
    return Decoded(Kind.NORMAL, sign, significand, field - fmt.bias - fmt.fraction_bits)


def decode_scale(bits: int, scale: ScaleFormat) -> Decoded:
    """Decode a scale (docs/numerics.md, "Scales"; E8M0: OCP MX specification 1.0, section 5.4.1).

    Parameters
    ----------
    bits : int
        The pattern, 0 to 255.
    scale : ScaleFormat
        Its format.

    Raises
    ------
    ValueError
        If `bits` is out of range.

    Examples
    --------
    >>> from tensordash.configuration.formats import SCALES
    >>> decode_scale(0x00, SCALES["e8m0"])
    Decoded(kind=<Kind.NORMAL: 'normal'>, sign=0, significand=1, exponent=-127)
    >>> decode_scale(0xB8, SCALES["e4m3"])  # -1.0
    Decoded(kind=<Kind.NORMAL: 'normal'>, sign=1, significand=8, exponent=-3)
    """
    if scale.number is not None:
        return decode(bits, scale.number)
    if not 0 <= bits < 256:
        raise ValueError(f"bits must be a bit pattern of {scale.name}, 0 to 255, not {bits}")
    return Decoded(Kind.NAN, 0, 0, 0) if bits == 255 else Decoded(Kind.NORMAL, 0, 1, bits - 127)


def is_zero(bits: int, fmt: Format) -> bool:
    """Return whether the pattern is a zero of either sign; a tile skips these values."""
    return decode(bits, fmt).kind is Kind.ZERO


def is_nan(bits: int, fmt: Format) -> bool:
    """Return whether the pattern is a NaN."""
    return decode(bits, fmt).kind is Kind.NAN


def is_finite(bits: int, fmt: Format) -> bool:
    """Return whether the pattern is neither an infinity nor a NaN."""
    return decode(bits, fmt).kind not in (Kind.INFINITE, Kind.NAN)


class _Table(dict[int, Value], Generic[Value]):
    """A function of bit patterns, computed on the first lookup of each pattern."""

    def __init__(self, compute: Callable[[int], Value]) -> None:
        super().__init__()
        self._compute = compute

    def __missing__(self, bits: int) -> Value:
        value = self[bits] = self._compute(bits)
        return value


@cache
def fixed_values(fmt: Format) -> dict[int, int | None]:
    """Return a mapping from bit patterns of a format to their finite values, as integers.

    The unit is the smallest positive value: ``2**fmt.least_exponent`` for floating point, 1 for integers. Infinities
    and NaN map to None. The mapping decodes each value once, on first use.

    Examples
    --------
    >>> from tensordash.configuration.formats import FORMATS
    >>> table = fixed_values(FORMATS["fp16"])
    >>> table[0x0001], table[0x8001], table[0x3C00] == 2**24, table[0x7C00]
    (1, -1, True, None)
    """
    unit = fmt.least_exponent if isinstance(fmt, FloatFormat) else 0

    def fixed(bits: int) -> int | None:
        number = decode(bits, fmt)
        if number.kind in (Kind.INFINITE, Kind.NAN):
            return None
        magnitude = number.significand << (number.exponent - unit)
        return -magnitude if number.sign else magnitude

    return _Table(fixed)


@cache
def float_values(fmt: FloatFormat) -> dict[int, tuple[int, int] | None]:
    """Return a mapping from bit patterns of a format to signed significands and exponents, as in `Decoded`.

    Infinities and NaN map to None. The mapping decodes each value on first use.

    Examples
    --------
    >>> from tensordash.configuration.formats import FORMATS
    >>> table = float_values(FORMATS["bf16"])
    >>> table[0x3F80], table[0x8001], table[0x7F80]  # 1.0 = 2**7 * 2**-7, the least subnormal, infinity
    ((128, -7), (-1, -133), None)
    """

    def scaled(bits: int) -> tuple[int, int] | None:
        number = decode(bits, fmt)
        if number.kind in (Kind.INFINITE, Kind.NAN):
            return None
        return (-number.significand if number.sign else number.significand), number.exponent

    return _Table(scaled)


def round_fixed(value: int, exponent: int, fmt: FloatFormat = FP32, rounding: str = "nearest", random: int = 0) -> int:
    """Round ``value * 2**exponent`` to a bit pattern (IEEE 754-2019, section 4.3).

    Parameters
    ----------
    value, exponent : int
        The exact number. Zero gives +0.
    fmt : FloatFormat
        Format of the result.
    rounding : "nearest", "zero" or "stochastic"
        "nearest": ties to even. "zero": truncate. "stochastic": take the first 16 bits of the discarded part and round
        away from zero if their sum with `random` carries.
    random : int
        16 random bits.

    Returns
    -------
    int
        The pattern. Small numbers give a subnormal or a zero of their sign. If the rounded magnitude exceeds the
        largest finite one, every rounding gives an infinity; a NaN if the format has no infinities; the largest finite
        magnitude if it has neither.

    Examples
    --------
    >>> hex(round_fixed(3, -1))  # 1.5
    '0x3fc00000'
    >>> hex(round_fixed(2**24 + 1, 0)), hex(round_fixed(2**24 + 3, 0))  # ties: down to even, up to even
    ('0x4b800000', '0x4b800002')
    >>> hex(round_fixed(2**24 + 3, 0, rounding="zero"))
    '0x4b800001'
    """
    if value == 0:
        return 0
    sign = (1 << (fmt.width - 1)) if value < 0 else 0
    magnitude = abs(value)
    # The weight of the result's least bit: set by the number of significand bits, but never below the subnormals' bit.
    least = max(exponent + magnitude.bit_length() - fmt.significand_bits, fmt.least_exponent)
    shift = least - exponent
    if shift <= 0:
        significand = magnitude << -shift
    else:
        significand = magnitude >> shift
        rest, half = magnitude - (significand << shift), 1 << (shift - 1)
        if rounding == "nearest" and (rest > half or (rest == half and significand % 2 == 1)):
            significand += 1
        elif rounding == "stochastic":
            significand += (rest << 16 >> shift) + random >= 1 << 16
    # A hidden bit adds 1 to the exponent field. A significand that was rounded up to 2 adds another 1.
    pattern = ((least - fmt.least_exponent) << fmt.fraction_bits) + significand
    return sign | min(pattern, fmt.beyond)


def to_float(bits: int, fmt: Format) -> float:
    """Return the value of a bit pattern as a float; exact for every format whose values fit one.

    >>> to_float(0xC2280000, FP32)
    -42.0
    """
    number = decode(bits, fmt)
    if number.kind is Kind.NAN:
        return float("nan")
    magnitude = float("inf") if number.kind is Kind.INFINITE else number.significand * 2.0**number.exponent
    return -magnitude if number.sign else magnitude
