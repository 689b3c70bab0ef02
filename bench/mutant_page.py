"""Write the results of mutants into docs/verification.md.

make mutate                                      # hours: writes build/mutate.json
python bench/mutant_page.py build/mutate.json    # docs/mutants.json, with command, commit and date, and the page
python bench/mutant_page.py                      # the page from docs/mutants.json
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from common import DOCS, argument_parser, load_figures, measured_at, render, replace_between, store_figures
from tensordash.configuration.core_config import CoreConfig
from tensordash_formal.campaigns import Campaign, full_campaigns
from tensordash_formal.wiring import KINDS
from tensordash_storage.files import atomic_write

RESULTS = DOCS / "mutants.json"
PAGE = DOCS / "verification.md"


def row_of(name: str, kind: str, is_core: bool) -> str:
    """Return the table's row of a campaign."""
    if not is_core:
        return "tiles, bits and wires"
    if name == "core":
        return "wires between a core's units"
    return "bits of a core's units" if kind == "bits" else "wires in a core's units"


def mutants_by_row(campaigns: Iterable[Campaign]) -> dict[str, int]:
    """Count the mutants of each row of the table."""
    rows: Counter[str] = Counter()
    for each in campaigns:
        count = sum(count for _, count in each.parts)
        rows[row_of(each.name, each.kind, isinstance(each.config, CoreConfig))] += count
    return dict(rows)


def summary(mutants: Iterable[Mapping[str, str]]) -> dict[str, dict[str, int]]:
    """Count outcomes by row of the table, from the mutants of `mutate.json`."""
    cores = {each.name for each in full_campaigns() if isinstance(each.config, CoreConfig)}
    rows: dict[str, Counter[str]] = {}
    for each in mutants:
        kind = "wires" if each["kind"] in KINDS else "bits"
        rows.setdefault(row_of(each["campaign"], kind, each["campaign"] in cores), Counter())[each["outcome"]] += 1
    return {name: dict(counts) for name, counts in rows.items()}


def written(text: str, results: Mapping[str, Any]) -> str:
    """Return the page with its table."""
    return replace_between(text, "<!-- mutants -->", "<!-- /mutants -->", render("mutants", **results))


def main() -> None:
    """Run the command."""
    parser = argument_parser(__doc__)
    parser.add_argument("report", nargs="?", type=Path, help="mutate.json of make mutate")
    report = parser.parse_args().report
    if report is not None:
        rows = summary(load_figures(report)["mutants"])
        store_figures(RESULTS, {"command": "make mutate", **measured_at(), "rows": rows})
    atomic_write(PAGE, written(PAGE.read_text(encoding="utf-8"), load_figures(RESULTS)))


if __name__ == "__main__":
    main()
