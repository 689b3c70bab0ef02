"""Compare the output unit's partial sums, results, counts and errors with the golden core."""

import pytest

from tensordash.configuration.core_config import CoreConfig
from tensordash.core.output import Output
from tensordash_sim.verify import simulator_names
from tensordash_sim.verify.unit_run import run_unit

needs_icarus = pytest.mark.skipif("icarus" not in simulator_names(), reason="the bench sets registers that are ports")

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
    "int8": [*SMALL, "tile.format=int8"],
    "int8, 8 lanes": [
        "tile.format=int8",
        *("tile.lanes=8", "tile.rows=8", "tile.columns=8", "core.stream_buffer=4", "core.result_cycles=4"),
    ],
    "nothing built, in int8": [
        *(*SMALL, "tile.format=int8"),
        *(f"core.{name}=false" for name in ("bias", "scale", "relu", "mask", "stochastic")),
    ],
    "bf16": [*SMALL, "tile.format=bf16", "tile.accumulator={bins=3}"],
    "bf16-without-headroom": [
        *("core.buffer=16", "core.regions=1", "core.stream_buffer=2", "core.partial_sums=9", "core.result_cycles=4"),
        *("tile.format=bf16", "tile.accumulator={bins=4, bin_bits=8}", "tile.headroom_bits=8"),
    ],
    "fp8-in-bins": [
        *SMALL,
        "tile.format={a='fp8_e4m3', b='fp8_e5m2'}",
        "tile.accumulator={bins=3, bin_bits=11}",
        "core.result_cycles=1",
    ],
    "nothing-built-in-bins": [
        *(*SMALL, "tile.format=bf16", "tile.accumulator={bins=3}"),
        *(f"core.{name}=false" for name in ("bias", "scale", "relu", "mask", "stochastic")),
    ],
    "skipped passes": [*SMALL, "core.skip_masked=true"],
    "skipped passes without biases": [*SMALL, "core.skip_masked=true", "core.bias=false", "tile.columns=8"],
    "skipped passes in bins": [*SMALL, "core.skip_masked=true", "tile.format=bf16", "tile.accumulator={bins=3}"],
    "nothing built": [*SMALL, *(f"core.{name}=false" for name in ("bias", "scale", "relu", "mask", "stochastic"))],
}

QUICK = ("usual", "skipped passes", "nothing-built-in-bins")


def run(name, *replaced, effort=0.4, seed=3, test=None):
    config = CoreConfig.from_toml("", CONFIGS[name])
    return run_unit(Output(config), "output", config, seed=seed, effort=effort, replaced=replaced, test=test)


@needs_icarus
@pytest.mark.parametrize(
    "name",
    [pytest.param(each, marks=[] if each in QUICK else [pytest.mark.slow]) for each in CONFIGS],
)
def test_passes(name):
    assert run(name) == []


@needs_icarus
def test_counter_carries_and_saturation():
    assert run("usual", test="ends_of_counts") == []


@pytest.mark.slow  # The quickest part of `test_passes`.
def test_ends_of_formats():
    assert run("usual", test="ends_of_formats") == []


@pytest.mark.slow
def test_largest_and_smallest_fields():
    """The core has room for more than 64 streams."""
    assert run("many streams", test="ends_of_fields", effort=1) == []


@pytest.mark.slow
@pytest.mark.parametrize("test", ["biases", "places_of_partial_sums"])
def test_large(test):
    """The core has more than 1,024 groups and the maximum of partial sums."""
    assert run("large", test=test) == []


def test_wrong_parameters():
    with pytest.raises(TypeError, match="config must be a CoreConfig, not 4"):
        Output(4)


BROKEN = {
    "a mask is sought where it would be for other results": (
        "descriptor_mask_address - descriptor_address",
        "descriptor_mask_address",
    ),
    "partial sums begin at the first place": ("word <= first_word;", "word <= 7'd0;"),
    "a place beyond the end is not noticed": ("{1'b0, beyond ? 3'd4", "{1'b0, 1'b0 ? 3'd4"),
    "random bits are always a half": (" + {1'b0, random};", " + 17'h8000;"),
    "all pieces have the first one's biases": ("transposed ? row[3] : piece[1]", "transposed ? row[3] : piece[0]"),
    "all rows that are channels have one's bias": ("transposed ? row[2] : piece[1]", "transposed ? row[0] : piece[1]"),
    "groups have the biases of those before": (".hold(bias_fetch__bias & ~bias_fetched)", ".hold(1'b0)"),
    "all biases are positive": ("wire negative = value[31] & enable", "wire negative = 1'b0"),
    "negative biases are less by the least bit": (".carry(aligner_1__carry),\n    .total", ".carry(1'b0),\n    .total"),
    "a bias has no highest bit": (
        "aligned_number = {1'b0, placed_11[30:23]",
        "aligned_number = {2'd0, placed_11[29:23]",
    ),
    "a bias that is too large is none": (
        "value[30:23] < 8'haf",
        "value[30:23] < 8'hb0",
        "(value[30:23] >= 8'haf) & ~(&value[30:23] & |value[22:0]) & value[31]",
        "(value[30:23] >= 8'hb0) & ~(&value[30:23] & |value[22:0]) & value[31]",
        "(value[30:23] >= 8'haf) & ~(&value[30:23] & |value[22:0]) & ~value[31]",
        "(value[30:23] >= 8'hb0) & ~(&value[30:23] & |value[22:0]) & ~value[31]",
    ),
    "the least bias is none": ("value[30:23] >= 8'h4f", "value[30:23] >= 8'h50"),
    "with partial sums a bias is added to them alone": (
        "= second_pass ? earlier : sum",
        "= second_pass ? partial : sum",
    ),
    "a bias does not wait for partial sums": ("wire two_pass = biased & add", "wire two_pass = 1'b0"),
    "what overflows before a bias is added is not counted": ("{2{advance | second_pass}}", "{2{advance}}"),
    "what overflows is counted as long as it waits": ("= overflows_2 & {2{advance | second_pass}}", "= overflows_2"),
    "rows that get partial sums go at once": ("whole = emit & ~add & ~biased", "whole = emit & ~biased"),
    "rows that get biases go at once": ("whole = emit & ~add & ~biased", "whole = emit & ~add"),
    "rows at once are one piece": ("<= piece | {2{whole}}", "<= piece"),
    "rows at once have the adders' sums in all pieces": (
        "whole ? rows_payload[395:297] : adder_1__total",
        "adder_1__total",
    ),
    "all pieces go to the first one's place": ("(whole | (piece[1] & ", "(whole | (1'b0 & "),
    "pieces that become partial sums go to their own places": (
        "(piece[0] | ~emit | two_pass)",
        "(piece[0] | two_pass)",
        "~(~emit | two_pass)",
        "~two_pass",
    ),
    "all pieces are rounded as the first one": (
        "sums_payload_pieces = sums_payload[397:396]",
        "sums_payload_pieces = {2{sums_payload[396]}}",
    ),
    "a row is gone after its first piece": ("rows_ready = ready & (whole | piece[1])", "rows_ready = ready"),
    "a second piece is the first one again": (
        "rows_payload[395:297] & {99{piece[1]}}",
        "rows_payload[197:99] & {99{piece[1]}}",
    ),
    "words of FP32 are not apart": ("= masked & written_word[1]", "= 1'h0"),
    "what is rounded toward zero is rounded to nearest": (".toward_zero(descriptor_toward_zero)", ".toward_zero(1'b0)"),
    "what is too large becomes an infinity toward zero": (
        "(toward_zero & ~fp32 & ~&value[30:23]) ? 15'h7bff",
        "1'b0 ? 15'h7bff",
    ),
    "a result beyond the buffer is not noticed": ("if (writer__outside) outside", "if (1'b0) outside"),
    "a loop runs no more than 2,047 times": ("left_0 <= counts[11:0];", "left_0 <= {1'b0, counts[10:0]};"),
    "all beats have the first one's random bits": ("beat + 28'd1", "beat + 28'd0"),
}


IN_CI = list(BROKEN)[:1]
"""The variant that runs in CI. The others take ten seconds each and run at night."""


@pytest.mark.parametrize(
    "name", [pytest.param(each, marks=[] if each in IN_CI else pytest.mark.slow) for each in BROKEN]
)
def test_broken_variants_are_found(name):
    texts = BROKEN[name]
    assert run("usual", *zip(texts[::2], texts[1::2], strict=True), effort=1)


BROKEN_SKIPPING = {
    "a skipped pass has the rows of the next one": ("skipped ? 396'd0 : sums_payload_values", "sums_payload_values"),
    "a skipped block lacks a row": ("skipped ? skipped_row[3]", "skipped ? skipped_row[2]"),
    "rows of the tile do not wait for a mark": ("(~marks_valid | marks_payload)", "(marks_valid & marks_payload)"),
    "each row takes a mark": ("left & taken & last_row", "left & taken"),
    "every multiply takes marks": ("skipped = descriptor_skip_masked & left", "skipped = left"),
    "a waiting read of the filter is dropped": ("skip_waits_any = skip_waits | ~(", "skip_waits_any = ~("),
}


@needs_icarus
@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", BROKEN_SKIPPING)
def test_broken_skipping_is_found(name):
    assert run("skipped passes", BROKEN_SKIPPING[name], effort=1)
