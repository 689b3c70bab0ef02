"""Compare the baseline that skips padding with a simple recomputation."""

import numpy as np
import pytest

from tensordash import TileConfig
from tensordash_sim.lowering import Operation
from tensordash_sim.performance.chip import ChipConfig, Machine, padding, simulate_operation

from ...lowering.reference import reference_streams
from .conftest import LAYERS, convolution, random_masks
from .operation_reference import in_groups, random_machine


@pytest.mark.parametrize("operation", Operation)
@pytest.mark.parametrize("layer", LAYERS)
def test_steps_of_padding_are_skipped(layer, operation, rng, monkeypatch):
    geometry = LAYERS[layer]
    masks, machine = random_masks(rng, geometry, operation), random_machine(rng, "rows")
    print(machine)
    monkeypatch.setattr(padding, "BLOCK_WORDS", int(rng.choice([50, 1 << 22])))
    config = machine.config
    result = simulate_operation(geometry, operation, masks, machine)
    ends = [0] * machine.chip.tiles
    for product in reference_streams(geometry, operation, masks, config.lanes):
        left_is_rows = result.scheduled == operation.left
        rows, columns = (product.left, product.right) if left_is_rows else (product.right, product.left)
        for element in range(len(rows.places)):
            for some_rows in in_groups(rows.places[element], config.rows):
                for some_columns in in_groups(columns.places[element], config.columns):
                    inside = [(np.array(side) >= 0).any(axis=(0, 2)) for side in (some_rows, some_columns)]
                    steps = int((inside[0] & inside[1]).sum())
                    ends[ends.index(min(ends))] += max(steps, config.rows // config.out_rows)
    assert result.dense_unpadded == max(ends)


def test_only_padding_is_skipped():
    """Windows of 3x3 lie on a plane of 4x4. At most a row of taps is in the padding in all windows of a tile."""
    layer = convolution(1, (4, 4), (4, 4), (3, 3), (1, 1), (1, 1))
    masks = {"A": np.zeros((1, 4, 4, 4), bool), "W": np.ones((4, 4, 3, 3), bool)}
    machine = Machine(TileConfig(), ChipConfig(tiles=1), "left")
    result = simulate_operation(layer, Operation.FORWARD, masks, machine)
    # Each of four groups of windows is a row of the image. The first and the last have a row of taps outside.
    assert (result.dense_compute, result.dense_unpadded) == (4 * 9, 2 * 6 + 2 * 9)
