"""Windows of a convolution. They overlap, so one word of the tensor is in several windows."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .kernels import count_places, gather_windows
from .vectors import Vectors

__all__ = ["Taps", "WindowVectors"]


class Taps(NamedTuple):
    """Reads of windows along one dimension: window `i` reads at ``i * stride + offset``, for each offset.

    The offsets are in ascending order.
    """

    windows: int
    stride: int
    offsets: tuple[int, ...]

    def reads_inside(self, size: int) -> int:
        """Count the reads of all windows that are inside a tensor of `size`.

        >>> Taps(windows=4, stride=1, offsets=(-1, 0, 1)).reads_inside(4)
        10
        """
        reads = np.arange(self.windows)[:, None] * self.stride + np.array(self.offsets)
        return int(np.count_nonzero((reads >= 0) & (reads < size)))

    @property
    def read_from_least(self) -> NDArray[np.bool_]:
        """Entry i is true if an offset is `i` larger than the smallest offset.

        >>> Taps(windows=4, stride=1, offsets=(-1, 1)).read_from_least
        array([ True, False,  True])
        """
        beyond = np.array(self.offsets) - min(self.offsets)
        return np.isin(np.arange(beyond.max() + 1), beyond)


class WindowVectors(Vectors):
    """Windows of A in `AxW`, or of G in one phase of `WxG`, with one batch element for each group of channels.

    The vectors of a batch element are in the order sample, y, x. The steps are in the order y tap, x tap, channel.

    Parameters
    ----------
    name : str
        The operand.
    packed : array of uint32, (N, groups, Y, X, blocks)
        The tensor, packed along the channels of each group.
    y, x : Taps
        The windows along each dimension.
    reduction : int
        Channels per group.
    lanes : int
        Positions per step.

    Examples
    --------
    >>> row = np.array([1, 2, 3, 4], np.uint32).reshape(1, 1, 1, 4, 1)
    >>> windows = WindowVectors("A", row, y=Taps(1, 1, (0,)), x=Taps(4, 1, (-1, 0, 1)), reduction=4, lanes=4)
    >>> windows.words(np.array([0, 2, -1])).tolist(), windows.padding
    ([[0, 1, 2], [2, 3, 4], [0, 0, 0]], 8)
    >>> windows.distinct_blocks(np.array([[0, 1, 2], [2, 3, -1]]))  # three in a row read four positions
    array([4, 3])
    """

    def __init__(self, name: str, packed: NDArray[np.uint32], *, y: Taps, x: Taps, reduction: int, lanes: int) -> None:
        samples, groups, height, width, blocks = packed.shape
        self._packed, self._y, self._x = packed, y, x
        segments = samples * groups * y.windows * x.windows * len(y.offsets) * len(x.offsets)
        inside = samples * groups * y.reads_inside(height) * x.reads_inside(width)
        super().__init__(
            name=name,
            batch=groups,
            count=samples * y.windows * x.windows,
            steps=len(y.offsets) * len(x.offsets) * blocks,
            lanes=lanes,
            fragmentation=segments * (blocks * lanes - reduction),
            padding=(segments - inside) * reduction,
        )

    def _words(self, vectors: NDArray[np.int64]) -> NDArray[np.uint32]:
        words = np.empty((len(vectors), self.steps), np.uint32)
        gather_windows(
            self._packed,
            np.array(self._y.offsets, np.int64),
            np.array(self._x.offsets, np.int64),
            (self._packed.shape[0], self._y.windows, self._x.windows),
            (self._y.stride, self._x.stride),
            vectors,
            words,
        )
        return words

    def _distinct_blocks(self, groups: NDArray[np.int64]) -> NDArray[np.int64]:
        *_, height, width, blocks = self._packed.shape
        rest, column = np.divmod(groups, self._x.windows)
        plane, row = np.divmod(rest, self._y.windows)
        plane[groups < 0] = -1
        counts = np.empty(len(groups), np.int64)
        count_places(
            np.stack([plane, row * self._y.stride, column * self._x.stride], axis=-1),
            np.array(self._y.offsets, np.int64),
            np.array(self._x.offsets, np.int64),
            self._y.read_from_least,
            self._x.read_from_least,
            (height, width),
            counts,
        )
        counts *= blocks
        return counts
