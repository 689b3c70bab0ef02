"""Test the pictures, example and tables of docs/how-the-schedule-works.md."""

import re
import runpy
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from tensordash import load_preset
from tensordash.configuration.connectivity import Connectivity
from tensordash_sim.golden.scheduler import schedule

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "how-the-schedule-works.md").read_text(encoding="utf-8")
DRAWING = runpy.run_path(str(ROOT / "bench" / "schedule_pictures.py"))
PAPER = load_preset("paper")


@pytest.mark.parametrize("name", ["schedule.svg", "scheduler.svg"])
def test_pictures_match_the_scheduler(name: str) -> None:
    """The stored picture is the program's, valid XML, legible in dark mode, and on the page."""
    stored = (ROOT / "docs" / name).read_text(encoding="utf-8")
    assert stored == DRAWING["pictures"]()[name]
    ET.fromstring(stored)
    assert "prefers-color-scheme: dark" in stored
    assert f"]({name})" in PAGE


def test_example_matches_the_scheduler() -> None:
    cycles = [cycle for _, cycle in DRAWING["schedules"](DRAWING["B"])]
    options = [[None if each is None else DRAWING["OPTIONS"][each] for each in cycle.options] for cycle in cycles]
    kinds = [[each and DRAWING["name_option"](each) for each in lanes] for lanes in options]
    assert kinds == [["lookaside", "own", "lookahead", "lookahead"], ["own", "lookaside", None, "own"]]
    assert [cycle.advance for cycle in cycles] == [2, 2]
    window = DRAWING["WINDOW"]
    assert schedule(window, len(window), PAPER.options).advance == 1
    assert "In the picture it is one." in " ".join(PAGE.split())


def test_option_table_matches_the_preset() -> None:
    rows = re.findall(r"^\| (\d) \| (\d) \| (-?\d) \| (\w+) \|$", PAGE, re.MULTILINE)
    expected = [(index, step, offset) for index, (step, offset) in enumerate(PAPER.options)]
    assert [tuple(map(int, row[:3])) for row in rows] == expected
    assert [row[3] for row in rows] == [DRAWING["name_option"](option) for option in PAPER.options]


def test_numbers_of_levels() -> None:
    wide = load_preset("paper-16lane")
    numbers = [len(Connectivity(each.options, lanes=each.lanes, depth=each.depth).levels) for each in (PAPER, wide)]
    assert numbers == [4, 6]
