"""Compare tiles that drop empty steps with a recomputation from reference streams and the golden scheduler."""

from dataclasses import replace
from itertools import product as pairs

import numpy as np
import pytest

from tensordash import TileConfig
from tensordash_sim.lowering import Geometry, MatrixProduct, Operation
from tensordash_sim.performance.chip import ChipConfig, Machine, Memory, passes, simulate_operation
from tensordash_sim.performance.chip.shared import Grid

from ...cycles.dropping_reference import deal
from ...lowering.reference import reference_streams
from .conftest import LAYERS, random_masks
from .operation_reference import cycles_of, in_groups, random_machine

FAST = Memory(access_bytes=1 << 20, transposers=1 << 20)


def expected(geometry: Geometry, operation: Operation, masks: dict[str, np.ndarray], machine: Machine):
    """Return the cycles of tiles that do not wait, and of tiles that share reads and begin each pass together."""
    config, chip = machine.config, machine.chip
    ends, together = [0] * chip.tiles, 0
    for product in reference_streams(geometry, operation, masks, config.lanes):
        rows, columns = product.left.values, product.right.values
        if machine.side == "right":
            rows, columns = columns, rows
        column_groups = -(-columns.shape[1] // config.columns)
        every = []
        for marks in rows:
            order = list(range(len(marks)))
            if machine.row_order == "density":
                order.sort(key=lambda row: marks[row].sum())
            groups = in_groups(order, config.rows)
            streams = [
                np.concatenate([marks[group], np.zeros((config.rows - len(group), *marks.shape[1:]), bool)])
                for group in groups
            ]
            durations = [
                max(cycles_of(deal(stream, config.window_depth), config), config.rows // config.out_rows)
                for stream in streams
            ]
            for duration, _ in pairs(durations, range(column_groups)):
                ends[ends.index(min(ends))] += duration
            every.append(durations)
        grid = Grid.of(batch=len(rows), row_groups=len(every[0]), column_groups=column_groups, chip=chip)
        copies = [0] * grid.copies
        bands = [band for durations in every for band in in_groups(durations, grid.rows)]
        for block, (band, _) in enumerate(pairs(bands, range(grid.repeats))):
            copies[block % grid.copies] += max(band)
        together += max(copies)
    return max(ends), together


@pytest.mark.parametrize("operation", Operation)
@pytest.mark.parametrize("layer", LAYERS)
def test_cycles_match_recomputation(layer, operation, rng, monkeypatch):
    geometry = LAYERS[layer]
    masks = {
        name: mask & (rng.random(mask.shape) < 0.3) for name, mask in random_masks(rng, geometry, operation).items()
    }
    machine = random_machine(rng, "rows")
    memory = replace(FAST, broadcast=int(rng.choice([1, 2, 3, 16])))
    side = str(rng.choice(["left", "right"]))
    machine = replace(machine, chip=replace(machine.chip, memory=memory), side=side, drop_steps=True)
    print(machine)
    monkeypatch.setattr(passes, "BLOCK_WORDS", int(rng.choice([40, 1 << 22])))
    result = simulate_operation(geometry, operation, masks, machine)
    assert (result.dropped, result.dropped_on_chip) == expected(geometry, operation, masks, machine)
    plain = simulate_operation(geometry, operation, masks, replace(machine, drop_steps=False))
    assert replace(result, dropped=None, dropped_on_chip=None) == plain


LAYER = MatrixProduct(batch=1, samples=8, in_features=256, out_features=4)
"""Passes of 64 steps."""


def product(machine: Machine, **operands: np.ndarray):
    return simulate_operation(LAYER, Operation.FORWARD, operands, replace(machine, drop_steps=True))


def test_tiles_wait_for_the_slowest_of_a_pass() -> None:
    """One pass is dense, and seven have one step that is not empty. Two tiles share the columns."""
    a = np.zeros((1, 8, 256), bool)
    a[0, :, 0], a[0, 0] = True, True
    machine = Machine(TileConfig(rows=1), ChipConfig(tiles=2, memory=FAST), side="left")
    result = product(machine, A=a, W=np.ones((1, 4, 256), bool))
    assert result.compute == 64 + 2 * 16  # Four passes of 16 cycles run beside the first, and three follow.
    assert result.dropped == 64  # All passes of a cycle run beside the first.
    assert result.dropped_on_chip == 64 + 1 + 1 + 1
    slow = replace(machine, chip=ChipConfig(tiles=2, memory=Memory(access_bytes=1, banks=1)))
    result = product(slow, A=a, W=np.ones((1, 4, 256), bool))
    assert result.dropped_on_chip == result.bank_cycles > 64 + 3


def test_the_faster_side_is_the_faster_one_with_dropped_steps() -> None:
    """Each second step of A is empty, in two banks of four. The last 56 of 64 steps of W are empty.

    Both passes of A take 16 cycles, also with dropped steps. Both passes of W take 8 + 14 cycles, or 8.
    """
    a, w = np.zeros((1, 8, 256), bool), np.zeros((1, 4, 256), bool)
    a[0, :, ::8] = True
    w[0, :, :32] = True
    machine = Machine(TileConfig(rows=4, columns=4), ChipConfig(tiles=1, memory=FAST))
    found = {side: product(replace(machine, side=side), A=a, W=w) for side in ("left", "right", "faster")}
    cycles = {side: (found[side].on_chip, found[side].dropped_on_chip) for side in ("left", "right")}
    assert cycles == {"left": (2 * 16, 2 * 16), "right": (2 * 22, 2 * 8)}
    assert found["faster"] == replace(found["left"], dropped_on_chip=2 * 8)
