"""Passes whose outputs nobody needs are left out: how long the others take."""

from math import ceil

import numpy as np
from numpy.typing import NDArray

from tensordash import TileConfig

from .config import ChipConfig

__all__ = ["masked_rounds"]


def masked_rounds(needed: NDArray[np.bool_], config: TileConfig, chip: ChipConfig) -> int:
    """Rounds of passes, one on each tile at most, until all needed passes are done.

    The tiles of a round share reads as far as they can: a memory gives as many groups a cycle as its banks are wide,
    and each reaches at most `broadcast` tiles, whichever they are. So a round takes passes of some groups of rows, as
    many as can be read at a time, with as many groups of columns. That needs a network from any bank to any tile; tiles
    in rows and columns that share fixed reads would find little to share in a mask without structure.

    Parameters
    ----------
    needed : array of bool, (row groups, column groups)
        Passes of which an output is needed.
    config, chip : TileConfig, ChipConfig
        The tile, and how many there are, with their memories.

    Examples
    --------
    All of 64 x 64 passes, and every eighth column of them:

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
