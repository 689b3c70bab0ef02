"""Binned dot products: bins sum the digits of a stream's terms, so the result is independent of their order."""

from collections.abc import Iterable

from tensordash.configuration.config import TileConfig
from tensordash.configuration.formats import FP32
from tensordash.configuration.numerics import Binned

from .numbers import FP32_NAN, decode, decode_scale, round_fixed
from .products import FloatProducts
from .specials import special_bits, term_signs

__all__ = ["BinnedAccumulator"]

FP32_SUBNORMALS = -149
"""Weight of FP32's least bit, as a power of two."""


class BinnedAccumulator(FloatProducts):
    """Sums of digits by bin; the result uses the `bins` bins from the largest top bin downwards.

    The model never drops a bin. `top` alone selects the bins to count when the result is read, so the order of the
    terms does not matter.

    Parameters
    ----------
    config : TileConfig
        Gives the formats of both sides, scales, the C input and the accumulator.

    Attributes
    ----------
    sums : dict of int to int
        The sum of each bin's signed digits, by bin number, without wrapping.
    top : int
        The largest top bin of the terms; 0 without terms.
    unit : int
        Weight of the lowest place of bin 0, as a power of two.
    max_top : int
        The largest top bin that a term may have.
    width : int
        Bits of a register, sign included.
    infinities : frozenset of int
        The signs (0: plus) of the infinite terms; a NaN counts as both.

    Raises
    ------
    ValueError
        If the configuration's accumulator is not binned.

    Source
    ------
    docs/numerics.md, "`binned`".

    Examples
    --------
    1 and 2**-40 are summed exactly; next to 2**20, two bins above 1, 2**-40 is cut off.

    >>> accumulator = BinnedAccumulator(TileConfig(format="bf16", accumulator={"bins": 3}))
    >>> one, small, large, minus_large = ((bits, 0x3F80) for bits in (0x3F80, 0x2B80, 0x4980, 0xC980))
    >>> accumulator.accumulate([small, one, (0xBF80, 0x3F80)], first=True), hex(accumulator.result_bits())
    (False, '0x2b800000')
    >>> accumulator.accumulate([large, small, minus_large, one], first=True), hex(accumulator.result_bits())
    (False, '0x3f800000')
    """

    def __init__(self, config: TileConfig) -> None:
        accumulator = config.numerics.accumulator
        if not isinstance(accumulator, Binned):
            raise ValueError(f"accumulator must be binned, not {config.accumulator}")
        super().__init__(config)
        self.bins, self.bin_bits = accumulator.bins, accumulator.bin_bits
        self.width = self.bin_bits + 1 + accumulator.headroom_bits
        least = [decode(1, config.a_format).exponent, decode(1, config.b_format).exponent]
        largest = [decode(fmt.largest, fmt) for fmt in (self._a_format, self._b_format)]
        top_place = sum(number.exponent + number.significand.bit_length() - 1 for number in largest) + 1
        if self._scale is not None:
            least += [decode_scale(0, self._scale).exponent] * 2
            top_place += 2 * decode_scale(254, self._scale).exponent
        self.unit = sum(least)
        if config.initial:
            top_place = max(top_place, decode(FP32.largest, FP32).exponent + FP32.fraction_bits)
            while self.unit > FP32_SUBNORMALS:
                self.unit -= self.bin_bits
        self.max_top = self._bin_of(top_place)
        self._top_bits = max(1, self.max_top.bit_length())
        self.sums: dict[int, int] = {}
        self.top = 0
        self.infinities: frozenset[int] = frozenset()

    def _bin_of(self, place: int) -> int:
        """Return the bin of a binary place."""
        return (place - self.unit) // self.bin_bits

    def accumulate(self, pairs: Iterable[tuple[int, ...]], first: bool, c: int = 0) -> bool:
        """Add the products of one schedule, as `ExactAccumulator.accumulate`; return whether a bin's register wrapped.

        `c` are FP32 bits, the first term of a new sum if `first`, else unused.
        """
        if first:
            self.sums, self.top, self.infinities = {}, 0, frozenset()
            self._add_fp32(c)
        before = dict(self.sums)
        products, infinities = self._multiply(pairs)
        self.infinities |= infinities
        for significand, least in products:
            # The product of two significands below 2 is below 4.
            self._add(significand, least, least + self._product_fraction + 1)
        return self._leaves(before, {k: number - before.get(k, 0) for k, number in self.sums.items()})

    def merge(self, other: "BinnedAccumulator") -> bool:
        """Add the terms of another sum.

        Returns
        -------
        bool
            Whether a bin that counts left the range of its register and wrapped.

        Examples
        --------
        The quantum of the larger sum applies to all terms, as if they had been in one sum.

        >>> config = TileConfig(format="bf16", accumulator={"bins": 3})
        >>> sums = [BinnedAccumulator(config) for _ in range(2)]
        >>> [each.accumulate([pair], first=True) for each, pair in zip(sums, ((0x2B80, 0x3F80), (0x4980, 0x3F80)))]
        [False, False]
        >>> sums[0].merge(sums[1]), sums[0].accumulate([(0xC980, 0x3F80)], first=False), sums[0].result_bits()
        (False, False, 0)
        """
        before = dict(self.sums)
        self.top = max(self.top, other.top)
        self.infinities |= other.infinities
        for k, number in other.sums.items():
            self.sums[k] = before.get(k, 0) + number
        return self._leaves(before, {k: self._wrapped(number) for k, number in other.sums.items()})

    def add_bias(self, fp32: int) -> bool:
        """Add an FP32 number as one more term (docs/core.md, "Multiply", 1).

        Bits below the unit are cut off. A number whose top bin is above `max_top` counts as an infinity.

        Parameters
        ----------
        fp32 : int
            Its bits.

        Returns
        -------
        bool
            As for `merge`.
        """
        before = dict(self.sums)
        self._add_fp32(fp32)
        return self._leaves(before, {k: number - before.get(k, 0) for k, number in self.sums.items()})

    def _leaves(self, before: dict[int, int], added: dict[int, int]) -> bool:
        """Return whether an addition overflowed the register of a bin that counts."""
        return any(
            self._wrapped(before.get(k, 0)) + added[k] != self._wrapped(self.sums[k])
            for k in self._counting()
            if k in added
        )

    def _add_fp32(self, bits: int) -> None:
        """Add the digits of an FP32 number."""
        number = decode(bits, FP32)
        place = number.exponent + FP32.fraction_bits
        if signs := term_signs(number):
            self.infinities |= signs
        elif number.significand and self._bin_of(place) > self.max_top:
            self.infinities |= {number.sign}
        elif number.significand:
            magnitude = number.significand >> max(0, self.unit - number.exponent)
            self._add(-magnitude if number.sign else magnitude, max(number.exponent, self.unit), place)

    def _add(self, signed: int, exponent: int, place: int) -> None:
        """Add the digits of ``signed * 2**exponent``, whose highest place is `place` at most."""
        self.top = max(self.top, self._bin_of(place))
        magnitude, number = abs(signed) << (exponent - self.unit), 0
        while magnitude >> (number * self.bin_bits):
            digit = (magnitude >> (number * self.bin_bits)) % (1 << self.bin_bits)
            if digit:
                self.sums[number] = self.sums.get(number, 0) + (-digit if signed < 0 else digit)
            number += 1

    def _counting(self) -> range:
        """Return the numbers of the bins that count; bins below 0 are empty."""
        return range(self.top - self.bins + 1, self.top + 1)

    def _wrapped(self, value: int) -> int:
        """Return a bin's sum in its register, two's complement."""
        half = 1 << (self.width - 1)
        return (value + half) % (2 * half) - half

    def result_bits(self, c: int = 0) -> int:
        """Return the sum as FP32 bits, rounded once to nearest, ties to even; NaN is 0x7FC00000, every zero +0.

        Parameters
        ----------
        c : int
            Unused: the sum started from C.
        """
        special = special_bits(self.infinities, FP32_NAN)
        if special is not None:
            return special
        lowest = self._counting().start
        total = sum(self._wrapped(self.sums.get(k, 0)) << ((k - lowest) * self.bin_bits) for k in self._counting())
        bits = round_fixed(total, self.unit + lowest * self.bin_bits, FP32)
        return bits if bits % (1 << 31) else 0

    def block_bits(self) -> int:
        """Return the bits of the PE's `block` port.

        From the lowest bit: the registers of the bins, the lowest bin first; the number of the top bin; one bit each
        for a positive and a negative infinity. A NaN sets both bits.
        """
        made = 0
        for place, number in enumerate(self._counting()):
            made |= self.sums.get(number, 0) % (1 << self.width) << (place * self.width)
        above = self.bins * self.width
        made |= self.top << above
        marks = above + self._top_bits
        return made | (0 in self.infinities) << marks | (1 in self.infinities) << (marks + 1)
