"""Test the files of a multicore: they leave those of the core unchanged, and tools take them without warnings."""

import json
import re
import subprocess
from pathlib import Path

import pytest
from systemrdl.node import AddrmapNode

from tensordash import load_preset
from tensordash.configuration.core_config import CoreConfig
from tensordash.emission.core_files import render_core
from tensordash.emission.interfaces.multicore_rdl import multicore_rdl
from tensordash.emission.interfaces.systemrdl import register_rdl
from tensordash.emission.verilog import generate
from tensordash_sim.verify.builds import verilator_environment

from .emitted import modules_of, needs_icarus, needs_verilator, ports_of
from .register_models import compile_rdl, rdl_model

CONFIG = CoreConfig.from_toml("[core]\nbuffer = 8\nstream_buffer = 4\naddress_bits = 36")
ADDED = ["mine_multicore.v", "mine_multicore.sdc", "mine_multicore_ports.md", "mine_multicore.h", "mine_multicore.rdl"]


@pytest.fixture(scope="module")
def texts() -> dict[str, str]:
    return render_core(CONFIG, "mine", cores=3)


@pytest.fixture
def folder(tmp_path: Path, texts: dict[str, str]) -> Path:
    for name, text in texts.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def test_files_of_the_core_stay(texts):
    alone = render_core(CONFIG, "mine")
    assert [name for name in texts if name not in alone] == ADDED
    assert {name for name in alone if alone[name] != texts[name]} == {"mine.f", "mine.vlt", "mine.core", "config.json"}
    assert json.loads(texts["config.json"]) == {**json.loads(alone["config.json"]), "cores": 3}
    assert texts["mine.f"].split() == ["mine.v", "mine_memories.v", "mine_multicore.v"]
    assert all("tensordash_" not in texts[name] for name in ADDED)


def test_modules_and_ports(texts):
    modules = modules_of(texts["mine_multicore.v"])
    assert not set(modules) & set(modules_of(texts["mine.v"]) | modules_of(texts["mine_memories.v"]))
    ports = dict(ports_of(modules["mine_multicore"].partition(");")[0]))
    assert ports["irq"] == ("output", 3)
    assert ports["m_axi_arid"] == ("output", 3)
    assert ports["m_axi_bid"] == ("input", 3)
    assert ports["s_axi_awaddr"] == ("input", 14)
    rows = re.findall(r"^\| `(\w+)` \| (in|out) \| (\d+) \|", texts["mine_multicore_ports.md"], re.MULTILINE)
    assert {name: (f"{way}put", int(bits)) for name, way, bits in rows} == ports


def test_header(texts, tmp_path: Path):
    """The macros are those of docs/integration.md."""
    (tmp_path / "mine_multicore.h").write_text(texts["mine_multicore.h"])
    names = ("CORES", "STRIDE", "SHARED_BASE", "SHARED_BASE_HIGH", "SHARED_LIMIT", "SHARED_LIMIT_HIGH", "PATIENCE")
    lines = "\n".join(f"MINE_MULTICORE_{name}" for name in names)
    (tmp_path / "main.c").write_text(f'#include "mine_multicore.h"\n{lines}\n')
    command = ["gcc", "-std=c99", "-Wall", "-Werror", "-E", "-P", "main.c"]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert [int(value, 0) for value in run.stdout.split()] == [3, 4096, *(3 * 4096 + 4 * k for k in range(5))]


def test_register_map(folder: Path):
    """The registers of SystemRDL are at the places of docs/integration.md; those of a core are in its own file."""
    top = compile_rdl(folder / "mine_multicore.rdl")
    cores = [each for each in top.children(unroll=True) if isinstance(each, AddrmapNode)]
    assert [core.absolute_address for core in cores] == [0, 4096, 8192]
    of_core = [each.inst_name for each in compile_rdl(folder / "mine.rdl").children()]
    assert all([each.inst_name for each in core.children()] == of_core for core in cores)
    registers = rdl_model(folder / "mine_multicore.rdl")
    fields = {
        name: [(each.low, each.width, each.access, each.reset) for each in model.fields.values()]
        for name, model in registers.items()
    }
    assert [model.offset for model in registers.values()] == [3 * 4096 + 4 * k for k in range(5)]
    assert fields == {
        "shared_base": [(12, 20, "rw", 0)],
        "shared_base_high": [(0, 4, "rw", 0)],
        "shared_limit": [(0, 12, "r", 4095), (12, 20, "rw", 0)],
        "shared_limit_high": [(0, 4, "rw", 0)],
        "patience": [(0, 16, "rw", 0)],
    }


def test_register_map_of_narrow_addresses(tmp_path: Path):
    config = CoreConfig.from_toml("[core]\naddress_bits = 32")
    for name, text in (("mine.rdl", register_rdl(config, "mine")), ("two.rdl", multicore_rdl(config, 2, "mine"))):
        (tmp_path / name).write_text(text)
    high = rdl_model(tmp_path / "two.rdl")["shared_limit_high"]
    assert [each.access for each in high.fields.values()] == ["r"]


@needs_icarus
def test_icarus_has_no_warnings(folder: Path):
    command = ["iverilog", "-Wall", "-g2005", "-t", "null", "-s", "mine_multicore", "-f", "mine.f"]
    run = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")


@needs_verilator
def test_verilator_has_no_warnings(folder: Path):
    command = ["verilator", "--lint-only", "-Wall", "--top-module", "mine_multicore", "mine.vlt", "-f", "mine.f"]
    run = subprocess.run(command, cwd=folder, env=verilator_environment(), capture_output=True, text=True)
    assert run.returncode == 0, run.stderr


@pytest.mark.parametrize("cores", [0, 17, True])
def test_numbers_of_cores_that_are_refused(tmp_path: Path, cores):
    with pytest.raises((TypeError, ValueError), match="cores must be an integer from 1 to 16, not"):
        generate(CONFIG, tmp_path / "out", cores=cores)
    assert not (tmp_path / "out").exists()


def test_a_tile_has_no_multicore(tmp_path: Path):
    with pytest.raises(ValueError, match="cores must be 1 for a tile, not 2"):
        generate(load_preset("paper"), tmp_path / "out", cores=2)
