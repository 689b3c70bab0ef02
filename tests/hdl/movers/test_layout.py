"""Compare the contents of the stream buffer after layouts with the golden core."""

import pytest

from tensordash.configuration.core_config import CoreConfig
from tensordash.movers.aligner import Aligner
from tensordash.movers.layout import Layout
from tensordash.movers.pair_layout import PairLayout
from tensordash.movers.placement import Placement
from tensordash_sim.verify.unit_run import run_unit

SMALL = ["core.buffer=1", "core.stream_buffer=1", "core.partial_sums=1"]
CONFIGS = {
    "usual": SMALL,
    "two parts": [*SMALL, "tile.rows=8"],
    "dense": [*SMALL, 'tile.sparsity="none"', 'tile.staging="shift"'],
    "depth 3": [*SMALL, "tile.depth=3", 'tile.connectivity="auto"', 'tile.format="fp8_e4m3"', "core.axi_bits=64"],
    "8 lanes": [
        "core.buffer=4",
        "core.stream_buffer=6",
        "core.partial_sums=1",
        "tile.lanes=8",
        "tile.rows=8",
        "tile.columns=8",
        'tile.connectivity="auto"',
    ],
}
PAIRS = {f"{name}, two groups": [*keys, "core.layout_groups=2"] for name, keys in CONFIGS.items() if name != "dense"}
CONFIGS |= PAIRS


def layout(config, side):
    return (Layout if config.layout_groups == 1 else PairLayout)(config, side)


def run(name, side, *replaced, effort=1.0):
    config = CoreConfig.from_toml("", CONFIGS[name])
    block = layout(config, side)
    return run_unit(block, "layout", config, seed=5, replaced=replaced, effort=effort, options={"side": side})


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("name", "side"), [(name, "b") for name in CONFIGS] + [("two parts", "a"), ("two parts, two groups", "a")]
)
def test_layouts(name, side):
    assert run(name, side) == []


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", ["usual", "usual, two groups"])
def test_largest_and_smallest_fields(name):
    config = CoreConfig.from_toml("", CONFIGS[name])
    block = layout(config, "b")
    assert run_unit(block, "layout", config, seed=5, options={"side": "b"}, test="ends_of_fields") == []


BROKEN = {
    "does not wait for the buffer": (
        "wire requested_leaves = requested_valid & ",
        "wire requested_leaves = requested_valid | 1'b0 & ",
    ),
    "what was not read is not zero": (".enable(returned_enable)", ".enable(4'hf)"),
    "turned by the next group's position": (".low(returned_low)", ".low(requested_low)"),
    "rows beyond the end count": ("(walk__y < descriptor_y_size)", "1'd1"),
    "a value is not transposed": ("descriptor_transposed ? port_1[15:0] : port_0[31:16]", "port_0[31:16]"),
    "an address error is missed": ("outside ? 3'd6 : 3'd0", "3'd0"),
    "a range error is missed": ("beyond ? 3'd4 :", "1'd0 ? 3'd4 :"),
    "writes beyond the end": ("full = word == 4'd8", "full = 1'd0"),
    "zeros go to one bank only": ("filling ? {|walked_bank", "1'd0 ? {|walked_bank"),
    "carries no group number over": (
        "({near_2[3] ? higher",
        "({1'b0 ? higher",
        "<= {near_2[3] ? higher",
        "<= {1'b0 ? higher",
    ),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", BROKEN)
def test_broken_variants_are_found(name):
    texts = BROKEN[name]
    assert run("usual", "b", *zip(texts[::2], texts[1::2], strict=True), effort=0.5)


def test_wrong_parameters():
    with pytest.raises(TypeError, match="config must be a CoreConfig, not 4"):
        Layout(4, "a")
    with pytest.raises(ValueError, match="side must be one of a, b, not 'c'"):
        Layout(CoreConfig(), "c")
    with pytest.raises(ValueError, match="lanes must be 4 or 8, not 6"):
        Placement(lanes=6)
    with pytest.raises(ValueError, match="lanes must be 4 or 8, not 2"):
        Aligner(lanes=2, bits=8)
    with pytest.raises(ValueError, match="bits must be an integer of at least 1, not 0"):
        Aligner(lanes=4, bits=0)
