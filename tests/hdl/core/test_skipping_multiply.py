"""Test that the multiply unit skips exactly the passes whose masks are zeros."""

import pytest

from tensordash.configuration.core_config import CoreConfig
from tensordash.core.pass_filter import PassFilter
from tensordash.core.skipping_multiply import SkippingMultiply
from tensordash_sim.verify.unit_run import run_unit

SMALL = ["core.skip_masked=true", "core.buffer=1", "core.stream_buffer=1"]
CONFIGS = {
    "usual": SMALL,
    "several groups in a block": [*SMALL, "core.stream_buffer=3", "tile.rows=8", "tile.columns=8"],
    "dense": [*SMALL, 'tile.sparsity="none"', 'tile.staging="shift"'],
    "depth 2": [*SMALL, "tile.depth=2", 'tile.connectivity="auto"'],
    "int8": [*SMALL, "tile.format=int8"],
    "8 lanes": [*SMALL, "tile.lanes=8", "tile.rows=8", "tile.columns=8", "core.buffer=2", "core.stream_buffer=8"],
}


def run(name, *replaced, **options):
    config = CoreConfig.from_toml("", CONFIGS[name])
    return run_unit(SkippingMultiply(config), "skipping_multiply", config, seed=6, replaced=replaced, **options)


@pytest.mark.parametrize("name", CONFIGS)
def test_skipped_passes(name):
    assert run(name) == []


LARGE = CoreConfig.from_toml("", ["core.skip_masked=true", "core.buffer=1", "core.stream_buffer=16"])


def many_streams(*replaced):
    unit = SkippingMultiply(LARGE)
    return run_unit(unit, "skipping_multiply", LARGE, seed=6, replaced=replaced, test="many_streams")


def test_many_streams():
    assert many_streams() == []


@pytest.mark.parametrize("side", ["a", "b"])
def test_streams_counted_modulo_64_are_found(side):
    count = {"a": "column_stream", "b": "row_stream"}[side]
    assert many_streams((f"{count} == {side}_streams", f"{count}[5:0] == {side}_streams[5:0]"))


def test_wrong_parameters():
    for kind in (SkippingMultiply, PassFilter):
        with pytest.raises(TypeError, match="config must be a CoreConfig, not 4"):
            kind(4)
        with pytest.raises(ValueError, match="core.skip_masked must be true, not false"):
            kind(CoreConfig())


BROKEN = {
    "a mask is forgotten while a read waits": ("has_mask <= pass_runs", "has_mask <= mask_valid & pass_runs"),
    "a mask of the pass before is not forgotten": ("pass_runs & ~decides", "pass_runs"),
    "groups outside of the tensor count": ("~(walk__x[15] | ", "~(1'b0 & walk__x[15] | "),
    "a value's sign counts": ("|read_data[14:0]", "|read_data[15:0]"),
    "a value's highest bit does not count": ("|read_data[254:240]", "|read_data[253:240]"),
    "FP32 results have masks in consecutive groups": ("{walk__x[5:2], 1'b0}", "walk__x[6:2]"),
    "the last pass runs though it is skipped": ("{pending, pass_runs}", "{pending, pass_runs | pending[0]}"),
    "the end is lost if the last pass is skipped": ("decides & (pass_runs | pending[0])", "decides & pass_runs"),
    "a place of a skipped pass stays reserved": (
        "decides & ~pass_runs & ~pending[0]",
        "decides & ~pass_runs & pending[0]",
    ),
    "marks enter a full queue": ("(~skip_masked | |mark_places)", "1'b1"),
    "a skipped pass is not marked": (".added(~pass_runs)", ".added(1'b0)"),
    "a range error is missed": ("beyond <= beyond | a_over", "beyond <= beyond"),
    "the second pass does not begin": ("if (loads | turns) begin", "if (loads) begin"),
    "a pass after the last one is expected": ("pass_is_last <= filter__passes_payload_last", "pass_is_last <= 1'b0"),
}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", BROKEN)
def test_broken_variants_are_found(name):
    config = "several groups in a block" if name == "a mask is forgotten while a read waits" else "usual"
    assert run(config, BROKEN[name])
