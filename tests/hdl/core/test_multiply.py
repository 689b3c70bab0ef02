"""Test that the multiply unit offers each step of each pass once, in order, on its line."""

import pytest

from tensordash.configuration.core_config import CoreConfig
from tensordash.core.multiply import Multiply
from tensordash_sim.verify.unit_run import run_unit

SMALL = ["core.buffer=1", "core.stream_buffer=1"]
CONFIGS = {
    "usual": SMALL,
    "sides of different words": [*SMALL, "core.stream_buffer=3", "tile.rows=8"],
    "dense": [*SMALL, 'tile.sparsity="none"', 'tile.staging="shift"'],
    "depth 2": [*SMALL, "tile.depth=2", 'tile.connectivity="auto"'],
    "depth 3": [*SMALL, "tile.depth=3", 'tile.connectivity="auto"'],
    "depth 6": [*SMALL, "tile.depth=6", 'tile.connectivity="auto"'],
}


def run(name, *replaced):
    config = CoreConfig.from_toml("", CONFIGS[name])
    return run_unit(Multiply(config), "multiply", config, seed=6, replaced=replaced)


@pytest.mark.parametrize("name", CONFIGS)
def test_passes(name):
    assert run(name) == []


def test_many_streams():
    config = CoreConfig.from_toml("", ["core.buffer=1", "core.stream_buffer=16"])
    assert run_unit(Multiply(config), "multiply", config, seed=6, test="many_streams") == []


def test_wrong_parameters():
    with pytest.raises(TypeError, match="config must be a CoreConfig, not 4"):
        Multiply(4)


BROKEN = {
    "a bank ahead reads its word again": ("a_far[0] ? a_word_after : ", ""),
    "a bank reads though its step is not taken": ("a_read_enable = begins |", "a_read_enable = 4'h8 | begins |"),
    "a bank that could not read does not ask again": ("a_read_enable = begins | a_late", "a_read_enable = begins"),
    "a step is offered that its bank does not show": ("wire [3:0] shut = any_late | ", "wire [3:0] shut = "),
    "one side's late banks are not looked at": ("a_late | b_late", "a_late"),
    "a late bank reads the word after its own": ("a_near[1] ? a_current :", ""),
    "last though the end is not offered": (
        "last = running & word_ends & ~|(any_late & ~ahead)",
        "last = running & word_ends",
    ),
    "only the head waits for late banks": ("any_late = a_late | b_late", "any_late = head & (a_late | b_late)"),
    "last comes a word early": ("running & word_ends", "running & last_word"),
    "steps are offered beyond the end": ("word_ends ? ", "1'h0 ? "),
    "the row's stream does not begin anew": ("? b_begin :", "? b_word :"),
    "a range error is missed": ("beyond ? 3'd4 : 3'd0", "3'd0"),
}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", BROKEN)
def test_broken_variants_are_found(name):
    assert run("usual", BROKEN[name])
