"""Tiles that share reads: none runs further ahead of the slowest one than its scratchpad holds."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tensordash import TileConfig

from ...jit import njit
from .config import ChipConfig

__all__ = ["Grid", "SharedReads", "run_ahead", "scratchpad_side"]


def scratchpad_side(chip: ChipConfig) -> float:
    """Return bytes of a tile's scratchpad for one side: a half."""
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

    The groups of both sides make a table, which is worked off in blocks: each of a block's groups of rows meets each of
    its groups of columns, on a tile of their own. What a tile reads reaches all that need the same.

    Attributes
    ----------
    batch, row_groups, column_groups : int
        Batch elements, and groups of each.
    rows, columns : int
        Of a block: `rows` tiles share a group of columns, `columns` tiles a group of rows; at most `broadcast` each.
    copies : int
        Blocks at a time. Block k is for copy ``k % copies``.

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
        """Blocks of which the busiest copy gets the fewest; of such shapes the one with the fewest reads.

        Parameters
        ----------
        batch, row_groups, column_groups : int
            Batch elements, and groups of each.
        chip : ChipConfig
            Its number of tiles, and how many of them a read reaches.
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
        """Blocks above each other in the table of a batch element."""
        return -(-self.row_groups // self.rows)

    @property
    def repeats(self) -> int:
        """Blocks beside each other: passes of the same rows with other columns."""
        return -(-self.column_groups // self.columns)

    @property
    def rounds(self) -> int:
        """Blocks that the busiest copy gets."""
        return -(-self.batch * self.bands * self.repeats // self.copies)

    @property
    def reads(self) -> int:
        """Reads of a group, of a batch element."""
        return self.row_groups * self.repeats + self.column_groups * self.bands


@njit(cache=True, nogil=True)
def _run(paces, made, has_rows, beats, sequence, ahead, end, place, cycle, position):
    """Run the tiles of a copy, cycle by cycle, until the first has no pass left, or, at the `end`, all.

    A tile's pass is `paces` (bands, tiles, T), the steps that it takes in each of the `made` (bands, tiles) cycles; it
    lasts as long as its `beats` need to leave, if that is longer. `has_rows` (bands, tiles) is set where it has rows.
    `sequence` (passes, 2) has the band of each pass, and how many groups of columns take part. Where the tiles stand is
    in `place`, `cycle` and `position` (tiles,): the pass, its cycle, and the steps taken of all passes.

    Returns the cycles, and of all tiles together those in which they waited.
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
    """What tiles need to know of their passes: see `_run`."""

    paces: NDArray[np.uint8]
    made: NDArray[np.int64]
    has_rows: NDArray[np.bool_]

    def after(self, count: int) -> "_Bands":
        """Without the first ones."""
        return _Bands(self.paces[count:], self.made[count:], self.has_rows[count:])


class _Copy:
    """A block of tiles: the bands of the passes that it has not done, and where each tile stands."""

    def __init__(self, tiles: int) -> None:
        self.sequence = np.empty((0, 2), np.int64)
        self.place, self.cycle, self.position = (np.zeros(tiles, np.int64) for _ in range(3))
        self.cycles = self.waits = 0

    def run(self, bands: "_Bands", beats: int, ahead: int, *, end: bool) -> None:
        """Run, and forget the passes that all tiles have done."""
        state = (self.place, self.cycle, self.position)
        cycles, waits = _run(*bands, beats, self.sequence, ahead, end, *state)
        self.cycles += cycles
        self.waits += waits
        done = int(self.place.min())
        self.sequence = self.sequence[done:]
        self.place -= done


class SharedReads:
    """The tiles of a product, which wait for each other where they share reads.

    The groups of rows of a block share each step of their columns: it is read once, for all of them, when there is room
    in every scratchpad. So a tile makes a schedule only while it is at most `run_ahead` steps further than the slowest
    that shares with it; what its staging buffer holds comes on top of that. Tiles do not wait between passes: the next
    pass's steps follow the last one's. Tiles with the same rows have the same schedules, and wait for nobody.

    Parameters
    ----------
    grid : Grid
        How reads are shared.
    steps, depth : int
        Steps of a pass, and of a window.
    ahead : int
        Steps that a tile may be ahead.
    beats : int
        Cycles that a pass's results need to leave.

    Examples
    --------
    Two tiles with two passes each; in one a tile takes a step in every cycle, in the other one all four at once:

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
        # A tile without rows takes whole windows.
        shortest = -(-steps // depth)
        self._none = np.zeros(steps, np.uint8)
        self._none[:shortest] = depth
        self._none[shortest - 1] = steps - depth * (shortest - 1)
        self._bands = self._empty(0)
        self._copies = [_Copy(grid.rows) for _ in range(grid.copies)]
        self._groups = self._dropped = self._whole = 0  # groups of rows; bands that are forgotten, and that are whole

    def _empty(self, count: int) -> _Bands:
        shape = (count, self.grid.rows)
        paces = np.broadcast_to(self._none, (*shape, len(self._none)))
        return _Bands(paces, np.full(shape, np.count_nonzero(self._none)), np.zeros(shape, np.bool_))

    def add(self, paces: NDArray[np.uint8], made: NDArray[np.int64]) -> None:
        """Take the next groups of rows, the batch element first: their passes go to the tiles.

        Parameters
        ----------
        paces : array of uint8, (groups, T)
            Steps taken in each cycle of a pass.
        made : array of int64, (groups,)
            Cycles of a pass, those left out that it waits for its results to leave.
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
        """Cycles in which a tile waited for others, of all tiles together."""
        return sum(copy.waits for copy in self._copies)

    def finish(self) -> int:
        """Return cycles until the last tile is done."""
        self._run(end=True)
        return max(copy.cycles for copy in self._copies)

    def _deal(self, whole: int) -> None:
        """Give the blocks of bands that have become whole to the copies, in turn."""
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
