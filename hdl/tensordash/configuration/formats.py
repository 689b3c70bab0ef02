"""Number formats as data: `FORMATS` has all differences between operand formats."""

from dataclasses import dataclass

__all__ = [
    "FORMATS",
    "FP32",
    "INT32",
    "RESULT_FORMATS",
    "SCALES",
    "SCALE_ROUNDINGS",
    "FloatFormat",
    "Format",
    "IntegerFormat",
    "ScaleFormat",
]


@dataclass(frozen=True, kw_only=True)
class FloatFormat:
    """A binary floating-point format with subnormals (IEEE 754-2019, section 3; OCP's 8-bit formats; OCP MX, 5.3).

    The value of a finite number is ``(-1)**sign * significand * 2**(max(exponent, 1) - bias - fraction_bits)``,
    where the significand includes the hidden bit unless the exponent field is zero.

    Parameters
    ----------
    name : str
        The name used in configurations.
    exponent_bits, fraction_bits : int
        Widths of the two fields. One sign bit is above them.
    infinities : bool
        True: an exponent field of all ones encodes infinities and NaN. False (E4M3): there are no infinities, and only
        the magnitude with exponent and fraction all ones is NaN.
    nan : bool
        False, without infinities (MX's 6- and 4-bit formats): every pattern is a number.
    """

    name: str
    exponent_bits: int
    fraction_bits: int
    infinities: bool = True
    nan: bool = True

    @property
    def width(self) -> int:
        """Bits of a value, sign included."""
        return 1 + self.exponent_bits + self.fraction_bits

    @property
    def bias(self) -> int:
        return (1 << (self.exponent_bits - 1)) - 1

    @property
    def significand_bits(self) -> int:
        """Bits of the significand, hidden bit included."""
        return self.fraction_bits + 1

    @property
    def least_exponent(self) -> int:
        """Weight of a significand's least bit in the smallest binade, as a power of two."""
        return 1 - self.bias - self.fraction_bits

    @property
    def exponent_range(self) -> int:
        """Number of different exponents of finite values (subnormals share the least)."""
        return (1 << self.exponent_bits) - (2 if self.infinities else 1)

    @property
    def largest(self) -> int:
        """Bit pattern of the largest finite value.

        >>> [hex(FORMATS[name].largest) for name in ("fp16", "fp8_e4m3", "fp8_e5m2", "fp4_e2m1")]
        ['0x7bff', '0x7e', '0x7b', '0x7']
        """
        nan_or_infinity = ((1 << self.exponent_bits) - 1) << self.fraction_bits
        return nan_or_infinity - 1 if self.infinities else (1 << (self.width - 1)) - 1 - self.nan

    @property
    def largest_units(self) -> int:
        """The largest finite value in units of the least value above zero.

        >>> FORMATS["fp8_e4m3"].largest_units == 448 * 2**9
        True
        """
        field, fraction = divmod(self.largest, 1 << self.fraction_bits)
        return ((1 << self.fraction_bits) + fraction) << (field - 1)

    @property
    def beyond(self) -> int:
        """Bit pattern of values beyond the largest: an infinity, else NaN, else the largest finite value.

        >>> [hex(FORMATS[name].beyond) for name in ("fp16", "fp8_e4m3", "fp4_e2m1")]
        ['0x7c00', '0x7f', '0x7']
        """
        return self.largest + self.nan


@dataclass(frozen=True, kw_only=True)
class IntegerFormat:
    """A two's complement integer format.

    Parameters
    ----------
    name : str
        The name used in configurations.
    width : int
        Bits of a value, sign included.
    """

    name: str
    width: int


@dataclass(frozen=True, kw_only=True)
class ScaleFormat:
    """A format of scales, each shared by the values of a block.

    Parameters
    ----------
    name : str
        The name used in configurations.
    block : int
        Values that share a scale.
    number : FloatFormat or None
        Format of a scale, sign included. None (E8M0): two to the power of its pattern minus 127; all ones are NaN.
    """

    name: str
    block: int
    number: FloatFormat | None = None

    width = 8
    """Bits of a scale."""
    bias = 127
    """E8M0's pattern of 1."""

    @property
    def nan(self) -> int:
        """The pattern of NaN, without a sign.

        >>> [hex(scale.nan) for scale in SCALES.values()]
        ['0xff', '0x7f']
        """
        return 0xFF if self.number is None else self.number.beyond

    @property
    def exponent_range(self) -> int:
        """Number of different exponents.

        >>> [scale.exponent_range for scale in SCALES.values()]
        [255, 15]
        """
        return 255 if self.number is None else self.number.exponent_range


Format = FloatFormat | IntegerFormat

FORMATS: dict[str, Format] = {
    fmt.name: fmt
    for fmt in (
        FloatFormat(name="fp16", exponent_bits=5, fraction_bits=10),
        FloatFormat(name="bf16", exponent_bits=8, fraction_bits=7),
        FloatFormat(name="tf32", exponent_bits=8, fraction_bits=10),
        FloatFormat(name="fp8_e4m3", exponent_bits=4, fraction_bits=3, infinities=False),
        FloatFormat(name="fp8_e5m2", exponent_bits=5, fraction_bits=2),
        FloatFormat(name="fp6_e2m3", exponent_bits=2, fraction_bits=3, infinities=False, nan=False),
        FloatFormat(name="fp6_e3m2", exponent_bits=3, fraction_bits=2, infinities=False, nan=False),
        FloatFormat(name="fp4_e2m1", exponent_bits=2, fraction_bits=1, infinities=False, nan=False),
        IntegerFormat(name="int8", width=8),
    )
}
"""Operand formats by name."""

SCALE_ROUNDINGS = ("floor", "up")
"""Roundings of a scale to a power of two: docs/numerics.md, "Quantisation"."""
SCALES: dict[str, ScaleFormat] = {
    "e8m0": ScaleFormat(name="e8m0", block=32),
    "e4m3": ScaleFormat(name="e4m3", block=16, number=FORMATS["fp8_e4m3"]),  # type: ignore[arg-type]
}
"""Scale formats by name: OCP's MX formats (Microscaling Formats Specification 1.0, section 5.4), and NVFP4."""

FP32 = FloatFormat(name="fp32", exponent_bits=8, fraction_bits=23)
INT32 = IntegerFormat(name="int32", width=32)
RESULT_FORMATS: dict[str, Format] = {fmt.name: fmt for fmt in (FP32, INT32)}
"""Formats of results and of C by name."""
