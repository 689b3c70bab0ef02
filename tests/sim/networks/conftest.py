"""Hide the user's data sets from tests, and give each test process one thread."""

from pathlib import Path

import pytest
import torch

torch.set_num_threads(1)  # Workers share the processors: with several threads each, tests take ten times as long.


@pytest.fixture(autouse=True)
def _nothing_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
