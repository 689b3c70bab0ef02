"""Test that prefetch and outstanding reads hide memory latency."""

import runpy
from pathlib import Path

import pytest

from tensordash.configuration.preset import load_any_preset

BENCH = Path(__file__).parents[3] / "bench" / "core_fetch.py"


@pytest.mark.slow
def test_fetches_meet_their_goals(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCH.parent))
    bench = runpy.run_path(str(BENCH))
    met = bench["goals"](bench["measure"](load_any_preset("core")))
    assert all(met.values()), met
