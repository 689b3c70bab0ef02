"""Tiles that share reads: the capacity of a tile's scratchpad limits its lead over the slowest tile."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tensordash import TileConfig

from ...jit import njit
from .config import ChipConfig

__all__ = ["Grid", "SharedReads", "cycles_together", "run_ahead", "scratchpad_side"]


def scratchpad_side(chip: ChipConfig) -> float:
    """Return the bytes of a tile's scratchpad for one side, which is half of its capacity."""
    return chip.memory.scratchpad_kib * 1024 / chip.tiles / 2


def run_ahead(config: TileConfig, chip: ChipConfig) -> int:
    """Return the steps of the column side that a tile's scratchpad holds.

    >>> run_ahead(TileConfig(), ChipConfig())  # 512 bytes; 4 columns of 4 values of 2 bytes
    16
    """
    return int(scratchpad_side(chip) * 8 // (config.columns * config.lanes * config.a_format.width))


@dataclass(frozen=True)
class Grid:
    """How the tiles share the reads of a product.

    The groups of both sides form a table of passes, which the tiles process in blocks. Each pair of a block's row group
    and column group has its own tile. A read reaches all tiles of the block that need the same group.

    Attributes
    ----------
    batch, row_groups, column_groups : int
        Batch elements, and row and column groups of each.
    rows, columns : int
        Size of a block: `rows` tiles share a column group, `columns` tiles a row group; at most `broadcast` each.
    copies : int
        Number of blocks at a time. Block k belongs to copy ``k % copies``.

    Examples
    --------
    >>> Grid.of(batch=1, row_groups=100, column_groups=4, chip=ChipConfig())
    Grid(batch=1, row_groups=100, column_groups=4, rows=15, columns=4, copies=4)
    """

    batch: int
    row_groups: int
    column_groups: int
    rows: int
    columns: int
    copies: int

    @classmethod
    def of(cls, *, batch: int, row_groups: int, column_groups: int, chip: ChipConfig) -> "Grid":
        """Return the grid with the fewest rounds, and among these with the fewest reads.

        Parameters
        ----------
        batch, row_groups, column_groups : int
            Batch elements, and row and column groups of each.
        chip : ChipConfig
            Supplies the number of tiles, and the number of tiles that a read reaches.
        """
        most = chip.memory.broadcast
        shapes = (
            cls(batch, row_groups, column_groups, rows, columns, chip.tiles // (rows * columns))
            for rows in range(1, min(most, row_groups, chip.tiles) + 1)
            for columns in range(1, min(most, column_groups, chip.tiles // rows) + 1)
        )
        return min(shapes, key=lambda grid: (grid.rounds, grid.reads))

    @property
    def bands(self) -> int:
        """Blocks along the row groups in the table of a batch element."""
        return -(-self.row_groups // self.rows)

    @property
    def repeats(self) -> int:
        """Blocks along the column groups: passes of the same rows with other columns."""
        return -(-self.column_groups // self.columns)

    @property
    def rounds(self) -> int:
        """Blocks of the busiest copy."""
        return -(-self.batch * self.bands * self.repeats // self.copies)

    @property
    def reads(self) -> int:
        """Reads of groups for a batch element."""
        return self.row_groups * self.repeats + self.column_groups * self.bands


def cycles_together(passes: NDArray[np.int64], grid: Grid) -> int:
    """Return the cycles of tiles that share reads, hold complete streams, and begin each pass together.

    Parameters
    ----------
    passes : array of int64, (batch * row_groups,)
        Cycles of a pass of each row group, in the order of batch elements.
    grid : Grid
        The sharing of reads.

    Examples
    --------
    Two tiles share the columns. The passes of each pair of row groups take 5 and 3 cycles:

    >>> cycles_together(np.array([5, 1, 2, 3]), Grid(1, 4, 1, 2, 1, 1))
    8
    """
    bands = np.zeros((grid.batch, grid.bands * grid.rows), np.int64)
    bands[:, : grid.row_groups] = passes.reshape(grid.batch, grid.row_groups)
    blocks = np.repeat(bands.reshape(-1, grid.rows).max(axis=1), grid.repeats)
    return max(int(blocks[copy :: grid.copies].sum()) for copy in range(grid.copies))


@njit(cache=True, nogil=True)
def _run(paces, made, has_rows, beats, sequence, ahead, end, place, cycle, position):
    """Run the tiles of a copy, cycle by cycle, until the first tile has no pass left; with `end`, until all have none.

    `paces` (bands, tiles, T) are the steps that a tile takes in each of the `made` (bands, tiles) cycles of a pass. A
    pass lasts at least `beats` cycles, in which its results leave. `has_rows` (bands, tiles) marks tiles with rows.
    `sequence` (passes, 2) has the band of each pass and its number of column groups. `place`, `cycle` and `position`
    (tiles,) are the state of the tiles: the pass, its cycle, and the steps taken in all passes.

    Returns the cycles, and the cycles in which tiles waited, summed over tiles.
    """
    tiles, passes, cycles, waits = len(place), len(sequence), 0, 0
    while True:
        slowest, working = np.int64(0), 0
        for tile in range(tiles):
            if place[tile] < passes:
                slowest = min(slowest, position[tile]) if working else position[tile]
                working += 1
        if working == 0 or (working < tiles and not end):
            return cycles, waits
        for tile in range(tiles):
            if place[tile] == passes:
                continue
            band, columns = sequence[place[tile]]
            if cycle[tile] < made[band, tile]:
                if position[tile] > slowest + ahead:
                    waits += columns * has_rows[band, tile]
                    continue
                position[tile] += paces[band, tile, cycle[tile]]
            cycle[tile] += 1
            if cycle[tile] >= max(made[band, tile], beats):
                cycle[tile] = 0
                place[tile] += 1
        cycles += 1


class _Bands(NamedTuple):
    """Data of the tiles' passes; see `_run`."""

    paces: NDArray[np.uint8]
    made: NDArray[np.int64]
    has_rows: NDArray[np.bool_]

    def after(self, count: int) -> "_Bands":
        """Return the bands without the first `count`."""
        return _Bands(self.paces[count:], self.made[count:], self.has_rows[count:])


class _Copy:
    """A block of tiles: the bands of its remaining passes, and the state of each tile."""

    def __init__(self, tiles: int) -> None:
        self.sequence = np.empty((0, 2), np.int64)
        self.place, self.cycle, self.position = (np.zeros(tiles, np.int64) for _ in range(3))
        self.cycles = self.waits = 0

    def run(self, bands: "_Bands", beats: int, ahead: int, *, end: bool) -> None:
        """Run the tiles, and drop the passes that all tiles have done."""
        state = (self.place, self.cycle, self.position)
        cycles, waits = _run(*bands, beats, self.sequence, ahead, end, *state)
        self.cycles += cycles
        self.waits += waits
        done = int(self.place.min())
        self.sequence = self.sequence[done:]
        self.place -= done


class SharedReads:
    """The tiles of a product; tiles that share reads wait for each other.

    The row groups of a block share the steps of their columns: each step is read once, when every scratchpad has room
    for it. So a tile schedules only while it is at most `run_ahead` steps ahead of the slowest tile that shares with
    it; its staging buffer holds further steps. Tiles do not wait between passes: the next pass's steps follow directly.
    Tiles with the same rows have the same schedules, and do not wait for each other.

    Parameters
    ----------
    grid : Grid
        The sharing of reads.
    steps, depth : int
        Steps of a pass, and of a window.
    ahead : int
        Maximum lead of a tile, in steps.
    beats : int
        Cycles in which a pass's results leave.

    Examples
    --------
    Two tiles with two passes each. In one pass, a tile takes a step per cycle; in the other, all four at once:

    >>> def cycles(ahead):
    ...     shared = SharedReads(Grid(1, 4, 1, 2, 1, 1), steps=4, depth=4, ahead=ahead, beats=1)
    ...     slow, fast = [1, 1, 1, 1], [4, 0, 0, 0]
    ...     shared.add(np.array([slow, fast, fast, slow], np.uint8), np.array([4, 1, 1, 4]))
    ...     return shared.finish()
    >>> cycles(ahead=0), cycles(ahead=2), cycles(ahead=4)
    (8, 6, 5)
    """

    def __init__(self, grid: Grid, *, steps: int, depth: int, ahead: int, beats: int) -> None:
        self.grid, self.ahead, self.beats = grid, ahead, beats
        # A tile without rows takes full windows.
        shortest = -(-steps // depth)
        self._none = np.zeros(steps, np.uint8)
        self._none[:shortest] = depth
        self._none[shortest - 1] = steps - depth * (shortest - 1)
        self._bands = self._empty(0)
        self._copies = [_Copy(grid.rows) for _ in range(grid.copies)]
        self._groups = self._dropped = self._whole = 0  # row groups; dropped bands; complete bands

    def _empty(self, count: int) -> _Bands:
        shape = (count, self.grid.rows)
        paces = np.broadcast_to(self._none, (*shape, len(self._none)))
        return _Bands(paces, np.full(shape, np.count_nonzero(self._none)), np.zeros(shape, np.bool_))

    def add(self, paces: NDArray[np.uint8], made: NDArray[np.int64]) -> None:
        """Distribute the passes of the next row groups, in the order of batch elements, to the tiles.

        Parameters
        ----------
        paces : array of uint8, (groups, T)
            Steps taken in each cycle of a pass.
        made : array of int64, (groups,)
            Cycles of a pass, without waits for its results to leave.
        """
        grid = self.grid
        element, group = np.divmod(np.arange(self._groups, self._groups + len(paces)), grid.row_groups)
        band, tile = element * grid.bands + group // grid.rows - self._dropped, group % grid.rows
        more = self._empty(int(band[-1]) + 1 - len(self._bands.made))
        self._bands = _Bands(
            np.concatenate((self._bands.paces, more.paces)),
            np.concatenate((self._bands.made, more.made)),
            np.concatenate((self._bands.has_rows, more.has_rows)),
        )
        self._bands.paces[band, tile] = paces
        self._bands.made[band, tile] = made
        self._bands.has_rows[band, tile] = True
        self._groups += len(paces)
        is_whole = group[-1] + 1 == grid.row_groups or tile[-1] + 1 == grid.rows
        self._deal(self._dropped + int(band[-1]) + int(is_whole))
        self._run(end=False)

    @property
    def waits(self) -> int:
        """Cycles in which tiles waited for others, summed over tiles."""
        return sum(copy.waits for copy in self._copies)

    def finish(self) -> int:
        """Run the remaining passes; return the cycles until the last tile is done."""
        self._run(end=True)
        return max(copy.cycles for copy in self._copies)

    def _deal(self, whole: int) -> None:
        """Distribute the blocks of complete bands to the copies, round-robin."""
        grid = self.grid
        widths = np.full(grid.repeats, grid.columns)
        widths[-1] = grid.column_groups - grid.columns * (grid.repeats - 1)
        blocks = np.arange(self._whole * grid.repeats, whole * grid.repeats)
        passes = np.stack([blocks // grid.repeats - self._dropped, widths[blocks % grid.repeats]], axis=1)
        for number, copy in enumerate(self._copies):
            copy.sequence = np.concatenate([copy.sequence, passes[blocks % grid.copies == number]])
        self._whole = whole

    def _run(self, *, end: bool) -> None:
        for copy in self._copies:
            copy.run(self._bands, self.beats, self.ahead, end=end)
        unused = self._whole - self._dropped
        done = min((int(copy.sequence[0, 0]) for copy in self._copies if len(copy.sequence)), default=unused)
        self._bands = self._bands.after(done)
        self._dropped += done
        for copy in self._copies:
            copy.sequence = copy.sequence - np.array([done, 0])
