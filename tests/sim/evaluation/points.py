"""Looks into figures."""

from pathlib import Path
from typing import Any

from tensordash_sim.evaluation import Figure, Settings, evaluate

__all__ = ["one", "value"]


def one(name: str, settings: Settings, folder: Path) -> Figure:
    """A figure alone."""
    (figure,) = evaluate([name], settings, folder)
    return figure


def value(figure: Figure, **where: Any) -> float:
    """The one number of a figure that is there for what is given."""
    (point,) = (p for p in figure.points if all(getattr(p, key) == wanted for key, wanted in where.items()))
    assert point.ours is not None
    return point.ours
