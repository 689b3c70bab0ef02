"""Count the cycles of an operation in a simple way."""

from collections import Counter
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import pytest

from tensordash import TileConfig
from tensordash_sim.golden import schedule_stream
from tensordash_sim.lowering import Geometry, Operation, lower
from tensordash_sim.lowering.groups import grouped
from tensordash_sim.performance.chip import ChipConfig, Machine, Memory, OperationResult, passes
from tensordash_sim.performance.chip.passes import run_passes
from tensordash_sim.performance.chip.spread import Spread

from ...lowering.reference import reference_streams

FAST_MEMORY = Memory(access_bytes=1 << 20)


@dataclass
class Expected:
    """Expected cycles and slots; slots are counted PE by PE."""

    scheduled: str
    passes: int = 0
    ends: list[int] = field(default_factory=list)
    dense_ends: list[int] = field(default_factory=list)
    slots: Counter[str] = field(default_factory=Counter)
    inside: int = 0
    positions: int = 0


def expected(geometry: Geometry, operation: Operation, masks: dict[str, np.ndarray], machine: Machine) -> Expected:
    config, chip = machine.config, machine.chip
    scheduled = {"left": operation.left, "right": operation.right}.get(machine.side)
    if scheduled is None:
        scheduled = operation.left if masks[operation.left].mean() <= masks[operation.right].mean() else operation.right
    found = Expected(scheduled, ends=[0] * chip.tiles, dense_ends=[0] * chip.tiles)
    for product in reference_streams(geometry, operation, masks, config.lanes):
        sides = (product.left, product.right) if scheduled == operation.left else (product.right, product.left)
        for element in range(len(product.left.values)):
            marks, places = ([getattr(side, name)[element] for side in sides] for name in ("values", "places"))
            row_order = list(range(len(marks[0])))
            if machine.row_order == "density":
                row_order.sort(key=lambda row: marks[0][row].sum())
            row_groups = in_groups(row_order, config.rows)
            column_groups = in_groups(list(range(len(marks[1]))), config.columns)
            for rows in row_groups:
                for columns in column_groups:
                    one_pass(found, marks, rows, columns, config)
            count_positions(found, places, config)
    return found


def in_groups(numbers: list[int], size: int) -> list[list[int]]:
    return [numbers[start : start + size] for start in range(0, len(numbers), size)]


def one_pass(found: Expected, marks: list, rows: list[int], columns: list[int], config: TileConfig) -> None:
    steps = marks[0].shape[1]
    chosen = [
        np.concatenate([side[some], np.zeros((size - len(some), *side.shape[1:]), bool)])
        for side, some, size in zip(marks, (rows, columns), (config.rows, config.columns), strict=True)
    ]
    if config.sparsity == "both":
        chosen[0] = (chosen[0][:, None] & chosen[1][None]).reshape(-1, steps, config.lanes)
    cycles = cycles_of(chosen[0], config)
    beats = config.rows // config.out_rows
    for ends, duration in ((found.ends, max(cycles, beats)), (found.dense_ends, max(steps, beats))):
        ends[ends.index(min(ends))] += duration
    found.passes += 1
    found.slots["stalls"] += max(beats - cycles, 0) * config.multipliers
    for row in range(config.rows):
        for column in range(config.columns):
            slots = cycles * config.lanes
            if column >= len(columns):
                found.slots["columns"] += slots
            elif row >= len(rows):
                found.slots["rows"] += slots
            else:
                stream = chosen[0][row * config.columns + column if config.sparsity == "both" else row]
                work = steps * config.lanes if config.sparsity == "none" else int(stream.sum())
                own = cycles if config.sparsity == "both" else min(cycles, cycles_of(stream[None], config))
                found.slots["work"] += work
                found.slots["options"] += own * config.lanes - work
                found.slots["waits"] += slots - own * config.lanes


def cycles_of(streams: np.ndarray, config: TileConfig) -> int:
    if config.sparsity == "none":
        return streams.shape[1]
    return golden_cycles(streams.shape, np.packbits(streams).tobytes(), config)


@cache
def golden_cycles(shape: tuple[int, ...], bits: bytes, config: TileConfig) -> int:
    streams = np.unpackbits(np.frombuffer(bits, np.uint8), count=int(np.prod(shape))).reshape(shape)
    return len(schedule_stream(streams, config.options, config.window_depth))


def count_positions(found: Expected, places: list, config: TileConfig) -> None:
    """Count the positions of all pairs of a vector of each side."""
    for row in places[0]:
        for column in places[1]:
            inside = row >= 0
            if config.sparsity == "both":
                inside = inside & (column >= 0)
            found.inside += int(inside.sum())
            found.positions += inside.size


def random_machine(rng: np.random.Generator, sparsity: str) -> Machine:
    depth, lanes = [(4, 4), (3, 3), (2, 4), (3, 7)][rng.integers(4)]
    rows, columns = (int(size) for size in rng.integers(1, 5 if sparsity != "both" else 4, 2))
    config = TileConfig(
        rows=rows,
        columns=columns,
        lanes=lanes,
        depth=depth,
        connectivity="paper" if (depth, lanes) == (4, 4) else ((0, 0), (1, 0), (1, 1), (depth - 1, -1)),
        sparsity=sparsity,
        format="int8",
        out_rows=int(rng.choice([size for size in range(1, rows + 1) if rows % size == 0])),
    )
    return Machine(
        config,
        ChipConfig(tiles=int(rng.choice([1, 2, 5, 11])), memory=FAST_MEMORY),
        side=str(rng.choice(["left", "right", "sparser"])),
        row_order=str(rng.choice(["natural", "density"])),
    )


def run_all_passes(geometry: Geometry, operation: Operation, masks: Any, machine: Machine, scheduled: str):
    """Call `run_passes` on every product."""
    config = machine.config
    spread, dense = Spread(machine.chip.tiles), Spread(machine.chip.tiles)
    total = passes.Passes()
    for product in lower(geometry, operation, masks, config.lanes):
        rows, columns = (product.left, product.right) if scheduled == operation.left else (product.right, product.left)
        total += run_passes(rows, columns, grouped(rows, config.rows, machine.row_order), config, spread, dense)
    return total, spread, dense


def check_shares(result: OperationResult) -> None:
    assert result.utilisation + sum(result.idle.values()) == pytest.approx(1, abs=1e-12)
    assert min(result.idle.values()) >= 0
