"""Test the comparison of a core's netlists with its RTL, without the memories."""

import re
from dataclasses import replace

import pytest

from tensordash.configuration.preset import load_any_preset
from tensordash.memory.buffer import Buffer
from tensordash_sim.verify.unit_run import emitted
from tensordash_synth import load_liberty, prove_equivalence
from tensordash_synth.equivalence import compare, same_logic
from tensordash_synth.hierarchy import Hierarchy
from tensordash_synth.mapping import map_for_area

SHAPE = {"lanes": 4, "width": 8, "groups": 8, "regions": 2, "readers": 2, "writers": 1}
BANK = "tensordash_bank"


@pytest.fixture(scope="module")
def buffer():
    unit = emitted(Buffer(**SHAPE))
    return Hierarchy(unit.text, unit.top)


@pytest.fixture(scope="module")
def bank(buffer, tmp_path_factory):
    folder = tmp_path_factory.mktemp("bank")
    (folder / "bank.v").write_text(buffer.source(BANK))
    return map_for_area(["read_verilog bank.v"], BANK, load_liberty(None), 2.0, folder, thorough=False)


def test_memories_are_excluded_from_logic(buffer):
    assert buffer.logic == [BANK, "tensordash_buffer"]
    assert {place.role for place in buffer.placements} == {"bank", "buffer", "memory"}


def test_netlist_of_a_bank_is_equal_outside_of_memories(buffer, bank, tmp_path):
    found = compare(buffer, BANK, bank, load_liberty(None), tmp_path)
    assert (found.equal, found.how) == (True, "cec")
    ports = len(re.findall(r"tensordash_memory__\w+ ", bank.netlist))
    assert ports == SHAPE["regions"]
    assert found.outputs > SHAPE["regions"] * SHAPE["lanes"] * SHAPE["width"], "inputs of memories are compared"


@pytest.mark.parametrize("port", ["write_enable", "read_enable"])
def test_another_input_of_a_memory_is_found(port, buffer, bank, tmp_path):
    """A bank's netlist swaps the inputs of its two memories."""
    inputs = re.findall(rf"\.{port}\((.*?)\)", bank.netlist)
    assert len(set(inputs)) == 2
    wrong = replace(bank, netlist=bank.netlist.replace(f".{port}({inputs[0]})", f".{port}({inputs[1]})"))
    found = compare(buffer, BANK, wrong, load_liberty(None), tmp_path)
    assert not found.equal
    assert port in found.difference


@pytest.mark.slow
@pytest.mark.parametrize("preset", ["core", "core-bf16", "core-int8", "core-dense", "core-fp8"])
def test_netlists_of_a_complete_core_are_equal(preset):
    report = prove_equivalence(load_any_preset(preset))
    assert report.failures == []
    assert "tensordash_core" in {each.module for each in report.modules}


def module(body):
    return f"module m(input clk, input a, input b, output [1:0] y);\n{body}\nendmodule\n"


def test_constant_outputs_are_compared(tmp_path):
    constant = "assign y[1] = b; assign y[0] ="
    one = module(f"{constant} a & ~a;")
    assert same_logic(one, module(f"{constant} 1'b0;"), "m", tmp_path)
    assert same_logic(one, module(f"{constant} 1'b1;"), "m", tmp_path) is False
    assert same_logic(module(f"{constant} 1'b0;"), module(f"{constant} 1'b1;"), "m", tmp_path) is False


def test_register_that_yosys_renames(tmp_path):
    """Yosys makes y[1] the register itself, which loses its own name."""
    one = module("reg far; always @(posedge clk) far <= a; assign y = far ? 2'b10 : 2'b00;")
    other = "reg q; always @(posedge clk) q <= {next}; assign y = {{q, 1'b0}};"
    assert same_logic(one, module(other.format(next="a")), "m", tmp_path)
    assert same_logic(one, module(other.format(next="b")), "m", tmp_path) is False
    inverted = "reg q; always @(posedge clk) q <= {next}; assign y = {{~q, 1'b0}};"
    assert same_logic(one, module(inverted.format(next="~a")), "m", tmp_path)
    assert same_logic(one, module(inverted.format(next="a")), "m", tmp_path) is False


@pytest.mark.parametrize(
    ("reset", "becomes", "equal"),
    [
        ("if (rst) gone <= 1'b0; else", "gone & b", True),  # stays 0
        ("if (rst) gone <= 1'b0; else", "gone | b", False),  # may become 1
        ("if (rst) gone <= 1'b1; else", "gone & b", False),  # becomes 0
        ("if (rst) gone <= 1'b1; else", "gone | b", False),  # stays 1, which is visible
        ("if (b)", "1'b0", True),  # may be 0 at power-up
        ("if (b)", "1'b1", False),
    ],
)
def test_register_that_is_replaced_by_a_constant(reset, becomes, equal, tmp_path):
    """The register keeps its reset or power-up value. The other view has the constant 0 instead."""

    def module(register, value):
        ports = "input clk, input rst, input a, input b, output q"
        constant = "reg kept; always @(posedge clk) kept <= a;"
        return f"module m({ports}); {constant} {register} assign q = kept ^ {value}; endmodule"

    register = f"reg gone; always @(posedge clk) {reset} gone <= {becomes};"
    verdict = same_logic(module(register, "gone"), module("", "1'b0"), "m", tmp_path)
    assert verdict is equal
