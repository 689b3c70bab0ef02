"""Choice of the accumulator that a configuration asks for."""

from collections.abc import Iterable
from typing import Protocol

from tensordash.configuration.config import TileConfig
from tensordash.configuration.formats import IntegerFormat
from tensordash.configuration.numerics import Binned, Fused

from .binned import BinnedAccumulator
from .dot import ExactAccumulator, IntegerAccumulator
from .fused import FusedAccumulator

__all__ = ["Accumulator", "make_accumulator", "starts_from_c"]


class Accumulator(Protocol):
    """Interface of all accumulators. C is 0 for a tile without a C input."""

    def accumulate(self, pairs: Iterable[tuple[int, ...]], first: bool, c: int = 0) -> bool:
        """Add one schedule's products (if `first`, to zero or C); return whether the sum wrapped."""

    def result_bits(self, c: int = 0) -> int:
        """Return the result, FP32 or INT32 bits, with C if the accumulator adds it last."""

    def result_overflow(self, c: int = 0) -> bool:
        """Return whether adding C wraps."""

    def block_bits(self) -> int:
        """Return the bits of the PE's `block` port."""


def make_accumulator(config: TileConfig) -> Accumulator:
    """Return an accumulator for a configuration.

    >>> numbers = {}, {"format": "int8"}, {"format": "bf16", "accumulator": "hopper"}, {"accumulator": {"bins": 3}}
    >>> [type(make_accumulator(TileConfig(**each))).__name__ for each in numbers]
    ['ExactAccumulator', 'IntegerAccumulator', 'FusedAccumulator', 'BinnedAccumulator']
    """
    if isinstance(config.numerics.accumulator, Binned):
        return BinnedAccumulator(config)
    if isinstance(config.numerics.accumulator, Fused):
        return FusedAccumulator(config)
    if isinstance(config.a_format, IntegerFormat):
        return IntegerAccumulator(config)
    return ExactAccumulator(config)


def starts_from_c(config: TileConfig) -> bool:
    """Return whether streams start from C; otherwise a tile with a C input adds C to their sums last.

    >>> [starts_from_c(TileConfig(initial=True, accumulator=each)) for each in ("exact", "volta", {"bins": 3})]
    [False, True, True]
    """
    accumulator = config.numerics.accumulator
    added_inside = isinstance(accumulator, Binned) or (isinstance(accumulator, Fused) and accumulator.addend != "last")
    return config.initial and added_inside
