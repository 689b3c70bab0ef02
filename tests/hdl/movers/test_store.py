"""Compare the emitted Verilog of the unit `store` with the golden core."""

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
    # A mask has two beats, so the group has not left after its first beat.
    "mask of beats": CoreConfig.from_toml(
        "[tile]\nlanes = 8\nrows = 8\ncolumns = 8\n[core]\nbuffer = 8\naxi_bits = 32"
    ),
    "plain": CoreConfig.from_toml("[core]\nbuffer = 2\ncompression = false"),
}
NAMES = [pytest.param(name, marks=pytest.mark.slow if name == "wide" else ()) for name in CONFIGS]
"""The widest configuration takes as long as the others together and runs at night."""


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", NAMES)
def test_store_is_golden(name):
    assert run_unit(Store(config=CONFIGS[name]), "store", CONFIGS[name], seed=1) == []


def test_move_of_the_full_buffer():
    """More than 16,384 items, and more than 1,023 beats in a run."""
    config = CoreConfig.from_toml("[core]\nbuffer = 32")
    assert run_unit(Store(config=config), "store", config, seed=1, test="whole_buffer") == []


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("& ~(begins_segment & entry_waits)", ""),  # An entry is lost if it follows another one immediately.
        ("(before_entry == 5'd0)", "1'd1"),  # An entry overtakes items that were requested earlier.
        ("group_taken = arrives &", "group_taken = arrives | 1'h0 &"),  # A group overwrites one that has not left.
        (
            "((~group_held | group_leaves) & (~arrives | descriptor_compressed))",
            "1'b0",
        ),  # no group is read but where one waits
        ("(segment_left >= 16'h80)", "1'd1"),  # Beats without data are requested.
        ("16'd0 : shorter[15:0]", "16'd0 : 16'd0"),  # All groups after the first segment are lost.
        ("walk_end <= 18'h40", "walk_end <= 18'h41"),
        # A byte of an entry is not written, or a byte of another entry is written as zero.
        ("= beats_payload_strobe &", "= {beats_payload_strobe[15:8], 1'b0, beats_payload_strobe[6:0]} &"),
        ("= beats_payload_strobe &", "= {beats_payload_strobe[15:4], {4{|beats_payload_strobe[3:0]}}} &"),
    ],
)
def test_a_broken_store_is_found(right, wrong):
    config = CONFIGS["default"]
    assert run_unit(Store(config=config), "store", config, replaced=[(right, wrong)], seed=1)
