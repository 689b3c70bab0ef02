"""Tiles of several number formats, from fp16 to four bits: the area and the speedup of skipping zeros in each.

`python bench/cost.py` measures them, and writes the table of docs/cost-tables.md (`cost_pages.py`).
"""

from dataclasses import replace
from typing import Any

from tensordash import TileConfig, load_preset
from tensordash_sim.cycles import random_counts

__all__ = ["CLOCK_NS", "FORMAT_TILES", "measured"]

CLOCK_NS = 3.0  # Fused accumulators meet this clock. A tile that misses it would be mapped for delay, with more area.
ZEROS = tuple(step / 20 for step in range(20))
STEPS = 100_000

RECOMMENDED = load_preset("recommended")


def _tile(format: str, accumulator: str, scale: str | None = None, columns: int = 4) -> TileConfig:
    """Return the preset `recommended` in another number format: 4 rows, 4 lanes, rings of 4 steps."""
    headroom = min(RECOMMENDED.headroom_bits, 16) if format == "int8" else RECOMMENDED.headroom_bits
    scales: dict[str, Any] = {} if scale is None else {"scale": scale}
    return replace(
        RECOMMENDED, format=format, accumulator=accumulator, columns=columns, headroom_bits=headroom, **scales
    )


FORMAT_TILES: dict[str, TileConfig] = {
    "fp16-exact": _tile("fp16", "exact"),
    "fp16-hopper": _tile("fp16", "hopper"),
    "tf32-hopper": _tile("tf32", "hopper"),
    "bf16-hopper": _tile("bf16", "hopper"),
    "fp8-exact": _tile("fp8_e4m3", "exact"),
    "fp8-hopper": _tile("fp8_e4m3", "hopper-fp8"),
    "int8-exact": _tile("int8", "exact"),
    "fp4-exact": _tile("fp4_e2m1", "exact"),
    "mxfp8": _tile("fp8_e4m3", "hopper", "e8m0"),
    "mxfp6": _tile("fp6_e2m3", "hopper", "e8m0"),
    "mxfp4": _tile("fp4_e2m1", "hopper", "e8m0"),
    "nvfp4": _tile("fp4_e2m1", "exact", "e4m3"),
    "int8-16-columns": _tile("int8", "exact", columns=16),
    "fp4-16-columns": _tile("fp4_e2m1", "exact", columns=16),
    "mxfp4-8-columns": _tile("fp4_e2m1", "hopper", "e8m0", 8),
    "mxfp4-16-columns": _tile("fp4_e2m1", "hopper", "e8m0", 16),
    "nvfp4-8-columns": _tile("fp4_e2m1", "exact", "e4m3", 8),
    "nvfp4-16-columns": _tile("fp4_e2m1", "exact", "e4m3", 16),
}


def measured(config: TileConfig, document: Any) -> dict[str, Any]:
    """Return the table's figures from a synthesis with power, and the speedups on random zeros."""
    designs = {
        design: {figure: document[design][figure] for figure in ("pe_ge", "max_frequency_mhz")}
        for design in ("tensordash", "baseline")
    }
    counted = {str(zeros): random_counts(config, zeros=zeros, steps=STEPS, length=STEPS).speedup for zeros in ZEROS}
    return {
        **{name: document[name] for name in ("clock_ns", "rows", "columns", "components", "ratio")},
        **designs,
        "speedups": {zeros: round(speedup, 4) for zeros, speedup in counted.items()},
    }
