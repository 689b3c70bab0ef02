"""What tiles of many shapes and formats cost: the tables of docs/cost.md.

    python bench/cost.py presets    # Table IV of other formats, lanes and depths; area, clock, power, energy (hours)
    python bench/cost.py scaling    # areas over rows, columns, lanes and depth, with fits
    python bench/cost.py library --liberty FILE.lib --clock 5    # the paper's tile in another library

Results are kept in the folder of -o (build/cost): what is there is not measured again.
"""

import argparse
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from scaling_picture import fitted  # type: ignore[import-not-found]  # beside this script

from tensordash import TileConfig, load_preset
from tensordash.storage.files import write_whole
from tensordash_sim.explore import Structure, start_options
from tensordash_synth import measure_areas, synthesize

PAPER = load_preset("paper")
TILES = {name: load_preset(name) for name in ("paper", "recommended", "paper-bf16")}
TILES |= {name: load_preset(name) for name in ("paper-depth2", "paper-depth3", "paper-depth5")}
TILES |= {"fp8_e4m3": replace(PAPER, format="fp8_e4m3"), "int8": replace(PAPER, format="int8")}
TILES |= {"both": replace(PAPER, sparsity="both"), "paper-16lane": load_preset("paper-16lane")}
ROWS = {
    "compute_cores": "compute cores",
    "staging_buffers": "staging buffers",
    "a_muxes": "A muxes",
    "schedulers_b_muxes": "schedulers, B muxes",
    "control": "control, drain, counters",
    "transposers": "transposer",
    "total": "total",
}
OPTIONS = PAPER.options
SHAPES: dict[str, dict[Any, TileConfig]] = {
    "rows": {n: replace(PAPER, rows=n) for n in (1, 2, 4, 8, 16)},
    "columns": {n: replace(PAPER, columns=n) for n in (1, 2, 4, 8, 16)},
    "lanes": {n: replace(PAPER, lanes=n, connectivity=OPTIONS) for n in (4, 8, 16)},
    "depth": {n: replace(PAPER, depth=n, connectivity=start_options(Structure(4, n, 4, 4, 8))) for n in (3, 4, 5, 6)},
}


def kept(path: Path, measure: Any) -> Any:
    """A document that is there, or is measured and put there."""
    if not path.exists():
        write_whole(path, json.dumps(measure()))
    return json.loads(path.read_text(encoding="utf-8"))


def print_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """As Markdown."""
    for row in (heads, ["---"] * len(heads), *rows):
        print(f"| {' | '.join(row)} |")
    print(flush=True)


def print_presets(folder: Path) -> None:
    """One table of components, one of clock, power and energy; gate equivalents per PE: TensorDash (baseline)."""
    documents = {}
    for name, config in TILES.items():
        documents[name] = kept(folder / f"{name}.json", lambda c=config: synthesize(c, power=True).to_json())
        print_one(name, documents[name], TILES[name])
    parts: list[list[str]] = []
    figures: list[list[str]] = []
    for name, document in documents.items():
        pes = TILES[name].rows * TILES[name].columns
        cells = []
        for part in (document["components"][row] for row in ROWS):
            baseline = f" ({part['baseline_ge'] / pes:,.0f})" if part["baseline_ge"] else ""
            cells.append(f"{part['tensordash_ge'] / pes:,.0f}{baseline}")
        ratio, energy = document["ratio"], document["ratio"]["energy"] or {}
        parts.append([f"`{name}`", *cells, f"{ratio['area']:.3f}"])
        clocks = f"{document['tensordash']['max_frequency_mhz']:.0f}, {document['baseline']['max_frequency_mhz']:.0f}"
        power = "-" if ratio["power"] is None else f"{ratio['power']:.3f}"
        gains = [f"{each:.2f}" for each in energy.values()]
        figures.append([f"`{name}`", clocks, f"{ratio['clock']:.3f}", power, *gains])
    print_table(["", *ROWS.values(), "ratio"], parts)
    operands = list(next(iter(documents.values()))["ratio"]["energy"] or {})
    print_table(["", "highest clock, MHz", "ratio", "power ratio", *(f"energy, {name}" for name in operands)], figures)


def print_one(name: str, document: Any, config: TileConfig) -> None:
    """One line, while the others are measured."""
    added = document["tensordash"]["added_ge_per_pe"]
    print(f"{name}: {added:,.0f} GE added per PE of {config.lanes} lanes, ratios {document['ratio']}\n", flush=True)


def print_scaling(folder: Path) -> None:
    """A table for each parameter, and a fit of what is added per PE; bench/scaling_picture.py draws them."""
    for parameter, configs in SHAPES.items():
        points = {}
        for value, config in configs.items():
            totals = kept(
                folder / "areas" / f"{parameter}-{value}.json", lambda c=config: measure_areas(c).ge_per_pe("total")
            )
            points[value] = totals
        print_table(
            [parameter, "TensorDash", "baseline", "added", "ratio"],
            [
                [str(n), f"{sparse:,.0f}", f"{dense:,.0f}", f"{sparse - dense:,.0f}", f"{sparse / dense:.3f}"]
                for n, (sparse, dense) in points.items()
            ],
        )
        fit = fitted(parameter, {n: sparse - dense for n, (sparse, dense) in points.items()})
        slope, constant, worst = fit.slope, fit.constant, fit.worst
        over = f"{slope:,.0f} / {parameter}" if parameter in ("rows", "columns") else f"{slope:,.0f} * {parameter}"
        print(f"added per PE: {over} {'+' if constant >= 0 else '-'} {abs(constant):,.0f}; at most {worst:.1%} off\n")


def print_library(folder: Path, liberty: Path, clock: float) -> None:
    """The paper's tile in another library."""
    document = kept(
        folder / f"{liberty.stem}.json",
        lambda: synthesize(PAPER, liberty=liberty, clock_ns=clock, power=True).to_json(),
    )
    print_one(f"{liberty.stem} at {clock:g} ns", document, PAPER)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["presets", "scaling", "library"])
    parser.add_argument("-o", "--output", type=Path, default=Path("build/cost"))
    parser.add_argument("--liberty", type=Path)
    parser.add_argument("--clock", type=float, default=2.0)
    options = parser.parse_args()
    if (options.what == "library") != (options.liberty is not None):
        parser.error("--liberty goes with library, and with nothing else")
    if options.what == "presets":
        print_presets(options.output)
    elif options.what == "scaling":
        print_scaling(options.output)
    else:
        print_library(options.output, options.liberty, options.clock)
