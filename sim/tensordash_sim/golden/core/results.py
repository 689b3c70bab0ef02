"""The output unit's element-wise functions on sums, and the conversion to the operand format."""

from collections.abc import Mapping
from fractions import Fraction
from math import floor

from tensordash.configuration.formats import FP32, INT32, FloatFormat, IntegerFormat

from ..numbers import Kind, decode, round_fixed

__all__ = ["integer_result_bits", "result_bits"]


def result_bits(fp32: int, values: Mapping[str, int], fmt: FloatFormat, *, masked: bool, random: int) -> int:
    """Return the result of a floating-point sum.

    Parameters
    ----------
    fp32 : int
        The sum, including the bias, rounded to FP32. A subnormal number counts as a zero of its sign.
    values : mapping
        The descriptor's fields.
    fmt : FloatFormat
        The operand format.
    masked : bool
        The mask's value is zero.
    random : int
        The column's 16 random bits.

    Returns
    -------
    int
        Bits of FP32 with the field `fp32`, else of the operand format.

    Source: docs/core.md, "Multiply", 2 to 7.

    Examples
    --------
    >>> from tensordash.configuration.formats import FORMATS
    >>> fields = {"scale": 1, "relu": 0, "mask": 0, "fp32": 0, "stochastic": 0, "toward_zero": 0}
    >>> hex(result_bits(0x3F800000, fields, FORMATS["fp16"], masked=False, random=0))  # 1.0 * 2
    '0x4000'
    """
    target = FP32 if values["fp32"] else fmt
    number = decode(fp32, FP32)
    if values["mask"] and masked:
        return 0
    if number.kind is Kind.NAN:
        quiet = target.largest + 1
        return quiet | 1 << (target.fraction_bits - 1) if target.infinities else quiet
    if values["relu"] and number.sign:
        return 0
    if number.kind is Kind.INFINITE:
        return number.sign << (target.width - 1) | (target.largest + 1)
    signed = -number.significand if number.sign else number.significand
    if number.kind in (Kind.ZERO, Kind.SUBNORMAL):
        return number.sign << (target.width - 1)
    exponent = number.exponent + values["scale"]
    if values["fp32"]:
        return round_fixed(signed, exponent, target)
    if values["toward_zero"]:  # never beyond the largest (IEEE 754-2019, section 7.4)
        pattern, sign = round_fixed(abs(signed), exponent, target, "zero"), number.sign << (target.width - 1)
        return sign | min(pattern, target.largest)
    return round_fixed(signed, exponent, target, "stochastic" if values["stochastic"] else "nearest", random)


def integer_result_bits(int32: int, values: Mapping[str, int], fmt: IntegerFormat, *, masked: bool, random: int) -> int:
    """Return the result of an integer sum.

    Parameters
    ----------
    int32 : int
        Bits of the sum, including the bias.
    values, masked, random
        As for `result_bits`.
    fmt : IntegerFormat
        The operand format.

    Returns
    -------
    int
        Bits of INT32 with the field `fp32`, else of the operand format.

    Source: docs/core.md, "Integers".

    Examples
    --------
    >>> from tensordash.configuration.formats import FORMATS
    >>> fields = {"scale": -1, "relu": 0, "mask": 0, "fp32": 0, "stochastic": 0, "toward_zero": 0}
    >>> [hex(integer_result_bits(n, fields, FORMATS["int8"], masked=False, random=0)) for n in (5, 7, 1000, 2**31)]
    ['0x2', '0x4', '0x7f', '0x80']
    """
    number = decode(int32, INT32)
    if (values["mask"] and masked) or (values["relu"] and number.sign):
        return 0
    if values["fp32"]:
        return int32
    exact = number.significand * Fraction(2) ** values["scale"]
    magnitude = floor(exact)
    rest = exact - magnitude
    if values["toward_zero"]:
        is_up = False
    elif values["stochastic"]:
        is_up = floor(rest * 2**16) + random >= 2**16
    else:
        is_up = rest > Fraction(1, 2) or (rest == Fraction(1, 2) and magnitude % 2 == 1)
    half = 1 << (fmt.width - 1)
    rounded = -min(magnitude + is_up, half) if number.sign else min(magnitude + is_up, half - 1)
    return rounded % (2 * half)
