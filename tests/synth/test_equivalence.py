"""Test that netlists are proven equal to RTL, and that a wrong gate, clock gate or register is found."""

import re
from dataclasses import replace

import pytest

from tensordash import TileConfig, load_preset
from tensordash.emission.verilog import render
from tensordash_sim.verify import run_bench, simulator_names
from tensordash_synth import SynthesisError, gate_level_files, load_liberty, prove_equivalence
from tensordash_synth import equivalence as module_under_test
from tensordash_synth.equivalence import compare
from tensordash_synth.hierarchy import Hierarchy
from tensordash_synth.mapping import map_for_area

from .gates import run_on_gates

SMALL = TileConfig(
    rows=1, columns=1, lanes=2, depth=2, format="fp8_e4m3", connectivity=((0, 0), (1, 0), (1, 1)), headroom_bits=0
)
BUFFER = "tensordash_staging_buffer"


def broken(netlist):
    """Replace one gate by its dual."""
    duals = {"NAND2_X1": "NOR2_X1", "AND2_X1": "OR2_X1", "AOI22_X1": "OAI22_X1", "NOR2_X1": "NAND2_X1"}
    duals |= {"OAI21_X1": "AOI21_X1", "OAI22_X1": "AOI22_X1", "NAND3_X1": "NOR3_X1", "AOI21_X1": "OAI21_X1"}
    for gate, dual in duals.items():
        if f"  {gate} " in netlist:
            return netlist.replace(f"  {gate} ", f"  {dual} ", 1)
    raise AssertionError("no gate to break")


@pytest.fixture(scope="module")
def tile():
    return Hierarchy(render(SMALL)["tensordash.v"], "tensordash_tile")


@pytest.fixture(scope="module")
def mapped(tile, tmp_path_factory):
    folder = tmp_path_factory.mktemp("buffer")
    (folder / "tile.v").write_text(tile.text)
    return map_for_area(["read_verilog tile.v"], BUFFER, load_liberty(None), 2.0, folder, thorough=False)


@pytest.fixture
def check(tile, tmp_path):
    return lambda mapped, name=BUFFER: compare(tile, name, mapped, load_liberty(None), tmp_path)


def test_a_netlist_is_equal(mapped, check):
    found = check(mapped)
    assert (found.equal, found.how, found.difference) == (True, "cec", "")
    assert found.registers == SMALL.lanes * SMALL.depth * SMALL.a_format.width
    assert "CLKGATE" in mapped.netlist, "the netlist has no clock gate to compare"


def test_another_gate_is_found(mapped, check):
    found = check(replace(mapped, netlist=broken(mapped.netlist)))
    assert not found.equal
    assert "differs" in found.difference


def test_a_clock_gate_that_is_always_open_is_found(mapped, check):
    head, gate, rest = mapped.netlist.partition("  CLKGATE_X1 ")
    enable = rest[rest.index(".E(") : rest.index("),", rest.index(".E(")) + 1]
    found = check(replace(mapped, netlist=head + gate + rest.replace(enable, ".E(1'b1)", 1)))
    assert "window" in found.difference


def test_another_register_is_refused(mapped, check):
    data = re.search(r"\.D\((.*?)\)", mapped.netlist)[0]
    late = mapped.netlist.replace(data, ".D(late)", 1)
    late = late.replace("endmodule", f"  wire late;\n  DFF_X1 one_more (.CK(clk), {data}, .Q(late));\nendmodule", 1)
    with pytest.raises(SynthesisError, match="no register of the RTL is"):
        check(replace(mapped, netlist=late))


def test_multipliers_are_tried_with_all_operands(tmp_path, tile, monkeypatch):
    name = "tensordash_pe"
    (tmp_path / "rtl.v").write_text(tile.text)
    (tmp_path / "edges.v").write_text(module_under_test.EDGES)
    seen = []
    right = module_under_test.is_correct
    monkeypatch.setattr(module_under_test, "is_correct", lambda view, *shape: seen.append(shape) or right(view, *shape))
    assert module_under_test._multipliers(name, [], tmp_path) == ""
    assert seen == [(4, 4, 8, False)]
    monkeypatch.setattr(module_under_test, "is_correct", lambda view, a, *rest: right(view, a, rest[0], rest[1], True))
    assert "multiplier is wrong" in module_under_test._multipliers(name, [], tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("preset", ["paper", "recommended"])
def test_netlists_of_a_complete_tile_are_equal(preset):
    report = prove_equivalence(load_preset(preset))
    assert report.failures == []
    assert sum("word level" in each.how for each in report.modules) <= 2


@pytest.mark.slow
@pytest.mark.skipif("icarus" not in simulator_names(), reason="Icarus has the library's primitives")
@pytest.mark.parametrize("preset", ["paper", "recommended"])
def test_the_tile_bench_passes_on_gates(preset, tmp_path, monkeypatch):
    # The complete bench would take hours, because Icarus needs a second or two for a cycle.
    monkeypatch.setenv("COCOTB_TEST_FILTER", "idle=0.5/stall=0.5|all_zeros|special|saturation")
    config = load_preset(preset)
    sources = gate_level_files(config, tmp_path / "gates", seed=3)
    result = run_on_gates(run_bench, "tile", config, sources, tmp_path)
    assert result.passed, result.failures


@pytest.mark.skipif("icarus" not in simulator_names(), reason="Icarus has the library's primitives")
@pytest.mark.parametrize("wrong", [False, True])
def test_a_small_tile_on_gates(wrong, tmp_path, monkeypatch):
    monkeypatch.setenv("COCOTB_TEST_FILTER", "all_zeros|saturation")
    netlist, cells, power_up = gate_level_files(SMALL, tmp_path / "gates", seed=3)
    if wrong:
        netlist.write_text(broken(netlist.read_text()))
    result = run_on_gates(run_bench, "tile", SMALL, [netlist, cells, power_up], tmp_path)
    assert result.tests == 2
    assert result.passed != wrong, result.failures
