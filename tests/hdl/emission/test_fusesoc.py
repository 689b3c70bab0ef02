"""Test that FuseSoC accepts the core file and runs every target."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tensordash import TileConfig, generate
from tensordash.configuration.core_config import CoreConfig
from tensordash.emission.fusesoc import core_file, core_of_core
from tensordash_sim.verify import render_testbench
from tensordash_sim.verify.core_testbench import render_core_testbench

from ...emitted_commands import installed_environment
from .emitted import needs_icarus, needs_verilator

CONFIG = TileConfig(rows=2, columns=1, format="fp8_e4m3")


@pytest.fixture(scope="module")
def core(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("core")
    generate(CONFIG, folder, "mine", render_testbench(CONFIG, "mine"))
    return folder


def fusesoc(root: Path, arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).with_name("fusesoc")), "--cores-root", str(root), *arguments.split()]
    caches = {name: str(folder) for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME")}
    environment = installed_environment() | caches
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=900)


needs_yosys = pytest.mark.skipif(shutil.which("yosys") is None, reason="Yosys is not installed")


def test_fusesoc_lists_all_targets(core: Path, tmp_path: Path) -> None:
    shown = fusesoc(core, "core show mine", tmp_path)
    assert shown.returncode == 0, shown.stderr
    assert CONFIG.digest in shown.stdout
    for target in ("default", "axi_stream", "lint", "synth", "sim", "sim_verilator"):
        assert target in shown.stdout


@needs_verilator
def test_lint(core: Path, tmp_path: Path) -> None:
    run = fusesoc(core, "run --target=lint mine", tmp_path)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "%Warning" not in run.stdout + run.stderr
    assert "--top-module mine_axi_stream_tile_ip" in next((tmp_path / "build").rglob("*.vc")).read_text()


@needs_icarus
def test_sim(core: Path, tmp_path: Path) -> None:
    run = fusesoc(core, "run --target=sim mine", tmp_path)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "PASS: 8 streams" in run.stdout


@needs_icarus
def test_sim_that_fails(core: Path, tmp_path: Path) -> None:
    shutil.copytree(core, tmp_path / "core")
    results = tmp_path / "core" / "mine_tile_tb_out.hex"
    results.write_text(results.read_text().replace("1", "0"))
    run = fusesoc(tmp_path / "core", "run --target=sim mine", tmp_path)
    assert run.returncode != 0
    assert "FAIL: " in run.stdout


@pytest.mark.slow
@needs_verilator
def test_sim_verilator(core: Path, tmp_path: Path) -> None:
    run = fusesoc(core, "run --target=sim_verilator mine", tmp_path)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "PASS: 8 streams" in run.stdout


@needs_yosys
def test_synth(tmp_path: Path) -> None:
    """The netlist has the cells of ECP5 and the ports of the top."""
    generate(TileConfig(rows=1, columns=1, lanes=2, sparsity="none", format="int8"), tmp_path / "core", "mine")
    check_synth(tmp_path, "mine_axi_stream_tile", "s_axis_a0_tdata")


def check_synth(folder: Path, top: str, port: str) -> None:
    run = fusesoc(folder / "core", "run --target=synth mine", folder)
    assert run.returncode == 0, run.stdout + run.stderr
    (netlist,) = (folder / "build").rglob("mine*.json")
    module = json.loads(netlist.read_text())["modules"][top]
    assert port in module["ports"]
    kinds = {cell["type"] for cell in module["cells"].values()}
    assert {"LUT4", "TRELLIS_FF"} <= kinds
    assert not {kind for kind in kinds if kind.startswith("mine_")}


USER = """\
CAPI=2:
name: ::user:1.0
filesets:
  rtl:
    files: [user.v]
    file_type: verilogSource-2005
    depend: ["mine"]
targets:
  lint:
    filesets: [rtl]
    flow: lint
    flow_options:
      tool: verilator
    toplevel: user
"""


@needs_verilator
def test_dependency_of_another_core(core: Path, tmp_path: Path) -> None:
    """The other core gets the Verilog and its waivers, but not the constraints, because it has other ports."""
    top = "module user(input clk, input rst, output ready);\n  mine_transposer t (.clk(clk), .rst(rst), "
    top += ".blocks_payload(33'd0), .blocks_valid(1'b0), .blocks_ready(ready), .out_ready(1'b0), "
    top += ".out_payload(), .out_valid());\nendmodule\n"
    root = tmp_path / "cores"
    root.mkdir()
    (root / "user.v").write_text(top)
    (root / "user.core").write_text(USER)
    run = fusesoc(root, f"--cores-root {core} run --target=lint user", tmp_path)
    assert run.returncode == 0, run.stdout + run.stderr
    description = next((tmp_path / "build").rglob("*.eda.yml")).read_text()
    assert "mine.v" in description
    assert "mine.vlt" in description
    assert "mine_axi_stream_tile_ip.v" in description
    assert ".sdc" not in description


def test_sim_only_with_a_testbench() -> None:
    assert "\n  sim" not in core_file("mine", "0", ["mine.v"])  # a target
    assert "sim:" in core_file("mine", "0", ["mine.v"], ["mine_tile_tb.v", "mine_tile_tb_a.hex"])


SMALL_CORE = CoreConfig.from_toml(
    "[tile]\nsparsity = 'none'\n[core]\nbuffer = 4\nstream_buffer = 2\nmask = false\nstochastic = false\n"
    "compression = false"
)


@pytest.fixture(scope="module")
def tensordash_core(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tensordash_core")
    generate(SMALL_CORE, folder, "mine", render_core_testbench(SMALL_CORE, "mine"))
    return folder


@needs_icarus
def test_sim_of_a_core(tensordash_core: Path, tmp_path: Path) -> None:
    run = fusesoc(tensordash_core, "run --target=sim mine", tmp_path)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "PASS: 9 descriptors" in run.stdout


@needs_verilator
def test_lint_of_a_core(tensordash_core: Path, tmp_path: Path) -> None:
    run = fusesoc(tensordash_core, "run --target=lint mine", tmp_path)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "%Warning" not in run.stdout + run.stderr
    assert "--top-module mine_core_ip" in next((tmp_path / "build").rglob("*.vc")).read_text()


@pytest.mark.parametrize("flag", ["", "--flag=macros "])
def test_memories_of_a_core_are_left_out_for_macros(flag: str, tensordash_core: Path, tmp_path: Path) -> None:
    """The target has no flow; the test checks the files that a flow would get."""
    user = USER.replace("toplevel: user", "toplevel: mine_core")
    root = tmp_path / "cores"
    root.mkdir()
    (root / "user.v").write_text("")
    (root / "user.core").write_text(user)
    run = fusesoc(root, f"--cores-root {tensordash_core} run --setup {flag}--target=lint user", tmp_path)
    assert run.returncode == 0, run.stdout + run.stderr
    description = next((tmp_path / "build").rglob("*.eda.yml")).read_text()
    assert "mine.v" in description
    assert "mine_core_ip.v" in description
    assert ("mine_memories.v" in description) != bool(flag)
    assert ".sdc" not in description


@pytest.mark.slow
@needs_yosys
def test_synth_of_a_core(tensordash_core: Path, tmp_path: Path) -> None:
    shutil.copytree(tensordash_core, tmp_path / "core")
    check_synth(tmp_path, "mine_core", "s_axi_awaddr")


@pytest.mark.slow
@needs_verilator
def test_sim_verilator_of_the_preset_core(tmp_path: Path) -> None:
    config = CoreConfig()
    generate(config, tmp_path / "core", "mine", render_core_testbench(config, "mine"))
    run = fusesoc(tmp_path / "core", "run --target=sim_verilator mine", tmp_path)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "PASS: " in run.stdout


@needs_icarus
def test_sim_of_a_multicore(tmp_path: Path) -> None:
    bench = render_core_testbench(SMALL_CORE, "mine") | render_core_testbench(SMALL_CORE, "mine", cores=2)
    generate(SMALL_CORE, tmp_path / "core", "mine", bench, 2)
    for target, count in (("sim_multicore", 18), ("sim", 9)):
        run = fusesoc(tmp_path / "core", f"run --target={target} mine", tmp_path)
        assert run.returncode == 0, run.stdout + run.stderr
        assert f"PASS: {count} descriptors" in run.stdout


@needs_verilator
def test_a_multicore_is_the_default(tmp_path: Path) -> None:
    """Another core gets the multicore's Verilog, and its own constraints."""
    generate(SMALL_CORE, tmp_path / "core", "mine", {}, 2)
    root = tmp_path / "cores"
    root.mkdir()
    (root / "user.v").write_text("")
    (root / "user.core").write_text(USER.replace("toplevel: user", "toplevel: mine_multicore"))
    run = fusesoc(root, f"--cores-root {tmp_path / 'core'} run --target=lint user", tmp_path)
    assert run.returncode == 0, run.stdout + run.stderr
    assert ".sdc" not in next((tmp_path / "build").rglob("*.eda.yml")).read_text()
    run = fusesoc(tmp_path / "core", "run --target=lint_multicore mine", tmp_path)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "%Warning" not in run.stdout + run.stderr
    default = core_of_core("mine", "0", cores=2).partition("  default:\n")[2]
    assert default.startswith(
        '    filesets: [rtl, "!macros ? (memories)", multicore, ip, waivers, is_toplevel ? (multicore_constraints)]\n'
        "    toplevel: mine_multicore\n"
    )


def test_sim_of_a_core_only_with_a_testbench() -> None:
    assert "\n  sim" not in core_of_core("mine", "0")  # a target
    assert "toplevel: mine_core_tb" in core_of_core("mine", "0", ["mine_core_tb.v", "mine_core_tb_after.hex"])
    assert "\n  sim" not in core_of_core("mine", "0", cores=2)
