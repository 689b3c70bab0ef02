"""Draw the tables of section "Scaling" in docs/cost-tables.md: added area per PE, and a fit.

python bench/scaling_picture.py [FILE.svg]    # reads docs/cost-tables.md, writes docs/scaling.svg
"""

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tensordash_sim.plots import COLORS, style, use_integer_ticks
from tensordash_storage.files import atomic_path

DOCS = Path(__file__).parents[1] / "docs"
PARAMETERS = ("rows", "columns", "lanes", "depth")


@dataclass(frozen=True)
class Fit:
    """Added area per PE by a parameter n: slope / n + constant for rows and columns, slope * n + constant otherwise.

    Attributes
    ----------
    slope, constant : float
        Gate equivalents.
    """

    slope: float
    constant: float


def terms(parameter: str, at: np.ndarray) -> np.ndarray:
    """Return the fit's variable: 1 / n for rows and columns, which share the added area; n for lanes and steps."""
    return 1 / at if parameter in ("rows", "columns") else at


def fitted(parameter: str, added: Mapping[int, float]) -> Fit:
    """Fit the points of a parameter by least squares."""
    at, heights = np.array(list(added), float), np.array(list(added.values()))
    found = terms(parameter, at)
    (slope, constant), *_ = np.linalg.lstsq(np.stack([found, np.ones_like(at)], axis=1), heights, rcond=None)
    return Fit(float(slope), float(constant))


def tables(text: str) -> dict[str, dict[int, float]]:
    """Return the cost added per PE, by parameter and value, from the section "Scaling"."""
    section = text.split("## Scaling")[1].split("\n## ")[0]
    found: dict[str, dict[int, float]] = {}
    parameter = ""
    for line in section.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 5 and re.match("|".join(PARAMETERS), cells[0]):
            parameter = re.split(r"\W", cells[0])[0]
        elif len(cells) == 5 and cells[0].isdigit():
            found.setdefault(parameter, {})[int(cells[0])] = float(cells[3].replace(",", ""))
    return found


def draw(points: Mapping[str, Mapping[int, float]], path: Path) -> None:
    """Draw one plot for each parameter, all with the same axis of gate equivalents."""
    from matplotlib.figure import Figure

    with style("scaling"):
        figure = Figure(figsize=(10, 2.6), layout="constrained")
        plots = figure.subplots(1, len(points), sharey=True)
        for axes, (parameter, added) in zip(plots, points.items(), strict=True):
            at = np.array(list(added), float)
            fit = fitted(parameter, added)
            fine = np.linspace(at.min(), at.max(), 100)
            axes.plot(fine, fit.slope * terms(parameter, fine) + fit.constant, "-", marker="", color=COLORS[1])
            axes.plot(at, list(added.values()), "o", color=COLORS[0], markersize=5, clip_on=False)
            axes.set_xlabel(parameter)
            axes.margins(x=0.08, y=0.08)
            use_integer_ticks(axes, at.tolist())
        plots[0].set_ylim(bottom=0)
        plots[0].set_ylabel("added GE per PE")
        with atomic_path(path) as place:
            figure.savefig(place, format="svg", metadata={"Date": None})


if __name__ == "__main__":
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else DOCS / "scaling.svg"
    draw(tables((DOCS / "cost-tables.md").read_text(encoding="utf-8")), target)
