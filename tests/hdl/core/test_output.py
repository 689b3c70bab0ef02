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
    "fp8": [*SMALL, "tile.format={a='fp8_e4m3', b='fp8_e5m2'}"],
    "nothing built": [*SMALL, *(f"core.{name}=false" for name in ("bias", "scale", "relu", "mask", "stochastic"))],
}


def run(name, *replaced, effort=0.4, seed=3):
    config = CoreConfig.from_toml("", CONFIGS[name])
    return run_unit(Output(config), "output", config, seed=seed, effort=effort, replaced=replaced)


@pytest.mark.parametrize("name", CONFIGS)
def test_passes(name):
    assert run(name) == []


def test_wrong_parameters():
    with pytest.raises(TypeError, match="config must be a CoreConfig, not 4"):
        Output(4)


BROKEN = {
    "a mask is sought where it would be for other results": (
        "descriptor[479:464] - descriptor[79:64]",
        "descriptor[479:464]",
    ),
    "partial sums begin at the first place": ("{ 1'h0, descriptor[55:48], 3'h0 }", "12'h000"),
    "a place beyond the end is not noticed": ("command_error[2:0] = beyond ? 3'h4", "command_error[2:0] = 1'h0 ? 3'h4"),
    "random bits are always a half": (" + random;", " + 16'h8000;"),
    "all pieces have the first one's biases": ("assign _26_ = taken & piece[1]", "assign _26_ = taken & piece[0]"),
    "all pieces have the first one's random bits": (
        "else if (moves_3) piece <= { piece[0]",
        "else if (moves_3) piece <= { piece[1]",
    ),
    "a row is gone after its first piece": ("assign sums_ready = _046_ & piece[1]", "assign sums_ready = _046_"),
    "a row's first piece ends it": ("sums_payload[396] & piece[1]", "sums_payload[396]"),
    "a second piece is the first one again": (
        "sums_payload[395:297] & {99{piece[1]}}",
        "sums_payload[197:99] & {99{piece[1]}}",
    ),
    "what is rounded toward zero is rounded to nearest": (
        ".toward_zero(descriptor[28])",
        ".toward_zero(1'h0)",
    ),
    "what is too large becomes an infinity toward zero": ("= toward_zero & _21_", "= 1'h0 & _21_"),
    "generators step once": ("first ^ { 17'h00000, first[31:17] }", "first"),
}


IN_CI = list(BROKEN)[:3]
"""The others, which take ten seconds each, at night."""


@pytest.mark.parametrize(
    "name", [pytest.param(each, marks=[] if each in IN_CI else pytest.mark.slow) for each in BROKEN]
)
def test_broken(name):
    assert run("usual", BROKEN[name], effort=1)
