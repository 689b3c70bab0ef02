"""Test that every corner of the ranges is emitted, or refused with the limit in the message."""

from contextlib import suppress
from itertools import product
from typing import Any

import pytest

from tensordash import TileConfig
from tensordash.configuration.config import MAX_INPUT_BITS
from tensordash.emission.verilog import emit, members
from tensordash.streams.axi_stream import AxiStreamTile
from tensordash.tile.control import Control

FORMATS: dict[str, dict[str, Any]] = {
    "fp16": {"headroom_bits": 64},
    "int8": {"format": "int8"},
    "bf16-fused": {"format": "bf16", "accumulator": {"fused": 64}},
    "fp16-fp8": {"format": {"a": "fp16", "b": "fp8_e5m2"}},
}
SHAPES = {"rows": (1, 16), "columns": (1, 32), "lanes": (2, 32), "depth": (2, 6)}
SCHEDULING: dict[str, dict[str, Any]] = {
    "none": {"sparsity": "none"},
    "rows": {"sparsity": "rows"},
    "rows-ring": {"sparsity": "rows", "staging": "ring"},
    "both-c": {"sparsity": "both", "initial": True, "counters": "snapshot"},
}
CORNERS = {
    "-".join([*map(str, shape), scheduling, numbers]): dict(zip(SHAPES, shape, strict=True))
    | SCHEDULING[scheduling]
    | FORMATS[numbers]
    for shape in product(*SHAPES.values())
    for scheduling in SCHEDULING
    for numbers in FORMATS
}
FAST_CORNERS = {"1-1-2-2-none-fp16", "1-1-2-2-both-c-int8", "1-1-2-6-rows-ring-fp16-fp8", "1-1-2-2-rows-bf16-fused"}
"""Corners that take about a second. The others are slow tests."""


def config_of(corner: str) -> TileConfig | None:
    """Return the corner's tile; None if it is refused."""
    with suppress(ValueError):
        return TileConfig(**CORNERS[corner])
    with pytest.raises(ValueError, match=f"at most {MAX_INPUT_BITS}$"):
        TileConfig(**CORNERS[corner])
    return None


def test_corners_are_refused_only_for_their_size():
    refused = {corner for corner in CORNERS if config_of(corner) is None}
    # 32 columns and 32 lanes of 6 steps fit with one row and two 8-bit formats, but not with 16 rows or wider formats.
    largest = {corner for corner in CORNERS if "-32-32-6-" in corner and "-none-" not in corner}
    assert refused == {corner for corner in largest if not (corner.startswith("1-") and corner.endswith("int8"))}


@pytest.mark.parametrize(
    ("fits", "beyond"),
    [
        ({"rows": 16, "columns": 16, "lanes": 32, "depth": 3}, {"depth": 4}),
        ({"rows": 16, "columns": 16, "lanes": 28, "depth": 4}, {"lanes": 29}),
        ({"rows": 12, "columns": 16, "lanes": 32, "depth": 4}, {"rows": 13}),
    ],
)
def test_limit_of_input_bits(fits, beyond):
    assert TileConfig(**fits).input_bits <= MAX_INPUT_BITS
    shape = ", ".join(f"tile.{name} = {value}" for name, value in {**fits, **beyond}.items())
    with pytest.raises(
        ValueError, match=rf"^{shape} and formats of 16 and 16 bits give the AXI4-Stream tile \d+ input"
    ):
        TileConfig(**{**fits, **beyond})


def test_input_bits_match_the_ports():
    for corner in CORNERS:
        config = config_of(corner)
        if config is None or (config.rows, config.lanes) != (1, 2):
            continue
        ports = members(AxiStreamTile(config))
        assert config.input_bits == 2 + sum(len(value) for _, value, is_input in ports if is_input)


@pytest.mark.parametrize(
    "corner", [pytest.param(each, marks=() if each in FAST_CORNERS else pytest.mark.slow) for each in sorted(CORNERS)]
)
def test_corners_are_emitted(corner):
    config = config_of(corner)
    if config is not None:
        text = emit(AxiStreamTile(config))
        assert "module tensordash_axi_stream_tile(" in text


def test_control_of_the_most_pes_is_emitted():
    """Emit the control of 512 PEs that schedule for themselves, whose AND of advances is the deepest expression."""
    control = Control(ports=48, schedulers=512, depth=2, full_window=False, initial=False)
    assert "module tensordash_control(" in emit(control)
