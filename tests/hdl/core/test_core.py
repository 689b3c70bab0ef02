"""The core: random programs leave in memory what the golden core does."""

import pytest

from tensordash.configuration.core_config import CoreConfig
from tensordash.core.core import Core
from tensordash_sim.verify.unit_run import run_unit

USUAL = CoreConfig()
CONFIGS = {
    "usual": USUAL,
    "dense": USUAL.baseline,
    "more columns": CoreConfig.from_toml("", ["tile.columns=8", "core.buffer=32"]),
    "fp8, 8 lanes": CoreConfig.from_toml(
        "", ["tile.lanes=8", "tile.rows=8", "tile.columns=8", "tile.format={a='fp8_e4m3', b='fp8_e5m2'}"]
    ),
}


@pytest.mark.parametrize(
    "name", ["usual", *(pytest.param(name, marks=pytest.mark.slow) for name in CONFIGS if name != "usual")]
)
def test_random_programs(name):
    assert run_unit(Core(CONFIGS[name]), "core", CONFIGS[name], seed=2, effort=0.5) == []


def test_wrong_parameters():
    with pytest.raises(TypeError, match="config must be a CoreConfig, not 4"):
        Core(4)


@pytest.mark.slow
def test_a_soft_reset_that_reaches_nothing_is_found():
    assert run_unit(Core(USUAL), "core", USUAL, seed=2, effort=0.5, replaced=[("rst | registers__restart", "rst")])
