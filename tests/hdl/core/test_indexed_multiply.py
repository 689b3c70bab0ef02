"""Test that the multiply unit reads the steps that a layout kept, and side A by their indices."""

import pytest

from tensordash.configuration.core_config import CoreConfig
from tensordash.core.indexed_multiply import IndexedMultiply
from tensordash.core.step_walk import StepWalk
from tensordash_sim.verify.unit_run import run_unit

SMALL = ["core.drop_steps=true", "core.skip_masked=true", "core.layout_groups=2", "core.buffer=1"]
CONFIGS = {
    "usual": [*SMALL, "core.stream_buffer=1"],
    "words that are no power of two": [*SMALL, "core.stream_buffer=5"],
    "columns of several groups": [*SMALL, "core.stream_buffer=4", "tile.columns=16"],
    "depth 2": [*SMALL, "core.stream_buffer=1", "tile.depth=2", 'tile.connectivity="auto"'],
}


def run(name, *replaced, **options):
    config = CoreConfig.from_toml("", CONFIGS[name])
    return run_unit(IndexedMultiply(config), "indexed_multiply", config, seed=6, replaced=replaced, **options)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", CONFIGS)
def test_indexed_steps(name):
    assert run(name) == []


LARGE = CoreConfig.from_toml("", [*SMALL, "core.stream_buffer=32"])
"""The stream buffers of `core-drop`."""


def longest_streams(*replaced):
    block = IndexedMultiply(LARGE)
    return run_unit(block, "indexed_multiply", LARGE, seed=6, replaced=replaced, test="longest_streams")


def test_longest_streams():
    assert longest_streams() == []


def test_words_counted_modulo_128_are_found():
    words = "words_left <= words_left_next - 8'd1", "words_left <= {1'b0, words_left_next[6:0] - 7'd1}"
    assert longest_streams(words)


def test_wrong_parameters():
    for kind in (IndexedMultiply, StepWalk):
        with pytest.raises(TypeError, match="config must be a CoreConfig, not 4"):
            kind(4)
    skipping = CoreConfig.from_toml("", ["core.skip_masked=true"])
    for kind in (IndexedMultiply, StepWalk):
        with pytest.raises(ValueError, match="core.drop_steps must be true, not false"):
            kind(skipping)


BROKEN = {
    "the first word's end is missed": ("arriving_first ? read_lengths_last_word", "arriving_first ? 3'd7"),
    "words do not count down": ("words_left <= words_left_next - 3'd1", "words_left <= words_left_next"),
    "an empty step is offered": ("assign new_word_empty[2] =", "assign new_word_empty[2] = 1'b0 &"),
    "side A is read in order": (
        "current_pass_a_word + read_index[5:3]",
        "current_pass_a_word + arriving_word",
    ),
    "the queue of words runs over": (
        "wire begins = passes_valid & ~has_words & |free_places",
        "wire begins = passes_valid & ~has_words",
    ),
    "a late bank of side A reads the next word": ("(~ahead[0] & a_late[0])", "(1'b0)"),
    "a late bank does not know that it is empty": ("b_near_3 ? head_word_empty[3]", "b_near_3 ? next_word_empty[3]"),
    "a bank ahead shows the next word's emptiness": (
        "b_far_0 ? walk__words_payload_empty[0]",
        "b_far_0 ? next_word_empty[0]",
    ),
    "the end is lost if the last pass is skipped": ("head_word_last) | absent", "head_word_last)"),
    "an entry without a word is a word": ("next_valid & next_word_runs & ~running", "next_valid & ~running"),
}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", BROKEN)
def test_broken_variants_are_found(name):
    assert run("usual", BROKEN[name])
