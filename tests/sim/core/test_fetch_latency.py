"""Memory's latency is covered by prefetch and by reads on the way."""

import runpy
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[3] / "bench" / "core_fetch.py"


@pytest.mark.slow
def test_latency_is_covered():
    bench = runpy.run_path(str(BENCH))
    fast, slow = bench["measure"](bench["load_any_preset"]("core"))
    assert slow["descriptor_cycles"] - fast["descriptor_cycles"] <= bench["MAX_LATENCY_COST"]
    assert max(fast["ratio"], slow["ratio"]) <= bench["MAX_LOAD_RATIO"]
