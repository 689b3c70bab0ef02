"""A figure or table of the evaluation: its numbers, the paper's beside them, and how they came about."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["KINDS", "Figure", "Point"]

KINDS = ("line", "bar", "table")


@dataclass(frozen=True, kw_only=True)
class Point:
    """One number.

    Attributes
    ----------
    metric : str
        What it is: "speedup", "area".
    series : str
        The line, or the group of bars, that it is in.
    x : float or str
        Its place: a number or a category.
    paper, ours : float or None
        The paper's value, where its text has one, and what was found here.
    more : dict
        What else belongs to it.
    """

    metric: str
    series: str
    x: float | str
    paper: float | None = None
    ours: float | None = None
    more: Mapping[str, Any] = field(default_factory=dict)

    @property
    def difference(self) -> float | None:
        """Ours relative to the paper's, minus 1; None where either is missing or the paper's is 0.

        >>> Point(metric="speedup", series="4 rows", x=0.5, paper=2.0, ours=2.5).difference
        0.25
        """
        if self.paper is None or self.ours is None or self.paper == 0:
            return None
        return self.ours / self.paper - 1

    def to_json(self) -> dict[str, Any]:
        """Return a document; `more` adds fields."""
        fixed = {"metric": self.metric, "series": self.series, "x": self.x, "paper": self.paper, "ours": self.ours}
        return fixed | dict(self.more)


@dataclass(frozen=True, kw_only=True)
class Figure:
    """All numbers of a figure or table.

    Attributes
    ----------
    name, title, source : str
        As the command takes it, what it shows, and where it is in the paper.
    kind : "line", "bar" or "table"
        How it is drawn.
    x_label, y_label : str
        Of the axes.
    points : list of Point
        Its numbers.
    notes : list of str
        What has to be known to read them.
    conditions : dict
        Data, scale, seed, code and configuration that they were found with.

    Examples
    --------
    >>> point = Point(metric="speedup", series="tile", x=0.9, paper=3.7, ours=3.71)
    >>> Figure(name="one", title="", source="", kind="line", x_label="", y_label="", points=[point]).to_json()["points"]
    [{'metric': 'speedup', 'series': 'tile', 'x': 0.9, 'paper': 3.7, 'ours': 3.71}]
    """

    name: str
    title: str
    source: str
    kind: str
    x_label: str
    y_label: str
    points: list[Point]
    notes: list[str] = field(default_factory=list)
    conditions: Mapping[str, Any] = field(default_factory=dict)

    @property
    def metrics(self) -> list[str]:
        """Every metric, in the order of the points."""
        return list(dict.fromkeys(point.metric for point in self.points))

    def x_label_of(self, metric: str) -> str:
        """Return an axis' label from a metric's name, such as "speedup by depth"."""
        return metric.partition(" by ")[2] or self.x_label

    def to_json(self) -> dict[str, Any]:
        document = {key: getattr(self, key) for key in ("name", "title", "source", "kind", "x_label", "y_label")}
        points = [point.to_json() for point in self.points]
        return document | {"points": points, "notes": list(self.notes), "conditions": dict(self.conditions)}
