"""Cycles of many streams at a time."""

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
    """What streams took.

    Attributes
    ----------
    cycles : array of int64, (streams,)
        Schedules made for each.
    advances : array of int64, (streams, rows)
        AS of each row, added up over the cycles of a stream; beyond the stream's steps it is what the row waited.
    paces : array of uint8, (streams, T)
        Steps taken in each cycle, 0 from the last on; if they were not asked for, (streams, 0).
    """

    cycles: NDArray[np.int64]
    advances: NDArray[np.int64]
    paces: NDArray[np.uint8]


class Order(NamedTuple):
    """What the schedulers of tiles take, cycle by cycle; some have nothing to take in a cycle.

    Attributes
    ----------
    cycles : array of int64, (streams,)
        Schedules made for each.
    chosen : array of int32, (streams, schedulers, T * lanes)
        Of each scheduler, the positions (step * lanes + lane) that it takes, those of the first cycle first.
    ends : array of int32, (streams, schedulers, T)
        How many of them have been taken when a cycle is over.
    """

    cycles: NDArray[np.int64]
    chosen: NDArray[np.int32]
    ends: NDArray[np.int32]


class Scheduler:
    """The schedulers of a tile, for any number of streams.

    The producer offers what the tile can take and the consumer takes what it gives (docs/tile.md): then the tile makes
    a schedule in every cycle, and a stream takes as many cycles as it would alone, whatever comes before and after it.
    A stream whose C comes late waits for it; that is not counted here.

    Parameters
    ----------
    config : TileConfig
        The tile.

    Source
    ------
    Section III-A of the paper; docs/tile.md.

    Examples
    --------
    Rows of zeros are drained four steps at a time, if no other row needs longer:

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
            Which positions of the row side are not zero: bit `lane` of each step.
        a : array of uint32, (streams, columns, T), optional
            Those of the column side; needed with `sparsity = "both"`, else without effect.
        paces : bool
            Whether to say what is taken in each cycle.

        Returns
        -------
        Scheduled

        Raises
        ------
        ValueError
            If the column side is missing, or does not have as many streams and steps as the row side.
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
        made = Scheduled(
            np.empty(streams, np.int64),
            np.empty(b.shape[:2], np.int64),
            np.empty((streams, count if paces else 0), np.uint8),
        )
        if self._table is not None:
            count_narrow(b, a, both, config.lanes, config.window_depth, self._table, *made)
        else:
            parts = 4 * get_num_threads()  # more than threads, so that none waits long for the slowest
            count_wide(b, a, both, config.window_depth, *self._rules, parts, *made)
        return made

    def order(self, b: NDArray[np.uint32], a: NDArray[np.uint32] | None = None) -> Order:
        """Return the schedule: which pairs each cycle takes. Only for tiles that skip.

        Parameters
        ----------
        b, a : array of uint32
            As `schedule` has them. With `a` each row has a scheduler for each column, without it one for all.

        Examples
        --------
        Two dense steps, of which the first has room for lane 1 of the second:

        >>> order = Scheduler(TileConfig(rows=1, lanes=2, depth=2, connectivity=[[0, 0], [1, 0]])).order(
        ...     np.array([[[0b01, 0b11]]], np.uint32)
        ... )
        >>> order.cycles, order.ends[0, 0], order.chosen[0, 0, :3]
        (array([2]), array([2, 3], dtype=int32), array([3, 0, 2], dtype=int32))
        """
        lanes, (streams, rows, count) = self.config.lanes, b.shape
        schedulers = rows if a is None else rows * a.shape[1]
        words = np.zeros((1, 1, 1), np.uint32) if a is None else a
        made = Order(
            np.empty(streams, np.int64),
            np.empty((streams, schedulers, count * lanes), np.int32),
            np.empty((streams, schedulers, count), np.int32),
        )
        take_in_order(b, words, a is not None, lanes, self.config.window_depth, *self._rules, *made)
        return made


Rules = tuple[NDArray[np.uint32], NDArray[np.int64], NDArray[np.uint32], NDArray[np.uint32]]


@lru_cache
def _rules(options: tuple[tuple[int, int], ...], lanes: int, depth: int) -> Rules:
    """Lanes of each level; of every option but the first, its step and by how much its lane is rotated, both ways."""
    levels = Connectivity(options, lanes=lanes, depth=depth).levels
    masks = np.array([sum(1 << lane for lane in level) for level in levels], dtype=np.uint32)
    steps, offsets = np.array(options[1:], dtype=np.int64).reshape(-1, 2).T.copy()
    return masks, steps, (offsets % lanes).astype(np.uint32), (-offsets % lanes).astype(np.uint32)


@lru_cache
def _table(options: tuple[tuple[int, int], ...], lanes: int, depth: int) -> NDArray[np.uint32]:
    table = np.empty(1 << lanes * depth, np.uint32)
    fill_table(table, lanes, depth, *_rules(options, lanes, depth))
    return table
