"""Test that the row side has the operand for which the core takes fewer cycles."""

from dataclasses import replace

import numpy as np
import pytest

from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.preset import load_any_preset
from tensordash_runtime import Device

from ..sim.lowering.geometries import convolution


@pytest.mark.parametrize(("columns", "width", "rows"), [(16, 8, "A"), (16, 16, "W"), (32, 8, "A"), (32, 32, "W")])
def test_images_that_are_narrower_than_the_tile(columns: int, width: int, rows: str) -> None:
    """Weights have more zeros. With weights on the row side, an image row must fill the tile's columns."""
    core = load_any_preset("core-wide")
    assert isinstance(core, CoreConfig)
    config = replace(core, tile=replace(core.tile, columns=columns), stream_buffer=2 * columns)
    layer = convolution(channels=(64, 64), size=(8, width), kernel=(1, 1))
    random = np.random.default_rng(0)
    zeros = {"A": 0.3, "W": 0.5}
    operands = {name: (random.random(layer.shapes[name]) >= zeros[name]).astype(np.float16) for name in "AW"}
    with Device(config) as device:
        assert device.expectations is not None
        assert device.contract(layer, "AxW", operands).executed.problem.rows == rows
        both = {side: device.contract(layer, "AxW", operands, row_side=side).executed for side in "AW"}
        cycles = {side: device.expectations.cycles_of(each) for side, each in both.items()}
    assert min(cycles, key=lambda side: cycles[side]) == rows
