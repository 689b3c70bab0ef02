"""Test the style of plots: the report's colours, distinct series, integer ticks for integers."""

import re
import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tensordash_sim import plots
from tensordash_sim.evaluation import Figure, Point, draw
from tensordash_sim.evaluation.texts import FIGURES
from tensordash_sim.performance.explore import pareto

ROOT = Path(__file__).parents[3]
ELEVEN = [f"series {number}" for number in range(11)]
MAX_LABEL = 40
"""Maximum characters of an axis label, for a phone and for a plot of usual height."""
LABELS: dict[str, Any] = {"title": "", "source": "", "x_label": "share of zeros", "y_label": "speedup"}


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list:
    """Collect every canvas that is saved."""
    from matplotlib.figure import Figure as Canvas

    saved = []
    save = Canvas.savefig

    def keep(self, *arguments, **options):
        saved.append(self)
        save(self, *arguments, **options)

    monkeypatch.setattr(Canvas, "savefig", keep)
    return saved


def figure(kind: str, places: dict[str, tuple]) -> Figure:
    points = [
        Point(metric=metric, series=series, x=x, ours=1.0 + number)
        for metric, xs in places.items()
        for number, series in enumerate(ELEVEN)
        for x in xs
    ]
    return Figure(name="some", kind=kind, points=points, **LABELS)


def test_colors_match_the_report() -> None:
    css = (ROOT / "sim/tensordash_sim/report/assets/report.css").read_text()
    light = css.split("@media")[0]
    for index, color in enumerate(plots.COLORS):
        assert re.search(rf"--series-{index}: {color};", light)
    assert f"--text: {plots.TEXT}" in light
    assert len(re.findall(r"--series-\d", light)) == len(plots.COLORS)


def test_lines(drawn: list, tmp_path: Path) -> None:
    places = {"speedup": (0.1, 0.5), "speedup by depth": (2, 3, 4, 5), "speedup by steps": (4, 36, 757)}
    draw.draw(figure("line", places), [tmp_path / "some.png"])
    (canvas,) = drawn
    assert [axes.get_xlabel() for axes in canvas.axes] == ["share of zeros", "depth", "steps"]
    looks = {(line.get_color(), line.get_marker(), line.get_linestyle()) for line in canvas.axes[0].lines}
    assert len(looks) == len(ELEVEN), "one blue twice"
    assert {line.get_color() for line in canvas.axes[0].lines} == set(plots.COLORS)
    ticks = [axes.get_xticks().tolist() for axes in canvas.axes[1:]]
    assert ticks == [[2, 3, 4, 5], [4, 36, 757]]
    texts = [[label.get_text() for label in axes.get_xticklabels()] for axes in canvas.axes[1:]]
    assert texts == [["2", "3", "4", "5"], ["4", "36", "757"]]
    for axes in canvas.axes:
        assert not axes.spines["top"].get_visible()
        assert axes.get_ylim()[0] == 0


def test_ticks_of_integers_are_integers(drawn: list, tmp_path: Path) -> None:
    draw.draw(figure("line", {"speedup": tuple(range(40, 75))}), [tmp_path / "some.png"])
    ticks = drawn[0].axes[0].get_xticks()
    assert len(ticks) <= plots.MAX_TICKS + 1
    assert np.array_equal(ticks, np.round(ticks))


def test_plots_are_independent_of_rc_settings(tmp_path: Path) -> None:
    import matplotlib

    draw.draw(figure("bar", {"speedup": ("one", "two")}), [tmp_path / "a.svg"])
    with matplotlib.rc_context({"font.size": 20, "axes.facecolor": "red"}):
        draw.draw(figure("bar", {"speedup": ("one", "two")}), [tmp_path / "b.svg"])
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


def test_the_front_has_the_style(drawn: list, tmp_path: Path) -> None:
    pareto.plot_front(["a", "b"], [(1.1, 1.5), (1.2, 1.4)], tmp_path / "front")
    assert drawn[0].axes[0].lines[0].get_color() == plots.COLORS[0]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["front.png", "front.svg"]


def test_nothing_is_clipped_in_the_picture_of_scaling(drawn: list, tmp_path: Path) -> None:
    """The plot shows the tables of its page, and all points are inside the axes."""
    script = runpy.run_path(str(ROOT / "bench/scaling_picture.py"))
    points = script["tables"]((ROOT / "docs/cost-tables.md").read_text(encoding="utf-8"))
    assert list(points) == list(script["PARAMETERS"])
    assert points["rows"].keys() == {1, 2, 4, 8, 16}
    script["draw"](points, tmp_path / "scaling.svg")
    assert (tmp_path / "scaling.svg").read_bytes() == (ROOT / "docs/scaling.svg").read_bytes()
    for axes, added in zip(drawn[0].axes, points.values(), strict=True):
        (left, right), (bottom, top) = axes.get_xlim(), axes.get_ylim()
        margin = 0.02 * (right - left)
        for x, y in added.items():
            assert left + margin < x < right - margin
            assert bottom < y < top - 0.02 * (top - bottom)


def test_labels_of_axes_fit() -> None:
    labels = [each[axis] for kind in FIGURES.values() for each in kind.values() for axis in ("x_label", "y_label")]
    assert len(labels) > 50
    assert [label for label in labels if len(label) > MAX_LABEL] == []
