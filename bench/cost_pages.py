"""Render docs/cost.json into pages. `templates/cost/NAME.md.j2` is the text after `<!-- cost: NAME -->`."""

import re
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from common import TEMPLATES, render

__all__ = ["PAGES", "REGIONS", "fill_page"]

PAGES = ("docs/cost.md", "docs/cost-tables.md", "docs/simulator.md", "docs/howto/explore-shapes.md", "README.md")
REGIONS = sorted(path.name.removesuffix(".md.j2") for path in (TEMPLATES / "cost").iterdir())
REGION = re.compile(r"(?<=<!-- cost: )([\w-]+)( -->\n).*?(?=<!-- /cost -->)", re.DOTALL)
ROWS = {
    "compute_cores": "compute cores",
    "staging_buffers": "staging buffers",
    "a_muxes": "A muxes",
    "schedulers_b_muxes": "schedulers, B muxes",
    "control": "control, drain, counters",
    "transposers": "transposer",
    "total": "total",
}
NAMES = {
    "paper": "`paper`",
    "recommended": "`recommended`",
    "recommended-2x8": "`recommended-2x8`",
    "paper-bf16": "`paper-bf16`",
    "paper-depth2": "`paper-depth2`",
    "paper-depth3": "`paper-depth3`",
    "paper-depth5": "`paper-depth5`",
    "fp8_e4m3": "`paper` in fp8_e4m3",
    "int8": "`paper` in int8",
    "both": "`paper`, sparsity both",
    "paper-16lane": "`paper-16lane`",
    "ring-3": "`recommended`, 3 steps",
    "ring-3-16lane-9": "16 lanes, ring of 3 steps, offsets 0, 1, -1",
    "ring-3-16lane": "16 lanes, ring of 3 steps, offsets 0, 1",
}
FORMAT_NAMES = {
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
CORES = ("core", "core-bf16", "core-int8", "core-wide")
WIDE_GOALS = {"four_cores": 0.67, "logic_ratio": 0.27, "dense": 1.05}
"""Largest ratios that are goals of core-wide: area over four cores', logic around the tile over the tile's, area over
the dense core's."""
SKIPPING = ("staging_buffers", "a_muxes", "schedulers_b_muxes")
DESIGNS = ("tensordash", "baseline")


def fill_page(text: str, results: Mapping[str, Any]) -> str:
    """Return a page with the results in its regions.

    Raises
    ------
    jinja2.TemplateNotFound
        If a region has no template.
    """
    values = {
        **HELPERS,
        "results": results,
        "rows": ROWS,
        "names": NAMES,
        "format_names": FORMAT_NAMES,
        "cores": {name: results[name] for name in CORES},
        "wide_goals": WIDE_GOALS,
    }
    return REGION.sub(lambda found: f"{found[1]}{found[2]}{render(f'cost/{found[1]}', **values)}\n", text)


def per_pe(document: Any, row: str, design: str = "tensordash") -> float:
    """Return the gate equivalents of a component, per PE."""
    return float(document["components"][row][f"{design}_ge"] / (document["rows"] * document["columns"]))


def added(document: Any, row: str = "total") -> float:
    """Return the gate equivalents per PE beyond the baseline's."""
    return per_pe(document, row) - per_pe(document, row, "baseline")


def skipping_share(document: Any) -> float:
    """Return the share of the tile's gates that only skipping needs."""
    return sum(per_pe(document, row) for row in SKIPPING) / per_pe(document, "total")


def run_of(document: Any, operands: str) -> Any:
    """Return the figures of power for the given operands."""
    (found,) = [run for run in document["power"] if run["operands"] == operands]
    return found


def milliwatts(document: Any, operands: str, row: str, design: str = "tensordash") -> float:
    """Return the power of a component for the given operands, in mW."""
    return 1000.0 * float(run_of(document, operands)["watts"][row][design])


def packed_power(document: Any, operands: str) -> str:
    """Compare the power of the compute cores with the baseline's, as "5% more"."""
    new, old = (milliwatts(document, operands, "compute_cores", design) for design in DESIGNS)
    return f"{abs(new / old - 1):.0%} {'more' if new >= old else 'less'}"


def delay(document: Any, role: str) -> float:
    """Return the delay of the slowest module of a role, in ns. Module names may have suffixes."""
    pattern = rf"tensordash_{role}($|__| )"
    return max(each["delay_ns"] for name, each in document["modules"].items() if re.match(pattern, name))


def paragraphs(document: Any) -> list[str]:
    """Return the paragraphs that `tensordash synth` prints: head, areas, powers, energies, summary, notes."""
    found: list[str] = document["table"].split("\n\n")
    return found


def in_one_piece(document: Any, design: str) -> float:
    """Return the area of a core with each memory in one piece, in um2."""
    more = (
        each["count"] * (document["one_piece_um2"][shape] - each["cacti"]["area_um2"])
        for shape, each in document[design]["memory_costs"].items()
    )
    return float(document[design]["area_um2"]["logic and memories, cacti"] + sum(more))


def core_totals(document: Any, design: str = "tensordash") -> dict[str, float]:
    """Return the areas of a core, and its cycles, energies and power in the training step, by name."""
    areas, step = document[design]["area_um2"], document[design]["step"]
    energies = step["energy_uj"]
    cacti, macros = (f"logic and memories, {source}" for source in ("cacti", "macros"))
    return {
        "area, logic": areas["logic"],
        "area, CACTI": areas[cacti],
        "area, macros": areas[macros],
        "cycles": step["cycles"],
        "energy, logic": energies["logic"],
        "energy, CACTI": energies[cacti],
        "energy, macros": energies[macros],
        "energy, CACTI and DRAM": energies[cacti] + energies["dram"],
        "power, logic": energies["logic"] / step["cycles"],
    }


def core_ratios(document: Any, other: Any, design: str = "tensordash") -> dict[str, float]:
    """Return a core's `core_totals` over those of another core's design.

    >>> area = {"logic": 2.0, "logic and memories, cacti": 3.0, "logic and memories, macros": 4.0}
    >>> energy = {"logic": 1.0, "logic and memories, cacti": 2.0, "logic and memories, macros": 3.0, "dram": 2.0}
    >>> core = {"tensordash": {"area_um2": area, "step": {"cycles": 10, "energy_uj": energy}}}
    >>> set(core_ratios(core, core).values())
    {1.0}
    """
    theirs = core_totals(other, design)
    return {name: total / theirs[name] for name, total in core_totals(document).items()}


def break_even(document: Any) -> str:
    """Return the share of random zeros at which speed per area equals the baseline's, by interpolation.

    >>> break_even({"speedups": {"0.0": 1.0, "0.1": 1.1, "0.2": 1.3}, "ratio": {"area": 1.2}})
    '15%'
    >>> break_even({"speedups": {"0.0": 1.0, "0.1": 1.1}, "ratio": {"area": 1.2}})
    'never'
    """
    area = document["ratio"]["area"]
    points = [(float(zeros), speedup) for zeros, speedup in document["speedups"].items()]
    for (before, slower), (zeros, faster) in pairwise(points):
        if slower < area <= faster:
            return f"{round(before + (zeros - before) * (area - slower) / (faster - slower), 4):.0%}"
    return f"{0:.0%}" if points[0][1] >= area else "never"


HELPERS = {
    each.__name__: each
    for each in (
        added,
        break_even,
        core_ratios,
        core_totals,
        delay,
        in_one_piece,
        milliwatts,
        packed_power,
        paragraphs,
        per_pe,
        run_of,
        skipping_share,
    )
}
