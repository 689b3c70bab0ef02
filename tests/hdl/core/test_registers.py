"""Test the emitted Verilog of the registers against the documented map."""

import pytest

from tensordash.configuration.core_config import CoreConfig
from tensordash.core.registers import Registers
from tensordash.emission.core_files import core_verilog
from tensordash_sim.verify.unit_run import run_unit

CONFIGS = [CoreConfig(), CoreConfig.from_toml("[core]\naddress_bits = 32\nrelu = false\nmask = false")]


@pytest.mark.parametrize("config", CONFIGS, ids=["default", "small"])
def test_registers_match_the_documented_map(config):
    assert run_unit(Registers(config=config), "registers", config, seed=1) == []


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("axi_awvalid & axi_wvalid", "axi_awvalid"),  # A write does not wait for its data.
        ("assign restart = halt & idle", "assign restart = halt"),
        ("take = writes_snapshot & axi_wdata[0] & mask[0]", "take = mask[0]"),
        ("clear = writes_snapshot & axi_wdata[1] & mask[1]", "clear = 1'b0"),
    ],
)
def test_broken_variants_are_found(right, wrong):
    assert run_unit(Registers(config=CONFIGS[0]), "registers", CONFIGS[0], replaced=[(right, wrong)])


def test_prot_and_cache_reach_the_port():
    """Every burst has the configured length."""
    config = CoreConfig.from_toml("[core]\naxi_prot = 3\naxi_cache = 2")
    text = core_verilog(config)
    for channel in ("ar", "aw"):
        assert f"assign m_axi_{channel}prot = 3'd3;" in text
        assert f"assign m_axi_{channel}cache = 4'd2;" in text
