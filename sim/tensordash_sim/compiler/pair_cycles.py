"""Cycles of a layout that reads and writes up to two groups per cycle (`core.layout_groups = 2`)."""

from functools import lru_cache
from math import gcd

import numpy as np

from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.descriptors import decode

from ..jit import njit
from .footprint import walk_bits, walked_groups

__all__ = ["pair_cycles"]


def pair_cycles(config: CoreConfig, bits: int) -> int:
    """Count the cycles in which a layout reads groups, if it never waits.

    It reads two consecutive groups in one cycle, with four exceptions: `stride` is 2 or 4; both groups go to one bank
    of the stream buffer; a bank of the buffer would have to read two words of one half; a core that drops steps lays
    out side B, and the groups belong to different streams.

    Parameters
    ----------
    config : CoreConfig
        A core with layouts of two groups.
    bits : int
        A legal layout.

    Source: docs/core.md, "Layout".
    """
    operation, values = decode(bits, frozenset(("streams", "steps", "stride")))
    assert operation is not None
    lanes, depth = config.tile.lanes, config.tile.window_depth
    runs, turns = values["streams"] * config.parts(operation.name[-1]), gcd(values["stride"], lanes)
    if turns > 1:
        return runs * values["steps"] * turns
    crosses_streams = not config.drop_steps or operation.name != "layout_b"
    return _single_turn_cycles(walk_bits(bits), runs, values["steps"], (lanes, depth, config.groups), crosses_streams)


@lru_cache(maxsize=1 << 13)
def _single_turn_cycles(walk: int, runs: int, steps: int, sizes: tuple[int, int, int], crosses_streams: bool) -> int:
    lanes, depth, buffer_groups = sizes
    groups, x = walked_groups(decode(walk)[1], runs * steps, lanes)
    # For each group of the walk and each bank: the buffer's group that it reads there, or -1.
    banks = np.full((runs * steps, lanes), -1, np.int64)
    group, port = np.nonzero((x >= 0) & (groups < buffer_groups))
    banks[group, x[group, port] % lanes] = groups[group, port]
    return int(_pairs(banks, np.bitwise_count(banks) & 1, steps, depth, crosses_streams))


@njit(cache=True, nogil=True)
def _pairs(banks, halves, steps, depth, crosses_runs):
    """Count the groups and pairs of groups that a layout reads one after the other."""
    cycles = 0
    group, count = 0, len(banks)
    while group < count:
        cycles += 1
        step = group % steps
        # A run's last step also writes the padding of its word, that is, all banks from its own on. A core that drops
        # steps drops this padding, and its runs of side B are streams.
        if not crosses_runs:
            is_pair = step + 1 < steps
        elif step + 2 == steps:
            is_pair = group + 1 < count and (step + 1) % depth > 0
        else:
            is_pair = group + 1 < count and (step + 1 < steps or (step % depth > 0 and steps > 1))
        if is_pair:
            for bank in range(banks.shape[1]):
                one, other = banks[group, bank], banks[group + 1, bank]
                if one >= 0 and other >= 0 and one != other and halves[group, bank] == halves[group + 1, bank]:
                    is_pair = False
        group += 2 if is_pair else 1
    return cycles
