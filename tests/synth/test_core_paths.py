"""Test that no output of a core or of several depends on an input in the same cycle (AXI, A3.1.1)."""

from pathlib import Path

import pytest

from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.preset import load_any_preset
from tensordash.core.core import Core
from tensordash.core.multicore import Multicore
from tensordash.emission.core_files import core_verilog
from tensordash.emission.library import ports
from tensordash_synth.yosys import run_yosys

from ..replaced_text import replace_once

REGISTERS = "$dff,$dffe,$sdff,$sdffe,$sdffce"


def combinational_paths(name: str, folder: Path, *replaced: tuple[str, str], cores: int = 1) -> dict[str, set[str]]:
    """Return the outputs of a preset's cores that depend on inputs in the same cycle, with these inputs."""
    config = load_any_preset(name)
    assert isinstance(config, CoreConfig)
    text = core_verilog(config, cores)
    for right, wrong in replaced:
        text = replace_once(text, right, wrong)
    (folder / "core.v").write_text(text)
    top, block = ("core", Core(config)) if cores == 1 else ("multicore", Multicore(config, cores))
    outputs = [port for port, each in ports(block).items() if each["direction"] == "output"]
    commands = ["read_verilog core.v", f"hierarchy -top tensordash_{top}", "proc", "flatten", "opt_clean"]
    for port in outputs:
        commands += [f"select -set cone o:{port} %ci*:-{REGISTERS}", f"select -write {port}.txt @cone i:* %i"]
    run_yosys(commands, folder, "core")
    found = {port: {line.split("/")[-1] for line in (folder / f"{port}.txt").read_text().split()} for port in outputs}
    return {port: inputs - {"clk"} for port, inputs in found.items() if inputs - {"clk"}}


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    ["core", "core-bf16", "core-int8", "core-dense", "core-fp8", "core-wide", "core-nvfp4", "core-skip", "core-drop"],
)
def test_no_combinational_paths(name: str, tmp_path: Path) -> None:
    assert combinational_paths(name, tmp_path) == {}


@pytest.mark.slow
def test_no_combinational_paths_of_a_multicore(tmp_path: Path) -> None:
    assert combinational_paths("core", tmp_path, cores=2) == {}


@pytest.mark.slow
def test_combinational_paths_are_found(tmp_path: Path) -> None:
    ready = (
        "assign axi_rready = first_rready & second_rready;",
        "assign axi_rready = axi_rid ? second_rready : first_rready;",
    )
    write = ("assign axi_wready = axi_awready;", "assign axi_wready = axi_awvalid;")
    expected = {"m_axi_rready": {"m_axi_rid"}, "s_axi_wready": {"s_axi_awvalid"}}
    assert combinational_paths("core", tmp_path, ready, write) == expected
