"""The page of the evaluation: a table for each figure, in Markdown."""

from collections.abc import Sequence

from ..report.figure import Figure, Point
from .texts import render

__all__ = ["MAX_TABLE_ROWS", "page", "section"]

MAX_TABLE_ROWS = 16
"""Maximum number of rows of a table. The table of a larger figure has only the points with a value of the paper."""


def page(figures: Sequence[Figure], names: Sequence[str] = (), old: str = "") -> str:
    """Render the page.

    Parameters
    ----------
    figures : sequence of Figure
        New figures.
    names : sequence of str
        Order of the figures. If it is empty, the order of `figures`.
    old : str
        The previous page. Its sections of other figures stay.
    """
    sections = {text.partition("\n")[0].split(":")[0]: f"## {text}" for text in old.split("\n## ")[1:]}
    with_networks = next((figure for figure in figures if "data" in figure.conditions), None)
    if with_networks is not None:
        sections["Networks"] = render("networks", data=with_networks.conditions["data"])
    sections |= {figure.name: section(figure) for figure in figures}
    order = ["Networks", *(names or [figure.name for figure in figures])]
    return render("page", sections=[sections[name] for name in order if name in sections])


def section(figure: Figure) -> str:
    """Return a figure's section of the page.

    Parameters
    ----------
    figure : Figure
        The figure.

    Examples
    --------
    >>> points = [Point(metric="speedup", series="tile", x=x, paper=3.7, ours=3.7172) for x in (0.9, 0.99)]
    >>> labels = {"x_label": "zeros", "y_label": ""}
    >>> figure = Figure(name="fig", title="Zeros", source="paper", kind="line", points=points, **labels)
    >>> print(section(figure))
    ## fig: Zeros
    <BLANKLINE>
    paper
    <BLANKLINE>
    | speedup | tile |
    |---|---|
    | 0.9 | 3.717 (3.7) |
    | 0.99 | 3.717 (3.7) |
    <BLANKLINE>
    """
    tables = [_table(metric, [point for point in figure.points if point.metric == metric]) for metric in figure.metrics]
    return render("figure", figure=figure, tables=tables).rstrip("\n") + "\n"


def _table(metric: str, points: list[Point]) -> str:
    """Return a metric's table: one row per x value and one column per series, or transposed if series are more."""
    series, places = (list(dict.fromkeys(each)) for each in zip(*((p.series, p.x) for p in points), strict=True))
    if min(len(series), len(places)) > MAX_TABLE_ROWS or max(len(series), len(places)) > 2 * MAX_TABLE_ROWS:
        points = [point for point in points if point.paper is not None]
        if not points:
            return f"{metric}: {len(places)} points for each of {', '.join(series)}, in the files."
        series, places = (list(dict.fromkeys(each)) for each in zip(*((p.series, p.x) for p in points), strict=True))
    cells = {(point.series, point.x): _cell(point) for point in points}
    down, across = (series, places) if len(series) > len(places) else (places, series)
    rows = [
        [row, *(cells.get((row, column) if down is series else (column, row), "-") for column in across)]
        for row in down
    ]
    return render("table", heads=[metric, *across], rows=rows)


def _cell(point: Point) -> str:
    ours = "-" if point.ours is None else _text(point.ours)
    return ours if point.paper is None else f"{ours} ({point.paper:,})"


def _text(value: float) -> str:
    """Format a number: three decimals below 100, one below 10,000, none above and for integers."""
    if value == int(value):
        return f"{int(value):,}"
    return f"{value:.3f}" if abs(value) < 100 else f"{value:,.1f}" if abs(value) < 10_000 else f"{value:,.0f}"
