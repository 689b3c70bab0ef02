"""Run benches on emitted Verilog for every format, accumulator and the C input, sparse and dense."""

from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from tensordash import TileConfig, load_preset

from .conftest import FASTEST, FOR_SMALL

FORMATS: dict[str, Any] = {
    "fp16": "fp16",
    "bf16": "bf16",
    "tf32": "tf32",
    "e4m3": "fp8_e4m3",
    "e5m2": "fp8_e5m2",
    "e4m3xe5m2": {"a": "fp8_e4m3", "b": "fp8_e5m2"},
    "e2m3xe2m1": {"a": "fp6_e2m3", "b": "fp4_e2m1"},
    "e3m2": "fp6_e3m2",
    "e2m1": "fp4_e2m1",
    "e4m3xe2m1": {"a": "fp8_e4m3", "b": "fp4_e2m1"},
    "int8": "int8",
}
ACCUMULATORS: dict[str, Any] = {
    "exact": "exact",
    "volta": "volta",
    "hopper": "hopper",
    "nearest": {"fused": 23, "rounding": "nearest"},
    "hopper-fp8": "hopper-fp8",
    "hopper-fp16": "hopper-fp16",
    "blackwell-fp16": "blackwell-fp16",
    "blackwell-fp8": "blackwell-fp8",
    "few-bits": {"fused": 16, "rounding": "nearest", "result_bits": 7},
    "low-zero": {"fused": 24, "zero_exponent": -132},
    "binned": {"bins": 3},
    "binned-4": {"bins": 4},
}
NUMBERS = [
    *product(("fp16", "e4m3", "e5m2", "e4m3xe5m2", "int8"), ("exact",)),
    *product(("fp16", "bf16", "e4m3xe5m2"), ("volta", "hopper", "nearest")),
    *product(("bf16", "e4m3xe5m2"), ("hopper-fp8", "blackwell-fp8", "few-bits")),
    ("bf16", "low-zero"),
    *product(("fp16", "e4m3xe5m2"), ("hopper-fp16", "blackwell-fp16")),
    *product(("tf32",), ("hopper", "nearest", "blackwell-fp8")),
    *product(("e2m3xe2m1", "e3m2", "e2m1", "e4m3xe2m1"), ("exact", "hopper")),
    *product(("fp16", "bf16", "e4m3xe5m2"), ("binned",)),
    *product(("tf32",), ("binned-4",)),
]
# Each sparsity has its own shape and pipeline.
SHAPES: dict[str, dict[str, Any]] = {
    "rows": {"rows": 2, "columns": 1},
    "both": {"rows": 1, "columns": 2, "pipeline": 3},
    "none": {"rows": 2, "columns": 2, "out_rows": 2, "pipeline": 1},
}
# Few builds cover every format, accumulator, rounding and sparsity, with C and without.
QUICK = (
    "fp16-exact-rows-c",
    "e4m3-exact-both",
    "e5m2-exact-none-c",
    "e4m3xe5m2-exact-both-c",
    "int8-exact-rows-c",
    "int8-exact-none",
    "fp16-volta-rows",
    "bf16-volta-both-c",
    "bf16-hopper-none",
    "bf16-nearest-rows-c",
    "e4m3xe5m2-nearest-none-c",
    "e4m3xe5m2-hopper-fp8-rows-c",
    "bf16-blackwell-fp8-rows-c",
    "fp16-hopper-fp16-rows-c",
    "fp16-blackwell-fp16-rows-c",
    "tf32-hopper-rows-c",
    "bf16-binned-rows-c",
    "bf16-binned-none",
    "tf32-binned-4-both-c",
    "fp16-binned-both",
    "e2m1-exact-rows",
    "e2m3xe2m1-hopper-rows-c",
    "e4m3xe2m1-exact-rows-c",
)
CONFIGS = {
    f"{name}-{accumulator}-{sparsity}{'-c' if initial else ''}": TileConfig(
        format=FORMATS[name],
        accumulator=ACCUMULATORS[accumulator],
        sparsity=sparsity,
        initial=initial,
        **SHAPES[sparsity],
    )
    for (name, accumulator), sparsity, initial in product(NUMBERS, SHAPES, (False, True))
}
VARIANTS = {
    "int8-no-headroom": ("pe", TileConfig(rows=1, columns=1, format="int8", headroom_bits=0)),
    "e4m3-3-headroom-bits": ("pe", TileConfig(rows=1, columns=1, format="fp8_e4m3", headroom_bits=3)),
    "e5m2-64-headroom-bits": ("pe", TileConfig(rows=1, columns=1, format="fp8_e5m2", headroom_bits=64)),
    "bf16-bins-without-headroom-c": (
        "pe",
        TileConfig(rows=1, columns=1, format="bf16", accumulator={"bins": 3}, headroom_bits=0, initial=True),
    ),
    "mixed-bins-of-11-c": (
        "pe",
        TileConfig(
            rows=1,
            columns=1,
            format={"a": "bf16", "b": "fp8_e5m2"},
            accumulator={"bins": 4, "bin_bits": 11},
            initial=True,
            pipeline=1,
        ),
    ),
    "mxfp8-bins-c": (
        "pe",
        TileConfig(rows=1, columns=1, format="fp8_e4m3", accumulator={"bins": 3}, scale="e8m0", initial=True),
    ),
    "mxfp4-dense-bins-of-8": (
        "pe",
        TileConfig(
            rows=1,
            columns=1,
            format="fp4_e2m1",
            accumulator={"bins": 3, "bin_bits": 8},
            scale="e8m0",
            sparsity="none",
            pipeline=3,
            headroom_bits=2,
        ),
    ),
    "fp16-8-fraction-bits-c": ("pe", TileConfig(rows=1, columns=1, accumulator={"fused": 8}, initial=True)),
    "bf16-64-fraction-bits-c": (
        "pe",
        TileConfig(
            rows=1, columns=1, format="bf16", accumulator={"fused": 64, "rounding": "nearest"}, initial=True, pipeline=3
        ),
    ),
    "bf16-low-zero-c": (
        "pe",
        TileConfig(
            rows=1, columns=1, format="bf16", accumulator={"fused": 24, "zero_exponent": -132}, initial=True, pipeline=1
        ),
    ),
    "bf16-few-bits-c": (
        "pe",
        TileConfig(
            rows=1,
            columns=1,
            format="bf16",
            accumulator={"fused": 16, "rounding": "nearest", "result_bits": 7, "zero_exponent": -149},
            initial=True,
        ),
    ),
    "fp16-to-fp16-c": (
        "pe",
        TileConfig(
            rows=1,
            columns=1,
            accumulator={"fused": 9, "result_bits": 10, "result_exponent_bits": 5},
            initial=True,
            pipeline=1,
        ),
    ),
    "fp8-to-fp16": ("pe", TileConfig(rows=1, columns=1, format="fp8_e4m3", accumulator="volta-fp16", pipeline=3)),
    "fp8-after-c": (
        "pe",
        TileConfig(
            rows=1, columns=1, format="fp8_e5m2", accumulator="blackwell-fp8", initial=True, lanes=8, pipeline=3
        ),
    ),
    "volta-partial-windows-c": (
        "tile",
        TileConfig(rows=2, columns=1, accumulator="volta", full_window=False, initial=True),
    ),
    "exact-full-windows-c": (
        "tile",
        TileConfig(rows=2, columns=1, format="fp8_e5m2", full_window=True, initial=True, headroom_bits=5),
    ),
    "three-beats-fused-c": ("tile", TileConfig(rows=3, columns=1, accumulator="volta", initial=True, pipeline=1)),
    "three-beats-exact-c": ("tile", TileConfig(rows=3, columns=1, format="int8", initial=True, sparsity="none")),
}


QUICK_STREAMS = (
    "fp16-exact-rows-c",
    "e4m3xe5m2-exact-both-c",
    "int8-exact-none",
    "bf16-nearest-rows-c",
    "tf32-hopper-rows-c",
)
"""Of the numerics, the wrapper depends only on widths, C and sparsity."""
QUICK_ALONE = (
    "fp16-exact-rows-c",
    "e4m3-exact-both",
    "int8-exact-rows-c",
    "bf16-volta-both-c",
    "e4m3xe5m2-nearest-none-c",
    "bf16-binned-rows-c",
)
"""Tiles contain these PEs. Their own benches run only where a tile's bench cannot reach a difference."""


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("config", "bench"),
    [
        pytest.param(CONFIGS[name], bench, id=f"{bench}-{name}", marks=() if name in quick else pytest.mark.slow)
        for name in CONFIGS
        for bench, quick in (("pe", QUICK_ALONE), ("tile", QUICK), ("axi_stream", QUICK_STREAMS))
    ],
)
def test_numbers(bench, config, check):
    check(bench, config, effort=0.1, simulator=FOR_SMALL)


AT_NIGHT = ("bf16-low-zero-c", "fp8-after-c")


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if name in AT_NIGHT else ()) for name in VARIANTS]
)
def test_variant(name, check):
    bench, config = VARIANTS[name]
    check(bench, config, effort=0.1, simulator=FOR_SMALL)


def test_quick_names_exist():
    assert set(QUICK_STREAMS) | set(QUICK_ALONE) <= set(QUICK) <= set(CONFIGS)
    assert set(AT_NIGHT) < set(VARIANTS)


WHOLE = {
    "paper-bf16": load_preset("paper-bf16"),
    "paper-bf16-dense": load_preset("paper-bf16").baseline,
    "fp16-exact-c": TileConfig(initial=True),
    "int8-exact-c": TileConfig(format="int8", initial=True),
    "e4m3xe5m2-exact-both-c": TileConfig(format=FORMATS["e4m3xe5m2"], initial=True, sparsity="both", out_rows=2),
    "bf16-hopper-c-16lanes": replace(load_preset("paper-16lane"), format="bf16", accumulator="hopper", initial=True),
}


@pytest.mark.slow
@pytest.mark.parametrize("bench", ["tile", "axi_stream"])
@pytest.mark.parametrize("name", WHOLE)
def test_paper_tile(bench, name, check):
    """Test tiles of the paper's size."""
    check(bench, WHOLE[name], effort=0.3, simulator=FASTEST)
