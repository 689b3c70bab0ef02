"""Test power of a core's netlist with memories, whose accesses match the programs."""

import json
from pathlib import Path

import pytest

from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.descriptors import decode
from tensordash.configuration.preset import load_any_preset
from tensordash_synth import load_liberty, synthesize_core
from tensordash_synth.core_power import CoreSimulation
from tensordash_synth.core_training import NoEnergyError, training_energies
from tensordash_synth.gates import read_netlist
from tensordash_synth.power_report import NO_OPENSTA
from tensordash_synth.recorded_step import recorded_operations, step_program

from .gates import finish

ROOT = Path(__file__).parents[2]
MEMORY = """(* blackbox *)
module tensordash_memory__4x6_in_2_parts(clk, write_enable, write_address, write_data, read_enable, read_address,
  read_data);
  input clk;
  input [1:0] write_enable;
  input [1:0] write_address;
  input [5:0] write_data;
  input read_enable;
  input [1:0] read_address;
  output [5:0] read_data;
endmodule
"""
TOP = """module tensordash_core(clk, write, at, data, read, shown);
  input clk;
  input [1:0] write;
  input [1:0] at;
  input [5:0] data;
  input read;
  output [5:0] shown;
  wire [5:0] word;
  tensordash_memory__4x6_in_2_parts inner (.clk(clk), .write_enable(write), .write_address(at), .write_data(data),
    .read_enable(read), .read_address(at), .read_data(word));
  INV_X1 u0 (.A(word[0]), .ZN(shown[0]));
  assign shown[5:1] = word[5:1];
endmodule
"""


def core(name: str) -> CoreConfig:
    config = load_any_preset(name)
    assert isinstance(config, CoreConfig)
    return config


def test_memory_between_gates(tmp_path):
    gates = read_netlist(MEMORY + TOP, "tensordash_core", load_liberty(), tmp_path)
    assert gates.ports["inner.read_data"][0] == "input"
    assert "inner.clk" not in gates.ports
    simulation = CoreSimulation(gates)

    def cycle(**inputs: int) -> int:
        simulation.drive(**{"write": 0, "read": 0, "at": 0, "data": 0, **inputs})
        finish(simulation.tick())
        return simulation.read("shown") ^ 1

    assert cycle(write=3, at=2, data=0b101101) == 0
    assert cycle(read=1, at=2) == 0b101101
    assert cycle(write=2, at=2, data=0b010010) == 0b101101, "what was read stays"
    assert cycle(read=1, at=2) == 0b010101, "only the upper part was written"
    assert cycle(read=1, write=3, at=2, data=0) == 0b010101, "a read returns the word before the write"
    assert cycle(read=1, at=2) == 0
    assert simulation.accesses == {"inner": (4, 3)}
    simulation.forget()
    assert simulation.accesses == {"inner": (0, 0)}


ONE_PORT = """(* blackbox *)
module tensordash_memory__4x6_1_port(clk, enable, address, write_enable, write_data, read_data);
  input clk;
  input enable;
  input [1:0] address;
  input write_enable;
  input [5:0] write_data;
  output [5:0] read_data;
endmodule
module tensordash_core(clk, works, write, at, data, shown);
  input clk;
  input works;
  input write;
  input [1:0] at;
  input [5:0] data;
  output [5:0] shown;
  tensordash_memory__4x6_1_port inner (.clk(clk), .enable(works), .address(at), .write_enable(write),
    .write_data(data), .read_data(shown));
endmodule
"""


def test_a_memory_with_one_port(tmp_path):
    gates = read_netlist(ONE_PORT, "tensordash_core", load_liberty(), tmp_path)
    simulation = CoreSimulation(gates)

    def cycle(**inputs: int) -> int:
        simulation.drive(**{"works": 1, "write": 0, "at": 0, "data": 0, **inputs})
        finish(simulation.tick())
        return simulation.read("shown")

    assert cycle(write=1, at=2, data=0b101101) == 0
    assert cycle(at=2) == 0b101101
    assert cycle(write=1, at=2, data=0b010010) == 0b101101, "what was read stays"
    assert cycle(write=1, at=2, data=0, works=0) == 0b101101
    assert cycle(at=1, works=0) == 0b101101
    assert cycle(at=2) == 0b010010
    assert simulation.accesses == {"inner": (2, 2)}


def test_operations_of_the_complete_step():
    config = core("core")
    operations = list(recorded_operations(config))
    assert len(operations) == 11
    assert {each.operation for each in operations} == {"AxW", "WxG", "AxG"}
    assert not any(each.name == "CNN.conv1 WxG" for each in operations), "training needs no gradient of the images"
    by_name = {each.name: each for each in operations}
    assert by_name["CNN.conv2 AxG"].values["G"].shape == (16, 16, 6, 6)
    assert by_name["CNN.fc1 AxW"].values["A"].shape == (1, 144, 1, 16)
    with pytest.raises(ValueError, match="the sides of the tile must have one format, not fp8_e4m3 and fp8_e5m2"):
        next(recorded_operations(core("core-fp8")))


def test_missing_requirements_of_energy(monkeypatch):
    monkeypatch.setattr("tensordash_synth.core_training.find_opensta", lambda: "sta")
    with pytest.raises(NoEnergyError, match="one format"):
        training_energies(None, core("core-fp8"), None, {}, None)
    monkeypatch.setattr("tensordash_synth.core_training.find_opensta", lambda: None)
    with pytest.raises(NoEnergyError) as caught:
        training_energies(None, core("core"), None, {}, None)
    assert str(caught.value) == NO_OPENSTA


def accesses_of_program(config: CoreConfig, descriptors: tuple[int, ...]) -> dict[str, int]:
    """Return the accesses that follow from a program alone, by unit."""
    depth, lanes = config.tile.window_depth, config.tile.lanes
    counts = dict.fromkeys(("a reads", "b reads", "a writes", "b writes", "buffer writes", "partial writes"), 0)
    for bits in descriptors:
        operation, values = decode(bits)
        assert operation is not None
        if operation.name.startswith("layout"):
            words = -(-values["steps"] // depth) * depth
            counts[f"{operation.name[-1]} writes"] += values["streams"] * words
        elif operation.name == "multiply":
            blocks = values["a_streams"] * values["b_streams"]
            for side in "ab":
                counts[f"{side} reads"] += blocks * -(-values["steps"] // depth) * depth
            groups = config.tile.rows * config.tile.columns // lanes**2
            counts["buffer writes" if values["emit"] else "partial writes"] += (
                blocks * groups * lanes * (1 if values["emit"] else config.result_cycles)
            )
        elif operation.name == "load":
            counts["buffer writes"] += (
                lanes * values["count_0"] * values["count_1"] * values["count_2"] * values["count_3"]
            )
    return counts


def check_accesses(name: str, design: str, operations: set[str]) -> None:
    config = core(name)
    stored = json.loads((ROOT / "docs" / "cost.json").read_text())["core"]["figures"][design]["step"]["operations"]
    for work in recorded_operations(config):
        if work.name not in operations and operations:
            continue
        expected = accesses_of_program(config, step_program(config, work).descriptors)
        found: dict[str, int] = {}
        for memory, (reads, writes) in stored[work.name]["accesses"].items():
            unit = memory.split()[0].removeprefix("stream_buffer_").replace("output_unit", "partial")
            found |= {f"{unit} reads": reads, f"{unit} writes": writes}
        assert {each: found[each] for each in expected} == expected, work.name


def test_accesses_match_the_programs():
    check_accesses("core-dense", "baseline", {"CNN.fc1 AxW", "CNN.conv2 AxG"})
    check_accesses("core", "tensordash", {"CNN.fc1 AxW", "CNN.fc2 WxG"})


@pytest.mark.slow
@pytest.mark.parametrize(("name", "design"), [("core", "tensordash"), ("core-dense", "baseline")])
def test_accesses_of_the_complete_step(name, design):
    check_accesses(name, design, set())


@pytest.mark.slow
def test_core_figures_match_the_page():
    """Both netlists must have the golden core's results; the simulation takes minutes."""
    stored = json.loads((ROOT / "docs" / "cost.json").read_text())["core"]["figures"]
    document = synthesize_core(core("core"), power=True).to_json()
    if reason := document["memories_reason"] or document["step_reason"]:
        pytest.skip(reason)
    assert document["ratio"] == stored["ratio"]
    assert document["tensordash"]["step"]["operations"] == stored["tensordash"]["step"]["operations"]
