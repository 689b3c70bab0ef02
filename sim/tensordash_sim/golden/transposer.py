"""The transposer: groups of blocks, as they are or transposed, through one array written in place."""

from collections.abc import Sequence
from typing import NamedTuple

__all__ = ["Transposer", "TransposerOutputs", "transpose_group"]

Block = tuple[int, ...]


def transpose_group(group: Sequence[Sequence[int]]) -> list[Block]:
    """Return a group of `lanes` blocks of `lanes` values, transposed: what a transposer gives where `transpose` is set.

    >>> transpose_group([(1, 2), (3, 4)])
    [(1, 3), (2, 4)]
    """
    return list(zip(*group, strict=True))


class TransposerOutputs(NamedTuple):
    """What is visible at the ports in a cycle; `out_block` is None where `out_valid` is false."""

    in_ready: bool
    out_valid: bool
    out_block: Block | None


class Transposer:
    """Takes a group of `lanes` blocks, one a cycle, and gives them, or their transpose, one a cycle.

    *Timing*: the first block of a group can leave in the cycle after its last one entered. Then one block leaves and
    one enters in every cycle in which both sides allow it, with no bubble between groups. `in_ready` depends on
    `out_ready` in the same cycle, never on `in_valid`.

    There is a single array. Block i of a group lies in its row i or its column i. To transpose, a group written by
    rows is read by columns, or the other way round. The next group is written in the orientation in which this one is
    read: its block i replaces what block i has left, in the same cycle or later.

    Parameters
    ----------
    lanes : int
        Blocks of a group and values of a block.

    Source
    ------
    The transposers of Section II and Table IV of the paper (which do not say how it is built); design, section 6.

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
        self._by_columns = False  # the orientation in which one is read and the next one written
        self._resident = False  # a complete group is in the array and has blocks left
        self._blocks_gone = 0  # of that group, how many have left
        self._blocks_written = 0  # of the next group
        self._transpose = False  # of the next group, once its first block is written

    def _cells(self, index: int) -> list[tuple[int, int]]:
        """Return where block `index` lies."""
        if self._by_columns:
            return [(row, index) for row in range(self.lanes)]
        return [(index, column) for column in range(self.lanes)]

    def cycle(
        self, in_valid: bool, in_block: Sequence[int] | None, in_transpose: bool, out_ready: bool
    ) -> TransposerOutputs:
        """Return one clock cycle.

        Parameters
        ----------
        in_valid : bool
            A block is offered.
        in_block : sequence of int, (lanes,)
            The block; not looked at unless `in_valid`.
        in_transpose : bool
            Give the group transposed; sampled with its first block.
        out_ready : bool
            The block that is offered at the output is taken.

        Returns
        -------
        TransposerOutputs
            The ports before the clock edge.
        """
        leaving = self._resident and out_ready
        # Slot i can be written once block i of the group being read has left it, or while it does.
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
