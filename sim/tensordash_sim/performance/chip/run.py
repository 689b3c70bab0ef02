"""Runs the products of an operation: passes on tiles, and traffic on the chip."""

from dataclasses import dataclass, field
from functools import partial

import numpy as np
from numpy.typing import NDArray

from ...lowering import Product, Vectors
from ...lowering.groups import grouped
from .machine import Machine
from .padding import skip_padding
from .passes import Passes, run_passes
from .shared import Grid, SharedReads, cycles_together, run_ahead
from .spread import Spread
from .traffic import Traffic, on_chip_traffic

__all__ = ["ProductsRun"]


@dataclass
class ProductsRun:
    """Cycles, traffic and idle slots of an operation's products, one after the other.

    Attributes
    ----------
    machine : Machine
        Tile and chip.
    scheduled : str
        The operand whose zeros the tile skips.
    sums : int
        Number of sums per result.
    spread, dense, unpadded : Spread
        Tiles, the baseline's tiles, and tiles of a baseline that skips padding, none of which wait for each other.
    dropped : Spread or None
        Tiles that drop empty steps, which do not wait for each other; None without `Machine.drop_steps`.
    passes, traffic, dense_traffic
        Cycles of all passes, and the bytes that tiles and the baseline's tiles move.
    dropped_shared : int
        Cycles of tiles that drop empty steps, share reads, and begin each pass together.
    shared, dense_shared, reads : int
        Cycles of tiles, and of the baseline's tiles, that wait for each other; cycles in which tiles wait.
    positions, padding : int
        Positions of the dense schedule, and the number of them that are padding.
    """

    machine: Machine
    scheduled: str
    sums: int
    spread: Spread = field(init=False)
    dense: Spread = field(init=False)
    unpadded: Spread = field(init=False)
    dropped: Spread | None = field(init=False)
    passes: Passes = field(default_factory=Passes)
    traffic: Traffic = field(default_factory=Traffic)
    dense_traffic: Traffic = field(default_factory=Traffic)
    dropped_shared: int = 0
    shared: int = 0
    dense_shared: int = 0
    reads: int = 0
    positions: int = 0
    padding: int = 0

    def __post_init__(self) -> None:
        self.spread, self.dense, self.unpadded = (Spread(self.machine.chip.tiles) for _ in range(3))
        self.dropped = Spread(self.machine.chip.tiles) if self.machine.drop_steps else None

    def run(self, product: Product, without_zeros: Product) -> None:
        """Run a product; `without_zeros` is the same product without zeros and locates the padding."""
        config, chip = self.machine.config, self.machine.chip
        rows, columns = self._in_order(product)
        natural, column_groups = grouped(rows, config.rows), grouped(columns, config.columns)
        order = natural
        if self.machine.row_order != "natural":
            order = grouped(rows, config.rows, self.machine.row_order)
        sizes = {"row_groups": natural.shape[1], "column_groups": column_groups.shape[1]}
        grid = Grid.of(batch=rows.batch, **sizes, chip=chip)
        ahead, beats = run_ahead(config, chip), config.rows // config.out_rows
        shared = SharedReads(grid, steps=rows.steps, depth=config.window_depth, ahead=ahead, beats=beats)
        dropped: list[NDArray[np.int64]] | None = None if self.dropped is None else []
        self.passes += run_passes(rows, columns, order, config, self.spread, self.dense, shared, dropped)
        if self.dropped is not None and dropped is not None:
            cycles = np.concatenate(dropped)
            self.dropped.deal(cycles, column_groups.shape[1])
            self.dropped_shared += cycles_together(cycles, grid)
        full_rows, full_columns = self._in_order(without_zeros)
        skip_padding((full_rows, natural), (full_columns, column_groups), beats, self.unpadded)
        self.dense_shared += grid.rounds * max(rows.steps, beats)
        self.shared += shared.finish()
        self.reads += shared.waits
        move = partial(on_chip_traffic, product, columns=(columns, column_groups), config=config, chip=chip)
        moved = move(rows=(rows, natural), grid=grid, reordered=False, sums=self.sums)
        self.dense_traffic += moved
        if order is not natural:
            moved = move(rows=(rows, order), grid=grid, reordered=True, sums=self.sums)
        self.traffic += moved
        self.positions += product.positions
        self.padding += (rows.fragmentation + rows.padding) * columns.count

    def idle(self, cycles: int) -> dict[str, int]:
        """Return idle slots of multipliers by cause, in `cycles` of the chip."""
        config, tiles = self.machine.config, self.machine.chip.tiles
        slots_per_tile = config.multipliers
        return {
            "options": self.passes.options,
            "waits": self.passes.waits,
            "rows": self.passes.no_row,
            "columns": self.passes.no_column,
            "stalls": self.passes.stalls * slots_per_tile,
            "reads": self.reads * slots_per_tile,
            "tail": (self.shared * tiles - self.spread.busy - self.reads) * slots_per_tile,
            "memory": (cycles - self.shared) * tiles * slots_per_tile,
        }

    def _in_order(self, product: Product) -> tuple[Vectors, Vectors]:
        """Return the scheduled side, then the other side."""
        sides = (product.left, product.right)
        return sides if self.scheduled == product.left.name else sides[::-1]
