"""Drop the steps of streams that are empty in all rows."""

import numpy as np
from numpy.typing import NDArray

from tensordash import TileConfig

from .scheduler import Scheduled, Scheduler

__all__ = ["drop_empty_steps", "require_row_side", "schedule_without_empty_steps"]


def require_row_side(config: TileConfig) -> None:
    """Raise an error unless a tile skips zeros of the row side only, as dropping steps requires.

    Raises
    ------
    ValueError
        If `sparsity` is not "rows".
    """
    if config.sparsity != "rows":
        raise ValueError(f'tile.sparsity must be "rows" to drop empty steps, not "{config.sparsity}"')


def drop_empty_steps(words: NDArray[np.uint32], depth: int) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
    """Drop steps that are empty in all rows of a stream, and compact the remaining steps of each bank.

    Step t is in bank ``t % depth`` of its stream buffer, and stays in this bank: each bank closes its own gaps. So a
    window still takes one step from each bank, on both sides. Banks with fewer remaining steps are padded with empty
    steps.

    Parameters
    ----------
    words : array of uint32, (streams, rows, T)
        Steps of the row side: bit `lane` is set if the position is not zero.
    depth : int
        Number of banks, which is the number of steps in a window.

    Returns
    -------
    array of uint32, (streams, rows, longest)
        The remaining steps, with empty steps after the end of each stream.
    array of int64, (streams,)
        Number of steps of each stream, at least one.

    Examples
    --------
    Steps 1, 2 and 5 remain, two of them in bank 1:

    >>> stream = np.array([[[0, 7, 3, 0, 0, 5, 0, 0]]], np.uint32)
    >>> left, lengths = drop_empty_steps(stream, depth=4)
    >>> left.tolist(), lengths.tolist()
    ([[[0, 7, 3, 0, 0, 5]]], [6])
    """
    streams, rows, steps = words.shape
    is_left: NDArray[np.bool_] = np.any(words, axis=1)
    places = np.zeros((streams, steps), np.int64)
    for bank in range(depth):
        places[:, bank::depth] = (np.cumsum(is_left[:, bank::depth], axis=1) - 1) * depth + bank
    lengths = np.maximum(np.where(is_left, places + 1, 0).max(axis=1, initial=0), 1)
    left = np.zeros((streams, rows, int(lengths.max(initial=1))), np.uint32)
    stream, step = np.nonzero(is_left)
    left[stream, :, places[stream, step]] = words[stream, :, step]
    return left, lengths


def schedule_without_empty_steps(
    scheduler: Scheduler, words: NDArray[np.uint32], *, has_whole_words: bool = False, paces: bool = False
) -> tuple[Scheduled, NDArray[np.int64]]:
    """Schedule streams after `drop_empty_steps`.

    Parameters
    ----------
    scheduler : Scheduler
        Scheduler of a tile that skips zeros of the row side only.
    words : array of uint32, (streams, rows, T)
        As in `drop_empty_steps`.
    has_whole_words : bool
        Let each bank give the same number of steps, as in a core: empty steps follow where a bank has fewer.
    paces : bool
        Return the number of steps taken in each cycle, and 0 after a stream's last cycle.

    Returns
    -------
    Scheduled
    array of int64, (streams,)
        Number of remaining steps of each stream.

    Raises
    ------
    ValueError
        If the tile does not skip zeros of the row side only.
    """
    require_row_side(scheduler.config)
    depth = scheduler.config.window_depth
    left, lengths = drop_empty_steps(words, depth)
    if has_whole_words:
        lengths = -(-lengths // depth) * depth
        left = np.pad(left, ((0, 0), (0, 0), (0, int(lengths.max(initial=1)) - left.shape[2])))
    cycles, advances = np.empty(len(words), np.int64), np.empty(words.shape[:2], np.int64)
    steps_taken = np.zeros((len(words), left.shape[2] if paces else 0), np.uint8)
    for length in np.unique(lengths):
        chosen = np.nonzero(lengths == length)[0]
        scheduled = scheduler.schedule(left[chosen, :, :length], paces=paces)
        cycles[chosen], advances[chosen] = scheduled.cycles, scheduled.advances
        steps_taken[chosen, : scheduled.paces.shape[1]] = scheduled.paces
    return Scheduled(cycles, advances, steps_taken), lengths
