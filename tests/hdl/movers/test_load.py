"""Compare the emitted Verilog of the unit `load` with the golden core."""

import pytest

from tensordash.configuration.core_config import CoreConfig
from tensordash.movers.load import Load
from tensordash_sim.verify.unit_run import run_unit

BF16 = '[tile]\nformat = "bf16"\naccumulator = { bins = 3, bin_bits = 16 }\n'
FP8 = '[tile]\nformat = "fp8_e4m3"\n'
CONFIGS = {
    "default": CoreConfig.from_toml("[core]\nbuffer = 8"),
    "narrow": CoreConfig.from_toml("[core]\nbuffer = 4\naxi_bits = 32\noutstanding = 1"),
    "whole": CoreConfig.from_toml(FP8 + "[core]\nbuffer = 4"),
    "wide": CoreConfig.from_toml(FP8 + "lanes = 8\nrows = 8\ncolumns = 8\n[core]\nbuffer = 8\naxi_bits = 256"),
    "plain": CoreConfig.from_toml("[core]\nbuffer = 8\ncompression = false"),
    "nvfp4": CoreConfig.from_toml("[core]\nbuffer = 8\nnvfp4 = true"),
    "nvfp4-bf16": CoreConfig.from_toml(
        BF16 + "lanes = 8\nrows = 8\ncolumns = 8\n[core]\nbuffer = 16\ncompression = false\nnvfp4 = true"
    ),
}
NAMES = [pytest.param(name, marks=pytest.mark.slow if name == "wide" else ()) for name in CONFIGS]
"""The widest configuration takes as long as the others together and runs at night."""


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", NAMES)
def test_load_is_golden(name):
    assert run_unit(Load(config=CONFIGS[name]), "load", CONFIGS[name], seed=1) == []


def test_move_of_the_full_buffer():
    """More than 16,384 items, and more than 1,023 beats in a run."""
    config = CoreConfig.from_toml("[core]\nbuffer = 32")
    assert run_unit(Load(config=config), "load", config, seed=1, test="whole_buffer") == []


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("right", "wrong", "test"),
    [
        ("walk_end <= 18'h100", "walk_end <= 18'h101", None),  # A group beyond the end is legal.
        ("{38'd0, rest != 9'd0}", "39'd0", None),  # A shorter last segment does not count.
        (
            "- {1'b0, descriptor_stride_2[15:0]};",  # of a compressed move: segment
            "- {2'b0, descriptor_stride_2[14:0]};",
            "segments",
        ),  # A segment must have fewer than 32,768 groups.
        ("{{2{inflate__parts[1]}},", "{2'b11,", None),  # Only the upper part of a group is written with its data.
    ],
)
def test_a_broken_load_is_found(right, wrong, test):
    config = CONFIGS["default"]
    assert run_unit(Load(config=config), "load", config, replaced=[(right, wrong)], test=test)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        (".by_channel(descriptor_by_channel)", ".by_channel(1'b0)"),
        ("{1'b0, descriptor_count_0} :", "{descriptor_count_0, 1'b0} :"),  # A run has twice its beats.
        (".beats_valid(~descriptor_nvfp4 & reader__beats_valid", ".beats_valid(reader__beats_valid"),
        ("(expander__out_valid & buffer_ready)", "expander__out_valid"),  # A group that waits is skipped.
        ("{3'd0, element[2:1]}", "{4'd0, element[2]}"),
        ("tripled[5] ? tripled[4:0]", "1'b0 ? tripled[4:0]"),  # The carry of a product with 0.75 is lost.
        ("bits[0] ? 5'd5", "bits[0] ? 5'd6"),  # The least scale is doubled.
    ],
)
def test_a_broken_nvfp4_load_is_found(right, wrong):
    config = CONFIGS["nvfp4"]
    assert run_unit(Load(config=config), "load", config, replaced=[(right, wrong)])
