"""Cycles of an operation that leaves out passes with unneeded outputs."""

from math import ceil

import numpy as np
from numpy.typing import NDArray

from tensordash import TileConfig

from .config import ChipConfig

__all__ = ["masked_rounds"]


def masked_rounds(needed: NDArray[np.bool_], config: TileConfig, chip: ChipConfig) -> int:
    """Count the rounds of passes, at most one pass per tile and round, until all needed passes are done.

    The tiles of a round share reads. The banks' width limits the groups that a memory reads per cycle, and a read
    reaches at most `broadcast` tiles, at any place. A round takes passes of as many row groups and column groups as can
    be read at a time. That needs a network from any bank to any tile. A fixed sharing along rows and columns of tiles
    would share few reads under an unstructured mask.

    Parameters
    ----------
    needed : array of bool, (row groups, column groups)
        Whether an output of each pass is needed.
    config, chip : TileConfig, ChipConfig
        The tile, and the chip with the number of tiles and the memories.

    Examples
    --------
    All of 64 x 64 passes, and the passes in every eighth column:

    >>> needed = np.ones((64, 64), bool)
    >>> masked_rounds(needed, TileConfig(), ChipConfig())
    16
    >>> needed[:, np.arange(64) % 8 > 0] = False
    >>> masked_rounds(needed, TileConfig(), ChipConfig())
    2
    """
    sides = ((config.rows, config.b_format), (config.columns, config.a_format))
    rows, columns = (
        max(1, int(chip.memory.bytes_per_cycle * 8 // (size * config.lanes * fmt.width))) for size, fmt in sides
    )
    rounds = 0
    for start in range(0, needed.shape[0], rows):
        passes = np.count_nonzero(needed[start : start + rows], axis=0)
        reads = int(np.sum(-(-passes // chip.memory.broadcast)))
        rounds += max(ceil(int(passes.sum()) / chip.tiles), ceil(reads / columns))
    return rounds
