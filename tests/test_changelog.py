"""Test that CHANGELOG.md has short releases, and that the newest matches the version of the package."""

import re
import tomllib
from pathlib import Path

import pytest

import tensordash

ROOT = Path(__file__).parents[1]
MAX_WORDS = 400
MAX_COLUMNS = 120
SECTIONS = re.split(r"^(?=## )", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
HEADINGS = tuple(section.splitlines()[0] for section in SECTIONS)
NEWEST = "0.2.0"


def test_releases() -> None:
    unreleased, newest, first = HEADINGS
    assert unreleased == "## [Unreleased]"
    assert newest == f"## [{NEWEST}] - 2026-11-26"
    assert first == "## [0.1.0]"


@pytest.mark.parametrize("section", SECTIONS, ids=HEADINGS)
def test_a_release_is_short(section: str) -> None:
    assert len(section.split()) <= MAX_WORDS
    for line in filter(None, section.splitlines()[1:]):
        assert len(line) <= MAX_COLUMNS
        assert re.fullmatch(r"### .+|- .+\.|\w+:", line), line


def test_newest_release_matches_the_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["version"] == NEWEST


def test_the_newest_release_is_installed() -> None:
    if tensordash.__version__ == "0+unknown":
        pytest.skip("a source tree on the path, not installed")
    assert tensordash.__version__ == NEWEST, "make test installs this version; so does pip install --editable ."
