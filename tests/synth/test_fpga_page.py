"""Test that docs/cost-tables.md has the figures of docs/fpga.json for the designs of bench/fpga.py."""

import json
from types import ModuleType

BENCH = "fpga"
HOW = "run python bench/fpga.py"


def test_page_matches_the_placements(bench: ModuleType) -> None:
    text = bench.PAGE.read_text(encoding="utf-8")
    assert bench.fill_page(text, bench.cached_results()) == text, HOW
    changed = json.loads(json.dumps(bench.cached_results()))
    for found in changed.values():
        found["fpga"]["tensordash"]["clock_mhz"] += 1
    assert bench.fill_page(text, changed) != text


def test_placements_are_of_the_current_designs(bench: ModuleType) -> None:
    cached = bench.cached_results()
    assert {name: found["config"] for name, found in cached.items()} == {
        name: bench.DESIGNS[name].digest for name in cached
    }, HOW
    assert cached
