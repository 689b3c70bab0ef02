"""Test that docs/cost.md has the figures of docs/wires.json."""

from importlib import import_module
from types import ModuleType

import pytest

BENCH = "wires"


def test_the_page_has_the_figures(bench: ModuleType) -> None:
    if not bench.RESULTS.exists():
        pytest.skip("not placed since bench/wires.py exists")
    text = bench.PAGE.read_text(encoding="utf-8")
    assert bench.fill_page(text, import_module("common").load_figures(bench.RESULTS)) == text, (
        "run python bench/wires.py"
    )
