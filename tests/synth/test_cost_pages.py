"""Test that the pages have the figures of docs/cost.json, and that mapping small modules gives them."""

import json
import re
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

from tensordash import TileConfig, load_preset
from tensordash.emission.verilog import render
from tensordash_synth.hierarchy import Hierarchy
from tensordash_synth.run import running

ROOT = Path(__file__).parents[2]
BENCH = "cost"
HOW = "run python bench/cost.py"


@pytest.fixture(scope="module")
def pages(bench: ModuleType) -> dict[str, str]:
    return {page: (ROOT / page).read_text(encoding="utf-8") for page in import_module("cost_pages").PAGES}


@pytest.fixture(scope="module")
def results(bench: ModuleType) -> dict:
    return {name: entry["figures"] for name, entry in bench.cached_results().items()}


def test_pages_match_the_measurements(bench, pages, results):
    for page, text in pages.items():
        assert bench.fill_page(text, results) == text, f"{page}: {HOW}"


def test_every_region_is_on_a_page(pages):
    named = [name for text in pages.values() for name in re.findall("<!-- cost: ([\\w-]+) -->", text)]
    assert sorted(named) == sorted(import_module("cost_pages").REGIONS)
    assert len(named) == sum(text.count("<!-- /cost -->") for text in pages.values())


def test_changed_figures_change_the_pages(bench, pages, results):
    changed = json.loads(json.dumps(results))
    changed["paper"]["components"]["total"]["tensordash_ge"] += 160
    changed["numerics"]["table"] += "!"
    differ = {page for page, text in pages.items() if bench.fill_page(text, changed) != text}
    assert differ == {"docs/cost.md", "docs/cost-tables.md"}


@pytest.mark.parametrize(
    "role",
    [
        pytest.param("row_scheduler", marks=pytest.mark.slow),
        pytest.param("operand_mux", marks=pytest.mark.slow),
        pytest.param("staging_buffer", marks=pytest.mark.slow),
    ],
)
def test_remapped_modules_match_the_page(role, results, remap):
    stored = results["paper"]["modules"][f"tensordash_{role}"]
    mapped, gate_area = remap(load_preset("paper"), f"tensordash_{role}")
    assert (round(mapped.area_um2, 3), round(mapped.delay_ns, 4)) == (stored["area_um2"], stored["delay_ns"]), HOW
    assert round(mapped.area_um2 / gate_area, 3) == stored["ge"]


def test_remapped_compute_core_matches_the_page(results, remap):
    (stored,) = [core for core in results["numerics"]["cores"] if core["format"]["a"] == "int8"]
    tile = replace(load_preset("dense"), rows=1, columns=1, format="int8")
    mapped, _ = remap(tile, "tensordash_pe")
    assert (round(mapped.area_um2, 3), round(mapped.delay_ns, 4)) == (stored["area_um2"], stored["delay_ns"]), HOW


@pytest.mark.slow
def test_figures_are_of_the_current_verilog(bench, capsys):
    """Every part was mapped from the current Verilog, by the current recipe."""
    assert bench.check(), f"{capsys.readouterr().out}: {HOW}"


@pytest.fixture
def remap(tmp_path, monkeypatch):
    """Return a function that maps a module of a tile, with an empty cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    def mapped(config: TileConfig, name: str):
        with running(None, 2.0, None, 1) as run:
            tile = Hierarchy(render(config)["tensordash.v"], "tensordash_tile")
            return run.module(tile, name, name), run.library.gate_area

    return mapped
