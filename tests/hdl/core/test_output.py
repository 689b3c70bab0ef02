"""The output unit: partial sums, results, counts and errors are the golden core's."""

import pytest

from tensordash.configuration.core_config import CoreConfig
from tensordash.core.output import Output
from tensordash_sim.verify.unit_run import run_unit

SMALL = ["core.buffer=16", "core.regions=1", "core.stream_buffer=2", "core.partial_sums=9"]
CONFIGS = {
    "usual": SMALL,
    "a row in a cycle": [*SMALL, "core.result_cycles=1"],
    "more columns, one at a time": [*SMALL, "tile.columns=8", "core.stream_buffer=4", "core.result_cycles=8"],
    "pieces that share a group": [*SMALL, "tile.columns=12", "core.stream_buffer=6"],
    "many streams": ["core.buffer=16", "core.regions=1", "core.stream_buffer=16", "core.partial_sums=9"],
    "large": ["core.buffer=64", "core.regions=1", "core.stream_buffer=16", "core.partial_sums=256"],
    "fp8": [*SMALL, "tile.format={a='fp8_e4m3', b='fp8_e5m2'}"],
    "fp8, 8 lanes": [
        *SMALL,
        "tile.format={a='fp8_e4m3', b='fp8_e5m2'}",
        *("tile.lanes=8", "tile.rows=8", "tile.columns=8", "core.stream_buffer=4"),
    ],
    "nothing built": [*SMALL, *(f"core.{name}=false" for name in ("bias", "scale", "relu", "mask", "stochastic"))],
}


def run(name, *replaced, effort=0.4, seed=3, test=None):
    config = CoreConfig.from_toml("", CONFIGS[name])
    return run_unit(Output(config), "output", config, seed=seed, effort=effort, replaced=replaced, test=test)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(each, marks=[pytest.mark.slow] if each in ("fp8, 8 lanes", "many streams", "large") else [])
        for each in CONFIGS
    ],
)
def test_passes(name):
    assert run(name) == []


def test_ends_of_counts():
    assert run("usual", test="ends_of_counts") == []


@pytest.mark.slow  # part of test_passes; the quickest check for a fault there
def test_ends_of_formats():
    assert run("usual", test="ends_of_formats") == []


def test_ends_of_fields():
    """Of a core with room for more than 64 streams, too."""
    assert run("many streams", test="ends_of_fields", effort=1) == []


@pytest.mark.slow
@pytest.mark.parametrize("test", ["biases", "places_of_partial_sums"])
def test_large(test):
    """A core with more than 1,024 groups and the most partial sums."""
    assert run("large", test=test) == []


def test_wrong_parameters():
    with pytest.raises(TypeError, match="config must be a CoreConfig, not 4"):
        Output(4)


BROKEN = {
    "a mask is sought where it would be for other results": (
        "descriptor[479:464] - descriptor[79:64]",
        "descriptor[479:464]",
    ),
    "partial sums begin at the first place": ("{ 1'h0, command_descriptor_payload[55:48], 3'h0 }", "12'h000"),
    "a place beyond the end is not noticed": ("command_error[2:0] = beyond ? 3'h4", "command_error[2:0] = 1'h0 ? 3'h4"),
    "random bits are always a half": (" + random;", " + 16'h8000;"),
    "all pieces have the first one's biases": ("transposed ? row[3] : piece[1]", "transposed ? row[3] : piece[0]"),
    "all rows that are channels have one's bias": ("transposed ? row[2] : piece[1]", "transposed ? row[0] : piece[1]"),
    "groups have the biases of those before": ("= bias_fetch__bias & bias_fetch__there", "= 1'h0"),
    "all biases are positive": ("assign carry = value[31] & enable", "assign carry = 1'h0"),
    "negative biases are less by the least bit": (
        ".carry(aligner_1__carry),\n    .earlier",
        ".carry(1'h0),\n    .earlier",
    ),
    "a bias has no highest bit": (
        "aligned[96:0] = { 1'h0, placed_11[30:23]",
        "aligned[96:0] = { 2'h0, placed_11[29:23]",
    ),
    "a bias that is too large is none": ("value[30:23] >= 8'haf", "value[30:23] >= 8'hb0"),
    "the least bias is none": ("value[30:23] < 8'h4f", "value[30:23] < 8'h50"),
    "with partial sums a bias is added to them alone": ("= again ? earlier : sum", "= again ? partial : sum"),
    "a bias does not wait for partial sums": ("assign twice = biased & add", "assign twice = 1'h0"),
    "what overflows before a bias is added is not counted": ("= moves | again;", "= moves;"),
    "what overflows is counted as long as it waits": ("= overflows_2 & { _013_, _013_ }", "= overflows_2"),
    "rows that get partial sums go at once": ("= emit & _000_", "= emit"),
    "rows that get biases go at once": ("assign whole = _009_ & _014_", "assign whole = _009_"),
    "rows at once are one piece": ("= piece | { whole, whole }", "= piece"),
    "rows at once have the adders' sums in all pieces": (
        "whole ? rows_payload[395:297] : adder_1__total",
        "adder_1__total",
    ),
    "all pieces go to the first one's place": ("assign _023_ = piece[1]", "assign _023_ = 1'h0"),
    "pieces that become partial sums go to their own places": ("= _016_ | twice", "= twice"),
    "all pieces are rounded as the first one": ("= comes & sums_payload[397]", "= comes & sums_payload[396]"),
    "a row is gone after its first piece": ("assign _002_ = whole | piece[1]", "assign _002_ = 1'h1"),
    "a second piece is the first one again": (
        "rows_payload[395:297] & {99{piece[1]}}",
        "rows_payload[197:99] & {99{piece[1]}}",
    ),
    "words of FP32 are not apart": ("= masked & written_word[1]", "= 1'h0"),
    "what is rounded toward zero is rounded to nearest": (
        ".toward_zero(descriptor[28])",
        ".toward_zero(1'h0)",
    ),
    "what is too large becomes an infinity toward zero": ("= toward_zero & _11_", "= 1'h0 & _11_"),
    "a result beyond the buffer is not noticed": ("outside <= writer__outside;", "outside <= 1'h0;"),
    "a loop runs no more than 2,047 times": ("? counts[11:0] :", "? { 1'h0, counts[10:0] } :"),
    "all beats have the first one's random bits": ("beat + 29'h1", "beat + 29'h0"),
}


IN_CI = list(BROKEN)[:3]
"""The others, which take ten seconds each, at night."""


@pytest.mark.parametrize(
    "name", [pytest.param(each, marks=[] if each in IN_CI else pytest.mark.slow) for each in BROKEN]
)
def test_broken(name):
    assert run("usual", BROKEN[name], effort=1)
