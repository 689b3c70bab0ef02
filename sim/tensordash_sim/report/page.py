"""Write the report: figures and tables of results, and the schedule viewer, in one HTML file."""

import math
import re
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

import tensordash
from tensordash_storage.files import atomic_write

from .figure import Figure, Point
from .schedules import ScheduleRun

__all__ = ["write_report"]

DIGEST = re.compile("[0-9a-f]{64}")
SCRIPTS = ("theme.js", "tables.js", "charts.js", "schedule.js", "panel.js", "viewer.js")


@dataclass(frozen=True)
class Compared:
    """A result compared with the paper.

    Attributes
    ----------
    result : Figure
        The result.
    points : tuple of Point
        Points that have both the paper's value and ours.
    median : float or None
        Median of the absolute differences; None if there are no such points.
    largest : Point or None
        The point with the largest absolute difference.
    """

    result: Figure
    points: tuple[Point, ...]

    @property
    def median(self) -> float | None:
        return statistics.median(map(_distance, self.points)) if self.points else None

    @property
    def largest(self) -> Point | None:
        return max(self.points, key=_distance, default=None)


def write_report(
    results: Sequence[Figure],
    path: Path,
    *,
    runs: Sequence[ScheduleRun] = (),
    title: str = "TensorDash: evaluation",
    overview: bool = True,
) -> None:
    """Write the report atomically, and create its folder if needed.

    The file contains all scripts and data, so it needs no network. Equal results and runs give equal bytes.

    Parameters
    ----------
    results : sequence of Figure
        Figures and tables, in the order of the page.
    path : Path
        The HTML file.
    runs : sequence of ScheduleRun
        Runs that the schedule viewer shows. Without runs, the page has no viewer.
    title : str
        Title of the page.
    overview : bool
        Compare the results with the paper: add an overview, and show the paper's numbers beside ours.

    Raises
    ------
    OSError
        If the file cannot be written.
    """
    charted = any(result.kind != "table" and result.points for result in results)
    compared = [Compared(result, tuple(p for p in result.points if p.difference is not None)) for result in results]
    template = _environment().get_template("report.html.j2")
    html = template.render(
        title=title,
        overview=overview and bool(results),
        version=tensordash.__version__,
        results=results,
        compared=compared,
        runs=runs,
        data={"figures": [_drawn(result) for result in results], "runs": [run.to_json() for run in runs]},
        style=Markup(_asset("report.css")),
        library=Markup(_plotly()) if charted else None,
        scripts=[Markup(_asset(name)) for name in SCRIPTS],
    )
    atomic_write(path, html)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader(__package__, "assets"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":"), "default": str, "allow_nan": False}
    environment.globals.update(is_nested=_is_nested)
    environment.filters.update(number=_number, percent=_percent, shown=_shown, prose=_prose)
    return environment


def _asset(name: str) -> str:
    return (files(__package__) / "assets" / name).read_text(encoding="utf-8")


@cache
def _plotly() -> str:
    """Return the JavaScript of the chart library from its Python package."""
    from plotly.offline import get_plotlyjs  # slow to import

    return get_plotlyjs()


def _drawn(result: Figure) -> dict[str, Any]:
    """Return the fields of a result that charts need."""
    fields = ("metric", "series", "x", "paper", "ours")
    points = [{name: getattr(point, name) for name in fields} for point in result.points]
    labels = {metric: result.x_label_of(metric) for metric in result.metrics}
    return {name: getattr(result, name) for name in ("name", "kind", "y_label")} | {
        "x_labels": labels,
        "points": points,
    }


def _distance(point: Point) -> float:
    return abs(point.difference or 0.0)


def _number(value: float | None) -> str:
    """Format a number with four significant digits, and with an exponent only if it is very large or small.

    >>> _number(1.7246), _number(23748.0), _number(2.0), _number(12), _number(0.000012), _number(None)
    ('1.725', '23,748', '2.000', '12', '1.2e-05', '')
    """
    if value is None:
        return ""
    if isinstance(value, int) or value == 0:
        return f"{value:,.0f}"
    digits = 3 - math.floor(math.log10(abs(value)))
    return f"{value:.4g}" if digits > 7 else f"{value:,.{max(digits, 0)}f}"


def _percent(value: float | None) -> str:
    r"""Format a relative difference as a percentage with its sign.

    >>> ascii((_percent(0.0312), _percent(-0.2), _percent(None)))
    "('+3.1%', '\\u221220.0%', '')"
    """
    if value is None:
        return ""
    if abs(value) < 0.0005:
        return "0.0%"
    return f"{value:+.1%}".replace("-", "\N{MINUS SIGN}")  # the minus sign is as wide as the plus


def _prose(text: str) -> Markup:
    """Convert a note to HTML. Text between backticks becomes code.

    >>> _prose("`core` < 1, and a lone `")
    Markup('<code>core</code> &lt; 1, and a lone `')
    """
    return Markup(re.sub("`([^`]+)`", r"<code>\1</code>", str(escape(text))))


def _is_nested(condition: Any) -> bool:
    """Return whether a condition maps names to further conditions, so that it becomes a table."""
    return isinstance(condition, Mapping) and any(isinstance(one, Mapping) for one in condition.values())


def _shown(value: Any) -> str:
    """Format a condition or another value of a point. A SHA-256 digest is cut to its first digits.

    >>> _shown(2973700), _shown(2973700.25), _shown(0.9782), _shown(1e-9), _shown(0.5)
    ('2,973,700', '2,973,700', '0.9782', '1e-09', '0.5')
    """
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: ""}[value]
    if isinstance(value, (int, float)):
        return f"{value:.4g}" if abs(value) < 1000 else f"{value:,.0f}"
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_shown(one)}" for key, one in value.items())
    if isinstance(value, (list, tuple)):
        return ", ".join(map(_shown, value))
    text = str(value)
    return f"{text[:12]}\N{HORIZONTAL ELLIPSIS}" if DIGEST.fullmatch(text) else text
