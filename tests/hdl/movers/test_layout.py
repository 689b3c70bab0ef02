"""Layout: what it leaves in the stream buffer against the golden core."""

import pytest

from tensordash.configuration.core_config import CoreConfig
from tensordash.movers.aligner import Aligner
from tensordash.movers.layout import Layout
from tensordash.movers.placement import Placement
from tensordash_sim.verify.unit_run import run_unit

SMALL = ["core.buffer=1", "core.stream_buffer=1", "core.partial_sums=1"]
CONFIGS = {
    "usual": SMALL,
    "two parts": [*SMALL, "tile.rows=8"],
    "dense": [*SMALL, 'tile.sparsity="none"', 'tile.staging="shift"'],
    "depth 3": [*SMALL, "tile.depth=3", 'tile.connectivity="auto"', 'tile.format="fp8_e4m3"', "core.axi_bits=64"],
    "8 lanes": [
        "core.buffer=4",
        "core.stream_buffer=6",
        "core.partial_sums=1",
        "tile.lanes=8",
        "tile.rows=8",
        "tile.columns=8",
        'tile.connectivity="auto"',
    ],
}


def run(name, side, *replaced, effort=1.0):
    config = CoreConfig.from_toml("", CONFIGS[name])
    block = Layout(config, side)
    return run_unit(block, "layout", config, seed=5, replaced=replaced, effort=effort, options={"side": side})


@pytest.mark.parametrize(("name", "side"), [(name, "b") for name in CONFIGS] + [("two parts", "a")])
def test_layouts(name, side):
    assert run(name, side) == []
