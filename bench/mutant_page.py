"""Write the results of mutants into docs/verification.md, and of faults into docs/faults.md.

make mutate                          # hours: writes build/mutate.json and build/mutate-by-hand.json
python bench/mutant_page.py build    # write docs/mutants.json and docs/faults.json from it, and both pages
python bench/mutant_page.py          # write only the pages
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from common import DOCS, argument_parser, load_figures, measured_at, render, replace_between, store_figures
from tensordash.configuration.core_config import CoreConfig
from tensordash_formal.campaigns import full_campaigns
from tensordash_formal.wiring import KINDS
from tensordash_storage.files import atomic_write

RESULTS = DOCS / "mutants.json"
PAGE = DOCS / "verification.md"
FAULT_RESULTS = DOCS / "faults.json"
FAULT_PAGE = DOCS / "faults.md"
COMMAND = "make mutate"


def row_of(name: str, kind: str, is_core: bool) -> str:
    """Return the table's row of a campaign."""
    if not is_core:
        return "tiles, bits and wires"
    if name == "core":
        return "wires between a core's units"
    return "bits of a core's units" if kind == "bits" else "wires in a core's units"


def summary(mutants: Iterable[Mapping[str, str]]) -> dict[str, dict[str, int]]:
    """Count outcomes by row of the table from the mutants of `mutate.json`."""
    cores = {each.name for each in full_campaigns() if isinstance(each.config, CoreConfig)}
    rows: dict[str, Counter[str]] = {}
    for each in mutants:
        kind = "wires" if each["kind"] in KINDS else "bits"
        rows.setdefault(row_of(each["campaign"], kind, each["campaign"] in cores), Counter())[each["outcome"]] += 1
    return {name: dict(counts) for name, counts in rows.items()}


def fill_page(text: str, results: Mapping[str, Any]) -> str:
    """Return the page with its table."""
    return replace_between(text, "<!-- mutants -->", "<!-- /mutants -->", render("mutants", **results))


def with_fault_results(text: str, results: Mapping[str, Any]) -> str:
    """Return docs/faults.md with the results of its faults, if they are stored."""
    return replace_between(text, "<!-- results -->", "<!-- /results -->", render("faults", results=results))


def main() -> None:
    """Run the command."""
    parser = argument_parser(__doc__)
    parser.add_argument("folder", nargs="?", type=Path, help="folder with mutate.json, mutate-by-hand.json, or both")
    folder = parser.parse_args().folder
    if folder is not None:
        measured = measured_at()
        if mutants := load_figures(folder / "mutate.json"):
            rows = {name: {"outcomes": counts, **measured} for name, counts in summary(mutants["mutants"]).items()}
            store_figures(RESULTS, {"command": COMMAND, "rows": {**load_figures(RESULTS)["rows"], **rows}})
        if faults := load_figures(folder / "mutate-by-hand.json"):
            counts = Counter(each["result"] for each in faults["faults"])
            store_figures(FAULT_RESULTS, {"command": COMMAND, **measured, "results": dict(counts)})
    for page, results, write in ((PAGE, RESULTS, fill_page), (FAULT_PAGE, FAULT_RESULTS, with_fault_results)):
        atomic_write(page, write(page.read_text(encoding="utf-8"), load_figures(results)))


if __name__ == "__main__":
    main()
