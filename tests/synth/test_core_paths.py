"""What of a core's ports depends on others in the same cycle: constraints and tables of ports say so."""

from pathlib import Path

import pytest

from tensordash.configuration.preset import load_any_preset
from tensordash.emission.verilog import generate
from tensordash_synth.yosys import run_yosys

REGISTERS = "$dff,$dffe,$sdff,$sdffe,$sdffce"
PASSING = {
    "s_axi_awready": {"s_axi_awvalid", "s_axi_wvalid"},
    "s_axi_wready": {"s_axi_awvalid", "s_axi_wvalid"},
    "m_axi_rready": {"m_axi_rvalid", "m_axi_rid"},
}
"""Outputs that depend on inputs, and on which."""


@pytest.mark.slow
def test_what_passes_through(tmp_path: Path) -> None:
    generate(load_any_preset("core"), tmp_path)
    text = (tmp_path / "tensordash_ports.md").read_text()
    outputs = [line.split("`")[1] for line in text.splitlines() if "| out |" in line]
    commands = ["read_verilog tensordash.v tensordash_memories.v", "hierarchy -top tensordash_core"]
    commands += ["proc", "flatten", "opt_clean"]
    for name in outputs:
        commands += [f"select -set cone o:{name} %ci*:-{REGISTERS}", f"select -write {name}.txt @cone i:* %i"]
    run_yosys(commands, tmp_path, "core")
    found = {
        name: {line.split("/")[-1] for line in (tmp_path / f"{name}.txt").read_text().split()} - {"clk"}
        for name in outputs
    }
    assert {name: inputs for name, inputs in found.items() if inputs} == PASSING
    for name, inputs in PASSING.items():
        assert all(f"`{each.partition('_axi_')[2]}`" in text for each in inputs), name
