"""One side of a product: vectors of steps, whose words are computed on demand."""

from abc import ABC, abstractmethod
from math import prod

import numpy as np
from numpy.typing import NDArray

from .kernels import pack_words

__all__ = ["SeparateVectors", "Vectors", "pack"]


def pack(mask: NDArray[np.bool_], lanes: int) -> NDArray[np.uint32]:
    """Pack the middle axis of a mask, `lanes` entries to a word.

    Parameters
    ----------
    mask : array of bool, (M, R, P)
        The mask.
    lanes : int
        Entries per word, at most 32.

    Returns
    -------
    array of uint32, (M, P, ceil(R / lanes))
        Bit i of word j is entry ``j * lanes + i``; bits past the end are 0.

    Examples
    --------
    >>> pack(np.array([[[1], [0], [0], [0], [0], [1]]], bool), lanes=4)
    array([[[1, 2]]], dtype=uint32)
    """
    outer, reduction, inner = mask.shape
    packed = np.empty((outer, inner, -(-reduction // lanes)), np.uint32)
    pack_words(np.ascontiguousarray(mask).view(np.uint8), lanes, packed)
    return packed


class Vectors(ABC):
    """One side of a product.

    A vector is one reduction: `steps` steps of `lanes` positions. The number of a vector is
    ``element * count + index``, with its batch element and its index in this element. The number -1 means no vector.

    Attributes
    ----------
    name : str
        The operand: "A", "W" or "G".
    batch : int
        Number of batch elements. Vectors of different elements are never multiplied.
    count : int
        Vectors per batch element.
    steps, lanes : int
        Steps per vector, and positions per step.
    fragmentation : int
        Number of positions, in all vectors, after the end of a reduction that is not a multiple of `lanes`.
    padding : int
        Number of positions, in all vectors, that read outside the tensor. Fragmentation is excluded.
    """

    def __init__(
        self, *, name: str, batch: int, count: int, steps: int, lanes: int, fragmentation: int, padding: int
    ) -> None:
        self.name = name
        self.batch = batch
        self.count = count
        self.steps = steps
        self.lanes = lanes
        self.fragmentation = fragmentation
        self.padding = padding

    def words(self, vectors: NDArray[np.int64]) -> NDArray[np.uint32]:
        """Return the nonzero positions of vectors as words.

        Parameters
        ----------
        vectors : array of int64, (V,)
            Numbers of vectors, in any order.

        Returns
        -------
        array of uint32, (V, steps)
            Bit i is lane i. All bits are 0 for no vector (-1).

        Raises
        ------
        ValueError
            If a number is out of range.
        """
        return self._words(self._checked(vectors, dimensions=1))

    def distinct_blocks(self, groups: NDArray[np.int64]) -> NDArray[np.int64]:
        """Count the distinct blocks of memory that each group of vectors reads.

        A block is `lanes` consecutive values along the reduction. It has channels of one position (the last block of a
        position may be partial) or, in `AxG`, positions of one flattened plane. Blocks begin at multiples of `lanes`.
        Blocks that lie completely outside the tensor are not counted.

        Parameters
        ----------
        groups : array of int64, (groups, R)
            Numbers of the vectors of each group.

        Returns
        -------
        array of int64, (groups,)
            Number of blocks.

        Raises
        ------
        ValueError
            If a number is out of range.
        """
        return self._distinct_blocks(self._checked(groups, dimensions=2))

    def _checked(self, vectors: NDArray[np.int64], dimensions: int) -> NDArray[np.int64]:
        vectors = np.ascontiguousarray(vectors, np.int64)
        if vectors.ndim != dimensions:
            raise ValueError(f"vectors must be an array of {dimensions} dimensions, not {vectors.ndim}")
        total = self.batch * self.count
        if vectors.size and not -1 <= vectors.min() <= vectors.max() < total:
            wrong = vectors.min() if vectors.min() < -1 else vectors.max()
            raise ValueError(f"vectors must be from -1 to {total - 1}, not {wrong}")
        return vectors

    @abstractmethod
    def _words(self, vectors: NDArray[np.int64]) -> NDArray[np.uint32]:
        """Return `words` for validated numbers."""

    @abstractmethod
    def _distinct_blocks(self, groups: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return `distinct_blocks` for validated numbers."""


class SeparateVectors(Vectors):
    """Vectors that share no values: filters, planes of G, and both sides of a matrix product.

    Parameters
    ----------
    name : str
        The operand.
    packed : array of uint32, (batch, count, ..., blocks)
        The operand's words. The axes between `count` and `blocks` are the segments of a vector.
    reduction : int
        Values per segment.
    lanes : int
        Positions per step.

    Examples
    --------
    >>> vectors = SeparateVectors("W", np.array([[[1, 2], [3, 0]]], np.uint32), reduction=7, lanes=4)
    >>> vectors.words(np.array([1, -1, 0])).tolist(), vectors.fragmentation
    ([[3, 0], [0, 0], [1, 2]], 2)
    >>> vectors.distinct_blocks(np.array([[0, 0, 1], [1, -1, -1]]))
    array([4, 2])
    """

    def __init__(self, name: str, packed: NDArray[np.uint32], *, reduction: int, lanes: int) -> None:
        batch, count = packed.shape[:2]
        segments, blocks = prod(packed.shape[:-1]), packed.shape[-1]
        self._packed = packed.reshape(batch * count, -1)
        super().__init__(
            name=name,
            batch=batch,
            count=count,
            steps=self._packed.shape[1],
            lanes=lanes,
            fragmentation=segments * (blocks * lanes - reduction),
            padding=0,
        )

    def _words(self, vectors: NDArray[np.int64]) -> NDArray[np.uint32]:
        words = self._packed[vectors]
        words[vectors < 0] = 0
        return words

    def _distinct_blocks(self, groups: NDArray[np.int64]) -> NDArray[np.int64]:
        return _count_distinct(groups) * self.steps


def _count_distinct(numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """Count the distinct non-negative numbers in each row.

    Parameters
    ----------
    numbers : array of int64, (rows, N)
        The numbers.

    Returns
    -------
    array of int64, (rows,)
        The counts.

    Examples
    --------
    >>> _count_distinct(np.array([[3, -1, 3, 0], [-1, -1, -1, -1]]))
    array([2, 0])
    """
    ordered = np.sort(numbers, axis=1)
    first = np.diff(ordered, axis=1, prepend=-1) > 0
    counts: NDArray[np.int64] = np.count_nonzero(first, axis=1)
    return counts
