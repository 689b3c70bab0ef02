"""Distribution of work to many tiles: each piece goes to the tile that is free first."""

import numpy as np
from numpy.typing import NDArray

from ...jit import njit

__all__ = ["Spread"]


@njit(cache=True, nogil=True)
def _deal(ends, durations, repeats):
    """Assign each piece to the tile that is free first; `ends` is a heap of the times at which tiles are free."""
    tiles = len(ends)
    for duration in durations:
        for _ in range(repeats):
            free_at = ends[0] + duration
            place = 0
            while True:
                child = 2 * place + 1
                if child >= tiles:
                    break
                if child + 1 < tiles and ends[child + 1] < ends[child]:
                    child += 1
                if ends[child] >= free_at:
                    break
                ends[place] = ends[child]
                place = child
            ends[place] = free_at


class Spread:
    """Tiles that take pieces of work in order of arrival.

    Parameters
    ----------
    tiles : int
        Number of tiles.

    Examples
    --------
    >>> spread = Spread(tiles=2)
    >>> spread.deal(np.array([3, 1, 1, 1]))
    >>> spread.cycles, spread.busy
    (3, 6)
    """

    def __init__(self, tiles: int) -> None:
        self._ends = np.zeros(tiles, np.int64)
        self.busy = 0
        """Cycles with work, summed over tiles."""

    @property
    def cycles(self) -> int:
        """Cycle in which the last tile is done."""
        return int(self._ends.max())

    def deal(self, durations: NDArray[np.int64], repeats: int = 1) -> None:
        """Distribute pieces of work, each `repeats` times in a row."""
        _deal(self._ends, np.ascontiguousarray(durations, np.int64), repeats)
        self.busy += int(durations.sum()) * repeats
