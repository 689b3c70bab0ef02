"""Test that the descriptor check refuses the same descriptors as the golden sequencer."""

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

QUICK = ("usual", "nothing built")


def run(name, *replaced):
    config = CoreConfig.from_toml("", CONFIGS[name])
    return run_unit(DescriptorCheck(config=config), "descriptor_check", config, seed=4, replaced=replaced)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "name", [*QUICK, *(pytest.param(name, marks=pytest.mark.slow) for name in CONFIGS if name not in QUICK)]
)
def test_refused_descriptors_match_golden(name):
    assert run(name) == []


STRIDES = " |\n          ".join(
    f"(for_{unit} & (data[94:92] > 3'd{{0}}))" for unit in ("layout_a", "layout_b", "multiply")
)
BROKEN = {
    "a stride of 5": (STRIDES.format(4), STRIDES.format(5)),
    "a bit that no field has": (
        "reserved_nonzero = |{data[127:112], data[31:25]",
        "reserved_nonzero = |{data[126:112], data[31:25]",
    ),
    "a bit of an earlier beat": ("reserved | was_reserved", "reserved"),
    "a field of an earlier beat": ("below | was_below", "below"),
    "a 16th token": ("(store_to_load == 4'd15)", "1'd0"),
    "a token that is left": ("(load_to_layout_b != 4'd0)", "1'd0"),
}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", BROKEN)
def test_broken_variants_are_found(name):
    assert run("usual", BROKEN[name])
