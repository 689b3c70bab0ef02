"""What docs/cost.md says of tiles that differ in their numbers: the parts `format-...` of docs/cost.json."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from format_tiles import FORMAT_TILES  # type: ignore[import-not-found]  # beside this script

__all__ = ["format_rows", "format_words", "quantiser_words"]

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


def format_words(results: Mapping[str, Any]) -> list[str]:
    """Paragraphs of conclusions."""

    def of(name: str, figure: str) -> Any:
        return results[f"format-{name}"]["ratio"][figure]

    def pays(name: str) -> str:
        found = results[f"format-{name}"]
        paying = break_even(found["speedups"], found["ratio"]["area"])
        return "never" if paying is None else f"{paying:.0%}"

    def added(name: str) -> float:
        found = results[f"format-{name}"]
        total = found["components"]["total"]
        return float(total["tensordash_ge"] - total["baseline_ge"]) / (found["rows"] * found["columns"])

    def in_pe(name: str) -> float:
        found = results[f"format-{name}"]
        cores = found["components"]["compute_cores"]
        return float(cores["tensordash_ge"] - cores["baseline_ge"]) / (found["rows"] * found["columns"])

    def areas(*names: str) -> str:
        return ", ".join(f"{of(name, 'area'):.2f}" for name in names)

    def without_zeros(name: str) -> str:
        return f"{of(name, 'energy')['0% zeros']:.2f}"

    return [
        f"- **From 16 bits down to 8, skipping pays where a seventh to a fifth of the values are zero**: it adds "
        f"{added('fp16-exact'):,.0f} GE a PE to fp16, {added('fp8-exact'):,.0f} to fp8_e4m3, "
        f"{added('int8-exact'):,.0f} to int8 and {added('fp4-exact'):,.0f} to four bits, and the PEs shrink faster. "
        f"Area pays from {pays('fp16-exact')} zeros in fp16, {pays('bf16-hopper')} in bf16, {pays('fp8-exact')} in "
        f"fp8_e4m3, {pays('int8-exact')} in int8 and {pays('fp4-exact')} in four bits without scales.",
        f"- **A scale that is a power of two** is added to a block's exponent once in a dense PE, and to that of each "
        f"lane's product where any lane may be promoted from any step: {in_pe('mxfp8'):,.0f} GE a PE in MXFP8, "
        f"{in_pe('mxfp6'):,.0f} in MXFP6, {in_pe('mxfp4'):,.0f} in MXFP4. Their area ratios are "
        f"{areas('mxfp8', 'mxfp6', 'mxfp4')}, although a "
        "fused accumulator, the same in both, is most of the PE.",
        f"- **A scale that is no power of two does not go with lookahead**: NVFP4's is multiplied with the sum of a "
        f"block in a dense tile, and in a TensorDash tile with a sum of each step of the window, since any lane may be "
        f"promoted from any of them: {areas('nvfp4')} times the area, which pays from {pays('nvfp4')} zeros.",
        f"- **Sharing a row's schedule over more columns** helps where PEs are small: from 4 columns to 16, int8 goes "
        f"from {areas('int8-exact')} to {areas('int8-16-columns')}, four bits from {areas('fp4-exact')} to "
        f"{areas('fp4-16-columns')}, MXFP4 from {areas('mxfp4')} to {areas('mxfp4-8-columns', 'mxfp4-16-columns')} "
        f"(8 and 16), NVFP4 from {areas('nvfp4')} to {areas('nvfp4-8-columns', 'nvfp4-16-columns')}, whose scales are "
        "in every PE.",
        f"- **Without zeros skipping costs energy**: fp16 gains {without_zeros('fp16-exact')}, fp8_e4m3 "
        f"{without_zeros('fp8-exact')}, int8 {without_zeros('int8-exact')}, MXFP8 {without_zeros('mxfp8')}, MXFP4 "
        f"{without_zeros('mxfp4')}, NVFP4 {without_zeros('nvfp4')}.",
    ]


def quantiser_words(results: Mapping[str, Any]) -> str:
    """What it costs to make blocks."""
    four, sixteen = (results[f"quantiser-{name}"] for name in ("mxfp8", "mxfp4"))
    tile = results["format-mxfp8"]["components"]["total"]["tensordash_ge"]
    return (
        f"The block quantiser takes {four['ge']:,.0f} GE for 4 lanes of MXFP8 ({four['ge'] / tile:.1%} of that tile) "
        f"and {sixteen['ge']:,.0f} for 16 lanes of MXFP4, and reaches {1000 / four['fastest_ns']:,.0f} and "
        f"{1000 / sixteen['fastest_ns']:,.0f} MHz."
    )


def break_even(speedups: Mapping[str, float], area_ratio: float) -> float | None:
    """Share of random zeros from which speed per area is that of the baseline, interpolated; None if nowhere.

    >>> break_even({"0.0": 1.0, "0.1": 1.1, "0.2": 1.3}, 1.2)
    0.15
    >>> break_even({"0.0": 1.0, "0.1": 1.1}, 1.2) is None
    True
    """
    points = [(float(zeros), speedup) for zeros, speedup in speedups.items()]
    for (before, slower), (zeros, faster) in pairwise(points):
        if slower < area_ratio <= faster:
            return round(before + (zeros - before) * (area_ratio - slower) / (faster - slower), 4)
    return 0.0 if points[0][1] >= area_ratio else None
