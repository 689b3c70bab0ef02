"""Shifted planes of A: the left side of `AxG`."""

import numpy as np
from numpy.typing import NDArray

from .geometry import Convolution
from .kernels import ROW_BITS, gather_planes
from .vectors import Vectors, pack

__all__ = ["PlaneVectors"]

_BYTES = 1 << 24
"""Maximum size in bytes of the bitmaps that `distinct_blocks` holds at a time."""


class PlaneVectors(Vectors):
    """Values of A that each tap of the kernel reads from each channel, in the order of the output positions.

    There is one batch element for each sample and group, in the order sample, group. The vectors of a batch element are
    in the order channel, y tap, x tap. The steps are flattened output positions.

    Parameters
    ----------
    mask : array of bool, (N, C, Y, X)
        True for nonzero values of A.
    layer : Convolution
        The layer.
    lanes : int
        Positions per step.

    Examples
    --------
    >>> layer = Convolution(batch=1, in_channels=1, out_channels=1, size=(4,), kernel=(3,), stride=(1,), padding=(1,),
    ...                     dilation=(1,), groups=1)
    >>> planes = PlaneVectors(np.array([[[[1, 0, 1, 1]]]], bool), layer, lanes=4)
    >>> [f"{word[0]:04b}" for word in planes.words(np.arange(3))]  # later positions to the left
    ['1010', '1101', '0110']
    >>> planes.padding, planes.distinct_blocks(np.array([[0, 1, 2]]))
    (2, array([1]))
    """

    def __init__(self, mask: NDArray[np.bool_], layer: Convolution, lanes: int) -> None:
        self._y, self._x = layer.axes
        self._bits = self._packed_rows(mask)
        batch, count = layer.batch * layer.groups, mask.shape[1] // layer.groups * self._y.kernel * self._x.kernel
        positions = self._y.outputs * self._x.outputs
        steps = -(-positions // lanes)
        inside = mask.shape[0] * mask.shape[1] * self._y.pairs_inside * self._x.pairs_inside
        super().__init__(
            name="A",
            batch=batch,
            count=count,
            steps=steps,
            lanes=lanes,
            fragmentation=batch * count * (steps * lanes - positions),
            padding=batch * count * positions - inside,
        )

    def _packed_rows(self, mask: NDArray[np.bool_]) -> NDArray[np.uint32]:
        """Pack the rows in the layout that `gather_planes` reads."""
        x = self._x
        length = -(-(x.size + 2 * x.padding) // x.stride)
        padded = np.zeros((*mask.shape[:3], length * x.stride), bool)
        padded[..., x.padding : x.padding + x.size] = mask
        packed = pack(padded.reshape(-1, length, x.stride), ROW_BITS)
        rows = np.zeros((*packed.shape[:2], packed.shape[2] + 1), np.uint32)
        rows[..., :-1] = packed
        return rows.reshape(-1, mask.shape[2], *rows.shape[1:])

    def _words(self, vectors: NDArray[np.int64]) -> NDArray[np.uint32]:
        words = np.empty((len(vectors), self.steps), np.uint32)
        y, x = self._y, self._x
        gather_planes(
            self._bits,
            (y.kernel, x.kernel),
            (y.stride, x.stride),
            (y.dilation, x.dilation),
            y.padding,
            (y.outputs, x.outputs),
            self.lanes,
            vectors,
            words,
        )
        return words

    def _distinct_blocks(self, groups: NDArray[np.int64]) -> NDArray[np.int64]:
        touched = self._touched_blocks()
        taps = len(touched) - 1
        # Sorted by number, the vectors of one plane are adjacent, so one bitmap holds the union of their blocks.
        ordered = np.sort(groups, axis=1)
        plane, tap = ordered // taps, np.where(ordered < 0, taps, ordered % taps)
        ends = np.diff(plane, axis=1, append=-2) != 0
        most = max(1, _BYTES // touched.shape[1])
        counts = np.zeros(len(groups), np.int64)
        for first in range(0, len(groups), most):
            some = slice(first, first + most)
            united = np.zeros((len(ordered[some]), touched.shape[1]), np.uint8)
            for index in range(ordered.shape[1]):
                united |= touched[tap[some, index]]
                ended = ends[some, index]
                counts[some][ended] += np.bitwise_count(united[ended]).sum(axis=1, dtype=np.int64)
                united[ended] = 0
        return counts

    def _touched_blocks(self) -> NDArray[np.uint8]:
        """Return a bitmap for each tap: the blocks that it reads in any plane. A last, empty bitmap means no vector."""
        reads = []
        for axis in (self._y, self._x):
            outputs, taps = np.arange(axis.outputs), np.arange(axis.kernel)[:, None]
            reads.append(outputs * axis.stride + taps * axis.dilation - axis.padding)
        blocks = -(-self._y.size * self._x.size // self.lanes)
        touched = np.zeros((self._y.kernel * self._x.kernel + 1, blocks), bool)
        for y_tap, all_y in enumerate(reads[0]):
            y = all_y[(all_y >= 0) & (all_y < self._y.size), None]
            for x_tap, all_x in enumerate(reads[1]):
                x = all_x[(all_x >= 0) & (all_x < self._x.size)]
                touched[y_tap * self._x.kernel + x_tap, (y * self._x.size + x) // self.lanes] = True
        return np.packbits(touched, axis=1)
