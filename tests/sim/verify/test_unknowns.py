"""Test that unknown bits in simulation do not change results, although an `if` hides an unknown enable.

`tensordash.emission.emit` writes registers with an enable as ``if (enable)``, or without `enables` as muxes, where an
unknown enable makes the register unknown. Tiles and cores must behave equally in both, starting with unknown registers.
"""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from amaranth.hdl import Signal

from tensordash import TileConfig, load_preset
from tensordash.configuration.core_config import CoreConfig
from tensordash.core.core import Core
from tensordash.emission.verilog import emit
from tensordash.tile.pe import PE
from tensordash.tile.tile import Tile
from tensordash_sim.verify import run_bench, simulator_names
from tensordash_sim.verify.core_run import CORE_BENCHES, run_core_bench

pytestmark = pytest.mark.skipif("icarus" not in simulator_names(), reason="Verilator has no unknown bits")

CONFIG = TileConfig(rows=2, columns=1, format="fp8_e4m3")
CONFIGS = {
    "shift": CONFIG,
    "ring": replace(load_preset("recommended"), rows=1, columns=2, format="fp8_e5m2", out_rows=1, initial=True),
    "int8": TileConfig(rows=2, columns=1, format="int8", sparsity="both", initial=True, pipeline=3),
}


CORE = CoreConfig.from_toml("", ["core.buffer=8", "core.stream_buffer=4", "core.partial_sums=9"])
SLOW: tuple[Any, Any] = ((), pytest.mark.slow)

TESTS = "random_traffic|output_blocked|reset_anywhere|c_alone|special_values|snapshots"
"""Tests of the bench that together use every part of a tile."""


@pytest.fixture(autouse=True)
def only(monkeypatch):
    """Select few tests, since registers with multiplexers are slow in Icarus."""
    monkeypatch.setenv("COCOTB_TEST_FILTER", TESTS)


def failures(config: TileConfig, folder: Path, *, enables: bool) -> tuple[str, ...]:
    text = emit(Tile(config), enables=enables)
    assert bool(re.search(r"^    (else )?if \((?!rst\))", text, re.M)) == enables
    (folder / "tile.v").write_text(text)
    result = run_bench(
        "tile", config, folder, folder / "run", seed=5, effort=0.1, simulator="icarus", sources=[folder / "tile.v"]
    )
    assert result.tests > 0
    return result.failures


@pytest.mark.parametrize("name", CONFIGS)
def test_no_unknown_bit_matters(name, tmp_path):
    assert failures(CONFIGS[name], tmp_path, enables=False) == ()


@pytest.mark.parametrize("bench", [pytest.param(name, marks=SLOW[name != "core_queue"]) for name in CORE_BENCHES])
def test_no_unknown_bit_of_a_core_matters(bench, monkeypatch, tmp_path):
    """No unknown bit of a core's memories matters, either."""
    monkeypatch.delenv("COCOTB_TEST_FILTER")
    (tmp_path / "core.v").write_text(emit(Core(CORE), enables=False))
    settings = {"effort": 0.1, "simulator": "icarus", "sources": [tmp_path / "core.v"]}
    result = run_core_bench(bench, CORE, tmp_path, tmp_path / "run", **settings)
    assert result.tests > 1
    assert result.failures == ()


@pytest.mark.parametrize("enables", [True, False])
def test_unknown_enable_is_found_only_in_plain_verilog(enables, sabotage, tmp_path):
    """The fault adds a register without a reset, which stays unknown, to a sum."""

    def stays_unknown(pe):
        pe.unknown = Signal(name="unknown", reset_less=True)
        return [pe.unknown.eq(pe.unknown ^ pe.sum.hold)]

    sabotage(PE, stays_unknown, domain="sync")
    sabotage(PE, lambda pe: [pe.accumulator.sum.take.eq(pe.sum.take | pe.unknown)])
    found = failures(CONFIG, tmp_path, enables=enables)
    assert bool(found) != enables, found
