"""Exact dot products: one PE's accumulator in fixed point."""

from collections.abc import Iterable
from functools import cache
from math import prod

from tensordash.configuration.config import TileConfig
from tensordash.configuration.formats import FP32, INT32, FloatFormat, Format, ScaleFormat
from tensordash.configuration.numerics import Exact

from .numbers import FP32_NAN, Decoded, decode, decode_scale, fixed_values, round_fixed
from .specials import product_signs, special_bits, term_signs

__all__ = ["ExactAccumulator", "IntegerAccumulator", "product_bits"]


@cache
def product_bits(a_format: Format, b_format: Format, scale: ScaleFormat | None = None) -> int:
    """Return the bits of the largest product's magnitude, in units of the smallest positive product.

    A product includes both sides' scales if these are floating-point numbers (E4M3).

    >>> from tensordash.configuration.formats import FORMATS, SCALES
    >>> [product_bits(FORMATS[name], FORMATS[name]) for name in ("fp16", "fp8_e4m3", "int8")]
    [80, 36, 15]
    >>> product_bits(FORMATS["fp4_e2m1"], FORMATS["fp4_e2m1"], SCALES["e4m3"])
    43
    """
    largest = 1
    for fmt in (a_format, b_format, *_numbers(scale)):
        if isinstance(fmt, FloatFormat):
            value = fixed_values(fmt)[fmt.largest]
            assert value is not None  # finite
            largest *= value
        else:
            largest *= 1 << (fmt.width - 1)
    return largest.bit_length()


def _numbers(scale: ScaleFormat | None) -> list[FloatFormat]:
    """Return the formats of both sides' scales; an empty list if scales are no floating-point numbers."""
    return [] if scale is None or scale.number is None else [scale.number] * 2


class _FixedPoint:
    """A sum of products in two's complement that wraps at its width."""

    def __init__(self, config: TileConfig) -> None:
        accumulator = config.numerics.accumulator
        if not isinstance(accumulator, Exact):
            raise ValueError(f"accumulator must be exact, not {config.accumulator}")
        self._a_format, self._b_format = config.a_format, config.b_format
        self._a_values, self._b_values = fixed_values(config.a_format), fixed_values(config.b_format)
        self._scale = config.numerics.scale
        self._scale_values = [fixed_values(number) for number in _numbers(self._scale)]
        self.width = product_bits(config.a_format, config.b_format, self._scale) + 1 + accumulator.headroom_bits
        self.total = 0
        self.infinities: frozenset[int] = frozenset()

    def accumulate(self, pairs: Iterable[tuple[int, ...]], first: bool, c: int = 0) -> bool:
        """Add the products of one schedule.

        Parameters
        ----------
        pairs : iterable of (int, int) or (int, int, int, int)
            The bit patterns (a, b) of the pairs to multiply, with their scales (if any). Skipped pairs are left out.
        first : bool
            Start from zero.
        c : int
            Unused: an exact accumulator adds C when its result is read.

        Returns
        -------
        bool
            Whether the sum left the accumulator's range and wrapped.
        """
        if first:
            self.total, self.infinities = 0, frozenset()
        total = self.total
        for a, b, *scales in pairs:
            a_value, b_value = self._a_values[a], self._b_values[b]
            factor = self._factor(scales) if scales else 1
            if a_value is None or b_value is None or factor is None:
                self.infinities |= product_signs(*self._decoded(a, b, *scales))
            else:
                total += a_value * b_value * factor
        half = 1 << (self.width - 1)
        self.total = (total + half) % (2 * half) - half
        return self.total != total

    def _factor(self, scales: list[int]) -> int | None:
        """Return the product of both scales in units of the smallest one; None if it is NaN."""
        values = [table[bits] for table, bits in zip(self._scale_values, scales, strict=True)]
        return None if None in values else prod(value for value in values if value is not None)

    def _decoded(self, a: int, b: int, *scales: int) -> list[Decoded]:
        """Decode a pair's factors."""
        factors = [decode(a, self._a_format), decode(b, self._b_format)]
        return factors + [decode_scale(bits, self._scale) for bits in scales if self._scale is not None]

    def block_bits(self) -> int:
        """Return the bits of the PE's `block` port: the sum, two's complement in `width` bits."""
        return self.total % (1 << self.width)


class ExactAccumulator(_FixedPoint):
    """Sum of floating-point products in fixed point, two's complement, rounded once when it is read.

    Its least bit is the smallest product of subnormals. Its width is the products' width plus a sign and
    `headroom_bits`. A sum outside that range wraps. `infinities` records infinities and NaN.

    Parameters
    ----------
    config : TileConfig
        Gives the formats of both sides and the headroom.

    Attributes
    ----------
    total : int
        The sum of the finite products, in units of ``2**exponent``.
    exponent, width : int
        Weight of the least bit, as a power of two; number of bits, sign included.
    infinities : frozenset of int
        The signs (0: plus) of the infinite products so far; a NaN counts as both.

    Raises
    ------
    ValueError
        If the configuration's accumulator is not exact.

    Source
    ------
    docs/numerics.md, "`exact`".

    Examples
    --------
    >>> accumulator = ExactAccumulator(TileConfig())
    >>> accumulator.width, accumulator.exponent
    (97, -48)
    >>> accumulator.accumulate([(0x3C00, 0x4000), (0x3C00, 0x0001)], first=True)  # 1 * 2 + 1 * 2**-24
    False
    >>> accumulator.total == 2 * 2**48 + 2**24, hex(accumulator.result_bits())
    (True, '0x40000000')
    >>> accumulator.accumulate([(0x3C00, 0xC000)], first=False)  # 1 * -2; only the result was rounded
    False
    >>> hex(accumulator.result_bits()), hex(accumulator.result_bits(c=0x33800000))  # C = 2**-24
    ('0x33800000', '0x34000000')
    """

    def __init__(self, config: TileConfig) -> None:
        super().__init__(config)
        assert isinstance(config.a_format, FloatFormat)
        assert isinstance(config.b_format, FloatFormat)
        formats = [config.a_format, config.b_format, *_numbers(self._scale)]
        self.exponent = sum(fmt.least_exponent for fmt in formats)

    def result_bits(self, c: int = 0) -> int:
        """Return C plus the sum as FP32 bits, rounded once to nearest, ties to even; NaN is 0x7FC00000, a zero +0.

        Parameters
        ----------
        c : int
            FP32 bits of C.
        """
        initial = decode(c, FP32)
        special = special_bits(self.infinities | term_signs(initial), FP32_NAN)
        if special is not None:
            return special
        # Both terms in units of the finer least bit.
        least = min(self.exponent, initial.exponent)
        added = initial.significand << (initial.exponent - least)
        total = self.total << (self.exponent - least)
        return round_fixed(total - added if initial.sign else total + added, least, FP32)

    def result_overflow(self, c: int = 0) -> bool:
        """Return False: FP32 has infinities, so adding C never leaves the result's range."""
        return False

    def block_bits(self) -> int:
        """Return the bits of the PE's `block` port.

        The low `width` bits are the sum in two's complement. The two bits above record a positive and a negative
        infinity; a NaN sets both. If either is set, the sum is undefined.
        """
        return super().block_bits() | (0 in self.infinities) << self.width | (1 in self.infinities) << (self.width + 1)


class IntegerAccumulator(_FixedPoint):
    """Sum of integer products, two's complement; an INT32 for int8 with 16 bits of headroom.

    Parameters
    ----------
    config : TileConfig
        Gives the formats of both sides and the headroom.

    Attributes
    ----------
    total : int
        The sum.
    width : int
        Number of bits, sign included.

    Raises
    ------
    ValueError
        If the configuration's accumulator is not exact.

    Source
    ------
    docs/numerics.md, "`exact`".

    Examples
    --------
    >>> accumulator = IntegerAccumulator(TileConfig(format="int8"))
    >>> accumulator.width, accumulator.accumulate([(0x80, 0x7F), (0xFF, 0x01)], first=True)  # -128 * 127 + -1 * 1
    (32, False)
    >>> accumulator.total, hex(accumulator.result_bits()), hex(accumulator.result_bits(c=0x00004000))
    (-16257, '0xffffc07f', '0x7f')
    """

    def result_bits(self, c: int = 0) -> int:
        """Return C plus the sum modulo 2**32, as INT32 bits.

        Parameters
        ----------
        c : int
            INT32 bits of C.
        """
        return (self.total + c) % (1 << INT32.width)

    def result_overflow(self, c: int = 0) -> bool:
        """Return whether C plus the sum leaves the range of INT32."""
        value = fixed_values(INT32)[c]
        assert value is not None  # an integer
        return not -(2**31) <= self.total + value < 2**31
