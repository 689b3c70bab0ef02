"""Fused dot products: one PE's accumulator in FP32, as tensor cores add."""

from collections.abc import Iterable

from tensordash.configuration.config import TileConfig
from tensordash.configuration.formats import FP32, FloatFormat
from tensordash.configuration.numerics import Fused

from .numbers import Kind, decode, round_fixed
from .products import FloatProducts
from .specials import special_bits, term_signs

__all__ = ["FUSED_NAN", "FusedAccumulator"]

FUSED_NAN = 0x7FFFFFFF
"""The only NaN that fused results hold."""


class FusedAccumulator(FloatProducts):
    """FP32 accumulator that adds a schedule's products in one step, aligned to the largest exponent.

    Parameters
    ----------
    config : TileConfig
        Gives the formats of both sides and the accumulator.

    Attributes
    ----------
    bits : int
        The sum, as FP32 bits.

    Raises
    ------
    ValueError
        If the configuration's accumulator is not fused.

    Source
    ------
    docs/numerics.md, "`fused(F, rounding)`".

    Examples
    --------
    With 23 fraction bits, each 2**-24 that is added together with 1 is lost; without the 1 it remains.

    >>> accumulator = FusedAccumulator(TileConfig(accumulator="volta"))
    >>> one, small, minus_one = (0x3C00, 0x3C00), (0x3C00, 0x0001), (0x3C00, 0xBC00)
    >>> accumulator.accumulate([one, small, small, minus_one], first=True), hex(accumulator.result_bits())
    (False, '0x0')
    >>> accumulator.accumulate([small, small], first=True), hex(accumulator.result_bits())  # 2**-23
    (False, '0x34000000')
    """

    def __init__(self, config: TileConfig) -> None:
        accumulator = config.numerics.accumulator
        if not isinstance(accumulator, Fused):
            raise ValueError(f"accumulator must be fused, not {config.accumulator}")
        super().__init__(config)
        self._fused = accumulator
        self._adds_c_last = accumulator.addend == "last"
        self._format = FloatFormat(
            name="sum", exponent_bits=accumulator.result_exponent_bits, fraction_bits=accumulator.result_bits
        )
        self.bits = 0

    def accumulate(self, pairs: Iterable[tuple[int, ...]], first: bool, c: int = 0) -> bool:
        """Add the products of one schedule, as `ExactAccumulator.accumulate`; without pairs the sum does not change.

        With `first`, the sum starts from `c`, FP32 bits, rounded toward zero to the result's precision (to an infinity
        beyond FP16's range); -0 counts as +0, a NaN as 0x7FFFFFFF. With `addend` "last" it starts from +0. The method
        returns False: with infinities, the sum never leaves the accumulator's range.
        """
        if first:
            self.bits = 0 if self._adds_c_last else self._started(c)
        pairs = tuple(pairs)
        if pairs:
            self.bits = self._added(pairs)
        return False

    def _added(self, pairs: tuple[tuple[int, ...], ...]) -> int:
        """Return the sum after one addition: steps 1 to 4 of the definition; with `addend` "after" also step 5."""
        if self._fused.addend == "after":
            return self._sum_of_two(self.bits, self._fused_sum(pairs, 0))
        return self._fused_sum(pairs, self.bits)

    def _sum_of_two(self, left: int, right: int) -> int:
        """Return the sum of two results, FP32 bits each, rounded once to nearest at the result's precision."""
        terms = decode(left, FP32), decode(right, FP32)
        special = special_bits(term_signs(terms[0]) | term_signs(terms[1]), FUSED_NAN)
        if special is not None:
            return special
        least = FP32.least_exponent
        total = sum((-term.significand if term.sign else term.significand) << (term.exponent - least) for term in terms)
        return self._as_fp32(round_fixed(total, least, self._format))

    def _fused_sum(self, pairs: tuple[tuple[int, ...], ...], addend: int) -> int:
        """Align, add and round the products and the addend (steps 1 to 4); return FP32 bits."""
        start = decode(addend, FP32)
        largest = self._fused.zero_exponent
        if start.significand:  # a subnormal number has the exponent of the smallest normal one
            largest = max(start.exponent + FP32.fraction_bits, 1 - self._format.bias)
        products, infinities = self._multiply(pairs)
        largest = max([largest, *(weight + self._product_fraction for _, weight in products)])
        special = special_bits(infinities | term_signs(start), FUSED_NAN)
        if special is not None:
            return special
        least = largest - self._fused.fraction_bits
        terms = [(-start.significand if start.sign else start.significand, start.exponent), *products]
        total = sum(_aligned(significand, weight - least) for significand, weight in terms)
        return self._as_fp32(round_fixed(total, least, self._format, self._fused.rounding))

    def _as_fp32(self, bits: int) -> int:
        """Convert a result, an infinity or a number, to FP32 bits; never -0."""
        number = decode(bits, self._format)
        if number.kind is Kind.INFINITE:
            return number.sign << 31 | (FP32.largest + 1)
        return round_fixed(-number.significand if number.sign else number.significand, number.exponent, FP32)

    def _cut(self, fp32: int) -> int:
        """Truncate an FP32 number to the result's format; return its bits."""
        number = decode(fp32, FP32)
        signed = -number.significand if number.sign else number.significand
        return round_fixed(signed, number.exponent, self._format, "zero")

    def _started(self, c: int) -> int:
        """Return C as the start of a stream."""
        number = decode(c, FP32)
        special = special_bits(term_signs(number), FUSED_NAN)
        if special is not None:
            return special
        return self._as_fp32(self._cut(c))

    def result_bits(self, c: int = 0) -> int:
        """Return the result as FP32 bits: the sum; with `addend` "last", the sum plus C."""
        return self._sum_of_two(self.bits, self._started(c)) if self._adds_c_last else self.bits

    def block_bits(self) -> int:
        """Return the bits of the PE's `block` port: FP32's upper bits, or FP16, then the flags `positive` and
        `negative`.

        A flag marks an infinity of its sign; a NaN sets both. The bits below are then undefined. The sign of a zero is
        undefined too: the output stage sets it.
        """
        signs = term_signs(decode(self.bits, FP32))
        number = 0 if signs else self._cut(self.bits)
        return number | (0 in signs) << self._format.width | (1 in signs) << (self._format.width + 1)


def _aligned(significand: int, shift: int) -> int:
    """Return ``significand * 2**shift``, its magnitude truncated to an integer."""
    if shift >= 0:
        return significand << shift
    return significand >> -shift if significand >= 0 else -(-significand >> -shift)
