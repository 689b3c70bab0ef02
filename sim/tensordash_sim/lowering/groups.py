"""Group the vectors of a side into passes."""

import numpy as np
from numpy.typing import NDArray

from .vectors import Vectors

__all__ = ["grouped"]

BLOCK_WORDS = 1 << 22
"""Maximum number of steps in memory at a time."""


def grouped(vectors: Vectors, size: int, order: str = "natural") -> NDArray[np.int64]:
    """Return the groups of vectors that share a pass.

    Parameters
    ----------
    vectors : Vectors
        The side.
    size : int
        Vectors per pass.
    order : "natural" or "density"
        Order by number, or by the number of non-zeros.

    Returns
    -------
    array of int64, (batch, groups, size)
        Numbers of vectors, and -1 for no vector.
    """
    batch, count = vectors.batch, vectors.count
    numbers = np.arange(batch * count, dtype=np.int64).reshape(batch, count)
    if order == "density":
        numbers = np.take_along_axis(numbers, np.argsort(_non_zeros(vectors), axis=1, kind="stable"), axis=1)
    groups = -(-count // size)
    filled = np.full((batch, groups * size), -1, np.int64)
    filled[:, :count] = numbers
    return filled.reshape(batch, groups, size)


def _non_zeros(vectors: Vectors) -> NDArray[np.int64]:
    total = vectors.batch * vectors.count
    block = max(1, BLOCK_WORDS // vectors.steps)
    counts = np.empty(total, np.int64)
    for start in range(0, total, block):
        numbers = np.arange(start, min(total, start + block), dtype=np.int64)
        counts[numbers] = np.bitwise_count(vectors.words(numbers)).sum(axis=1)
    return counts.reshape(vectors.batch, vectors.count)
