"""Test that memories of a core on FPGAs use only block RAM."""

import json
from pathlib import Path

import pytest

from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.preset import preset_text
from tensordash.emission.core_files import render_core
from tensordash.emission.library import emit
from tensordash.memory.memory import Memory
from tensordash_synth.fpga_families import FAMILIES
from tensordash_synth.mapping import statistics
from tensordash_synth.yosys import run_yosys

# Memories of the preset `core`: words, bits and ports, and the number of blocks of 16 or 18 Kbit.
SHAPES = {(64, 128, 2): 4, (512, 198, 2): 6, (512, 64, 2): 2, (128, 256, 1): 8}
OTHERS = [pytest.param(family, marks=pytest.mark.slow) for family in ("nexus", "gowin")]


@pytest.mark.parametrize("family", ["ecp5", *OTHERS])
@pytest.mark.parametrize("shape", SHAPES)
def test_memories_are_block_ram(family: str, shape: tuple[int, int, int], tmp_path: Path) -> None:
    words, bits, ports = shape
    memory = Memory(words=words, bits=bits, ports=ports)
    (tmp_path / "design.v").write_text(emit(memory), encoding="utf-8")
    top = f"tensordash_memory__{memory.variant}"
    synth = f"{FAMILIES[family].synth} -top {top}"
    run_yosys(["read_verilog design.v", synth, "tee -q -o stat.json stat -json"], tmp_path, top)
    counts = FAMILIES[family].count(statistics(tmp_path / "stat.json", top)["num_cells_by_type"])
    assert counts["bram"] == SHAPES[shape]
    assert (counts["ff"], counts["dsp"]) == (0, 0)
    # With a single port, LUTs select between read and write.
    assert counts["lut"] <= (2 if ports == 1 else 0)


@pytest.mark.slow
def test_tested_shapes_match_the_core() -> None:
    config = CoreConfig.from_toml(preset_text("core"))
    memories = json.loads(render_core(config)["config.json"])["memories"]
    found = {(each["words"], each["bits"], 1 if "both" in each["ports"] else 2) for each in memories}
    assert found == set(SHAPES)
