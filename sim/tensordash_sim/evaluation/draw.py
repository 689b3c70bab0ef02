"""Drawing of figures with matplotlib."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tensordash.extras import require

from ..plots import LIGHT, PAPER, style, use_integer_ticks
from ..report.figure import Figure, Point

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["draw"]

WIDTH = 9.0
"""Width of a metric's axes in inches."""
HEIGHT = 3.8
"""Height of a metric's axes in inches."""
MAX_TILTED_NAMES = 16
"""Maximum number of tilted names on an axis. With more, names are vertical."""
MAX_LEGEND_ROWS = 16
"""Maximum number of series in a column of the legend."""


def draw(figure: Figure, files: Sequence[Path]) -> None:
    """Draw a figure with separate axes for each metric. The paper's values are black.

    Parameters
    ----------
    figure : Figure
        The figure.
    files : sequence of Path
        Output files. The suffix decides the format.

    Raises
    ------
    TensorDashError
        If matplotlib is not installed.
    """
    require("drawing a figure", "matplotlib")
    from matplotlib.figure import Figure as Canvas

    metrics = figure.metrics
    with style(figure.name):
        size = (
            (WIDTH, HEIGHT * max(1, len(metrics))) if figure.kind != "table" else (WIDTH, 1 + 0.22 * len(figure.points))
        )
        canvas = Canvas(figsize=size, layout="constrained")
        if not metrics:
            canvas.text(0.5, 0.5, "no numbers: see the notes", ha="center")
        elif figure.kind == "table":
            _table(canvas.subplots(), figure)
        else:
            for axes, metric in zip(canvas.subplots(len(metrics), squeeze=False)[:, 0], metrics, strict=True):
                points = [point for point in figure.points if point.metric == metric]
                (_lines if figure.kind == "line" else _bars)(axes, points)
                axes.set_xlabel(figure.x_label_of(metric))
                axes.set_ylabel(figure.y_label if len(metrics) == 1 else "")
                axes.set_title(metric if len(metrics) > 1 else "")
                axes.set_ylim(bottom=min(0.0, axes.get_ylim()[0]))
        canvas.suptitle(f"{figure.title} ({figure.source})")
        for file in files:
            # Without date and software version, equal numbers give equal files.
            canvas.savefig(file, metadata={"Date": None} if file.suffix == ".svg" else {"Software": None})


def _series(points: list[Point]) -> dict[str, list[Point]]:
    return {name: [each for each in points if each.series == name] for name in dict.fromkeys(p.series for p in points)}


def _lines(axes: "Axes", points: list[Point]) -> None:
    categories = list(dict.fromkeys(point.x for point in points))
    numeric = all(isinstance(x, int | float) for x in categories)
    for name, group in _series(points).items():
        place: list[Any] = [point.x if numeric else categories.index(point.x) for point in group]
        ours = np.array([np.nan if point.ours is None else point.ours for point in group])
        if not np.isnan(ours).all():
            axes.plot(place, ours, label=name)
        paper_points = [(x, point.paper) for x, point in zip(place, group, strict=True) if point.paper is not None]
        if paper_points:
            axes.plot(*zip(*paper_points, strict=True), "x", markersize=7, label=f"{name}, paper", **PAPER)
    if numeric:
        use_integer_ticks(axes, [float(x) for x in categories])
    else:
        axes.set_xticks(range(len(categories)), [str(category) for category in categories])
    _legend(axes)


def _bars(axes: "Axes", points: list[Point]) -> None:
    categories, series = list(dict.fromkeys(point.x for point in points)), _series(points)
    width = 0.8 / len(series)
    papers: list[tuple[float, float]] = []
    for number, (name, group) in enumerate(series.items()):
        place = [categories.index(point.x) + (number + 0.5) * width - 0.4 for point in group]
        axes.bar(place, [point.ours or 0.0 for point in group], width, label=name)
        papers += [(x, point.paper) for x, point in zip(place, group, strict=True) if point.paper is not None]
    if papers:
        axes.plot(*zip(*papers, strict=True), "_", markersize=9, label="paper", **PAPER)
    tilt: dict[str, Any] = {"rotation": 20, "ha": "right"} if len(categories) <= MAX_TILTED_NAMES else {"rotation": 90}
    axes.set_xticks(range(len(categories)), [str(category) for category in categories], **tilt)
    _legend(axes)


def _legend(axes: "Axes") -> None:
    if len(axes.get_legend_handles_labels()[0]) > 1:
        axes.legend(
            ncols=1 + (len(axes.get_legend_handles_labels()[0]) > MAX_LEGEND_ROWS),
            loc="center left",
            bbox_to_anchor=(1.0, 0.5),
        )


def _table(axes: "Axes", figure: Figure) -> None:
    rows = [
        [point.metric, point.series, str(point.x), _text(point.paper), _text(point.ours)] for point in figure.points
    ]
    axes.axis("off")
    table = axes.table(rows, colLabels=["", figure.y_label, figure.x_label, "paper", "ours"], loc="center")
    table.auto_set_font_size(False)
    table.set_fontsize(7)
    for (row, _), cell in table.get_celld().items():
        cell.set_edgecolor(LIGHT)
        cell.set_text_props(weight="bold" if row == 0 else "normal")


def _text(value: float | None) -> str:
    return "-" if value is None else f"{value:,.4g}" if abs(value) < 1e4 else f"{value:,.0f}"
