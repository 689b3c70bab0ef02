"""Decode the bit patterns of formats and scales with ml_dtypes and NumPy, independently of the golden model."""

import math
import struct
from functools import cache

import ml_dtypes
import numpy as np

from ..float_dtypes import FLOAT_DTYPES

DTYPES = FLOAT_DTYPES | {"int8": np.int8, "fp32": np.float32}
SCALES = {"e8m0": ml_dtypes.float8_e8m0fnu, "e4m3": ml_dtypes.float8_e4m3fn}
SIDE = 160  # Operands are multiples of 2**-160.


class Table:
    """Values of the bit patterns of a format.

    Parameters
    ----------
    name : str
        The format.

    Attributes
    ----------
    floats : list of float
        Values, exact.
    units : list of int
        Values in units of 2**-160; 0 if not finite.
    exponents : list of int
        Exponent of the leading bit, or the format's least for a subnormal value.
    """

    def __init__(self, name: str) -> None:
        if name == "tf32":  # tf32 is the upper 19 bits of FP32.
            dtype, patterns = np.dtype(np.float32), np.arange(1 << 19, dtype=np.uint32) << 13
        else:
            dtype = np.dtype(DTYPES[name])
            bits = 8 if name == "int8" else ml_dtypes.finfo(dtype).bits
            patterns = np.arange(1 << bits, dtype=np.dtype(f"u{dtype.itemsize}"))
        with np.errstate(invalid="ignore"):  # signalling NaN
            self.floats: list[float] = patterns.view(dtype).astype(np.float64).tolist()
        least = -999 if name == "int8" else int(math.log2(ml_dtypes.finfo(dtype).smallest_normal))
        self.units = [int(math.ldexp(value, SIDE)) if math.isfinite(value) else 0 for value in self.floats]
        self.exponents = [max(abs(number).bit_length() - 1 - SIDE, least) for number in self.units]


@cache
def table(name: str) -> Table:
    """Return a format's table, which is cached.

    >>> table("fp8_e4m3").floats[0x7E], table("fp8_e4m3").exponents[0x01], table("int8").floats[0x80]
    (448.0, -6, -128.0)
    """
    return Table(name)


@cache
def scale_table(name: str) -> list[float]:
    """Return the value of each pattern of a scale, from ml_dtypes.

    >>> scale_table("e8m0")[0x80], scale_table("e8m0")[0xFF], scale_table("e4m3")[0xB8]
    (2.0, nan, -1.0)
    """
    floats: list[float] = np.arange(256, dtype=np.uint8).view(SCALES[name]).astype(np.float64).tolist()
    return floats


def fp32_bits(value: float) -> int:
    """Return the bits of a value that FP32 holds."""
    bits = struct.pack("<f", value)
    assert struct.unpack("<f", bits)[0] == value
    return struct.unpack("<I", bits)[0]


def power_of_two(exponent: int) -> tuple[float, float]:
    """Return two factors whose product is a power of two, for powers that the operands' format lacks."""
    return 2.0 ** (exponent // 2), 2.0 ** (exponent - exponent // 2)
