"""What the output unit makes of FP32 numbers: its element-wise functions, and rounding to the operand format."""

from collections.abc import Mapping

from tensordash.configuration.formats import FP32, FloatFormat

from ..numbers import Kind, decode, round_fixed

__all__ = ["result_bits"]


def result_bits(fp32: int, values: Mapping[str, int], fmt: FloatFormat, *, masked: bool, random: int) -> int:
    """Return a result of an FP32 number.

    Parameters
    ----------
    fp32 : int
        The sum, bias included, rounded to FP32. A subnormal number counts as a zero of its sign.
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
