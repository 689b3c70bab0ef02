"""Mathematical reference: dot products in rational arithmetic, correctly rounded, or wrapped to INT32.

It shares no code with `numbers` and `dot`, because tests check those against it.
"""

import math
import struct
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensordash.configuration.config import TileConfig
from tensordash.configuration.formats import FP32, INT32, Format, IntegerFormat

__all__ = ["dot_exact", "matmul_exact", "round_fraction", "value_of"]

_NAN_BITS = 0x7FC00000


@lru_cache(1 << 17)  # two 16-bit formats
def value_of(bits: int, fmt: Format) -> Fraction | float:
    """Return the value of a bit pattern as a fraction; an infinity or NaN as a float.

    >>> from tensordash.configuration.formats import FORMATS
    >>> value_of(0xB555, FORMATS["fp16"])
    Fraction(-1365, 4096)
    """
    top = 2 ** (fmt.width - 1)
    if isinstance(fmt, IntegerFormat):
        return Fraction(bits % top - bits // top * top)
    field, fraction = divmod(bits % top, 2**fmt.fraction_bits)
    sign = -1 if bits >= top else 1
    if not fmt.infinities:
        if fmt.nan and bits % top == top - 1:
            return math.nan
    elif field == 2**fmt.exponent_bits - 1:
        return math.nan if fraction else sign * math.inf
    scaled = Fraction(fraction, 2**fmt.fraction_bits)
    if field == 0:
        return sign * scaled * Fraction(2) ** (1 - fmt.bias)
    return sign * (1 + scaled) * Fraction(2) ** (field - fmt.bias)


def round_fraction(value: Fraction) -> int:
    """Return the FP32 bits of a fraction, rounded to nearest, ties to even.

    >>> hex(round_fraction(Fraction(1, 3)))
    '0x3eaaaaab'
    """
    # The power of two at or below the magnitude. The first estimate may be one too high.
    power = abs(value.numerator).bit_length() - value.denominator.bit_length()
    if abs(value) < Fraction(2) ** power:
        power -= 1
    quantum = Fraction(2) ** max(power - 23, -149)
    rounded = round(value / quantum) * quantum  # Python rounds a fraction's ties to even
    if abs(rounded) >= 2**128:
        return 0x7F800000 if value > 0 else 0xFF800000
    as_float = math.copysign(float(rounded), -1.0 if value < 0 else 1.0)  # at most 24 bits: exact
    return struct.unpack("<I", struct.pack("<f", as_float))[0]


def dot_exact(
    a_bits: ArrayLike,
    b_bits: ArrayLike,
    a_format: Format,
    b_format: Format | None = None,
    sparsity: str = "none",
    c: int = 0,
) -> int:
    """Return the dot product of two vectors plus C, correctly rounded; for integer formats, modulo 2**32.

    Parameters
    ----------
    a_bits, b_bits : array of int, the same shape
        Bit patterns.
    a_format, b_format : Format
        Their formats; `b_format` defaults to `a_format`.
    sparsity : "none", "rows" or "both"
        The pairs to skip: none, pairs whose b is zero, pairs with a zero on either side. This changes the result only
        if a zero is paired with an infinity or NaN.
    c : int
        FP32 or INT32 bits of C.

    Returns
    -------
    int
        FP32 bits: overflow gives an infinity, a zero sum +0, NaN is 0x7FC00000. For integer formats INT32 bits.

    Examples
    --------
    >>> from tensordash.configuration.formats import FORMATS
    >>> hex(dot_exact([0x3C00, 0x7BFF], [0x3C00, 0x8000], FORMATS["fp16"]))  # 1 * 1 + 65504 * -0
    '0x3f800000'
    """
    integers = isinstance(a_format, IntegerFormat)
    initial = value_of(c, INT32 if integers else FP32)
    total, special = (initial, 0.0) if isinstance(initial, Fraction) else (Fraction(0), initial)
    for a, b in zip(np.ravel(a_bits).tolist(), np.ravel(b_bits).tolist(), strict=True):
        left, right = value_of(a, a_format), value_of(b, b_format or a_format)
        if (sparsity != "none" and right == 0) or (sparsity == "both" and left == 0):
            continue
        if isinstance(left, Fraction) and isinstance(right, Fraction):
            total += left * right
        else:
            special += _sign_or_special(left) * _sign_or_special(right)  # infinities and NaN by IEEE 754
    if integers:
        return int(total) % 2**32
    if math.isnan(special):
        return _NAN_BITS
    if math.isinf(special):
        return 0x7F800000 if special > 0 else 0xFF800000
    return round_fraction(total) if total else 0


def _sign_or_special(value: Fraction | float) -> float:
    """Return an infinity or NaN unchanged, and the sign of a finite value, which suffices next to an infinity."""
    return value if isinstance(value, float) else float((value > 0) - (value < 0))


def matmul_exact(
    a_bits: ArrayLike, b_bits: ArrayLike, config: TileConfig, c_bits: ArrayLike | None = None
) -> NDArray[np.uint32]:
    """Return the results of a tile with exact accumulators for one stream, assuming that none overflows.

    Parameters
    ----------
    a_bits : array of int, (columns, T, lanes)
    b_bits : array of int, (rows, T, lanes)
        Bit patterns.
    config : TileConfig
        Supplies formats and sparsity.
    c_bits : array of int, (rows, columns), optional
        FP32 or INT32 bits of C; zeros if left out.

    Returns
    -------
    array of uint32, (rows, columns)
        FP32 or INT32 bits.
    """
    formats = config.a_format, config.b_format
    columns, rows = np.asarray(a_bits), np.asarray(b_bits)
    initial = np.zeros((len(rows), len(columns)), np.uint32) if c_bits is None else np.asarray(c_bits)
    results = [
        [dot_exact(a, b, *formats, config.sparsity, c) for a, c in zip(columns, c_row, strict=True)]
        for b, c_row in zip(rows, initial.tolist(), strict=True)
    ]
    return np.array(results, dtype=np.uint32)
