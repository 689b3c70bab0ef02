"""Test that a folder's results are read completely or raise an error of one line."""

import json
from pathlib import Path

import pytest

from tensordash_sim.evaluation import Point
from tensordash_sim.report import ReportError, load_results, read_figure

from .conftest import areas, depths, random_zeros


def test_folder_in_order(tmp_path: Path) -> None:
    documents = [random_zeros() | {"name": name} for name in ("table4", "fig15", "fig5")]
    for document in documents:
        (tmp_path / f"{document['name']}.json").write_text(json.dumps(document))
    (tmp_path / "fig5.csv").write_text("not read")
    (tmp_path / ".fig12.partial.json").write_text("{")
    assert [result.name for result in load_results(tmp_path)] == ["fig5", "fig15", "table4"]


def test_point_keeps_its_fields() -> None:
    first = read_figure(depths()).points[0]
    assert (first.metric, first.x, first.paper, first.more) == ("speedup", "2-deep", 1.5, {"zeros": 0.6})
    assert first.difference == first.ours / 1.5 - 1 if first.ours else False
    for paper, ours in ((None, 1), (1, None), (0, 1)):
        assert Point(metric="m", series="s", x=0, paper=paper, ours=ours).difference is None


POINT = {"metric": "speedup", "series": "s", "x": 1, "paper": 1.0, "ours": 1.0}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"title": None}, "r.json: title must be a text, not null"),
        ({"name": "../x"}, r"r.json: name must be letters, digits, - and _, not '../x'"),
        ({"kind": "pie"}, 'r.json: kind must be one of line, bar, table, not "pie"'),
        ({"points": {}}, r"r.json: points must be a list, not \{\}"),
        ({"notes": [1]}, r"r.json: notes must be a list of texts, not \[1\]"),
        ({"conditions": []}, r"r.json: conditions must be an object, not \[\]"),
        ({"points": [3]}, r"r.json: points\[0\] must be an object, not 3"),
        ({"points": [POINT, POINT | {"x": None}]}, r"r.json: points\[1\].x must be a number or a text, not null"),
        ({"points": [POINT | {"x": True}]}, r"points\[0\].x must be a number or a text, not true"),
        ({"points": [POINT | {"ours": "1"}]}, r'points\[0\].ours must be a number or null, not "1"'),
        ({"points": [POINT | {"paper": float("nan")}]}, r"points\[0\].paper must be a number or null, not NaN"),
        ({"points": [{"metric": "m"}]}, r"points\[0\].x must be a number or a text, not null"),
        ({"points": [POINT | {"series": 4}]}, r"points\[0\].series must be a text, not 4"),
    ],
)
def test_refused(change: dict, message: str) -> None:
    with pytest.raises(ReportError, match=message) as error:
        read_figure(areas() | change, "r.json")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [("{", "r.json: cannot be read as JSON"), ("[]", r"r.json: must be a JSON object, not \[\]"), (None, "holds none")],
)
def test_folder_refused(text: str | None, message: str, tmp_path: Path) -> None:
    if text is not None:
        (tmp_path / "r.json").write_text(text)
    with pytest.raises(ReportError, match=message):
        load_results(tmp_path)


def test_duplicate_names(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / f"{name}.json").write_text(json.dumps(areas()))
    with pytest.raises(ReportError, match=r"b.json: name must be another .* not 'table4'"):
        load_results(tmp_path)
    with pytest.raises(ReportError, match="must be a folder of results"):
        load_results(tmp_path / "a.json")
