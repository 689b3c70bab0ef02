"""Test that the page is complete and well-formed, and loads no external files."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tensordash_sim.report import ScheduleRun, read_figure, write_report

from .conftest import areas, depths, random_zeros

VOID = {"meta", "input", "br", "link", "img", "hr"}


class Outline(HTMLParser):
    """Check that elements close in order, and store their attributes and contents."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.data = ""
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open[-1] == tag, (self.open, tag, self.getpos())
        self.open.pop()

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "script":
            self.data += data if self.elements[-1][1].get("id") == "report-data" else ""
        elif "style" not in self.open:
            self.text += data


@pytest.fixture(scope="module")
def outline(page: Path) -> Outline:
    return Outline(page.read_text(encoding="utf-8"))


def test_page_loads_no_external_files(outline: Outline, page: Path) -> None:
    for tag, attributes in outline.elements:
        assert tag not in ("link", "img", "iframe", "object", "embed", "base", "audio", "video"), tag
        assert "src" not in attributes
        assert (attributes.get("href") or "#").startswith("#"), attributes
    assert ("meta", "default-src 'none'") in [
        (tag, (attributes.get("content") or "").split(";")[0]) for tag, attributes in outline.elements
    ]
    style = re.findall(r"<style>(.*?)</style>", page.read_text(encoding="utf-8"), re.DOTALL)[0]
    assert "url(" not in style
    assert "@import" not in style
    assert page.stat().st_size < 6_000_000


def test_page_contains_every_figure(outline: Outline) -> None:
    identifiers = [attributes["id"] for _, attributes in outline.elements if "id" in attributes]
    assert len(identifiers) == len(set(identifiers))
    charts = [
        (attributes["data-figure"], attributes["data-metric"])
        for _, attributes in outline.elements
        if "data-figure" in attributes
    ]
    values = {attributes.get("data-value") for _, attributes in outline.elements}
    assert charts == [("fig15", "speedup"), ("fig12", "speedup"), ("fig12", "waits")]
    for document in (random_zeros(), depths(), areas()):
        assert document["name"] in identifiers
        for text in (document["title"], document["source"], *document["notes"], *document["conditions"]):
            assert text in outline.text
        for point in document["points"]:
            assert point["series"] in outline.text
            assert str(point["x"]) in outline.text
            assert str(point["ours"]) in values
            if point["paper"]:
                assert f"{point['ours'] / point['paper'] - 1:+.1%}".replace("-", "\N{MINUS SIGN}") in outline.text


def test_references_are_resolved(outline: Outline) -> None:
    identifiers = {attributes.get("id") for _, attributes in outline.elements}
    for _, attributes in outline.elements:
        for name in ("aria-labelledby", "href", "data-filters"):
            if name in attributes:
                assert (attributes[name] or "").removeprefix("#") in identifiers


def test_data_contains_all_runs(outline: Outline, runs: dict[str, ScheduleRun]) -> None:
    data = json.loads(outline.data)
    assert [figure["name"] for figure in data["figures"]] == ["fig15", "fig12", "table4"]
    assert data["figures"][2]["points"][0]["series"] == "</script><b>"
    cycles = [len(run["advance"]) for run in data["runs"]]
    assert cycles == [run.counters.cycles for run in runs.values()]
    assert data["runs"][-1] == json.loads(json.dumps(runs["figure 3"].to_json()))


def test_same_bytes(page: Path, runs: dict[str, ScheduleRun], tmp_path: Path) -> None:
    second = tmp_path / "again.html"
    write_report([read_figure(each) for each in (random_zeros(), depths(), areas())], second, runs=list(runs.values()))
    assert second.read_bytes() == page.read_bytes()
    assert list(tmp_path.iterdir()) == [second]


def test_unused_parts_are_left_out(runs: dict[str, ScheduleRun], tmp_path: Path) -> None:
    """Without charts the page has no chart library, without runs no viewer. An empty page is valid."""
    path = tmp_path / "report.html"
    write_report([read_figure(areas())], path)
    html = path.read_text(encoding="utf-8")
    assert "Plotly, Inc." not in html
    assert 'id="viewer"' not in html
    Outline(html)
    write_report([], path, runs=[runs["figure 3"]])
    html = path.read_text(encoding="utf-8")
    assert 'id="viewer"' in html
    assert 'id="overview"' not in html
    Outline(html)
    write_report([read_figure(depths() | {"points": []})], path)
    Outline(path.read_text(encoding="utf-8"))


def test_failed_write_leaves_no_file(tmp_path: Path) -> None:
    write_report([read_figure(areas())], tmp_path / "made" / "report.html")
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="file"):
        write_report([read_figure(areas())], tmp_path / "file" / "report.html")
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["file", "made", "report.html"]
