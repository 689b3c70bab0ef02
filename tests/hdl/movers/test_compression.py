"""Inflate and deflate, on the emitted Verilog, against the golden core's."""

import pytest

from tensordash.configuration.core_config import CoreConfig
from tensordash.movers.deflate import Deflate
from tensordash.movers.inflate import Inflate
from tensordash_sim.verify.unit_run import run_unit

FP8 = '[tile]\nformat = "fp8_e4m3"\n'
CONFIGS = {
    "default": CoreConfig(),
    "narrow": CoreConfig.from_toml("[core]\naxi_bits = 32"),
    "fp8": CoreConfig.from_toml(FP8),
    "fp8_wide": CoreConfig.from_toml(FP8 + "lanes = 8\nrows = 8\ncolumns = 8\n[core]\naxi_bits = 256"),
}
NAMES = [pytest.param(name, marks=pytest.mark.slow if name == "fp8_wide" else ()) for name in CONFIGS]
"""The widest takes as long as the others together: a night's."""


def shape(name: str) -> dict[str, int]:
    config = CONFIGS[name]
    return {"lanes": config.tile.lanes, "width": config.value_bits, "data_bits": config.axi_bits}


@pytest.mark.parametrize("name", NAMES)
def test_inflate_is_golden(name):
    assert run_unit(Inflate(**shape(name), count_bits=23), "inflate", CONFIGS[name], seed=1) == []


@pytest.mark.parametrize("name", NAMES)
def test_deflate_is_golden(name):
    assert run_unit(Deflate(**shape(name)), "deflate", CONFIGS[name], seed=1) == []


@pytest.mark.parametrize(
    ("build", "right", "wrong"),
    [
        (Inflate, "assign _074_ = held != 3'h4", "assign _074_ = 1'h1"),  # beats come though there is no room
        (Inflate, "gives ? ends[4:3] : 2'h0", "gives ? ends[4:3] & 2'h1 : 2'h0"),
        (Deflate, "filled <= 6'hf", "filled <= 6'h18"),
        (Deflate, "skipped <= 3'h3", "skipped <= 3'h4"),
    ],
)
def test_what_is_broken_is_found(build, right, wrong):
    more = {"count_bits": 23} if build is Inflate else {}
    bench = build.__name__.lower()
    block, config = build(**shape("default"), **more), CONFIGS["default"]
    assert run_unit(block, bench, config, replaced=[(right, wrong)], effort=0.5)


@pytest.mark.parametrize("build", [Inflate, Deflate])
def test_a_mask_is_whole_units(build):
    more = {"count_bits": 23} if build is Inflate else {}
    with pytest.raises(ValueError, match="width must divide lanes \\* lanes = 16, not 32"):
        build(lanes=4, width=32, data_bits=128, **more)
