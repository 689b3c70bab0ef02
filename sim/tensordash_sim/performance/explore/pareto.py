"""The Pareto front of area and speedup, and its plot."""

from collections.abc import Sequence
from pathlib import Path

from tensordash_storage.files import atomic_path

from ...plots import COLORS, MUTED, style

__all__ = ["pareto_front", "plot_front", "ties"]

TIE = 0.01
"""Relative difference in area or speedup below the noise of synthesis and of the choice of operands."""


def pareto_front(points: Sequence[tuple[float, float]]) -> list[bool]:
    """Return which points (area, speedup) are on the front: no other point is better in one and as good in the other.

    >>> pareto_front([(1.1, 1.5), (1.2, 1.4), (1.2, 1.9), (1.1, 1.5)])
    [True, False, True, True]
    """
    return [
        not any(other != point and other[0] <= point[0] and other[1] >= point[1] for other in points)
        for point in points
    ]


def ties(points: Sequence[tuple[float, float]]) -> list[list[int]]:
    """Return for each point (area, speedup) the indices of the others that are as good in both, within `TIE`.

    >>> ties([(1.1, 1.5), (1.2, 1.502), (1.105, 1.49)])
    [[2], [0, 2], [0]]
    """
    return [
        [
            place
            for place, (area, speedup) in enumerate(points)
            if place != own and area <= own_area * (1 + TIE) and speedup >= own_speedup * (1 - TIE)
        ]
        for own, (own_area, own_speedup) in enumerate(points)
    ]


def plot_front(
    labels: Sequence[str],
    points: Sequence[tuple[float, float]],
    path: Path,
    reference: str = "the baseline",
    quantity: str = "speedup",
) -> None:
    """Draw speedup over area with the front as a line.

    Parameters
    ----------
    labels : sequence of str
        Labels of the points.
    points : sequence of (float, float)
        Area relative to the reference, and speedup.
    path : Path
        Path without suffix; the function writes an SVG and a PNG.
    reference : str
        The design that areas and speedups are relative to.
    quantity : str
        Name of the speedups.

    Raises
    ------
    ImportError
        Without matplotlib.
    """
    from matplotlib.figure import Figure

    with style("front"):
        figure = Figure(figsize=(8, 5), layout="constrained")
        axis = figure.subplots()
        on_front = pareto_front(points)
        front = sorted(point for point, best in zip(points, on_front, strict=True) if best)
        axis.plot(*zip(*front, strict=True), drawstyle="steps-post", marker="", label="Pareto front")
        axis.scatter(*zip(*points, strict=True), color=[COLORS[0] if best else MUTED for best in on_front], zorder=3)
        for label, point, best in zip(labels, points, on_front, strict=True):
            if best:
                axis.annotate(label, point, xytext=(4, -10), textcoords="offset points", fontsize=7)
        axis.set(xlabel=f"area over {reference}'s", ylabel=f"{quantity} over {reference}, mean over traces")
        axis.grid(True, axis="both")
        axis.legend()
        for suffix in (".svg", ".png"):
            with atomic_path(path.with_suffix(suffix)) as place:
                figure.savefig(place, metadata={"Date": None} if suffix == ".svg" else {"Software": None})
