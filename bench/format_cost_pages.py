"""What docs/cost.md says of tiles that differ in their numbers: the parts `format-...` of docs/cost.json."""

from collections.abc import Mapping, Sequence
from typing import Any

from format_tiles import FORMAT_TILES  # type: ignore[import-not-found]  # beside this script

__all__ = ["format_rows", "format_words"]

WORDS = {
    "fp16-exact": "fp16, exact",
    "fp16-hopper": "fp16, `hopper`",
    "tf32-hopper": "tf32, `hopper`",
    "bf16-hopper": "bf16, `hopper`",
    "fp8-exact": "fp8_e4m3, exact",
    "fp8-hopper": "fp8_e4m3, `hopper-fp8`",
    "int8-exact": "int8, exact",
    "fp4-exact": "fp4_e2m1 without scales, exact",
    "mxfp8": "MXFP8 (E4M3), `hopper`",
    "mxfp6": "MXFP6 (E2M3), `hopper`",
    "mxfp4": "MXFP4, `hopper`",
    "nvfp4": "NVFP4, exact",
    "int8-16-columns": "int8, exact, 16 columns",
    "fp4-16-columns": "fp4_e2m1, exact, 16 columns",
    "mxfp4-8-columns": "MXFP4, `hopper`, 8 columns",
    "mxfp4-16-columns": "MXFP4, `hopper`, 16 columns",
    "nvfp4-8-columns": "NVFP4, exact, 8 columns",
    "nvfp4-16-columns": "NVFP4, exact, 16 columns",
    "mxfp4-16-lanes": "`mxfp4`: 16 lanes, 3 steps",
    "nvfp4-16-lanes": "`nvfp4`: 16 lanes, 3 steps",
}
HEADS = (
    "tile",
    "PE, GE",
    "a PE's share of the tile, dense and TensorDash",
    "ratio",
    "skipping's share",
    "highest clock, MHz",
    "ratio",
    "energy, 0% and 50% zeros",
    "speedup, 50% zeros",
    "per area",
    "per area and clock",
    "zeros from which area pays",
)
SKIPPING = ("staging_buffers", "a_muxes", "schedulers_b_muxes")


def format_rows(results: Mapping[str, Any]) -> list[Sequence[str]]:
    """Head and rows of the table."""
    return [HEADS, *([WORDS[name], *_cells(results[f"format-{name}"])] for name in FORMAT_TILES)]


def _cells(found: Any) -> list[str]:
    pes = found["rows"] * found["columns"]
    ours, theirs = (found["components"]["total"][f"{design}_ge"] / pes for design in ("tensordash", "baseline"))
    skipping = sum(found["components"][row]["tensordash_ge"] for row in SKIPPING) / pes
    ratio, speedup = found["ratio"], found["speedups"]["0.5"]
    energy = [f"{ratio['energy'][zeros]:.2f}" for zeros in ("0% zeros", "50% zeros")]
    clocks = [f"{found[design]['max_frequency_mhz']:,.0f}" for design in ("tensordash", "baseline")]
    paying = break_even(found["speedups"], ratio["area"])
    return [
        f"{found['baseline']['pe_ge']:,.0f}",
        f"{theirs:,.0f}, {ours:,.0f}",
        f"{ratio['area']:.3f}",
        f"{skipping / ours:.0%}",
        "; ".join(clocks),
        f"{ratio['clock']:.2f}",
        ", ".join(energy),
        f"{speedup:.2f}",
        f"{speedup / ratio['area']:.2f}",
        f"{speedup * ratio['clock'] / ratio['area']:.2f}",
        "never" if paying is None else f"{paying:.0%}",
    ]


def break_even(speedups: Mapping[str, float], area_ratio: float) -> float | None:
    """Share of random zeros from which speed per area is that of the baseline, interpolated; None if nowhere.

    >>> break_even({"0.0": 1.0, "0.1": 1.1, "0.2": 1.3}, 1.2)
    0.15
    >>> break_even({"0.0": 1.0, "0.1": 1.1}, 1.2) is None
    True
    """
    points = [(float(zeros), speedup) for zeros, speedup in speedups.items()]
    for (before, slower), (zeros, faster) in zip(points, points[1:], strict=False):
        if slower < area_ratio <= faster:
            return round(before + (zeros - before) * (area_ratio - slower) / (faster - slower), 4)
    return 0.0 if points[0][1] >= area_ratio else None
