"""Test that the multiply unit skips exactly the passes whose masks are zeros."""

import pytest

from tensordash.configuration.core_config import CoreConfig
from tensordash.core.skipping_multiply import SkippingMultiply
from tensordash_sim.verify.unit_run import run_unit

SMALL = ["core.skip_masked=true", "core.buffer=1", "core.stream_buffer=1"]
CONFIGS = {
    "usual": SMALL,
    "several groups in a block": [*SMALL, "core.stream_buffer=3", "tile.rows=8", "tile.columns=8"],
    "dense": [*SMALL, 'tile.sparsity="none"', 'tile.staging="shift"'],
    "depth 2": [*SMALL, "tile.depth=2", 'tile.connectivity="auto"'],
    "int8": [*SMALL, "tile.format=int8"],
    "8 lanes": [*SMALL, "tile.lanes=8", "tile.rows=8", "tile.columns=8", "core.buffer=2", "core.stream_buffer=8"],
}


def run(name, *replaced, **options):
    config = CoreConfig.from_toml("", CONFIGS[name])
    return run_unit(SkippingMultiply(config), "skipping_multiply", config, seed=6, replaced=replaced, **options)


@pytest.mark.parametrize("name", CONFIGS)
def test_skipped_passes(name):
    assert run(name) == []
