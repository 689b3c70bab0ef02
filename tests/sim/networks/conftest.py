"""Tests do not see what the user has fetched, and do not wait for one another's threads."""

from pathlib import Path

import pytest
import torch

torch.set_num_threads(1)  # workers of pytest share the cores: several threads each take ten times as long


@pytest.fixture(autouse=True)
def _nothing_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
