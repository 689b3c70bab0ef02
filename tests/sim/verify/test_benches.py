"""Compare the emitted Verilog of many tiles with the golden model's values, cycles and counters."""

from dataclasses import replace

import pytest

from tensordash import TileConfig, load_preset
from tensordash_sim.verify import simulator_names

from .conftest import FASTEST, FOR_SMALL

GEOMETRIES = {
    "4x4-4lanes-depth4": TileConfig(),
    "2x2-4lanes-depth2": TileConfig(
        rows=2, columns=2, depth=2, connectivity=((0, 0), (1, 0), (1, 1), (1, -1)), out_rows=2, pipeline=1
    ),
    "3x5-6lanes-depth3": TileConfig(
        rows=3, columns=5, lanes=6, depth=3, connectivity=((0, 0), (1, 0), (1, -1), (2, 0), (2, 2), (1, 3)), pipeline=3
    ),
    "4x4-16lanes-depth3": load_preset("paper-16lane"),
    "1x1-4lanes-depth4": TileConfig(rows=1, columns=1),
}
RING_OF_4 = ((0, 0), (1, 1), (1, 0), (2, 0), (2, 1), (3, 0), (3, 1))
SPARSITIES = ("none", "rows", "both")
CONFIGS = {
    f"{geometry}-{sparsity}": replace(config, sparsity=sparsity)
    for geometry, config in GEOMETRIES.items()
    for sparsity in SPARSITIES
}
VARIANTS = {
    "full-window-rows": TileConfig(rows=2, columns=2, full_window=True),
    "full-window-both": TileConfig(rows=1, columns=2, full_window=True, sparsity="both", pipeline=1),
    "full-window-none": TileConfig(rows=2, columns=1, full_window=True, sparsity="none", pipeline=1),
    "no-headroom": TileConfig(rows=2, columns=1, headroom_bits=0),
    "most-headroom-3-stages": TileConfig(rows=1, columns=1, headroom_bits=64, pipeline=3),
    "two-rows-a-beat": TileConfig(rows=4, columns=1, out_rows=2),
    "whole-block-a-beat": TileConfig(rows=3, columns=2, out_rows=3, sparsity="none", pipeline=1),
    "whole-block-a-beat-c": TileConfig(rows=2, columns=1, format="int8", out_rows=2, initial=True, pipeline=1),
    "nine-ports": TileConfig(
        rows=1,
        columns=8,
        lanes=2,
        depth=2,
        connectivity=((0, 0), (1, 0), (1, 1)),
        format="int8",
        staging="ring",
        pipeline=1,
    ),
    "dense-options-only": TileConfig(rows=2, columns=1, connectivity=((0, 0),)),
    "recommended-depth6": TileConfig(
        rows=1, columns=2, lanes=3, depth=6, connectivity=((0, 0), (1, 1), (5, 0), (2, -1), (3, 2), (4, 0))
    ),
    "ring": TileConfig(
        rows=2, columns=1, depth=3, connectivity=((0, 0), (1, -1), (1, 0), (2, 0), (2, -1)), staging="ring"
    ),
    "ring-both-full-window": TileConfig(
        rows=1, columns=2, lanes=3, connectivity=RING_OF_4, sparsity="both", staging="ring", full_window=True
    ),
    "registered-ready": TileConfig(rows=2, columns=1, registered_ready=True, counters="snapshot"),
    "registered-ready-c": TileConfig(
        rows=4, columns=1, out_rows=2, registered_ready=True, initial=True, pipeline=1, headroom_bits=3
    ),
    "registered-ready-fused-c": TileConfig(
        rows=1, columns=2, format="bf16", accumulator="ampere", initial=True, registered_ready=True, counters=False
    ),
    "snapshot-both": TileConfig(rows=1, columns=2, sparsity="both", counters="snapshot"),
    "no-counters": TileConfig(rows=2, columns=1, format="int8", initial=True, counters=False, registered_ready=True),
    "2-lanes": TileConfig(rows=2, columns=2, lanes=2, depth=2, connectivity=((0, 0), (1, 1))),
}
needs_icarus = pytest.mark.skipif("icarus" not in simulator_names(), reason="Icarus Verilog is not installed")

AT_NIGHT = {
    "tile-4x4-16lanes-depth3-rows",
    "tile-4x4-16lanes-depth3-both",
    "tile-4x4-16lanes-depth3-none",
    "tile-4x4-4lanes-depth4-both",
    "tile-3x5-6lanes-depth3-both",
    "tile-3x5-6lanes-depth3-none",
    "tile-3x5-6lanes-depth3-rows",
    *(f"axi_stream-{geometry}-{sparsity}" for geometry in GEOMETRIES for sparsity in SPARSITIES),
} - {"axi_stream-4x4-4lanes-depth4-rows"}
"""The wrapper does not depend on the tile, so CI runs one. Of large tiles, one per size suffices (`recommended` has 16
lanes)."""

TILE_CASES = [
    pytest.param(bench, config, id=f"{bench}-{name}", marks=pytest.mark.slow if f"{bench}-{name}" in AT_NIGHT else ())
    for name, config in CONFIGS.items()
    for bench in ("tile", "axi_stream")
]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("bench", "config"), TILE_CASES)
def test_tile(bench, config, check):
    effort = min(0.3, 16 / (config.multipliers) + 0.1)
    check(bench, config, effort=effort, simulator="auto")


SEEN_IN_OTHERS = ("two-rows-a-beat", "registered-ready", "dense-options-only", "full-window-both")
"""Nightly tests run other variants with the same options."""


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if name in SEEN_IN_OTHERS else ()) for name in VARIANTS]
)
def test_variant(name, check):
    check("tile", VARIANTS[name], effort=0.1, simulator=FOR_SMALL)


@pytest.mark.parametrize("bench", ["staging_ring", "axi_stream"])
def test_ring(bench, check):
    check(bench, VARIANTS["ring"], effort=0.2, simulator=FOR_SMALL)


@pytest.mark.slow
@pytest.mark.parametrize("preset", ["recommended", "recommended-2x8"])
@pytest.mark.parametrize("bench", ["tile", "axi_stream"])
def test_recommended(bench, preset, check):
    check(bench, load_preset(preset), effort=0.5, simulator=FASTEST)


@pytest.mark.slow
@pytest.mark.parametrize("bench", ["tile", "axi_stream"])
@needs_icarus
def test_paper_tile_on_icarus(bench, check):
    check(bench, TileConfig(), effort=0.1, simulator="icarus")


SAME_MODULES = {("1x1-4lanes-depth4", bench) for bench in ("scheduler", "staging_buffer", "transposer", "pe")}
SAME_MODULES.add(("2x2-4lanes-depth2", "transposer"))
"""Nightly tests run modules of the first geometry again, with another seed."""
QUANTISED = (("fp8_e5m2", 8), ("fp6_e2m3", 1), ("fp6_e3m2", 2), ("fp4_e2m1", 4))
LARGE = {("4x4-16lanes-depth3", bench) for bench in ("scheduler", "staging_buffer", "pe")}
"""Nightly tests run this case, which takes as long as all others together."""


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("geometry", "bench"),
    [
        pytest.param(geometry, bench, id=f"{bench}-{geometry}", marks=pytest.mark.slow if same else ())
        for geometry in GEOMETRIES
        for bench in ("scheduler", "staging_buffer", "transposer", "pe")
        for same in [(geometry, bench) in SAME_MODULES | LARGE]
    ],
)
def test_component(bench, geometry, check):
    check(bench, GEOMETRIES[geometry], effort=0.5, simulator=FOR_SMALL)


@pytest.mark.parametrize(
    ("fmt", "lanes", "scale_rounding"),
    [
        ("fp8_e4m3", 4, "up"),
        pytest.param("fp4_e2m1", 16, "floor", marks=pytest.mark.slow),
        *(pytest.param(*each, "floor", marks=pytest.mark.slow) for each in QUANTISED),
        *(pytest.param(*each, "up", marks=pytest.mark.slow) for each in QUANTISED),
    ],
)
def test_block_quantiser(fmt, lanes, scale_rounding, check):
    scaled = {"format": fmt, "lanes": lanes, "depth": 2, "scale": "e8m0", "accumulator": "hopper"}
    scaled |= {"scale_rounding": scale_rounding}
    check("block_quantiser", TileConfig(rows=1, columns=1, **scaled), effort=1.0, simulator=FOR_SMALL)


@pytest.mark.parametrize("bench", ["staging_buffer", "pe"])
def test_component_of_the_baseline(bench, check):
    check(bench, load_preset("dense"), effort=0.5, simulator=FOR_SMALL)


@pytest.mark.parametrize(
    ("pipeline", "headroom_bits"),
    [(3, 0), *(pytest.param(*both, marks=pytest.mark.slow) for both in ((1, 0), (1, 3), (1, 64), (3, 3), (3, 64)))],
)
def test_pe_with_other_headroom(headroom_bits, pipeline, check):
    config = TileConfig(rows=1, columns=1, headroom_bits=headroom_bits, pipeline=pipeline)
    check("pe", config, effort=0.5, simulator=FOR_SMALL)


def test_component_on_verilator(check):
    if FASTEST != "verilator":
        pytest.skip("Verilator cannot run here")
    check("scheduler", TileConfig(), effort=0.5, simulator="verilator")
