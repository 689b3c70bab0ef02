"""The descriptor check refuses what the golden sequencer does: each bit, each field, each pair of units."""

import pytest

from tensordash.configuration.core_config import CoreConfig
from tensordash.core.descriptor_check import DescriptorCheck
from tensordash_sim.verify.unit_run import run_unit

OFF = [f"core.{name}=false" for name in ("bias", "scale", "relu", "mask", "stochastic", "compression")]
CONFIGS = {
    "usual": [],
    "nothing built": OFF,
    "8 lanes": ["tile.lanes=8", "tile.rows=8", "tile.columns=8", "core.buffer=64", "core.stream_buffer=32"],
    "fp8": ["tile.format={a='fp8_e4m3', b='fp8_e5m2'}"],
}


def run(name, *replaced):
    config = CoreConfig.from_toml("", CONFIGS[name])
    return run_unit(DescriptorCheck(config=config), "descriptor_check", config, seed=4, replaced=replaced)


@pytest.mark.parametrize("name", CONFIGS)
def test_refusals(name):
    assert run(name) == []
