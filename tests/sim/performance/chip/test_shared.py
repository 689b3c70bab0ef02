"""Compare tiles with shared reads with a simple recomputation, tile by tile and cycle by cycle."""

from dataclasses import replace
from itertools import product as pairs

import numpy as np
import pytest

from tensordash import TileConfig
from tensordash_sim.golden import schedule_stream
from tensordash_sim.lowering import MatrixProduct, Operation
from tensordash_sim.performance.chip import ChipConfig, Machine, Memory, passes, simulate_operation
from tensordash_sim.performance.chip.shared import Grid, SharedReads, run_ahead

from ...lowering.reference import reference_streams
from .conftest import LAYERS, random_masks
from .operation_reference import in_groups, random_machine

FAST = Memory(access_bytes=1 << 20, transposers=1 << 20)


def steps_taken(streams: np.ndarray, config: TileConfig) -> list[int]:
    """Return the steps that each cycle of a pass takes in the golden schedule."""
    if config.sparsity == "none":
        return [1] * streams.shape[1]
    taken = schedule_stream(streams, config.options, config.window_depth).min(axis=1).tolist()
    assert sum(taken) == streams.shape[1]
    return taken


class Tile:
    """A tile and its passes; a pass is `None` if it has no rows."""

    def __init__(self) -> None:
        self.cycles: list[tuple[int, bool]] = []  # steps taken, and whether the cycle needs a full window
        self.has_rows: list[bool] = []
        self.taken = 0
        self.waits = 0

    def give(self, taken: list[int], beats: int, has_rows: bool) -> None:
        cycles = [(steps, True) for steps in taken] + [(0, False)] * max(beats - len(taken), 0)
        self.cycles += cycles
        self.has_rows += [has_rows] * len(cycles)


def run(tiles: list[Tile], ahead: int) -> int:
    """Run all tiles of a block, which share the steps of a group of columns."""
    cycles = 0
    while any(tile.cycles for tile in tiles):
        slowest = min(tile.taken for tile in tiles if tile.cycles)
        for tile in [tile for tile in tiles if tile.cycles]:
            steps, needs_window = tile.cycles[0]
            if needs_window and tile.taken - slowest > ahead:
                tile.waits += tile.has_rows[0]
                continue
            tile.taken += steps
            del tile.cycles[0], tile.has_rows[0]
        cycles += 1
    return cycles


def expected(geometry, operation: Operation, masks, machine: Machine) -> tuple[int, int, int]:
    """Return cycles of the baseline and of TensorDash, and tile cycles spent waiting."""
    config, chip = machine.config, machine.chip
    densities = {name: masks[name].mean() for name in (operation.left, operation.right)}
    sparser = operation.left if densities[operation.left] <= densities[operation.right] else operation.right
    scheduled = {"left": operation.left, "right": operation.right}.get(machine.side, sparser)
    beats, ahead = config.rows // config.out_rows, run_ahead(config, chip)
    dense = cycles = waits = 0
    for lowered in reference_streams(geometry, operation, masks, config.lanes):
        rows, columns = (lowered.left, lowered.right) if scheduled == operation.left else (lowered.right, lowered.left)
        batch, count, steps = rows.values.shape[:3]
        row_groups, column_groups = (-(-count // config.rows), -(-columns.values.shape[1] // config.columns))
        grid = Grid.of(batch=batch, row_groups=row_groups, column_groups=column_groups, chip=chip)
        # Each group of columns in each copy has its own tiles.
        tiles = [[[Tile() for _ in range(grid.rows)] for _ in range(grid.columns)] for _ in range(grid.copies)]
        block = 0
        for element in range(batch):
            marks = rows.values[element]
            order = list(range(count))
            if machine.row_order == "density":
                order.sort(key=lambda row: marks[row].sum())
            groups = in_groups(order, config.rows)
            for band, repeat in pairs(in_groups(list(range(row_groups)), grid.rows), range(grid.repeats)):
                width = min(grid.columns, column_groups - repeat * grid.columns)
                for column in range(grid.columns):
                    for place, tile in enumerate(tiles[block % grid.copies][column]):
                        chosen = groups[band[place]] if place < len(band) else []
                        streams = np.zeros((config.rows, steps, config.lanes), bool)
                        streams[: len(chosen)] = marks[chosen]
                        full = [config.window_depth] * (steps // config.window_depth)
                        rest = [steps % config.window_depth] if steps % config.window_depth else []
                        taken = steps_taken(streams, config) if chosen else full + rest
                        tile.give(taken, beats, bool(chosen) and column < width)
                block += 1
        dense += -(-block // grid.copies) * max(steps, beats)
        cycles += max(run(team, ahead) for copy in tiles for team in copy)
        waits += sum(tile.waits for copy in tiles for team in copy for tile in team)
    return dense, cycles, waits


@pytest.mark.parametrize("scratchpad", ["none", "some", "all"])
@pytest.mark.parametrize("operation", Operation)
@pytest.mark.parametrize("layer", LAYERS)
def test_shared_reads_match_recomputation(layer, operation, scratchpad, rng, monkeypatch):
    geometry = LAYERS[layer]
    masks = random_masks(rng, geometry, operation)
    machine = random_machine(rng, str(rng.choice(["rows", "rows", "none"])))
    tiles = machine.chip.tiles
    # Tiles read ahead no step, a few steps, or more than any pass has.
    side_bytes = {"none": 0, "some": machine.config.columns * machine.config.lanes * int(rng.integers(1, 9))}
    kib = -(-2 * tiles * side_bytes.get(scratchpad, 1 << 20) // 1024) or 1
    chip = replace(machine.chip, memory=replace(FAST, broadcast=int(rng.choice([1, 2, 3, 16])), scratchpad_kib=kib))
    machine = replace(machine, chip=chip)
    print(machine)
    monkeypatch.setattr(passes, "BLOCK_WORDS", int(rng.choice([40, 1 << 22])))
    result = simulate_operation(geometry, operation, masks, machine)
    dense, cycles, waits = expected(geometry, operation, masks, machine)
    assert (result.dense_shared, result.shared) == (dense, cycles)
    slots = result.cycles * tiles
    assert result.idle["reads"] == pytest.approx(waits / slots)
    assert result.utilisation + sum(result.idle.values()) == pytest.approx(1, abs=1e-12)
    assert min(result.idle.values()) >= 0


@pytest.mark.parametrize("seed", range(60))
def test_random_grids(seed):
    """Blocks include places without rows and random passes."""
    rng = np.random.default_rng(seed)
    batch, row_groups, column_groups, rows, columns, copies = (int(size) for size in rng.integers(1, 6, 6))
    steps, depth, ahead, beats = (int(rng.integers(low, high)) for low, high in ((1, 9), (1, 5), (0, 6), (1, 5)))
    grid = Grid(batch, row_groups, column_groups, rows, columns, copies)
    shared = SharedReads(grid, steps=steps, depth=depth, ahead=ahead, beats=beats)
    taken: list[list[int]] = []
    while len(taken) < batch * row_groups:
        some = [random_pass(rng, steps, depth) for _ in range(rng.integers(1, batch * row_groups - len(taken) + 1))]
        taken += some
        paces = np.array([one + [0] * (steps - len(one)) for one in some], np.uint8)
        shared.add(paces, np.array([len(one) for one in some]))
    tiles = [[[Tile() for _ in range(rows)] for _ in range(columns)] for _ in range(copies)]
    none = [depth] * (steps // depth) + ([steps % depth] if steps % depth else [])
    block = 0
    for element in range(batch):
        for first, repeat in pairs(range(0, row_groups, rows), range(0, column_groups, columns)):
            for column in range(columns):
                for place, tile in enumerate(tiles[block % copies][column]):
                    has_rows = first + place < row_groups
                    one = taken[element * row_groups + first + place] if has_rows else none
                    tile.give(one, beats, has_rows and repeat + column < column_groups)
            block += 1
    teams = [team for copy in tiles for team in copy]
    assert shared.finish() == max(run(team, ahead) for team in teams)
    assert shared.waits == sum(tile.waits for team in teams for tile in team)


def random_pass(rng, steps, depth):
    taken: list[int] = []
    while sum(taken) < steps:
        taken.append(min(int(rng.integers(1 if len(taken) - sum(taken) > 2 else 0, depth + 1)), steps - sum(taken)))
        if len(taken) == steps:  # A pass has at most one cycle per step.
            taken[-1] = steps - sum(taken[:-1])
    return taken


def test_tiles_far_apart_wait_for_each_other():
    """Of two groups of rows, one is dense in its first half, the other in its second."""
    layer = MatrixProduct(batch=1, samples=64, in_features=4 * 640, out_features=64)
    masks = {"A": np.zeros((1, 64, 4 * 640), bool), "W": np.ones((1, 64, 4 * 640), bool)}
    masks["A"][:, :4, : 4 * 320] = True  # first half of the first group's steps
    masks["A"][:, 4:8, 4 * 320 :] = True  # second half of the second group's steps
    cycles = {}
    for kib in (1, 256, 1 << 14):
        machine = Machine(TileConfig(), ChipConfig(memory=replace(FAST, scratchpad_kib=kib)), "left")
        result = simulate_operation(layer, Operation.FORWARD, masks, machine)
        assert result.compute == 320 + 80
        cycles[kib] = result.shared
    # In lockstep, the slower group determines each half's time. Scratchpads limit how early the second begins.
    assert cycles == {1: 640, 256: 640 - 16, 1 << 14: 400}


class TestGrid:
    @pytest.mark.parametrize("seed", range(20))
    def test_passes_are_balanced_over_copies(self, seed):
        rng = np.random.default_rng(seed)
        batch, row_groups, column_groups = (int(rng.integers(1, limit)) for limit in (5, 60, 60))
        chip = ChipConfig(tiles=int(rng.integers(1, 300)), memory=Memory(broadcast=int(rng.choice([1, 4, 16]))))
        grid = Grid.of(batch=batch, row_groups=row_groups, column_groups=column_groups, chip=chip)
        print(chip.tiles, chip.memory.broadcast, grid)
        assert max(grid.rows, grid.columns) <= chip.memory.broadcast
        assert grid.rows * grid.columns * grid.copies <= chip.tiles
        best = min(
            -(-batch * -(-row_groups // rows) * -(-column_groups // columns) // (chip.tiles // (rows * columns)))
            for rows in range(1, chip.memory.broadcast + 1)
            for columns in range(1, chip.memory.broadcast + 1)
            if rows * columns <= chip.tiles
        )
        assert grid.rounds == best >= batch * row_groups * column_groups / chip.tiles

    def test_large_products_share_as_widely_as_they_can(self):
        grid = Grid.of(batch=1, row_groups=1600, column_groups=64, chip=ChipConfig())
        assert (grid.rows, grid.columns, grid.copies, grid.rounds) == (16, 16, 1, 400)
