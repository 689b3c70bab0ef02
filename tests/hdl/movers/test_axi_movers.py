"""Test the emitted Verilog of the AXI reader and writer."""

import pytest

from tensordash.configuration.core_config import CoreConfig
from tensordash.movers.axi_reader import AxiReader
from tensordash.movers.axi_writer import AxiWriter
from tensordash_sim.verify.unit_run import run_unit

CONFIGS = {
    "default": CoreConfig.from_toml("[core]\noutstanding = 16"),
    "many reads": CoreConfig(),
    "narrow": CoreConfig.from_toml("[core]\naxi_bits = 32\noutstanding = 1"),
    "wide": CoreConfig.from_toml("[tile]\nlanes = 8\nrows = 8\ncolumns = 8\n[core]\naxi_bits = 512\noutstanding = 3"),
}
BURST = {"default": 32, "many reads": 32, "narrow": 256, "wide": 4}


def reader(name: str) -> AxiReader:
    config = CONFIGS[name]
    return AxiReader(
        data_bits=config.axi_bits,
        address_bits=config.address_bits,
        count_bits=23,
        outstanding=config.outstanding,
        burst=BURST[name],
    )


def writer(name: str) -> AxiWriter:
    config = CONFIGS[name]
    return AxiWriter(data_bits=config.axi_bits, address_bits=config.address_bits, count_bits=23, burst=BURST[name])


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", CONFIGS)
def test_reader_returns_every_beat(name):
    assert run_unit(reader(name), "axi_reader", CONFIGS[name], seed=1, options={"burst": BURST[name]}) == []


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", CONFIGS)
def test_writer_writes_every_byte(name):
    assert run_unit(writer(name), "axi_writer", CONFIGS[name], seed=1, options={"burst": BURST[name]}) == []


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("= 9'h20 - {4'd0, beat[4:0]}", "= 9'h20"),  # full bursts at every address
        ("in_flight != 5'h10", "1'h1"),  # no limit of outstanding reads
        ("assign axi_rready = beats_ready | halt", "assign axi_rready = beats_ready"),
    ],
)
def test_a_broken_reader_is_found(right, wrong):
    options = {"burst": BURST["default"]}
    assert run_unit(reader("default"), "axi_reader", CONFIGS["default"], replaced=[(right, wrong)], options=options)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("= 9'h20 - {4'd0, beat[4:0]}", "= 9'h20"),
        (
            "axi_wvalid = sends & (beats_valid | ~passes)",
            "axi_wvalid = sends & beats_valid",
        ),  # a halt ends no burst
        ("axi_bvalid & axi_bresp[1]", "axi_bvalid & axi_bresp[0]"),
    ],
)
def test_a_broken_writer_is_found(right, wrong):
    options = {"burst": BURST["default"]}
    assert run_unit(writer("default"), "axi_writer", CONFIGS["default"], replaced=[(right, wrong)], options=options)
