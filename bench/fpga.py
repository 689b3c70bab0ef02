"""Place tiles and a core on an FPGA, and write the tables in section "On an FPGA" of docs/cost-tables.md.

    python bench/fpga.py                 # place the designs that docs/fpga.json lacks, then write the page
    python bench/fpga.py int8            # only these designs
    python bench/fpga.py --write         # place nothing, write the page

The bench stores each result in docs/fpga.json at once, and does not measure it again after an interruption. One
placement runs at a time.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from common import argument_parser, load_figures, render, replace_between, store_figures
from tensordash import TileConfig, load_preset
from tensordash.configuration.core_config import CoreConfig
from tensordash_storage.files import atomic_write
from tensordash_synth import place_fpga

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "docs" / "fpga.json"
PAGE = ROOT / "docs" / "cost-tables.md"
BEGIN = "<!-- fpga -->"
END = "<!-- /fpga -->"
TARGET = "ecp5"

TILE = TileConfig(rows=2, columns=2, registered_ready=True)
PE = replace(TILE, rows=1, columns=1)
CORE = CoreConfig(
    tile=TileConfig(format="fp8_e4m3", staging="ring", counters="snapshot", pipeline=3),
    buffer=16,
    stream_buffer=4,
    axi_bits=64,
    window=4,
    outstanding=4,
    prefetch=2,
)
SHALLOW = load_preset("paper-depth2")
DESIGNS: dict[str, TileConfig | CoreConfig] = {
    "int8, 2 x 2": replace(TILE, format="int8"),
    "int8": replace(PE, format="int8"),
    "fp8_e4m3": replace(PE, format="fp8_e4m3"),
    "fp8_e4m3, 3 stages": replace(PE, format="fp8_e4m3", pipeline=3),
    "fp8_e4m3, hopper-fp8": replace(PE, format="fp8_e4m3", accumulator="hopper-fp8"),
    "fp16": PE,
    "fp16, 3 stages": replace(PE, pipeline=3),
    "bf16, hopper": replace(PE, format="bf16", accumulator="hopper"),
    "core, fp8_e4m3, 3 stages": CORE,
    "core, fp8_e4m3, 3 stages, 2 deep": replace(
        CORE, tile=replace(CORE.tile, depth=SHALLOW.depth, connectivity=SHALLOW.connectivity)
    ),
}
"""Designs, named by their differences from `PE`. They are small because routing is slow. A core has at least 16 PEs."""
ONLY_PLACED = ("core, fp8_e4m3, 3 stages",)
"""Designs whose clock is estimated after placement: nextpnr was stopped after 54 minutes of routing."""


def cached_results() -> dict[str, Any]:
    """Return the contents of docs/fpga.json."""
    return load_figures(RESULTS)


def measure(names: Iterable[str]) -> None:
    """Place designs, and store each result at once."""
    for name in names:
        config = DESIGNS[name]
        if cached_results().get(name, {}).get("config") == config.digest:
            print(f"{name}: up to date", flush=True)
            continue
        report = place_fpga(config, TARGET, route=name not in ONLY_PLACED, jobs=1, progress=print)
        results = {**cached_results(), name: report.to_json()}
        store_figures(RESULTS, {each: results[each] for each in DESIGNS if each in results})


def fill_page(text: str, results: Mapping[str, Any]) -> str:
    """Return the page with current tables."""
    return replace_between(text, BEGIN, END, render("fpga", results=results, target=TARGET))


def main() -> None:
    """Run the command."""
    parser = argument_parser(__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"designs, of {'; '.join(DESIGNS)} (default: all)")
    parser.add_argument("--write", action="store_true", help="place nothing, write the page")
    options = parser.parse_args()
    if unknown := [name for name in options.names if name not in DESIGNS]:
        parser.error(f"NAME must be one of {'; '.join(DESIGNS)}, not {unknown[0]}")
    if not options.write:
        measure(options.names or DESIGNS)
    atomic_write(PAGE, fill_page(PAGE.read_text(encoding="utf-8"), cached_results()))
    if missing := [name for name in DESIGNS if name not in cached_results()]:
        print(f"not placed yet, and not on the page: {'; '.join(missing)}")


if __name__ == "__main__":
    main()
