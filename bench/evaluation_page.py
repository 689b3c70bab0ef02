"""Write the tables of docs/evaluation.md from docs/evaluation-tables.md, which `make evaluate` writes.

python bench/evaluation_page.py
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import takewhile

from common import DOCS, replace_between
from tensordash_sim.evaluation.texts import render
from tensordash_storage.files import atomic_write

TABLES = DOCS / "evaluation-tables.md"
PAGE = DOCS / "evaluation.md"

Rows = Mapping[str, Mapping[str, str]]
"""The cells of a table by row and column."""


@dataclass(frozen=True)
class Cell:
    """A figure of the summary.

    Attributes
    ----------
    label : str
        Name of the figure in the summary.
    figure, metric, row, column : str
        Place in docs/evaluation-tables.md: the section, the head of the table's first column, the row and the column.
    """

    label: str
    figure: str
    metric: str
    row: str
    column: str


RATIO = "TensorDash over the baseline"
EFFICIENCY = "energy efficiency"
MEMORY = "none"
"""The column of a chip without further measures, in the tables of the figure `system`."""
PLACES = {
    "losses": (
        Cell("speedup of tiles, mean of the paper's eight networks", "fig8", "speedup", "mean", "all"),
        Cell("speedup of tiles, network with the fewest zeros (gcn)", "gcn", "speedup", "all", "gcn"),
        Cell(
            "speedup of a chip of `recommended`, the paper's DRAM (25.6 GB/s)",
            "system",
            "speedup, 25.6 GB/s",
            "mean",
            MEMORY,
        ),
        Cell("the same, DRAM at 256 GB/s", "system", "speedup, 256 GB/s", "mean", MEMORY),
        Cell("area over the dense tile", "table4", RATIO, "area", "ratio"),
        Cell("power over the dense tile, without zeros", "table4", RATIO, "power", "ratio"),
        Cell(
            "energy efficiency of the chip's logic, constant power",
            "fig10",
            "energy efficiency",
            "mean",
            "core, constant power",
        ),
        Cell("energy efficiency of the chip's logic", "fig10", EFFICIENCY, "mean", "core"),
        Cell("energy efficiency of the chip", "fig10", EFFICIENCY, "mean", "chip"),
        Cell(
            "energy efficiency of the chip, tiles that wait draw power",
            "fig10",
            EFFICIENCY,
            "mean",
            "chip, with idle tiles",
        ),
        Cell(
            "energy efficiency of the chip, tiles at the paper's power",
            "fig10",
            "energy efficiency",
            "mean",
            "chip, core at the paper's power",
        ),
        Cell("the chip, all values zero", "fig15", "chip energy efficiency", "0.9999", "expand1x1"),
        Cell("speedup with 16 lanes and 3 steps", "fig14", "speedup", "mean", "paper-16lane"),
    ),
    "agreement": (
        Cell("speedup at 20% random zeros", "fig15", "speedup", "0.2", "endless streams"),
        Cell("speedup at 90% random zeros", "fig15", "speedup", "0.9", "endless streams"),
        Cell("speedup at 99% random zeros", "fig15", "speedup", "0.99", "endless streams"),
        Cell("one row a tile, relative to 4", "fig13", "speedup, relative to 4, by rows", "mean", "1"),
        Cell("16 rows a tile, relative to 4", "fig13", "speedup, relative to 4, by rows", "mean", "16"),
        Cell("5 steps in the window, relative to 4", "fig12", "speedup, relative to 4, by depth", "mean", "5"),
        Cell("2 steps in the window, relative to 4", "fig12", "speedup, relative to 4, by depth", "mean", "2"),
        Cell("worst of 40 drawn connectivities", "connectivity", "range of drawn patterns", "lowest", "random zeros"),
        Cell("best of 40 drawn connectivities", "connectivity", "range of drawn patterns", "highest", "random zeros"),
    ),
    "beyond": (
        Cell("speedup of `recommended`", "recommended", "speedup", "mean", "recommended"),
        Cell("speedup of `recommended-2x8`", "recommended", "speedup", "mean", "recommended-2x8"),
        Cell("rows grouped by density, on a single tile", "roworder", "speedup", "mean", "density"),
        Cell("rows in natural order, on a single tile", "roworder", "speedup", "mean", "natural"),
    ),
}
"""The figures of each table, except the table of networks."""
NETWORK_COLUMNS = {
    "zeros alone": ("fig1", "speedup", "all"),
    "tiles": ("fig8", "speedup", "all"),
    "chip with `recommended`, 256 GB/s": ("system", "speedup, 256 GB/s", MEMORY),
    "energy efficiency, logic": ("fig10", EFFICIENCY, "core"),
    "of the chip, with idle tiles": ("fig10", EFFICIENCY, "chip, with idle tiles"),
}
"""The columns of the table of networks: figure, metric and column."""


def tables_of(text: str) -> dict[str, list[tuple[str, Rows]]]:
    """Return the tables of each figure, with the head of their first column."""
    found: dict[str, list[tuple[str, Rows]]] = {}
    for section in text.split("\n## ")[1:]:
        name = section.partition("\n")[0].partition(":")[0]
        for table in re.findall(r"(?:^\|.*\|\n)+", section + "\n", re.MULTILINE):
            head, _, *rows = ([cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines())
            cells = {row: dict(zip(head[1:], values, strict=True)) for row, *values in rows}
            found.setdefault(name, []).append((head[0], cells))
    return found


def cell_of(tables: Mapping[str, list[tuple[str, Rows]]], figure: str, metric: str, row: str, column: str) -> str:
    """Return a cell as on the page: our figure, and in brackets the paper's if there is one."""
    return next(rows for head, rows in tables[figure] if head == metric)[row][column]


def fill_page(text: str, tables: str) -> str:
    """Return the page with its tables."""
    found = tables_of(tables)
    for name, cells in PLACES.items():
        rows = []
        for each in cells:
            ours, _, papers = cell_of(found, each.figure, each.metric, each.row, each.column).partition(" (")
            rows.append((each.label, ours, papers.rstrip(")"), each.figure))
        table = render("table", heads=["", "ours", "the paper's", "table"], rows=rows)
        text = replace_between(text, f"<!-- {name} -->", f"<!-- /{name} -->", table.rstrip("\n"))
    names = list(takewhile(lambda name: name != "mean", found["fig8"][0][1]))
    names.sort(key=lambda name: float(cell_of(found, "fig8", "speedup", name, "all")))
    networks = [
        (name, *(cell_of(found, figure, metric, name, column) for figure, metric, column in NETWORK_COLUMNS.values()))
        for name in (*names, "mean")
    ]
    table = render("table", heads=["network", *NETWORK_COLUMNS], rows=networks)
    return replace_between(text, "<!-- networks -->", "<!-- /networks -->", table.rstrip("\n"))


if __name__ == "__main__":
    atomic_write(PAGE, fill_page(PAGE.read_text(encoding="utf-8"), TABLES.read_text(encoding="utf-8")))
