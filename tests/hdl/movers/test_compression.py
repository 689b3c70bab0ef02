"""Compare the emitted Verilog of inflate and deflate with the golden core."""

import pytest

from tensordash.configuration.core_config import CoreConfig
from tensordash.movers.deflate import Deflate
from tensordash.movers.inflate import Inflate
from tensordash_sim.verify.unit_run import run_unit

FP8 = '[tile]\nformat = "fp8_e4m3"\n'
CONFIGS = {
    "default": CoreConfig(),
    "narrow": CoreConfig.from_toml("[core]\naxi_bits = 32"),
    "group_per_beat": CoreConfig.from_toml("[core]\naxi_bits = 256"),
    "fp8": CoreConfig.from_toml(FP8),
    "fp8_wide": CoreConfig.from_toml(FP8 + "lanes = 8\nrows = 8\ncolumns = 8\n[core]\naxi_bits = 256"),
}
NAMES = [pytest.param(name, marks=pytest.mark.slow if name == "fp8_wide" else ()) for name in CONFIGS]
"""fp8_wide takes as long as the others together."""


def shape(name: str) -> dict[str, int]:
    config = CONFIGS[name]
    return {"lanes": config.tile.lanes, "width": config.value_bits, "data_bits": config.axi_bits}


@pytest.mark.parametrize("name", NAMES)
def test_inflate_is_golden(name):
    assert run_unit(Inflate(**shape(name), count_bits=23), "inflate", CONFIGS[name], seed=1) == []


@pytest.mark.parametrize("name", NAMES)
def test_deflate_is_golden(name):
    assert run_unit(Deflate(**shape(name)), "deflate", CONFIGS[name], seed=1) == []


BROKEN = {
    "of a full buffer, one beat counts": (
        Inflate,
        *("end_0 <= {held ? 2'd2", "end_0 <= {held ? 2'd1"),
        *("end_1 <= {held ? 2'd2", "end_1 <= {held ? 2'd1"),
    ),
    "items are used before they arrive": (Inflate, "((used <= 5'd8) | beats_valid)", "1'b1"),
    "a part is sent a second time": (Inflate, "done <= complete[1] ? 2'd0 : complete;", ""),
    "a beat is taken without room for it": (Inflate, "takes = beats_valid & beats_ready", "takes = beats_valid"),
    "too few items are no error": (Inflate, "few = counts &", "few = 1'h0 &"),
    "values overwrite the mask": (
        Deflate,
        "after_masks_0 = {2'd0, filled} +",
        "after_masks_0 = {2'd0, filled} &",
    ),
    "the rest of a group is lost": (Deflate, "filled <= total[2:0]", "filled <= 3'h0"),
    "a group ends after its second beat": (Deflate, "beat_leaves) sent <=", "beat_leaves) sent <= 2'h1 &"),
    "a beat leaves before the bus is ready": (
        Deflate,
        "beat_leaves = beats_valid & beats_ready",
        "beat_leaves = beats_valid",
    ),
    "a strobe of the last beat is always set": (Deflate, "written_3 = groups_valid |", "written_3 = 1'h1 |"),
    "items of the last beat do not count": (
        Deflate,
        "units = {beats_before, filled}",
        "units = {beats_before, 3'd0}",
    ),
}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("title", BROKEN)
def test_broken_compression_is_found(title):
    build, *texts = BROKEN[title]
    more = {"count_bits": 23} if build is Inflate else {}
    bench = build.__name__.lower()
    block, config = build(**shape("default"), **more), CONFIGS["default"]
    assert run_unit(block, bench, config, replaced=zip(texts[::2], texts[1::2], strict=True), effort=0.5)


@pytest.mark.parametrize("build", [Inflate, Deflate])
def test_a_mask_that_is_not_whole_items_is_refused(build):
    more = {"count_bits": 23} if build is Inflate else {}
    with pytest.raises(ValueError, match="width must divide lanes \\* lanes = 16, not 32"):
        build(lanes=4, width=32, data_bits=128, **more)
