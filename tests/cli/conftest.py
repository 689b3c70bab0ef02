"""Shared fixtures of the tests of commands."""

from pathlib import Path

import pytest


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty folder, in which the command runs."""
    monkeypatch.chdir(tmp_path)
    return tmp_path
