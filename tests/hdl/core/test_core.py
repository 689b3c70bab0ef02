"""Compare memory after legal and illegal programs with the golden core's, for rings of any size."""

from typing import Any

import pytest

from tensordash.configuration.core_config import CoreConfig
from tensordash.core.core import Core
from tensordash_sim.verify.unit_run import emitted, run_unit

SMALL = ["core.buffer=8", "core.stream_buffer=4", "core.partial_sums=4"]
BARE = [f"core.{name}=false" for name in ("bias", "scale", "relu", "mask", "stochastic", "compression")]
EIGHT = ["tile.lanes=8", "tile.rows=8", "tile.columns=8", "core.buffer=32", "core.stream_buffer=16"]
CONFIGS = {
    "usual": [*SMALL, "core.nvfp4=true"],
    "bare, on a narrow bus": [*SMALL, *BARE, "core.axi_bits=32", "core.window=4", "core.outstanding=1"],
    "dense": [*SMALL, 'tile.sparsity="none"', 'tile.staging="shift"', "core.axi_bits=64", "core.regions=8"],
    "more columns, one region": [*SMALL, "tile.columns=8", "core.buffer=16", "core.regions=1", "core.axi_bits=256"],
    "more rows, long window": [*SMALL, "tile.rows=8", "core.buffer=16", "core.regions=2", "core.window=32"],
    "one read at a time": [*SMALL, "core.axi_bits=32", "core.outstanding=1", "core.window=4", "core.nvfp4=true"],
    "dropped steps": [*SMALL, "core.skip_masked=true", "core.drop_steps=true", "core.layout_groups=2"],
    "fp8, 8 lanes": [*EIGHT, "tile.format={a='fp8_e4m3', b='fp8_e5m2'}"],
    "8 lanes, wide bus": [*EIGHT, "core.axi_bits=512", "core.address_bits=32"],
}
BENCHES = ("core", "core_errors", "core_queue")
QUICK = ("usual",)
QUICK_BENCHES = ("core", "core_errors")
"""In CI, tests/cli runs the bench of the queue."""


@pytest.mark.parametrize(
    "name", [*QUICK, *(pytest.param(name, marks=pytest.mark.slow) for name in CONFIGS if name not in QUICK)]
)
def test_programs(name):
    config = CoreConfig.from_toml("", CONFIGS[name])
    unit = emitted(Core(config))
    options: dict[str, Any] = {"effort": 0.1} if name in QUICK else {"effort": 2, "simulator": "auto"}
    benches = QUICK_BENCHES if name in QUICK else BENCHES
    failures = [run_unit(unit, bench, config, seed=2, **options) for bench in benches]
    assert failures == [[]] * len(benches)


@pytest.mark.slow  # part of test_programs; the quickest check for counters
def test_random_programs():
    config = CoreConfig.from_toml("", CONFIGS["usual"])
    assert run_unit(Core(config), "core", config, seed=2, effort=0.25) == []


def test_wrong_parameters():
    with pytest.raises(TypeError, match="config must be a CoreConfig, not 4"):
        Core(4)
