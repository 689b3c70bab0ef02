"""Measure the costs of tiles: every figure of synthesis in docs and README.md.

    python bench/cost.py                  # measure what is out of date, then write the pages and docs/scaling.svg
    python bench/cost.py paper numerics   # only these parts, if they are out of date
    python bench/cost.py --check          # measure nothing: list parts and pages that are out of date

docs/cost.json stores the results by part. An interrupted run continues. A part with the same Verilog and recipe is not
measured a second time. `--jobs` processes run at a time. The bench prints and stores each part's CPU time.
"""

import hashlib
import json
import resource
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from common import argument_parser, core_preset, load_figures, output_of, store_figures
from cost_pages import CORES, PAGES, fill_page
from format_tiles import CLOCK_NS, FORMAT_TILES, measured
from scaling_picture import draw, tables
from tensordash import TileConfig, load_preset
from tensordash.configuration.core_config import CoreConfig
from tensordash.emission.core_files import core_verilog
from tensordash.emission.verilog import render
from tensordash_sim.cycles import random_counts
from tensordash_sim.performance.explore import Structure, start_options
from tensordash_storage.files import atomic_write
from tensordash_synth import (
    core_cost_table,
    cost_table,
    default_liberty,
    every_numerics,
    load_liberty,
    measure_areas,
    numerics_costs,
    numerics_table,
    sweep_table,
    synthesize,
    synthesize_core,
)
from tensordash_synth.cache import recipe_digest
from tensordash_synth.cacti import cacti_digest
from tensordash_synth.core_training import memory_ports, memory_size
from tensordash_synth.hierarchy import Hierarchy
from tensordash_synth.memories import MACROS, MIN_PART_BITS, PARTS, memory_costs, side_by_side
from tensordash_synth.run import running

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "docs" / "cost.json"
OSU018 = Path("/usr/share/qflow/tech/osu018/osu018_stdcells.lib")  # apt: qflow-tech-osu018

PAPER = load_preset("paper")
RECOMMENDED = load_preset("recommended")
PRESETS = (
    "paper",
    "recommended",
    "recommended-2x8",
    "paper-bf16",
    "paper-depth2",
    "paper-depth3",
    "paper-depth5",
    "paper-16lane",
)
WITH_POWER = {name: load_preset(name) for name in PRESETS} | {
    "fp8_e4m3": replace(PAPER, format="fp8_e4m3"),
    "int8": replace(PAPER, format="int8"),
    "both": replace(PAPER, sparsity="both"),
}
RING3 = ((0, 0), (1, 1), (1, 0), (2, 0), (2, 1))
RING3_OF_9 = ((0, 0), (1, 0), (1, 1), (1, -1), (2, 0), (2, 1), (2, -1))
WIDE = replace(load_preset("paper-16lane"), staging="ring", connectivity=RING3)
RINGS = {
    "ring-3": replace(RECOMMENDED, depth=3, connectivity=RING3),
    "ring-3-16lane": WIDE,
    "ring-3-16lane-9": replace(WIDE, connectivity=RING3_OF_9),
}
WITH_IDLE = ("paper", "recommended")
SWEPT = {"sweep-paper": PAPER, "sweep-recommended": RECOMMENDED}
QUANTISERS = ("mxfp8", "mxfp4")
QUANTISER = ("tensordash_block_quantiser.v", "tensordash_block_quantiser")
CLOCKS = (1.0, 1.25, 2.0)
SLOWER_NS = 3.0
SLOWER = {("fp16", "exact"), ("fp16", "volta"), ("bf16", "volta"), ("fp8_e4m3", "exact"), ("fp8_e4m3", "volta")}
SHAPES: dict[str, dict[int, TileConfig]] = {
    "rows": {n: replace(PAPER, rows=n) for n in (1, 2, 4, 8, 16)},
    "columns": {n: replace(PAPER, columns=n) for n in (1, 2, 4, 8, 16)},
    "lanes": {n: replace(PAPER, lanes=n, connectivity=PAPER.options) for n in (4, 8, 16)},
    "depth": {n: replace(PAPER, depth=n, connectivity=start_options(Structure(4, n, 4, 4, 8))) for n in (3, 4, 5, 6)},
}
CORE_FIGURES = (
    "label",
    "cycles",
    "speedup",
    "over_dense",
    "area_ratio",
    "area_over_dense",
    "speed_per_area",
    "on_front",
    "ties",
)
"""Figures of each core that a search compares, for the page."""


@dataclass(frozen=True)
class Part:
    """Figures that are measured together.

    Attributes
    ----------
    configs : tuple of TileConfig or CoreConfig
        Configurations that are mapped, with their baselines.
    measure : callable
        Returns the figures for a number of jobs.
    conditions : str
        Further conditions of the figures.
    tops : tuple of (file, module)
        Mapped modules of a tile.
    """

    configs: tuple[TileConfig | CoreConfig, ...]
    measure: Callable[[int], Any]
    conditions: str = ""
    tops: tuple[tuple[str, str], ...] = (
        ("tensordash.v", "tensordash_tile"),
        ("tensordash_transposer.v", "tensordash_transposer"),
    )

    def source(self) -> str:
        """Return a hash of everything that determines the figures: Verilog, recipe and conditions."""
        hashed = hashlib.sha256(f"{recipe_digest()} {self.conditions}".encode())
        for config in dict.fromkeys(each for whole in self.configs for each in (whole, whole.baseline)):
            if isinstance(config, CoreConfig):
                hashed.update(Hierarchy(core_verilog(config), "tensordash_core").flattened_source.encode())
                continue
            files = render(config)
            for file, top in self.tops:
                hashed.update(Hierarchy(files[file], top).flattened_source.encode())
        return hashed.hexdigest()[:16]


def _tile(config: TileConfig, jobs: int, power: bool = True, liberty: Path | None = None, clock: float = 2.0) -> Any:
    report = synthesize(config, power=power, liberty=liberty, clock_ns=clock, jobs=jobs)
    document = report.to_json()
    if power and document["power"] is None:
        raise SystemExit(f"power: {report.power_reason}")
    half = random_counts(config, zeros=0.5, steps=200_000, length=200_000)
    shape = {"rows": config.rows, "columns": config.columns, "speedup_at_half": round(half.speedup, 4)}
    return {**document, **shape, "table": cost_table(report)}


def _sweep(config: TileConfig, jobs: int) -> Any:
    reports = [synthesize(config, clock_ns=clock, jobs=jobs) for clock in CLOCKS]
    return {"table": sweep_table(reports), "reports": [report.to_json() for report in reports]}


def _numerics(configs: Iterable[TileConfig], clock: float, jobs: int) -> Any:
    report = numerics_costs(list(configs), clock_ns=clock, jobs=jobs)
    return {**report.to_json(), "table": numerics_table(report)}


def _core(config: CoreConfig, jobs: int) -> Any:
    report = synthesize_core(config, power=True, jobs=jobs)
    if reason := report.memories_reason or report.step_reason:
        raise SystemExit(f"core: {reason}")
    document = report.to_json()
    # The pages compare areas of memories with the other number of ports, of memories in one piece, and of the dense
    # core's streams in one memory with two ports.
    other, one_piece = {}, {}
    for shape in {**document["tensordash"]["memory_costs"], **document["baseline"]["memory_costs"]}:
        words, bits = memory_size(shape)
        one_piece[shape] = round(side_by_side(words, bits, memory_ports(shape), 1).area_um2, 1)
        other[shape] = round(memory_costs(words, bits, ports=3 - memory_ports(shape))["cacti"].area_um2, 1)
    words, bits = config.baseline.stream_words("a"), config.baseline.step_bits("a")
    whole = round(memory_costs(words, bits)["cacti"].area_um2, 1)
    more = {"other_ports_um2": other, "one_piece_um2": one_piece, "dense_stream_um2": whole}
    return {**document, **more, "table": core_cost_table(report)}


def _format(config: TileConfig, jobs: int) -> Any:
    return measured(config, _tile(config, jobs, clock=CLOCK_NS))


def _quantiser(config: TileConfig, jobs: int) -> Any:
    file, top = QUANTISER
    hierarchy = Hierarchy(render(config)[file], top)
    with running(None, 2.0, None, jobs) as run:
        mapped, fastest = run.map_flattened(hierarchy, "block quantiser")
        return {
            "ge": round(mapped.area_um2 / run.library.gate_area, 1),
            "delay_ns": round(mapped.delay_ns, 4),
            "fastest_ns": round(fastest.delay_ns, 4),
        }


def _scaling(jobs: int) -> Any:
    return {
        parameter: {str(n): measure_areas(config, jobs=jobs).ge_per_pe("total") for n, config in configs.items()}
        for parameter, configs in SHAPES.items()
    }


def _explore() -> Any:
    """Return the output of a search for tiles without the line that names its folder."""
    printed = output_of("explore", "-o", str(ROOT / "build" / "explore"))
    return {"table": "\n".join(line.rstrip() for line in printed.splitlines() if not line.startswith("*:"))}


def _explore_cores(jobs: int | None) -> Any:
    """Return the figures of a search for cores."""
    arguments = ("--preset", "core", "--jobs", str(jobs or 2), "-o", str(ROOT / "build" / "explore-cores"))
    points = json.loads(output_of("explore", *arguments, "--json"))["points"]
    (wide,) = (point for point in points if point["label"].startswith("core-wide: "))
    return {
        "points": [{name: point[name] for name in CORE_FIGURES if name in point} for point in points],
        "wide_products": [
            {name: each[name] for name in ("layer", "operation", "cycles", "speedup", "limit")}
            for each in wide["products"]
        ],
    }


def parts() -> dict[str, Part]:
    """Return all parts, the quick ones first."""
    cores = tuple(every_numerics(PAPER))
    slower = tuple(core for core in cores if (core.format, core.accumulator) in SLOWER)
    found = {
        "numerics": Part(cores, lambda jobs: _numerics(cores, 2.0, jobs)),
        "numerics-slower": Part(slower, lambda jobs: _numerics(slower, SLOWER_NS, jobs)),
    }
    for name, config in WITH_POWER.items():
        # Only these two have the power of waiting tiles, which pages use.
        found[name] = Part((config,), partial(_tile, config), "power, idle" if name in WITH_IDLE else "power")
    for name, config in RINGS.items():
        found[name] = Part((config,), partial(_tile, config, power=False))
    for name, config in FORMAT_TILES.items():
        found[f"format-{name}"] = Part((config,), partial(_format, config), f"power {CLOCK_NS}")
    for name in QUANTISERS:
        config = load_preset(name)
        found[f"quantiser-{name}"] = Part((config,), partial(_quantiser, config), tops=(QUANTISER,))
    for name, config in SWEPT.items():
        found[name] = Part((config,), partial(_sweep, config), str(CLOCKS))
    every = tuple(config for configs in SHAPES.values() for config in configs.values())
    found["scaling"] = Part(every, _scaling)
    found["osu018"] = Part((PAPER,), lambda jobs: _tile(PAPER, jobs, liberty=OSU018, clock=5.0), "osu018")
    memories = f"{cacti_digest()} {MACROS} {PARTS} {MIN_PART_BITS}, other ports, one piece"
    for name in CORES:
        core = core_preset(name)
        found[name] = Part((core,), partial(_core, core), f"core {memories}")
    compared = tuple(core_preset(name) for name in ("core", "core-wide"))
    found["explore-cores"] = Part(compared, _explore_cores, f"explore {memories}")
    found["explore"] = Part(tuple(WITH_POWER.values()), lambda jobs: _explore(), "explore")
    return found


def cached_results() -> dict[str, Any]:
    """Return the contents of docs/cost.json."""
    return load_figures(RESULTS)


def _cpu_seconds() -> float:
    """Return the user time of this process and of its finished children."""
    return sum(resource.getrusage(who).ru_utime for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


def measure(names: Iterable[str], jobs: int) -> None:
    """Measure parts, store each one, and print its CPU time."""
    every = parts()
    for name in names:
        source = every[name].source()
        if cached_results().get(name, {}).get("source") == source:
            print(f"{name}: up to date", flush=True)
            continue
        began = _cpu_seconds()
        print(f"{name}: measuring", flush=True)
        figures = every[name].measure(jobs)
        entry = {"source": source, "cpu_seconds": round(_cpu_seconds() - began), "figures": _without_notes(figures)}
        store_figures(RESULTS, dict(sorted({**cached_results(), name: entry}.items())))
        print(f"{name}: {entry['cpu_seconds']} s of CPU", flush=True)


def _without_notes(figures: Any) -> Any:
    return {key: value for key, value in figures.items() if key not in ("notes", "power_reason")}


def write() -> None:
    """Update the pages from the cached results."""
    results = {name: entry["figures"] for name, entry in cached_results().items()}
    for page in PAGES:
        path = ROOT / page
        atomic_write(path, fill_page(path.read_text(encoding="utf-8"), results))
    draw(tables((ROOT / "docs/cost-tables.md").read_text(encoding="utf-8")), ROOT / "docs/scaling.svg")


def check() -> bool:
    """Print the parts with other Verilog or another recipe, and the pages that differ from the stored results."""
    have = cached_results()
    results = {name: entry["figures"] for name, entry in have.items()}
    late = [name for name, part in parts().items() if have.get(name, {}).get("source") != part.source()]
    other = [page for page in PAGES if (text := (ROOT / page).read_text(encoding="utf-8")) != fill_page(text, results)]
    print(f"out of date: {', '.join(late) or 'nothing'}; pages that differ: {', '.join(other) or 'none'}")
    return not late and not other


def main() -> None:
    """Run the command."""
    parser = argument_parser(__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"any of {', '.join(parts())}")
    parser.add_argument("--check", action="store_true", help="measure and write nothing")
    parser.add_argument("--jobs", type=int, default=None, help="processes at a time (default: one per core)")
    options = parser.parse_args()
    if unknown := [name for name in options.parts if name not in parts()]:
        parser.error(f"PART must be one of {', '.join(parts())}, not {', '.join(unknown)}")
    if options.check:
        sys.exit(not check())
    load_liberty(default_liberty())
    load_liberty(OSU018)
    measure(options.parts or parts(), options.jobs)
    if missing := [name for name in parts() if name not in cached_results()]:
        sys.exit(f"the pages are unchanged, because these parts are not measured yet: {', '.join(missing)}")
    write()


if __name__ == "__main__":
    main()
