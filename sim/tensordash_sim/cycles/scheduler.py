"""Schedule many streams at a time."""

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tensordash import TileConfig
from tensordash.configuration.connectivity import Connectivity

from ..jit import get_num_threads
from .kernels import NARROW_BITS, count_narrow, count_wide, fill_table, take_in_order

__all__ = ["Order", "Scheduled", "Scheduler"]


class Scheduled(NamedTuple):
    """Cycles and advances of scheduled streams.

    Attributes
    ----------
    cycles : array of int64, (streams,)
        Number of schedules of each stream.
    advances : array of int64, (streams, rows)
        AS of each row, summed over the cycles of a stream. The excess over the stream's steps is the row's `row_wait`.
    paces : array of uint8, (streams, T)
        Steps taken in each cycle, and 0 after the last cycle. The shape is (streams, 0) if paces were not requested.
    """

    cycles: NDArray[np.int64]
    advances: NDArray[np.int64]
    paces: NDArray[np.uint8]


class Order(NamedTuple):
    """Positions that the schedulers take, in the order of the cycles. A scheduler may take none in a cycle.

    Attributes
    ----------
    cycles : array of int64, (streams,)
        Number of schedules of each stream.
    chosen : array of int32, (streams, schedulers, T * lanes)
        Positions (step * lanes + lane) that each scheduler takes, the first cycle first.
    ends : array of int32, (streams, schedulers, T)
        Number of positions in `chosen` that have been taken at the end of each cycle.
    """

    cycles: NDArray[np.int64]
    chosen: NDArray[np.int32]
    ends: NDArray[np.int32]


class Scheduler:
    """The schedulers of a tile, for any number of streams.

    The producer always offers enough steps, and the consumer takes every result (docs/tile.md). Then the tile makes a
    schedule in every cycle, and the cycles of a stream do not depend on the streams before and after it. Waiting for a
    late C is not counted.

    Parameters
    ----------
    config : TileConfig
        The tile.

    Source
    ------
    Section III-A of the paper; docs/tile.md.

    Examples
    --------
    Rows of zeros advance by four steps per cycle unless another row is slower:

    >>> scheduler = Scheduler(TileConfig(rows=2))
    >>> empty, full = [0, 0, 0, 0, 0], [15, 15, 15, 15, 15]
    >>> scheduler.schedule(np.array([[empty, empty], [empty, full]], dtype=np.uint32)).cycles
    array([2, 5])
    """

    def __init__(self, config: TileConfig) -> None:
        self.config = config
        lanes, depth = config.lanes, config.window_depth
        self._narrow = lanes * depth <= NARROW_BITS
        self._rules = _rules(config.options, lanes, depth)
        self._table = _table(config.options, lanes, depth) if self._narrow else None

    def schedule(self, b: NDArray[np.uint32], a: NDArray[np.uint32] | None = None, *, paces: bool = False) -> Scheduled:
        """Schedule streams.

        Parameters
        ----------
        b : array of uint32, (streams, rows, T)
            Row side: bit `lane` of each step is set if the position is not zero.
        a : array of uint32, (streams, columns, T), optional
            Column side. Required with `sparsity = "both"`; otherwise ignored.
        paces : bool
            Return the number of steps taken in each cycle.

        Returns
        -------
        Scheduled

        Raises
        ------
        ValueError
            If the column side is missing, or its number of streams or steps differs from the row side's.
        """
        config = self.config
        streams, _, count = b.shape
        if config.sparsity == "none":
            ones = np.ones((streams, count if paces else 0), np.uint8)
            return Scheduled(np.full(streams, count), np.full(b.shape[:2], count), ones)
        both = config.sparsity == "both"
        if both and a is None:
            raise ValueError('a must be given, since tile.sparsity is "both"')
        if both and a is not None and (a.shape[0], a.shape[2]) != (streams, count):
            raise ValueError(f"a must have {streams} streams of {count} steps as b has, not shape {a.shape}")
        b = np.ascontiguousarray(b, dtype=np.uint32)
        a = np.ascontiguousarray(a if both else np.zeros((1, 1, 1)), dtype=np.uint32)
        scheduled = Scheduled(
            np.empty(streams, np.int64),
            np.empty(b.shape[:2], np.int64),
            np.empty((streams, count if paces else 0), np.uint8),
        )
        if self._table is not None:
            count_narrow(b, a, both, config.lanes, config.window_depth, self._table, *scheduled)
        else:
            parts = 4 * get_num_threads()  # with more parts than threads, the slowest part delays the end less
            count_wide(b, a, both, config.window_depth, *self._rules, parts, *scheduled)
        return scheduled

    def order(self, b: NDArray[np.uint32], a: NDArray[np.uint32] | None = None) -> Order:
        """Return the schedule: the positions that each cycle takes. The tile must skip zeros.

        Parameters
        ----------
        b, a : array of uint32
            As in `schedule`. With `a`, each row has one scheduler for each column. Without `a`, each row has one
            scheduler.

        Examples
        --------
        The first of two steps has a free lane, which takes lane 1 of the second step:

        >>> order = Scheduler(TileConfig(rows=1, lanes=2, depth=2, connectivity=[[0, 0], [1, 0]])).order(
        ...     np.array([[[0b01, 0b11]]], np.uint32)
        ... )
        >>> order.cycles, order.ends[0, 0], order.chosen[0, 0, :3]
        (array([2]), array([2, 3], dtype=int32), array([3, 0, 2], dtype=int32))
        """
        lanes, (streams, rows, count) = self.config.lanes, b.shape
        schedulers = rows if a is None else rows * a.shape[1]
        words = np.zeros((1, 1, 1), np.uint32) if a is None else a
        taken = Order(
            np.empty(streams, np.int64),
            np.empty((streams, schedulers, count * lanes), np.int32),
            np.empty((streams, schedulers, count), np.int32),
        )
        take_in_order(b, words, a is not None, lanes, self.config.window_depth, *self._rules, *taken)
        return taken


Rules = tuple[NDArray[np.uint32], NDArray[np.int64], NDArray[np.uint32], NDArray[np.uint32]]


@lru_cache
def _rules(options: tuple[tuple[int, int], ...], lanes: int, depth: int) -> Rules:
    """Return the lanes of each level as masks and, for every option but the first, its step and both lane rotations."""
    levels = Connectivity(options, lanes=lanes, depth=depth).levels
    masks = np.array([sum(1 << lane for lane in level) for level in levels], dtype=np.uint32)
    steps, offsets = np.array(options[1:], dtype=np.int64).reshape(-1, 2).T.copy()
    return masks, steps, (offsets % lanes).astype(np.uint32), (-offsets % lanes).astype(np.uint32)


@lru_cache
def _table(options: tuple[tuple[int, int], ...], lanes: int, depth: int) -> NDArray[np.uint32]:
    table = np.empty(1 << lanes * depth, np.uint32)
    fill_table(table, lanes, depth, *_rules(options, lanes, depth))
    return table
