"""Tile passes: cycles and idle slots of each pass of a product."""

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tensordash import TileConfig

from ...cycles import Scheduler, output_stalls, schedule_without_empty_steps
from ...lowering import Vectors
from ...lowering.groups import grouped
from .shared import SharedReads
from .spread import Spread

__all__ = ["ROW_ORDERS", "Passes", "run_passes"]

ROW_ORDERS = ("natural", "density")
BLOCK_WORDS = 1 << 22
"""Maximum of steps in memory at a time."""


@dataclass
class Passes:
    """Cycles and slots of passes; each cycle of a tile has rows x columns x lanes slots, one per multiplier.

    Attributes
    ----------
    passes : int
        Number of passes.
    dense, cycles, stalls : int
        Cycles of the baseline (including output stalls), cycles with a schedule, and output stalls, over all passes.
    work : int
        Slots with an effectual position.
    options, waits : int
        `options`: idle slots that a row would also have alone, because no option of the lane had work or the stream
        ended. `waits`: idle slots in further cycles, in which the row waited for another row (`both`: counted in
        `options`).
    no_row, no_column : int
        Idle slots in rows and in columns without a vector.
    """

    passes: int = 0
    dense: int = 0
    cycles: int = 0
    stalls: int = 0
    work: int = 0
    options: int = 0
    waits: int = 0
    no_row: int = 0
    no_column: int = 0

    def __add__(self, other: "Passes") -> "Passes":
        return Passes(*(getattr(self, each.name) + getattr(other, each.name) for each in fields(self)))


class _Block(NamedTuple):
    """Passes that are scheduled together: cycles of each pass, its number of repeats, and slots of all."""

    cycles: NDArray[np.int64]
    repeats: int
    slots: Passes
    paces: NDArray[np.uint8] | None = None
    """Paces, if a pass does not depend on its columns."""
    words: NDArray[np.uint32] | None = None
    """Steps of the rows, if a pass does not depend on its columns."""


def run_passes(
    rows: Vectors,
    columns: Vectors,
    order: NDArray[np.int64],
    config: TileConfig,
    spread: Spread,
    dense: Spread,
    shared: SharedReads | None = None,
    dropped: list[NDArray[np.int64]] | None = None,
) -> Passes:
    """Run all passes of a product.

    Parameters
    ----------
    rows : Vectors
        The scheduled side.
    columns : Vectors
        The other side.
    order : array of int64, (batch, groups, rows)
        Result of `grouped` for `rows`.
    config : TileConfig
        The tile.
    spread, dense : Spread
        Tiles, and the baseline's tiles, to which the passes go.
    shared : SharedReads, optional
        Tiles that wait for each other; not with both sides scheduled.
    dropped : list of array of int64, optional
        Receives the cycles of a pass of each row group without empty steps, including output stalls; not with both
        sides scheduled.
    """
    totals = Passes()
    scheduler = Scheduler(config)
    beats = config.rows // config.out_rows
    blocks = _blocks_of_pairs if config.sparsity == "both" else _blocks_of_rows
    for block in blocks(rows, columns, order, config, scheduler):
        stalls = output_stalls(block.cycles, config)
        passes = len(block.cycles) * block.repeats
        spread.deal(block.cycles + stalls, block.repeats)
        if shared is not None and block.paces is not None:
            shared.add(block.paces, block.cycles)
        if dropped is not None and block.words is not None:
            cycles = schedule_without_empty_steps(scheduler, block.words)[0].cycles
            dropped.append(cycles + output_stalls(cycles, config))
        dense.deal(np.full(len(block.cycles), max(rows.steps, beats)), block.repeats)
        totals += block.slots + Passes(
            passes=passes,
            dense=passes * max(rows.steps, beats),
            cycles=int(block.cycles.sum()) * block.repeats,
            stalls=int(stalls.sum()) * block.repeats,
        )
    return totals


def _blocks_of_rows(
    rows: Vectors, columns: Vectors, order: NDArray[np.int64], config: TileConfig, scheduler: Scheduler
) -> Iterator[_Block]:
    """Yield passes with one side scheduled. A group of rows has the same cycles with any columns: schedule it once."""
    lanes, size = config.lanes, config.rows
    column_groups = -(-columns.count // config.columns)
    spare = column_groups * config.columns - columns.count
    groups = order.reshape(-1, size)
    block = max(1, BLOCK_WORDS // (size * rows.steps))
    for start in range(0, len(groups), block):
        numbers = groups[start : start + block]
        words = rows.words(numbers.ravel()).reshape(-1, size, rows.steps)
        cycles, _, paces = scheduler.schedule(words, paces=True)
        present = numbers >= 0
        alone = scheduler.schedule(words.reshape(-1, 1, rows.steps)).cycles.reshape(numbers.shape)
        # A row that waits has other windows than alone, and sometimes takes a cycle less.
        own = int(np.minimum(alone, cycles[:, None])[present].sum())
        spent = int(cycles @ present.sum(axis=1))
        non_zeros = int(np.bitwise_count(words).sum(dtype=np.int64))
        work = int(present.sum()) * rows.steps * lanes if config.sparsity == "none" else non_zeros
        slots = Passes(
            work=work * columns.count,
            options=(own * lanes - work) * columns.count,
            waits=(spent - own) * lanes * columns.count,
            no_row=(int(cycles.sum()) * size - spent) * lanes * columns.count,
            no_column=int(cycles.sum()) * size * lanes * spare,
        )
        yield _Block(cycles, column_groups, slots, paces, words)


def _blocks_of_pairs(
    rows: Vectors, columns: Vectors, order: NDArray[np.int64], config: TileConfig, scheduler: Scheduler
) -> Iterator[_Block]:
    """Yield passes with both sides scheduled; every pair of groups has its own pass."""
    lanes, steps = config.lanes, rows.steps
    sides = [(config.rows, rows, order), (config.columns, columns, grouped(columns, config.columns))]
    height, width = (max(1, int((BLOCK_WORDS / steps) ** 0.5) // size) for size, _, _ in sides)
    for element in range(rows.batch):
        for start_b in range(0, order.shape[1], height):
            b_numbers, b_words = _side(*sides[0], element, start_b, height)
            for start_a in range(0, sides[1][2].shape[1], width):
                a_numbers, a_words = _side(*sides[1], element, start_a, width)
                pairs = np.indices((len(b_numbers), len(a_numbers))).reshape(2, -1)
                cycles = scheduler.schedule(b_words[pairs[0]], a_words[pairs[1]]).cycles
                b_counts, a_counts = ((numbers >= 0).sum(axis=1) for numbers in (b_numbers, a_numbers))
                used_rows, used_columns = b_counts[pairs[0]], a_counts[pairs[1]]
                work = _pairs_non_zero(b_words, a_words, lanes)
                slots = Passes(
                    work=work,
                    options=int((cycles * used_rows * used_columns).sum()) * lanes - work,
                    no_row=int((cycles * (config.rows - used_rows) * used_columns).sum()) * lanes,
                    no_column=int((cycles * (config.columns - used_columns)).sum()) * config.rows * lanes,
                )
                yield _Block(cycles, 1, slots)


def _side(
    size: int, vectors: Vectors, order: NDArray[np.int64], element: int, start: int, count: int
) -> tuple[NDArray[np.int64], NDArray[np.uint32]]:
    numbers = order[element, start : start + count]
    return numbers, vectors.words(numbers.ravel()).reshape(-1, size, vectors.steps)


def _pairs_non_zero(b: NDArray[np.uint32], a: NDArray[np.uint32], lanes: int) -> int:
    """Count the positions of all pairs of vectors in which neither side is zero."""
    total = 0
    for lane in range(lanes):
        b_lane, a_lane = ((side >> np.uint32(lane) & 1).sum(axis=(0, 1), dtype=np.int64) for side in (b, a))
        total += int(b_lane @ a_lane)
    return total
