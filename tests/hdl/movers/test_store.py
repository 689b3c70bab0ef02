"""The unit `store`, on the emitted Verilog, against the golden core."""

import pytest

from tensordash.configuration.core_config import CoreConfig
from tensordash.movers.store import Store
from tensordash_sim.verify.unit_run import run_unit

FP8 = '[tile]\nformat = "fp8_e4m3"\n'
CONFIGS = {
    "default": CoreConfig.from_toml("[core]\nbuffer = 2"),
    "narrow": CoreConfig.from_toml("[core]\nbuffer = 2\naxi_bits = 32"),
    "whole": CoreConfig.from_toml(FP8 + "[core]\nbuffer = 2"),
    "wide": CoreConfig.from_toml(FP8 + "lanes = 8\nrows = 8\ncolumns = 8\n[core]\nbuffer = 4\naxi_bits = 512"),
    "plain": CoreConfig.from_toml("[core]\nbuffer = 2\ncompression = false"),
}


@pytest.mark.parametrize("name", CONFIGS)
def test_store_is_golden(name):
    assert run_unit(Store(config=CONFIGS[name]), "store", CONFIGS[name], seed=1) == []
