"""The page of the evaluation: a table for each figure, in Markdown."""

from collections.abc import Sequence

from ..report.figure import Figure, Point

__all__ = ["MAX_TABLE_ROWS", "page", "section"]

MAX_TABLE_ROWS = 16
"""Rows of a table; a figure with more has its notes and its points next to the paper's instead."""

INTRODUCTION = """\
# Evaluation

The paper's figures and tables, ours beside them: *ours (the paper's)* where the paper's text has a number. Bars that
the paper only draws are not guessed. This page is written by

```
make traces      # records the networks of docs/models.md once: ten minutes
make evaluate    # tensordash evaluate --all --page docs/evaluation.md
```

and `tests/sim/evaluation` compares it with what the command gives. `build/evaluation` then has each figure as SVG and
PNG, its numbers as CSV and JSON, and in the JSON what they were found with: data, scale, seed, commit, and a hash of
all configurations, which stands below each title here. `tensordash evaluate` alone lists the names;
`tensordash evaluate fig12 --traces DIR` makes one of them; with `--page FILE` the others stay on that page as they are.
`--workers N` runs that many processes (joblib),
`--cluster tcp://HOST:PORT` works on a Dask cluster, whose workers need this package and the traces under the same
paths. What is done is kept by configuration, trace and code; a run that was interrupted goes on where it was.
Means are arithmetic, over the paper's eight networks.
"""


def page(figures: Sequence[Figure], names: Sequence[str] = (), old: str = "") -> str:
    """All of it.

    Parameters
    ----------
    figures : sequence of Figure
        What was made.
    names : sequence of str
        The order in which figures come; theirs, if it is empty.
    old : str
        The page as it was: figures that were not made stay.
    """
    sections = {text.partition("\n")[0].split(":")[0]: f"## {text}" for text in old.split("\n## ")[1:]}
    with_networks = next((figure for figure in figures if "data" in figure.conditions), None)
    if with_networks is not None:
        sections["Networks"] = _networks(with_networks)
    sections |= {figure.name: section(figure) for figure in figures}
    order = ["Networks", *(names or [figure.name for figure in figures])]
    return "\n".join([INTRODUCTION, *(sections[name].rstrip("\n") + "\n" for name in order if name in sections)])


def _networks(figure: Figure) -> str:
    lines = ["## Networks", "", "| network | data | scale | steps | trace |", "|---|---|---|---|---|"]
    for name, data in figure.conditions["data"].items():
        steps = ", ".join(map(str, data["steps"]))
        about = data.get("data", "scikit-learn's digits (comes with the package)")
        lines.append(f"| {name} | {about} | {data.get('scale', '-')} | {steps} | {data['digest'][:12]} |")
    return "\n".join(lines) + "\n"


def section(figure: Figure) -> str:
    """One figure.

    Parameters
    ----------
    figure : Figure
        What is told.

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
    conditions = figure.conditions
    under = [figure.source]
    if conditions:
        under.append(f"scale {conditions['scale']}, seed {conditions['seed']}, {conditions['configuration']}")
    lines = [f"## {figure.name}: {figure.title}", "", "; ".join(under), ""]
    for metric in figure.metrics:
        lines += [*_table(metric, [point for point in figure.points if point.metric == metric]), ""]
    return "\n".join(lines + [f"- {note}" for note in figure.notes] + ([""] if figure.notes else []))


def _table(metric: str, points: list[Point]) -> list[str]:
    """Of a metric: places down, series across, or the other way round if there are more series."""
    series, places = (list(dict.fromkeys(each)) for each in zip(*((p.series, p.x) for p in points), strict=True))
    if min(len(series), len(places)) > MAX_TABLE_ROWS or max(len(series), len(places)) > 2 * MAX_TABLE_ROWS:
        points = [point for point in points if point.paper is not None]
        if not points:
            return [f"{metric}: {len(places)} points for each of {', '.join(series)}, in the files."]
        series, places = (list(dict.fromkeys(each)) for each in zip(*((p.series, p.x) for p in points), strict=True))
    cells = {(point.series, point.x): _cell(point) for point in points}
    down, across = (series, places) if len(series) > len(places) else (places, series)
    lines = [f"| {metric} | {' | '.join(map(str, across))} |", "|---" * (len(across) + 1) + "|"]
    for row in down:
        pairs = [(row, column) if down is series else (column, row) for column in across]
        lines.append(f"| {row} | {' | '.join(cells.get(pair, '-') for pair in pairs)} |")
    return lines


def _cell(point: Point) -> str:
    ours = "-" if point.ours is None else _text(point.ours)
    return ours if point.paper is None else f"{ours} ({point.paper:,})"


def _text(value: float) -> str:
    """Three decimals, or as many digits as a large number has in front of its point."""
    if value == int(value):
        return f"{int(value):,}"
    return f"{value:.3f}" if abs(value) < 100 else f"{value:,.1f}" if abs(value) < 10_000 else f"{value:,.0f}"
