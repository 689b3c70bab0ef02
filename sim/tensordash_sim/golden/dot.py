"""The exact dot product: one PE's accumulator."""

from collections.abc import Iterable

from tensordash.config import TileConfig
from tensordash.formats import FloatFormat

from .numbers import FP32, FP32_NAN, Kind, decode, fixed_values, round_fixed

__all__ = ["ExactAccumulator", "product_bits"]

_INFINITY = {sign: (sign << 31) | 0x7F800000 for sign in (0, 1)}


def product_bits(a_format: FloatFormat, b_format: FloatFormat) -> int:
    """Bits of the largest product's magnitude in units of the least product of subnormals.

    >>> from tensordash.formats import FORMATS
    >>> product_bits(FORMATS["fp16"], FORMATS["fp16"])
    80
    """
    largest = 1
    for fmt in (a_format, b_format):
        largest *= ((1 << fmt.significand_bits) - 1) << (fmt.exponent_range - 1)
    return largest.bit_length()


class ExactAccumulator:
    """Sum of products in fixed point, two's complement, rounded once when it is read.

    Its least bit is the least product of subnormals; its width is the products' plus a sign and `headroom_bits`.
    A sum outside that range wraps. Infinities and NaN are kept apart, as docs/tile.md, "Numbers", says.

    Parameters
    ----------
    config : TileConfig
        Gives the formats of both sides and the headroom.

    Attributes
    ----------
    total : int
        The sum of the finite products, in units of ``2**exponent``.
    exponent, width : int
        Weight of the least bit, as a power of two, and number of bits, sign included.
    is_nan : bool
        A NaN operand or infinity times zero was met.
    infinities : set of int
        The signs (0: plus) of the infinite products met.

    Examples
    --------
    >>> accumulator = ExactAccumulator(TileConfig())
    >>> accumulator.width, accumulator.exponent
    (97, -48)
    >>> accumulator.accumulate([(0x3C00, 0x4000), (0x3C00, 0x0001)], first=True)  # 1 * 2 + 1 * 2**-24
    False
    >>> accumulator.total == 2 * 2**48 + 2**24, hex(accumulator.result_bits())
    (True, '0x40000000')
    >>> accumulator.accumulate([(0x3C00, 0xC000)], first=False)  # 1 * -2: what was rounded away is still there
    False
    >>> hex(accumulator.result_bits())
    '0x33800000'
    """

    def __init__(self, config: TileConfig) -> None:
        self._a_format, self._b_format = config.a_format, config.b_format
        self._a_values, self._b_values = fixed_values(config.a_format), fixed_values(config.b_format)
        self.exponent = config.a_format.least_exponent + config.b_format.least_exponent
        self.width = product_bits(config.a_format, config.b_format) + 1 + config.headroom_bits
        self.clear()

    def clear(self) -> None:
        """Become zero."""
        self.total = 0
        self.is_nan = False
        self.infinities: set[int] = set()

    def accumulate(self, pairs: Iterable[tuple[int, int]], first: bool) -> bool:
        """Add the products of one schedule.

        Parameters
        ----------
        pairs : iterable of (int, int)
            The bit patterns (a, b) of the pairs that are multiplied; those skipped are left out.
        first : bool
            Start from zero.

        Returns
        -------
        bool
            Whether the sum left the accumulator's range and was wrapped.
        """
        if first:
            self.clear()
        total = self.total
        for a, b in pairs:
            a_value, b_value = self._a_values[a], self._b_values[b]
            if a_value is None or b_value is None:
                self._meet_special(a, b)
            else:
                total += a_value * b_value
        half = 1 << (self.width - 1)
        self.total = (total + half) % (2 * half) - half
        return self.total != total

    def _meet_special(self, a: int, b: int) -> None:
        left, right = decode(a, self._a_format), decode(b, self._b_format)
        kinds = {left.kind, right.kind}
        if Kind.NAN in kinds or Kind.ZERO in kinds:  # the other of a zero is an infinity here
            self.is_nan = True
        else:
            self.infinities.add(left.sign ^ right.sign)

    def result_bits(self) -> int:
        """The sum as FP32 bits, rounded to nearest, ties to even; NaN is 0x7FC00000, a zero sum +0."""
        if self.is_nan or len(self.infinities) == 2:
            return FP32_NAN
        for sign in self.infinities:
            return _INFINITY[sign]
        return round_fixed(self.total, self.exponent, FP32)
