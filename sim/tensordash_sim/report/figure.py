"""A figure or table of the evaluation: its numbers, the paper's numbers, and the conditions of the run."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["KINDS", "Figure", "Point"]

KINDS = ("line", "bar", "table")


@dataclass(frozen=True, kw_only=True)
class Point:
    """A point of a figure, or a cell of a table.

    Attributes
    ----------
    metric : str
        The quantity, for example "speedup" or "area".
    series : str
        The line or group of bars that contains the point.
    x : float or str
        Position on the x axis: a number or a category.
    paper, ours : float or None
        The paper's value, if its text has one, and our value.
    more : dict
        Additional fields of the JSON document.
    """

    metric: str
    series: str
    x: float | str
    paper: float | None = None
    ours: float | None = None
    more: Mapping[str, Any] = field(default_factory=dict)

    @property
    def difference(self) -> float | None:
        """Our value divided by the paper's, minus 1; None if a value is missing or the paper's is 0.

        >>> Point(metric="speedup", series="4 rows", x=0.5, paper=2.0, ours=2.5).difference
        0.25
        """
        if self.paper is None or self.ours is None or self.paper == 0:
            return None
        return self.ours / self.paper - 1

    def to_json(self) -> dict[str, Any]:
        """Convert the point to JSON types. `more` adds fields."""
        fixed = {"metric": self.metric, "series": self.series, "x": self.x, "paper": self.paper, "ours": self.ours}
        return fixed | dict(self.more)


@dataclass(frozen=True, kw_only=True)
class Figure:
    """All numbers of a figure or table.

    Attributes
    ----------
    name, title, source : str
        Name on the command line, title, and place in the paper.
    kind : "line", "bar" or "table"
        Kind of chart.
    x_label, y_label : str
        Labels of the axes.
    points : list of Point
        The numbers.
    notes : list of str
        Notes that the reader needs to interpret the numbers.
    conditions : dict
        Data, scale, seed, code and configuration of the run.

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
        """All metrics, in the order of the points."""
        return list(dict.fromkeys(point.metric for point in self.points))

    def x_label_of(self, metric: str) -> str:
        """Return the x label of a metric: "depth" for "speedup by depth", and otherwise `x_label`."""
        return metric.partition(" by ")[2] or self.x_label

    def to_json(self) -> dict[str, Any]:
        document = {key: getattr(self, key) for key in ("name", "title", "source", "kind", "x_label", "y_label")}
        points = [point.to_json() for point in self.points]
        return document | {"points": points, "notes": list(self.notes), "conditions": dict(self.conditions)}
