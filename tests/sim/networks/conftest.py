"""Tests do not use the user's data sets, and do not wait for each other's threads."""

from pathlib import Path

import pytest
import torch

torch.set_num_threads(1)  # pytest's workers share the processors: several threads each take ten times as long.


@pytest.fixture(autouse=True)
def _nothing_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
