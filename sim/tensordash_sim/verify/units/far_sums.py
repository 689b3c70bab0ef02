"""Sums that passes rarely or never reach: near the limits of their range, tiny, or near a rounding tie."""

from collections.abc import Mapping
from random import Random

import numpy as np

from tensordash.configuration.formats import FP32, FloatFormat
from tensordash_sim.golden import BinnedAccumulator
from tensordash_sim.golden.core.golden_core import GoldenCore
from tensordash_sim.golden.core.sums import CoreSum

__all__ = ["FarSums"]

ENDS = -130, 136
"""Exponents near which many binned sums are, at FP32's limits and beyond."""

MARKS: tuple[tuple[int, ...], ...] = (*[()] * 24, (0,), (1,), (0, 1))
"""Signs of the infinities in a binned sum."""


class FarSums(GoldenCore):
    """A golden core that replaces sums by sums that passes rarely or never reach.

    In a block, some sums are near the limits of their range, or all sums are tiny, or all are at or near the middle
    between two numbers of FP32 or of the results' format.
    """

    weights: Mapping[str, int] = {"as it is": 3, "far": 3, "tiny": 4, "tie": 2}
    """Relative frequency of each kind of block."""
    top: int | None = None
    """The top bin of all binned sums, or None for random top bins."""

    def _block(self, rows: np.ndarray, columns: np.ndarray) -> list[CoreSum]:
        block = super()._block(rows, columns)
        random = Random(rows.tobytes() + columns.tobytes())  # the same for the same streams
        (kind,) = random.choices(list(self.weights), list(self.weights.values()))
        if kind == "as it is" or not rows.size:  # A skipped pass has no rows.
            return block
        near = self._top(random, block[0]) if isinstance(block[0], BinnedAccumulator) else 0
        for each in random.sample(block, len(block) // 2) if kind == "far" else block:
            if isinstance(each, BinnedAccumulator):
                self._bins(random, kind, each, near)
            else:
                each.total = random.choice((1, -1)) * self._total(random, kind, each.width)
        return block

    def _total(self, random: Random, kind: str, width: int) -> int:
        """Return the magnitude of a sum of `width` bits."""
        if kind == "tiny":
            return random.getrandbits(random.randint(1, 24))
        if kind == "far":
            return (1 << (width - 1)) - 1 - random.getrandbits(random.randint(1, width - 2))
        fmt = self.config.tile.a_format
        if isinstance(fmt, FloatFormat):
            fmt = random.choice((FP32, fmt))
        bits = fmt.significand_bits if isinstance(fmt, FloatFormat) else fmt.width - 1
        bits += random.choice((0, 0, 1, 2))  # With 1 or 2, an excess carry would make a quarter or an eighth a tie.
        between = 1 << bits | random.getrandbits(bits) | 1
        return (between << random.randrange(max(1, width - 2 - bits))) + random.choice((0, 0, 0, *range(-3, 4)))

    def _top(self, random: Random, sums: BinnedAccumulator) -> int:
        """Return a top bin, often the bin of an FP32 number."""
        if self.top is not None:
            return self.top
        low, high = (min(max((end - sums.unit) // sums.bin_bits, 0), sums.max_top) for end in ENDS)
        kinds = (random.randint(low, high), low + random.randint(0, 2), high - random.randint(0, 2))
        top = random.choice((random.randint(0, sums.max_top), *kinds, *kinds))
        return min(max(top, 0), sums.max_top)

    def _bins(self, random: Random, kind: str, sums: BinnedAccumulator, near: int) -> None:
        """Replace the digits of a binned sum, with a top bin `near` or a few bins away."""
        away = 0 if self.top is not None else random.choice((0, 0, 0, *range(-sums.bins - 1, sums.bins + 2)))
        sums.top = min(max(near + away, 0), sums.max_top)
        sums.infinities = frozenset(random.choice(MARKS))
        counting = range(max(0, sums.top - sums.bins + 1), sums.top + 1)
        if kind == "tie":  # One number spans all bins.
            bits = sums.bin_bits * (len(counting) - 1) + sums.width
            total, sign = self._total(random, kind, bits), random.choice((1, -1))
            low, mask = counting[0], (1 << sums.bin_bits) - 1
            parts = {k: total >> (k - low) * sums.bin_bits for k in counting}
            sums.sums = {k: sign * (part if k == sums.top else part & mask) for k, part in parts.items()}
            return
        width = sums.width if kind == "far" else random.randint(2, sums.width)
        totals = {k: self._total(random, "far", width) if kind == "far" else random.getrandbits(4) for k in counting}
        sums.sums = {k: random.choice((1, -1, 0)) * total for k, total in totals.items()}
