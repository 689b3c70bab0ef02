"""A baseline that skips steps that are padding in all vectors of a group; shapes alone determine them."""

import numpy as np
from numpy.typing import NDArray

from ...lowering import Vectors
from .spread import Spread

__all__ = ["skip_padding", "steps_inside"]

BLOCK_WORDS = 1 << 22
"""Maximum of steps in memory at a time."""


def steps_inside(vectors: Vectors, groups: NDArray[np.int64]) -> NDArray[np.int64]:
    """Count the steps in which at least one vector of a group reads the tensor.

    Parameters
    ----------
    vectors : Vectors
        Vectors of a tensor without zeros.
    groups : array of int64, (groups, size)
        Numbers of vectors, -1 for none.

    Returns
    -------
    array of int64, (groups,)
    """
    count, size = groups.shape
    found = np.empty(count, np.int64)
    block = max(1, BLOCK_WORDS // (size * vectors.steps))
    for start in range(0, count, block):
        some = groups[start : start + block]
        words = vectors.words(some.ravel()).reshape(len(some), size, vectors.steps)
        found[start : start + block] = np.count_nonzero(words.any(axis=1), axis=1)
    return found


def skip_padding(
    rows: tuple[Vectors, NDArray[np.int64]], columns: tuple[Vectors, NDArray[np.int64]], beats: int, spread: Spread
) -> None:
    """Distribute the passes of a product to tiles that skip padding steps of both sides.

    The shapes determine which steps are padding. At most one side of a product has padding.

    Parameters
    ----------
    rows, columns : (Vectors, array of int64 (batch, groups, size))
        The sides, with tensors without zeros, and their groups.
    beats : int
        Cycles in which a pass's results leave.
    spread : Spread
        The tiles.
    """
    by_row, by_column = (
        steps_inside(vectors, groups.reshape(-1, groups.shape[2])).reshape(groups.shape[:2])
        if vectors.padding
        else np.full(groups.shape[:2], vectors.steps)
        for vectors, groups in (rows, columns)
    )
    for row_steps, column_steps in zip(by_row, by_column, strict=True):
        if columns[0].padding:
            spread.deal(np.maximum(np.tile(column_steps, len(row_steps)), beats))
        else:
            spread.deal(np.maximum(row_steps, beats), len(column_steps))
