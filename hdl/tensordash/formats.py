"""Number formats as data: everything that distinguishes one operand format from another is in `FORMATS`."""

from dataclasses import dataclass

__all__ = ["FORMATS", "FloatFormat"]


@dataclass(frozen=True, kw_only=True)
class FloatFormat:
    """A binary floating-point format with subnormals, infinities and NaN (IEEE 754-2019, section 3).

    The value of a finite number is ``(-1)**sign * significand * 2**(max(exponent, 1) - bias - fraction_bits)``,
    where the significand includes the hidden bit unless the exponent field is zero.

    Parameters
    ----------
    name : str
        The name used in configurations.
    exponent_bits, fraction_bits : int
        Widths of the two fields; one sign bit stands above them.
    """

    name: str
    exponent_bits: int
    fraction_bits: int

    @property
    def width(self) -> int:
        """Bits of a value, sign included."""
        return 1 + self.exponent_bits + self.fraction_bits

    @property
    def bias(self) -> int:
        """Exponent bias."""
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
        return (1 << self.exponent_bits) - 2


FORMATS: dict[str, FloatFormat] = {
    fmt.name: fmt for fmt in (FloatFormat(name="fp16", exponent_bits=5, fraction_bits=10),)
}
"""Operand formats by name."""
