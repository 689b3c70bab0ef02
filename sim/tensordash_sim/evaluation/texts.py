"""Texts of figures: titles and labels from `figures.toml`, notes from `templates/`."""

import tomllib
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from ..report.figure import Figure, Point

__all__ = ["FIGURES", "notes", "render", "verdict_figure"]

FIGURES: dict[str, dict[str, dict[str, Any]]] = tomllib.loads(
    files(__package__).joinpath("figures.toml").read_text(encoding="utf-8")
)
"""Fields of `Experiment` by "experiment" and name; fields of `Figure` by "verdict" and name."""


def render(template: str, **values: Any) -> str:
    """Render a template."""
    return _environment.get_template(f"{template}.md.j2").render(values)


def notes(template: str, **values: Any) -> list[str]:
    """Render a template, and return its paragraphs, each as one line."""
    return [" ".join(paragraph.split()) for paragraph in render(template, **values).split("\n\n") if paragraph.strip()]


def verdict_figure(name: str, source: str, points: list[Point], **values: Any) -> Figure:
    """Return a figure of a verdict, with notes rendered from its template."""
    texts = FIGURES["verdict"][name]
    return Figure(name=name, source=source, points=points, notes=notes(f"verdict/{name}", **values), **texts)


_environment = Environment(
    loader=PackageLoader(__package__), undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
)
_environment.filters["fmt"] = format
