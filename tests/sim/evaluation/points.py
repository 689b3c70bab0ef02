"""Read figures in tests."""

from pathlib import Path
from typing import Any

from tensordash_sim.evaluation import Figure, Settings, evaluate

__all__ = ["evaluate_figure", "value"]


def evaluate_figure(name: str, settings: Settings, folder: Path) -> Figure:
    """Evaluate a figure."""
    (figure,) = evaluate([name], settings, folder)
    return figure


def value(figure: Figure, **where: Any) -> float:
    """Return the number of the only point with these attributes."""
    (point,) = (p for p in figure.points if all(getattr(p, key) == expected for key, expected in where.items()))
    assert point.ours is not None
    return point.ours
