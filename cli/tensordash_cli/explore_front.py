"""Results of a search, and its Pareto front: marks, files and a picture."""

import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from rich.table import Table

from tensordash import TileConfig
from tensordash.configuration.core_config import CoreConfig
from tensordash_storage.files import atomic_write

from .console import progress

__all__ = ["FRONT_HEADER", "LEGEND", "Search", "draw_front", "mark_front", "speedup_of", "write_front"]

LEGEND = "*: on the Pareto front of speedup and area; ~: a tie, within 1% of both"
FRONT_HEADER = "# A point of the front that tensordash explore found:"


@dataclass(frozen=True)
class Search(ABC):
    """A finished search.

    Attributes
    ----------
    conditions : dict
        Settings of the search, for explore.json.
    rows : list of dict
        Figures of each point: its `label`, its `speedup`, None if it has none, and its `area_ratio` if measured. Of a
        tile that drops empty steps, also its `dropped_speedup`.
    configs : list of TileConfig or CoreConfig
        Configuration of each point.
    notes : tuple of str
        Lines to print after the table.
    """

    conditions: dict[str, Any]
    rows: list[dict[str, Any]]
    configs: Sequence[TileConfig | CoreConfig]
    notes: tuple[str, ...] = ()
    reference: ClassVar[str]
    """The design that speedups and areas are relative to."""

    @abstractmethod
    def table(self, traces: Sequence[str]) -> Table:
        """Return the points as a table, with a column for each of several traces."""


def speedup_of(row: dict[str, Any]) -> float | None:
    """Return the speedup by which the search compares a point: with dropped steps, if the search has them."""
    speedup: float | None = row.get("dropped_speedup", row["speedup"])
    return speedup


def mark_front(rows: Sequence[dict[str, Any]]) -> None:
    """Add to each row with a speedup and an area whether it is on the front (`on_front`) and its ties (`ties`)."""
    from tensordash_sim.performance.explore import pareto_front, ties

    candidates = _candidates(rows)
    points = [_point(row) for row in candidates]
    on_front, ties_of = pareto_front(points), ties(points)
    for i, row in enumerate(candidates):
        row["on_front"] = on_front[i]
        # A point of the front lists all its ties. Another point lists only the points of the front that it ties.
        tied = (
            ties_of[i]
            if on_front[i]
            else [other for other, is_best in enumerate(on_front) if is_best and i in ties_of[other]]
        )
        row["ties"] = [_name(candidates[other]) for other in tied]


def write_front(
    rows: Sequence[dict[str, Any]], configs: Sequence[TileConfig | CoreConfig], folder: Path, reference: str
) -> None:
    """Write a configuration for each point of the front, and delete the files of an earlier front."""
    for path in folder.glob("*.toml"):
        if path.read_text(encoding="utf-8", errors="replace").startswith(FRONT_HEADER):
            path.unlink()
    for row, config in zip(rows, configs, strict=True):
        if not row.get("on_front"):
            continue
        figures = f"{row['speedup']:.3f} times {reference}'s speed, {row['area_ratio']:.3f} times its area"
        if "dropped_speedup" in row:
            figures += (
                f"; {row['dropped_speedup']:.3f} times its speed with dropped steps, whose logic is not in the area"
            )
        lines = [FRONT_HEADER, f"# {_name(row)}: {figures}."]
        lines += [f"# A tie, within 1% of both: {each}." for each in row["ties"]]
        path = folder / f"{re.sub('[^a-z0-9]+', '-', _name(row).lower())}.toml"
        atomic_write(path, "\n".join([*lines, config.to_toml()]))
        row["config"] = str(path.relative_to(folder.parent))


def draw_front(rows: Sequence[dict[str, Any]], path: Path, reference: str) -> None:
    """Draw speedup over area, if matplotlib is installed."""
    from tensordash_sim.performance.explore import plot_front

    drawn = _candidates(rows)
    if not drawn:
        return
    quantity = "speedup with dropped steps" if "dropped_speedup" in drawn[0] else "speedup"
    try:
        plot_front([_name(row) for row in drawn], [_point(row) for row in drawn], path, reference, quantity)
    except ImportError:
        progress.print("no plot: matplotlib is not installed")


def _candidates(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return [row for row in rows if speedup_of(row) is not None and "area_ratio" in row]


def _name(row: dict[str, Any]) -> str:
    return ", ".join([row["label"], *([row["row_order"]] if "row_order" in row else [])])


def _point(row: dict[str, Any]) -> tuple[float, float]:
    speedup = speedup_of(row)
    assert speedup is not None  # `_candidates` has only points with a speedup.
    return row["area_ratio"], speedup
