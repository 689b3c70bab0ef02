"""Test a core's emitted files: reproducible, without warnings, with separate memories and correct tables."""

import hashlib
import json
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tensordash.configuration.core_config import CoreConfig
from tensordash.emission.verilog import generate
from tensordash_sim.verify.builds import verilator_environment

from .emitted import CORES, NAMES, emitted_core, modules_of, needs_icarus, needs_verilator, ports_of

FILES = [
    "tensordash.v",
    "tensordash_memories.v",
    "tensordash.vlt",
    "tensordash.f",
    "tensordash.core",
    "tensordash_core.sdc",
    "tensordash_librelane.yaml",
    "tensordash_ports.md",
    "tensordash.h",
    "tensordash_driver.h",
    "tensordash_driver.c",
    "tensordash_linux.h",
    "tensordash_linux.c",
    "tensordash_binding.yaml",
    "tensordash_node.dtsi",
    "config.toml",
    "config.json",
    "tensordash.rdl",
    "tensordash_descriptors.rdl",
    "tensordash.svd",
    "component.xml",
    "tensordash_core_ip.v",
    "tensordash_core_ip.sdc",
    "tensordash_core_inst.vh",
    "tensordash_core_sv.sv",
    "tensordash_core_sv_inst.svh",
]
VERILOG = FILES[:2]


@pytest.fixture
def folder(request, tmp_path: Path) -> Path:
    for name, text in emitted_core(getattr(request, "param", "core")).items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def test_list_of_files():
    texts = emitted_core("core")
    assert list(texts) == FILES
    assert texts["tensordash.f"].split() == VERILOG
    for name, text in texts.items():
        assert text.endswith("\n"), name
        assert "\r" not in text, name
        assert not re.search(r"(?<![\w/*<])/(?![/*\s])[\w.]+", text), name  # a path
    for name in VERILOG:
        assert CORES["core"].digest in texts[name].splitlines()[0]


@pytest.mark.slow
def test_same_bytes_in_another_process(tmp_path: Path):
    script = (
        "import hashlib, json; from tensordash.configuration.preset import load_any_preset; "
        "from tensordash.emission.core_files import render_core; texts = render_core(load_any_preset('core')); "
        "print(json.dumps({name: hashlib.sha256(text.encode()).hexdigest() for name, text in texts.items()}))"
    )
    run = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        env={"PYTHONHASHSEED": "1", "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert run.returncode == 0, run.stderr
    here = {name: hashlib.sha256(text.encode()).hexdigest() for name, text in emitted_core("core").items()}
    assert json.loads(run.stdout) == here


@pytest.mark.parametrize("name", NAMES)
def test_each_module_is_defined_once_and_used(name: str):
    """Each module is defined once and used, and all memories are in their own file."""
    texts = emitted_core(name)
    rest, memories = (modules_of(texts[file]) for file in VERILOG)
    assert not set(rest) & set(memories)
    assert {module for module in rest if "_memory_" in module} == set()
    assert all(re.fullmatch(r"tensordash_memory__\d+x\d+(_in_\d+_parts)?(_1_port)?", module) for module in memories)
    used = {kind for text in rest.values() for kind in re.findall(r"^  (tensordash_\w+) \w+ \(", text, re.M)}
    assert used | {"tensordash_core"} == set(rest) | set(memories)
    assert all(re.fullmatch(r"tensordash_[a-z0-9_]+", module) for module in rest)


@needs_icarus
@pytest.mark.parametrize("folder", NAMES, indirect=True)
def test_icarus_has_no_warnings(folder: Path):
    command = ["iverilog", "-Wall", "-g2005", "-t", "null", "-s", "tensordash_core", "-f", "tensordash.f"]
    run = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")


def lint(folder: Path, *files: str) -> list[str]:
    """Return the warnings of Verilator."""
    command = ["verilator", "--lint-only", "-Wall", "--top-module", "tensordash_core", *files]
    run = subprocess.run(command, cwd=folder, env=verilator_environment(), capture_output=True, text=True)
    found = [line for line in (run.stdout + run.stderr).splitlines() if line.startswith("%")]
    assert bool(found) == bool(run.returncode)
    return found


@needs_verilator
@pytest.mark.parametrize("folder", NAMES, indirect=True)
def test_verilator_has_no_warnings(folder: Path):
    assert lint(folder, "tensordash.vlt", *VERILOG) == []


@needs_verilator
def test_verilator_warns_without_waivers(folder: Path):
    """All warnings are of the kinds that the file waives."""
    kinds = Counter(re.findall(r"%Warning-(\w+)", "\n".join(lint(folder, *VERILOG))))
    assert set(kinds) == {"UNUSEDSIGNAL", "DECLFILENAME"}
    waived = set(re.findall(r"-rule (\w+)", emitted_core("core")["tensordash.vlt"]))
    assert set(kinds) == waived


@needs_icarus
def test_memory_file_can_be_replaced(folder: Path):
    """The other file has modules with the same ports, but without contents."""
    file = folder / VERILOG[1]
    empty = re.sub(
        r"^\);\n.*?^endmodule", ");\n  assign read_data = 0;\nendmodule", file.read_text(), flags=re.M | re.S
    )
    assert "always" not in empty.replace("registers", "")
    file.write_text(empty.replace("output reg", "output wire"))
    command = ["iverilog", "-Wall", "-g2005", "-t", "null", "-s", "tensordash_core", "-f", "tensordash.f"]
    run = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert (run.returncode, run.stderr) == (0, "")
    file.write_text(empty.replace("module tensordash_memory__64x128", "module another"))
    assert subprocess.run(command, cwd=folder, capture_output=True, text=True).returncode


def test_config_files(folder: Path):
    config, document = CORES["core"], json.loads((folder / "config.json").read_text())
    assert CoreConfig.load(folder / "config.toml") == config
    assert CoreConfig.from_mapping(document["config"]) == config
    assert document["digest"] == config.digest
    head = emitted_core("core")["tensordash.v"].partition("\n\n\n")[0].partition("\n`")[0].splitlines()[2:]
    text = "\n".join(line.removeprefix("//").strip() for line in head)
    assert CoreConfig.from_toml(text) == config
    derived = document["derived"]
    assert (derived["groups"], derived["group_bytes"], derived["streamed_steps"]) == (2048, 32, 512)


def test_memories_in_the_json():
    """The memories that docs/core.md lists: buffer, stream buffers, FIFO and window of descriptors, partial sums."""
    memories = {each["module"]: each for each in json.loads(emitted_core("core")["config.json"])["memories"]}
    totals = {name.partition("__")[2]: (each["instances"], each["bits_total"]) for name, each in memories.items()}
    piece = 2 * 99  # exact sums with their marks, of half a row of four columns
    assert totals == {
        "512x64": (16, 64 * 8192),
        "128x256_1_port": (8, 2 * 16 * 8192),
        "64x128": (1, 16 * 512),
        "128x129": (1, 32 * (512 + 4)),
        f"512x{piece}": (1, 64 * 4 * 2 * piece),
    }
    assert set(memories) == set(modules_of(emitted_core("core")["tensordash_memories.v"]))
    for name, each in memories.items():
        ports = {"both": 1} if name.endswith("_1_port") else {"write": 1, "read": 1}
        assert each["ports"] == {**ports, "write_enables": 1}


def test_port_tables_match_the_verilog():
    texts = emitted_core("core")
    text = modules_of(texts["tensordash.v"])["tensordash_core"]
    found = {name: {"direction": direction, "width": width} for name, (direction, width) in ports_of(text)}
    assert found == json.loads(texts["config.json"])["modules"]["tensordash_core"]
    listed = re.findall(r"^\| `(\w+)` \| (in|out) \| (\d+) \|", texts["tensordash_ports.md"], re.M)
    assert {name: (way, int(bits)) for name, way, bits in listed} == {
        name: (port["direction"].removesuffix("put"), port["width"]) for name, port in found.items()
    }
    delays = re.findall(r"^set_(input|output)_delay .*get_ports \{([^}]*)\}\]$", texts["tensordash_core.sdc"], re.M)
    for direction in ("input", "output"):
        names = [name + "[*]" * (port["width"] > 1) for name, port in found.items() if port["direction"] == direction]
        constrained = [name for way, group in delays if way == direction for name in group.split()]
        assert sorted(constrained) == sorted(set(names) - {"clk"})


def test_prefix_and_generate(tmp_path: Path):
    config = CoreConfig.from_toml("[tile]\nrows = 8\nsparsity = 'none'\n[core]\ncompression = false")
    written = generate(config, tmp_path / "new", "mine")
    texts = {path.name: path.read_text(encoding="utf-8") for path in written}
    assert sorted(texts) == sorted(name.replace("tensordash", "mine") for name in FILES)
    for name in ("mine.v", "mine_memories.v", "mine.h"):
        assert not re.search("tensordash_", texts[name], re.IGNORECASE)
    # A side of two parts writes each word in two parts.
    parts = {each["module"]: each["ports"]["write_enables"] for each in json.loads(texts["config.json"])["memories"]}
    assert {name: count for name, count in parts.items() if count > 1} == {"mine_memory__128x512_in_2_parts_1_port": 2}
    with pytest.raises(ValueError, match="prefix must be a letter"):
        generate(config, tmp_path / "out", "my-core")
    assert not (tmp_path / "out").exists()


def test_ports_on_a_line_belong_to_one_channel():
    channel = re.compile(r"\w+_(?:aw|ar|w|r|b)(?=(?:addr|data|id|last|ready|valid)$)")
    ports = re.findall(
        r"^  (?:in|out)put (?:wire|reg) ([\w, ]+?),?(?:  //.*)?$", emitted_core("core")["tensordash.v"], re.M
    )
    lines = [[channel.match(name) for name in line.split(", ")] for line in ports]
    assert sum(any(line) for line in lines) > 50
    assert all(len({found and found[0] for found in line}) == 1 for line in lines)
