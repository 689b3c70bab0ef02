"""A baseline that skips steps which are padding in a whole group of vectors: zeros that it need not look for."""

import numpy as np
from numpy.typing import NDArray

from ...lowering import Vectors
from .spread import Spread

__all__ = ["skip_padding", "steps_inside"]

BLOCK_WORDS = 1 << 22
"""Steps that are held at a time."""


def steps_inside(vectors: Vectors, groups: NDArray[np.int64]) -> NDArray[np.int64]:
    """Count the steps in which at least one vector of a group reads the tensor.

    Parameters
    ----------
    vectors : Vectors
        Those of a tensor without zeros.
    groups : array of int64, (groups, size)
        Numbers of vectors, -1 where there is none.

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
    """Deal the passes of a product to tiles that skip such steps of either side.

    Where a step is padding is known from the shapes: of the sides of a product at most one has any.

    Parameters
    ----------
    rows, columns : (Vectors, array of int64 (batch, groups, size))
        The sides, of tensors without zeros, with their groups.
    beats : int
        Cycles that a pass's results need to leave.
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
