"""Test gate-level simulation of mapped netlists, and power from its toggles."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tensordash import TileConfig
from tensordash_synth import synthesize
from tensordash_synth.gate_simulation import GateSimulation
from tensordash_synth.gates import read_netlist
from tensordash_synth.power import (
    WAITS,
    Activity,
    design_power,
    opensta_power,
    random_streams,
    simulate,
    waiting,
)
from tensordash_synth.power_report import NO_OPENSTA
from tensordash_synth.run import running
from tensordash_synth.tile_power import _netlist, measure_power
from tensordash_synth.yosys import SynthesisError

from .gates import finish, needs_opensta

SMALL = TileConfig(rows=1, columns=2, lanes=2, depth=2, connectivity=((0, 0), (1, 0), (1, 1)), format="fp8_e4m3")

TWO_GATES = """\
module inner(a, b, same, one, both);
  input a, b;
  output same, one, both;
  assign same = a;
  assign one = 1'b1;
  AND2_X1 g (.A1(a), .A2(b), .ZN(both));
endmodule
module top(clk, x, q, y);
  input clk;
  input [1:0] x;
  output q;
  output [2:0] y;
  inner i (.a(x[0]), .b(x[1]), .same(y[0]), .one(y[1]), .both(y[2]));
  wire d;
  XOR2_X1 g (.A(y[2]), .B(q), .Z(d));
  DFF_X1 state (.D(d), .CK(clk), .Q(q));
endmodule
"""


def test_gates_flip_flops_and_hierarchy(library, tmp_path: Path) -> None:
    simulation = GateSimulation(read_netlist(TWO_GATES, "top", library, tmp_path))
    state = 0
    for x in [0, 1, 3, 3, 2, 3, 0, 3]:
        simulation.drive(x=x, clk=0)
        finish(simulation.settle())
        assert simulation.read("y") == (x & 1) | 2 | (x == 3) << 2
        assert simulation.read("q") == state
        finish(simulation.tick())
        state ^= x == 3
    nets = simulation.netlist.ports["x"][1]
    assert simulation.activity[nets].tolist() == [5 / 8, 3 / 8]
    assert simulation.duty[nets].tolist() == [5 / 8, 5 / 8]
    assert {(cell.path, cell.kind) for cell in simulation.netlist.cells} == {
        (("i",), "AND2_X1"),
        ((), "XOR2_X1"),
        ((), "DFF_X1"),
    }


GATED = """\
module top(clk, e, q);
  input clk, e;
  output [7:0] q;
  wire g;
  wire [7:0] d;
  CLKGATE_X1 gate (.CK(clk), .E(e), .GCK(g));
FLIP_FLOPS
endmodule
"""
FLIP_FLOPS = "\n".join(
    f"  INV_X1 i{i} (.A(q[{i}]), .ZN(d[{i}]));\n  DFF_X1 f{i} (.D(d[{i}]), .CK(g), .Q(q[{i}]));" for i in range(8)
)


def test_gated_clock(library, tmp_path: Path) -> None:
    simulation = GateSimulation(read_netlist(GATED.replace("FLIP_FLOPS", FLIP_FLOPS), "top", library, tmp_path))
    state = 0
    for e in (1, 1, 0, 1, 0, 0, 0, 0):
        simulation.drive(e=e)
        assert simulation.read("q") == state
        finish(simulation.tick())
        state ^= 255 * e
    (gated,) = simulation.netlist.gated
    assert simulation.activity[gated] == 2 * 3 / 8
    assert simulation.duty[gated] == 3 / 16


@needs_opensta
def test_a_stopped_clock_takes_no_power(library, tmp_path: Path) -> None:
    """Power of flip-flops is proportional to the share of cycles with a running clock."""
    watts = {}
    for share in (0, 0.5, 1):
        folder = tmp_path / str(share)
        folder.mkdir()
        netlist = read_netlist(GATED.replace("FLIP_FLOPS", FLIP_FLOPS), "top", library, folder)
        simulation = GateSimulation(netlist)
        for i in range(16):
            simulation.drive(e=int(i % 2 < 2 * share))
            finish(simulation.tick())
        (power,) = opensta_power(netlist, [simulation], "top", 2.0, folder)
        flip_flops = [i for i, cell in enumerate(netlist.cells) if cell.kind == "DFF_X1"]
        watts[share] = power[flip_flops, :2].sum()
    assert watts[0] < 0.02 * watts[1]
    assert watts[0.5] == pytest.approx(watts[1] / 2, rel=0.1)


STEADY = """\
module top(clk, x, y);
  input clk, x;
  output [2:0] y;
  wire q, n, d;
  DFF_X1 state (.D(x), .CK(clk), .Q(q));
  INV_X1 i (.A(x), .ZN(n));
  AND2_X1 never (.A1(x), .A2(n), .ZN(d));
  INV_X1 o (.A(d), .ZN(y[0]));
  NOR2_X1 constant (.A1(1'b0), .A2(1'b0), .ZN(y[1]));
  INV_X1 p (.A(q), .ZN(y[2]));
endmodule
"""


@needs_opensta
def test_power_depends_on_simulated_toggles(library, tmp_path: Path) -> None:
    """OpenSTA would estimate other toggles: an AND of a value and its complement never toggles."""
    netlist = read_netlist(STEADY, "top", library, tmp_path)
    simulation = GateSimulation(netlist)
    for i in range(16):
        simulation.drive(x=i % 2)
        finish(simulation.tick())
    (power,) = opensta_power(netlist, [simulation], "top", 2.0, tmp_path)
    switching = dict(zip((cell.kind for cell in netlist.cells), power[:, 1], strict=True))
    assert switching["AND2_X1"] == switching["NOR2_X1"] == 0 < switching["DFF_X1"]


def test_unsupported_netlists(library, tmp_path: Path) -> None:
    latch = "module top(g, d, q);\n  input g, d;\n  output q;\n  DLH_X1 l (.D(d), .G(g), .Q(q));\nendmodule\n"
    with pytest.raises(SynthesisError, match="DLH_X1 is not one that is simulated"):
        read_netlist(latch, "top", library, tmp_path)
    (tmp_path / "b").mkdir()
    loop = "module top(q);\n  output q;\n  INV_X1 l (.A(q), .ZN(q));\nendmodule\n"
    with pytest.raises(SynthesisError, match="a loop without a flip-flop"):
        read_netlist(loop, "top", library, tmp_path / "b")


@pytest.fixture(scope="module")
def report():
    return synthesize(SMALL, power=True)


def netlist_of(report) -> str:
    return _netlist(report.tensordash, report)


@needs_opensta
def test_ratios(report) -> None:
    document = report.to_json()
    assert document["power_reason"] is None
    runs = {run["operands"]: run for run in document["power"]}
    assert list(runs) == ["0% zeros", "50% zeros", "80% zeros", "90% zeros", "digits trace"]
    first = runs["0% zeros"]
    assert document["ratio"]["power"] == first["power_ratio"] > 1
    assert runs["90% zeros"]["speedup"] > runs["50% zeros"]["speedup"] > 1.2
    for run in runs.values():
        total = run["watts"].pop("total")
        for design in ("tensordash", "baseline"):
            assert sum(watts[design] for watts in run["watts"].values()) == pytest.approx(total[design], rel=1e-3)
        assert run["power_ratio"] == pytest.approx(total["tensordash"] / total["baseline"], rel=1e-3)
        energies = [total[name] * run[f"{name}_cycles"] for name in ("baseline", "tensordash")]
        assert run["energy_ratio"] == pytest.approx(energies[0] / energies[1], rel=1e-3)
        assert run["paper_energy_ratio"] == pytest.approx(run["speedup"] / first["power_ratio"], rel=1e-3)
        assert document["ratio"]["energy"][run["operands"]] == run["energy_ratio"]
        assert run["watts"]["a_muxes"]["baseline"] == 0 < run["watts"]["a_muxes"]["tensordash"]


@needs_opensta
def test_idle_power_of_a_tile(report, library, tmp_path: Path) -> None:
    """Only leakage, clock and counters take power. No input or operand toggles, whatever the tile computed before."""
    document = report.to_json()
    for design in ("tensordash", "baseline"):
        idle, busy = document["idle"]["watts"]["total"][design], document["power"][0]["watts"]["total"][design]
        assert 0 < idle < 0.8 * busy
        assert document["idle"]["share"][design] == pytest.approx(idle / busy, rel=1e-3)
    gates = read_netlist(netlist_of(report), "tensordash_tile", library, tmp_path)
    simulation = GateSimulation(gates)
    simulate(simulation, SMALL, waiting(SMALL))
    assert simulation.cycles == WAITS
    for name in ("a_0_steps", "b_0_steps", "b_0_available", "out_payload", "steps", "effectual"):
        assert not simulation.activity[gates.ports[name][1]].any()
    low = simulation.activity[gates.ports["stall_input"][1]][:4]
    assert low.tolist() == pytest.approx([1, 1 / 2, 1 / 4, 1 / 8], abs=1 / 64)


@needs_opensta
def test_power_follows_clock_and_activity(report, library, tmp_path: Path) -> None:
    """Dynamic power is proportional to the frequency, and leakage is constant. Zeros cause few toggles."""
    still = Activity(name="zeros", streams=[(np.zeros((2, 64, 2), np.uint8), np.zeros((1, 64, 2), np.uint8))])
    busy = random_streams(SMALL, 0)
    found = {}
    for clock_ns in (2.0, 4.0):
        folder = tmp_path / str(clock_ns)
        folder.mkdir()
        found[clock_ns] = design_power(SMALL, netlist_of(report), library, clock_ns, [still, busy], folder)
    for slow, fast in zip(found[4.0], found[2.0], strict=True):
        assert slow.cycles == fast.cycles
        for path, power in fast.parts.items():
            assert slow.parts[path].internal == pytest.approx(power.internal / 2, rel=0.02, abs=1e-12)
            assert slow.parts[path].switching == pytest.approx(power.switching / 2, rel=0.02, abs=1e-12)
            assert slow.parts[path].leakage == pytest.approx(power.leakage)
    still_power, busy_power = found[2.0]
    assert sum(part.switching for part in still_power.parts.values()) < 0.2 * sum(
        part.switching for part in busy_power.parts.values()
    )
    assert still_power.watts < busy_power.watts


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "kind", [{"sparsity": "rows"}, {"sparsity": "both"}, {"sparsity": "none", "format": "int8", "initial": True}]
)
def test_netlists_equal_golden(kind: dict, library, tmp_path: Path) -> None:
    """All modules, mapped and connected, equal the golden tile in every cycle, unless a gate is changed."""
    from tensordash.emission.verilog import render
    from tensordash_synth.hierarchy import Hierarchy

    config = replace(SMALL, **kind)
    hierarchy = Hierarchy(render(config)["tensordash.v"], "tensordash_tile")
    names = sorted({placement.module for placement in hierarchy.placements})
    with running(None, 4.0, None, None) as run:
        mapped = [run.submit(run.module, hierarchy, name, name) for name in names]
        run.wait()
    text = "\n".join(each.result().netlist for each in mapped)
    simulation = GateSimulation(read_netlist(text, "tensordash_tile", library, tmp_path))
    simulate(simulation, config, random_streams(config, 0.6))
    assert simulation.cycles > 64
    # Change a gate of the PE or of a module after it, because these compute sums. If there is none, change any gate.
    module = next(placement.module for placement in hierarchy.placements if placement.role.endswith("pe"))
    gates = [found.start() for found in re.finditer(r"NAND2_X1 _\d+_", text)]
    gate = next((place for place in gates if place > text.index(f"module {module}(")), gates[0])
    wrong = text[:gate] + "NOR2_X1" + text[gate + len("NAND2_X1") :]
    (tmp_path / "wrong").mkdir()
    simulation = GateSimulation(read_netlist(wrong, "tensordash_tile", library, tmp_path / "wrong"))
    with pytest.raises(SynthesisError, match="the netlist differs from the golden model on .*golden has"):
        simulate(simulation, config, random_streams(config, 0.6))


@needs_opensta
def test_without_opensta(report, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tensordash_synth.tile_power.find_opensta", lambda: None)
    with running(None, 2.0, None, None) as run:
        assert measure_power(run, SMALL, report) is None
    document = replace(report, power=None, power_reason=NO_OPENSTA).to_json()
    assert document["ratio"]["power"] is None
    assert document["ratio"]["energy"] is None
    assert "OpenSTA is not installed" in document["power_reason"]
