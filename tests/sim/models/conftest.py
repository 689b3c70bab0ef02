"""Tests do not see what the user has fetched."""

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def _nothing_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
