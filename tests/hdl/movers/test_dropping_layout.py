"""Rebuild streams from the steps and indices that the dropping layout writes, and compare them with golden's."""

import pytest

from tensordash.configuration.core_config import CoreConfig
from tensordash.movers.dropping_layout import DroppingLayout
from tensordash_sim.verify.unit_run import run_unit

SMALL = [
    *("core.drop_steps=true", "core.skip_masked=true", "core.layout_groups=2"),
    *("core.buffer=1", "core.stream_buffer=1", "core.partial_sums=1"),
]
CONFIGS = {
    "usual": SMALL,
    "words that are no power of two": [*SMALL, "core.stream_buffer=5"],
    "depth 2": [*SMALL, "tile.depth=2", 'tile.connectivity="auto"'],
    "int8": [*SMALL, "tile.format=int8", "core.axi_bits=128"],
    "8 lanes": [
        *SMALL,
        *("core.buffer=4", "core.stream_buffer=6", "tile.lanes=8", "tile.rows=8", "tile.columns=8"),
        'tile.connectivity="auto"',
    ],
}


def run(name, *replaced, effort=1.0):
    config = CoreConfig.from_toml("", CONFIGS[name])
    block = DroppingLayout(config)
    options = {"side": "b"}
    return run_unit(block, "dropping_layout", config, seed=5, replaced=replaced, effort=effort, options=options)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", CONFIGS)
def test_dropped_steps(name):
    assert run(name) == []


LARGE = CoreConfig.from_toml("", [*SMALL, "core.stream_buffer=32", "core.axi_bits=256"])
"""The stream buffers of `core-drop`."""


def longest_streams(*replaced):
    options = {"side": "b"}
    block = DroppingLayout(LARGE)
    return run_unit(block, "dropping_layout", LARGE, seed=5, replaced=replaced, test="longest_streams", options=options)


def test_longest_streams():
    assert longest_streams() == []


def test_steps_counted_modulo_128_are_found():
    assert longest_streams(("place_1 + 9'd1 : place_1", "{place_1[8:7], place_1[6:0] + 7'd1} : place_1"))


BROKEN = {
    "a sign counts as a value": ("port_0_2[30:16]", "port_0_2[31:16]"),
    "a value's lowest bit does not count": ("port_1_3[62:48]", "port_1_3[62:49]"),
    "a stream begins where the one before ends": ("place_2 <= next_begin", "place_2 <= place_2_after"),
    "indices count from the first stream on": ("stream_begin <= next_begin", "stream_begin <= stream_begin"),
    "a stream's last step does not count": ("ended_count_1 <= place_1_after", "ended_count_1 <= place_1"),
    "lengths of a bank are not compared": ("(counted_count_2 <= most_of_2)", "(1'b1)"),
    "an empty stream has a word less than one": ("(most_of_4 == 4'd0) ? 3'd0 : ", ""),
    "done before the lengths are written": ("| ended_valid | index_ends", "| 1'b0"),
    "the second of two groups has the first one's index": (
        "(turned_1_bank[0] & turned_1_valid) ? step_index_1",
        "(turned_1_bank[0] & turned_1_valid) ? step_index_0",
    ),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", BROKEN)
def test_broken_variants_are_found(name):
    assert run("usual", BROKEN[name], effort=0.5)


def test_wrong_parameters():
    with pytest.raises(TypeError, match="config must be a CoreConfig, not 4"):
        DroppingLayout(4)
    with pytest.raises(ValueError, match="core.drop_steps must be true, not false"):
        DroppingLayout(CoreConfig())
