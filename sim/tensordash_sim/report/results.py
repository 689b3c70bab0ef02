"""Read results of the evaluation from their JSON files."""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tensordash.configuration.errors import TensorDashError

from .figure import KINDS, Figure, Point

__all__ = ["ReportError", "load_results", "read_figure"]


class ReportError(TensorDashError):
    """Raised for invalid results. The message has the file, the field, its value and the allowed values."""


def read_figure(document: Any, where: str = "result") -> Figure:
    """Build a figure from its JSON document.

    Parameters
    ----------
    document : mapping
        Document of a result of `tensordash evaluate`.
    where : str
        Name of the document in error messages, for instance the file.

    Raises
    ------
    ReportError
        If a field is missing or has a wrong type.

    Examples
    --------
    >>> read_figure({"name": "fig15"}, "fig15.json")
    Traceback (most recent call last):
    tensordash_sim.report.results.ReportError: fig15.json: title must be a text, not missing
    """
    if not isinstance(document, Mapping):
        raise ReportError(f"{where}: must be a JSON object, not {_shown(document)}")
    texts = {name: _text(document, name, where) for name in ("name", "title", "source", "x_label", "y_label")}
    if not texts["name"].replace("_", "").replace("-", "").isalnum():
        raise ReportError(f"{where}: name must be letters, digits, - and _, not {texts['name']!r}")
    kind = document.get("kind")
    if kind not in KINDS:
        raise ReportError(f"{where}: kind must be one of {', '.join(KINDS)}, not {_shown(kind)}")
    points = document.get("points")
    if not isinstance(points, list):
        raise ReportError(f"{where}: points must be a list, not {_shown(points)}")
    notes = document.get("notes", [])
    if not isinstance(notes, list) or not all(isinstance(note, str) for note in notes):
        raise ReportError(f"{where}: notes must be a list of texts, not {_shown(notes)}")
    conditions = document.get("conditions", {})
    if not isinstance(conditions, Mapping):
        raise ReportError(f"{where}: conditions must be an object, not {_shown(conditions)}")
    found = [_point(point, f"{where}: points[{index}]") for index, point in enumerate(points)]
    return Figure(kind=kind, points=found, notes=notes, conditions=conditions, **texts)


def load_results(folder: Path) -> list[Figure]:
    """Return the results in a folder, sorted by name. Numbers in names are sorted as numbers.

    Parameters
    ----------
    folder : Path
        Output folder of ``tensordash evaluate -o``. Every ``*.json`` in the folder is read.

    Raises
    ------
    ReportError
        If the folder has no result, or a result is invalid.
    """
    if not folder.is_dir():
        raise ReportError(f"{folder}: must be a folder of results (tensordash evaluate -o)")
    results: dict[str, Figure] = {}
    for path in sorted(folder.glob("[!.]*.json")):  # names of incomplete files begin with a dot
        try:
            document = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError) as error:
            raise ReportError(f"{path}: cannot be read as JSON: {error}") from None
        result = read_figure(document, str(path))
        if result.name in results:
            raise ReportError(f"{path}: name must be another than those of the other files, not {result.name!r}")
        results[result.name] = result
    if not results:
        raise ReportError(f"{folder}: must hold results (*.json of tensordash evaluate -o), and holds none")
    return sorted(results.values(), key=lambda result: _natural(result.name))


def _natural(name: str) -> list[tuple[bool, int, str]]:
    """Return a sort key that puts fig5 before fig12.

    >>> sorted(["fig12", "fig5", "table4"], key=_natural)
    ['fig5', 'fig12', 'table4']
    """
    spaced = "".join(f" {one} " if not one.isdigit() else one for one in name).split()
    return [(part.isdigit(), int(part) if part.isdigit() else 0, part) for part in spaced]


def _point(point: Any, where: str) -> Point:
    if not isinstance(point, Mapping):
        raise ReportError(f"{where} must be an object, not {_shown(point)}")
    x = point.get("x")
    if not isinstance(x, str) and not _is_number(x):
        raise ReportError(f"{where}.x must be a number or a text, not {_shown(x)}")
    for name in ("paper", "ours"):
        if point.get(name) is not None and not _is_number(point[name]):
            raise ReportError(f"{where}.{name} must be a number or null, not {_shown(point[name])}")
    known = {name: _text(point, name, where, ".") for name in ("metric", "series")}
    more = {key: value for key, value in point.items() if key not in ("metric", "series", "x", "paper", "ours")}
    assert x is not None  # checked above
    return Point(x=x, paper=point.get("paper"), ours=point.get("ours"), more=more, **known)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _text(document: Mapping[str, Any], name: str, where: str, joint: str = ": ") -> str:
    value = document.get(name)
    if not isinstance(value, str):
        found = _shown(value) if name in document else "missing"
        raise ReportError(f"{where}{joint}{name} must be a text, not {found}")
    return value


def _shown(value: Any) -> str:
    """Format a value for an error message, with at most 60 characters."""
    text = json.dumps(value, default=str)
    return text if len(text) <= 60 else f"{text[:57]}..."
