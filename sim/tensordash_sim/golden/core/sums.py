"""The output unit's additions to the sums of a pass: partial sums and biases."""

from tensordash.configuration.config import TileConfig
from tensordash.configuration.formats import FP32, INT32

from ..accumulators import make_accumulator
from ..binned import BinnedAccumulator
from ..dot import ExactAccumulator, IntegerAccumulator
from ..numbers import Kind, decode, fixed_values

__all__ = ["CoreSum", "add_bias", "add_partial", "fixed_bias", "make_sum"]

CoreSum = ExactAccumulator | IntegerAccumulator | BinnedAccumulator
"""The accumulators that a core's tile may have."""


def make_sum(config: TileConfig) -> CoreSum:
    """Return the accumulator of a core's tile."""
    sums = make_accumulator(config)
    assert isinstance(sums, CoreSum)
    return sums


def add_partial(sums: CoreSum, partial: CoreSum) -> bool:
    """Add a partial sum to a sum of the same kind; return whether the sum left its range and wrapped."""
    if isinstance(sums, BinnedAccumulator):
        assert isinstance(partial, BinnedAccumulator)
        return sums.merge(partial)
    assert not isinstance(partial, BinnedAccumulator)
    return _add_fixed(sums, partial.total, partial.infinities)


def add_bias(sums: CoreSum, bits: int) -> bool:
    """Add a bias, FP32 or INT32 bits, to a sum; return whether the sum left its range and wrapped."""
    if isinstance(sums, BinnedAccumulator):
        return sums.add_bias(bits)
    if isinstance(sums, IntegerAccumulator):
        return _add_fixed(sums, fixed_values(INT32)[bits] or 0, frozenset())
    return _add_fixed(sums, *fixed_bias(bits, sums.width, sums.exponent))


def _add_fixed(sums: ExactAccumulator | IntegerAccumulator, added: int, infinities: frozenset[int]) -> bool:
    """Add a number in the accumulator's units, and infinities with these signs, to a sum."""
    half = 1 << (sums.width - 1)
    total = sums.total + added
    sums.total = (total + half) % (2 * half) - half
    sums.infinities |= infinities
    return sums.total != total


def fixed_bias(fp32: int, width: int, exponent: int) -> tuple[int, frozenset[int]]:
    """Convert a bias to the units of a sum; bits below the sum's least bit are dropped.

    Parameters
    ----------
    fp32 : int
        The bias.
    width, exponent : int
        Number of bits of a sum, sign included; weight of its least bit, as a power of two.

    Returns
    -------
    int, frozenset of int
        A number in units of ``2**exponent``, and the signs (0: plus) of infinities; a NaN has both. A magnitude of at
        least 2^127 units, or one that exceeds the sum's width, becomes an infinity.

    Source: docs/core.md, "Multiply", 1.

    Examples
    --------
    >>> [fixed_bias(bits, width=97, exponent=-48)[0] for bits in (0x27C00000, 0xA7C00000, 0x3F800000)]  # +-1.5 * 2**-48
    [1, -1, 281474976710656]
    >>> fixed_bias(0xD7800000, width=97, exponent=-48)  # -2**48
    (0, frozenset({1}))
    """
    number = decode(fp32, FP32)
    if number.kind is Kind.NAN:
        return 0, frozenset((0, 1))
    if number.kind is Kind.INFINITE:
        return 0, frozenset((number.sign,))
    places = number.exponent - exponent
    magnitude = number.significand << places if places >= 0 else number.significand >> -places
    if magnitude >= 1 << min(width - 1, 127):
        return 0, frozenset((number.sign,))
    return -magnitude if number.sign else magnitude, frozenset()
