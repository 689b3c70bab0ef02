"""The transposer: passes groups of blocks, transposed or not, through one array written in place."""

from collections.abc import Sequence
from typing import NamedTuple

__all__ = ["Transposer", "TransposerOutputs", "transpose_group"]

Block = tuple[int, ...]


def transpose_group(group: Sequence[Sequence[int]]) -> list[Block]:
    """Transpose a group of `lanes` blocks of `lanes` values, as a transposer does if `transpose` is set.

    >>> transpose_group([(1, 2), (3, 4)])
    [(1, 3), (2, 4)]
    """
    return list(zip(*group, strict=True))


class TransposerOutputs(NamedTuple):
    """Outputs of one cycle; `out_block` is None if `out_valid` is false."""

    in_ready: bool
    out_valid: bool
    out_block: Block | None


class Transposer:
    """Takes a group of `lanes` blocks, one per cycle, and returns them or their transpose, one per cycle.

    *Timing*: the first block of a group can leave in the cycle after its last block has entered. From then on, one
    block leaves and one enters in every cycle in which both sides allow it, with no bubble between groups. `in_ready`
    depends on `out_ready` in the same cycle, never on `in_valid`.

    The transposer has a single array. Block i of a group lies in row i or column i. To transpose a group written by
    rows, the transposer reads it by columns, and vice versa. It writes the next group in the orientation in which it
    reads this one. Block i of the next group replaces block i of this one, in the cycle in which that leaves or later.

    Parameters
    ----------
    lanes : int
        Blocks of a group and values of a block.

    Source
    ------
    The transposers of Section II and Table IV of the paper, which does not describe their structure; design, section 6.

    Examples
    --------
    >>> transposer = Transposer(2)
    >>> for block in [(1, 2), (3, 4)]:
    ...     ports = transposer.cycle(True, block, True, True)
    >>> transposer.cycle(True, (5, 6), False, True)
    TransposerOutputs(in_ready=True, out_valid=True, out_block=(1, 3))
    >>> transposer.cycle(True, (7, 8), False, True)
    TransposerOutputs(in_ready=True, out_valid=True, out_block=(2, 4))
    >>> transposer.cycle(False, None, False, True)
    TransposerOutputs(in_ready=True, out_valid=True, out_block=(5, 6))
    """

    def __init__(self, lanes: int) -> None:
        self.lanes = lanes
        self.reset()

    def reset(self) -> None:
        self._array = [[0] * self.lanes for _ in range(self.lanes)]
        self._by_columns = False  # orientation of reads of the resident group and writes of the next one
        self._resident = False  # a complete group is in the array, and some of its blocks have not left
        self._blocks_gone = 0  # blocks of the resident group that have left
        self._blocks_written = 0  # blocks of the next group in the array
        self._transpose = False  # transpose the next group; valid once its first block is written

    def _cells(self, index: int) -> list[tuple[int, int]]:
        """Return the cells of block `index`."""
        if self._by_columns:
            return [(row, index) for row in range(self.lanes)]
        return [(index, column) for column in range(self.lanes)]

    def cycle(
        self, in_valid: bool, in_block: Sequence[int] | None, in_transpose: bool, out_ready: bool
    ) -> TransposerOutputs:
        """Simulate one clock cycle.

        Parameters
        ----------
        in_valid : bool
            A block is offered.
        in_block : sequence of int, (lanes,)
            The block; ignored unless `in_valid`.
        in_transpose : bool
            Transpose the group; sampled with its first block.
        out_ready : bool
            The consumer takes the block at the output.

        Returns
        -------
        TransposerOutputs
            The ports before the clock edge.
        """
        leaving = self._resident and out_ready
        # Block i can enter in the cycle in which block i of the resident group leaves, or later.
        in_ready = not self._resident or self._blocks_written < self._blocks_gone + leaving
        out_block = None
        if self._resident:
            out_block = tuple(self._array[row][column] for row, column in self._cells(self._blocks_gone))
        if leaving:
            self._blocks_gone += 1
            self._resident = self._blocks_gone < self.lanes
        if in_valid and in_ready:
            self._write(in_block, in_transpose)
        return TransposerOutputs(in_ready, out_block is not None, out_block)

    def _write(self, block: Sequence[int] | None, transpose: bool) -> None:
        if block is None or len(block) != self.lanes:
            raise ValueError(f"in_block must have lanes={self.lanes} values, not {block!r}")
        if self._blocks_written == 0:
            self._transpose = transpose
        for (row, column), value in zip(self._cells(self._blocks_written), block, strict=True):
            self._array[row][column] = value
        self._blocks_written += 1
        if self._blocks_written == self.lanes:
            self._by_columns ^= self._transpose
            self._resident, self._blocks_gone, self._blocks_written = True, 0, 0
