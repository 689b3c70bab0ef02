"""Test wires: capacitance from lengths, delay and power by OpenSTA, and larger cells."""

import re
from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import pytest

from tensordash_synth import LibertyError
from tensordash_synth.gate_simulation import GateSimulation, Toggles
from tensordash_synth.gates import GateNetlist, read_netlist
from tensordash_synth.growth import LOAD_SHARE, Grown, grow, ladders
from tensordash_synth.pins import PinTable, cell_sites, pin_table
from tensordash_synth.placement import Placed, floorplan, place
from tensordash_synth.power import opensta_power
from tensordash_synth.wire_timing import Timing, measure_timing, timing_verilog
from tensordash_synth.wires import NO_WIRE, WireLoad, annotations, length_factors, wire_load, wires
from tensordash_synth.yosys import SynthesisError

from .gates import finish, needs_opensta, needs_placer
from .test_core_power import MEMORY, TOP
from .wire_netlists import random_netlist

VOLTS, PERIOD = 1.1, 2.0
LOAD = WireLoad(ff_per_um=0.1774, ohm_per_um=3.571429)


@pytest.fixture(scope="module")
def gates(library, tmp_path_factory: pytest.TempPathFactory) -> GateNetlist:
    return random_netlist(library, tmp_path_factory.mktemp("netlist"), fanout=200)


@pytest.fixture(scope="module")
def grown(gates, library, lef, placed) -> Grown:
    return grow(gates, library, lef, placed, LOAD)


def measure_with_wires(
    gates: GateNetlist, library, lef, placed: Placed, folder: Path, load: WireLoad, scale: float = 1
) -> Timing:
    pins = pin_table(gates, library, lef)
    positions = scale * placed.pins_um(pins)
    commands = annotations(pins, positions, wires(pins, positions, load), len(gates.cells))
    return measure_timing(gates, library, PERIOD, folder, commands)


def test_wire_loads(library, tmp_path: Path) -> None:
    assert wire_load(library) == LOAD
    text = library.path.read_text(encoding="utf-8")
    other = tmp_path / "other.lib"

    def load_of(*changes: tuple[str, str]) -> WireLoad:
        changed = text
        for old, new in changes:
            changed = re.sub(old, new, changed)
        other.write_text(changed, encoding="utf-8")
        return wire_load(replace(library, path=other))

    assert load_of((r"default_wire_load .*", "")).ff_per_um == 0.1774, "without a default, the first one counts"
    in_ohms = load_of(("1kohm", "1ohm"), (r"\(1,ff\)", "(10,ff)"))
    assert (in_ohms.ff_per_um, in_ohms.ohm_per_um) == pytest.approx((1.774, 3.571429e-3))
    with pytest.raises(LibertyError, match="no wire_load"):
        load_of(("wire_load", "wires"))
    with pytest.raises(LibertyError, match="its wire_load has no capacitance"):
        load_of((r"capacitance : 1.774000e-01;", "capacitance : 0;"))


def test_lengths() -> None:
    assert length_factors(np.array([1, 2, 3, 4, 50])).tolist() == [1, 1, 1, 1.0828, 2.7933]
    assert (np.diff(length_factors(np.arange(2, 300))) >= 0).all()


def test_capacitance_of_a_net_of_four_pins() -> None:
    """Half the perimeter is 10 + 5 um. The wire is 1.0828 times as long (RISA), with 0.1774 fF per um."""
    zero_loads = np.zeros(4)
    pins = PinTable(
        nets=np.zeros(4, int),
        places=np.arange(4),
        names=["A"] * 4,
        offsets=np.zeros((4, 2)),
        loads=zero_loads,
        drives=zero_loads > 0,
        clocks=np.array([False]),
        ports=0,
    )
    found = wires(pins, np.array([[0.0, 0.0], [10.0, 1.0], [3.0, 5.0], [4.0, 2.0]]), LOAD)
    assert found.half_um[0] == 15.0
    assert found.ff[0] == pytest.approx(2.88133, abs=1e-5)


@needs_placer
@needs_opensta
def test_longer_wires_take_longer(gates, library, lef, placed, tmp_path: Path) -> None:
    by_fanout = measure_timing(gates, library, PERIOD, tmp_path)
    periods = [
        measure_with_wires(gates, library, lef, placed, tmp_path, LOAD, scale).period_ns for scale in (0, 1, 2, 4)
    ]
    unloaded = measure_with_wires(gates, library, lef, placed, tmp_path, NO_WIRE).period_ns
    assert periods[0] == pytest.approx(unloaded), "wires of length 0 have no effect"
    assert by_fanout.period_ns > unloaded, "without commands, OpenSTA uses the library's wire load"
    assert periods == sorted(periods)
    assert periods[-1] > 1.1 * periods[0]
    resistive = replace(LOAD, ohm_per_um=100 * LOAD.ohm_per_um)
    assert measure_with_wires(gates, library, lef, placed, tmp_path, resistive).period_ns > periods[1]
    slower = measure_timing(gates, library, 3 * PERIOD, tmp_path)
    assert slower.period_ns == pytest.approx(by_fanout.period_ns, abs=1e-6), (
        "the result does not depend on the clock of the measurement"
    )


@needs_placer
@needs_opensta
def test_annotated_delay_of_an_input_counts(gates, library, lef, placed, tmp_path: Path) -> None:
    pins = pin_table(gates, library, lef)
    positions = placed.pins_um(pins)
    commands = annotations(pins, positions, wires(pins, positions, LOAD), len(gates.cells))
    before = measure_timing(gates, library, PERIOD, tmp_path, commands)
    last = before.cells[-1]
    lines = commands.splitlines()
    (line,) = (line for line in lines if line.startswith("::sta::set_elmore") and f" g{last}/D " in f"{line} ")
    driver, sink, delay = line.split()[1:]
    later = commands.replace(line, f"::sta::set_elmore {driver} {sink} {float(delay) + 0.5}")
    assert measure_timing(gates, library, PERIOD, tmp_path, later).period_ns > before.period_ns + 0.3


@needs_placer
@needs_opensta
def test_power_of_wires_is_half_of_capacitance_times_voltage_squared(
    gates, library, lef, placed, tmp_path: Path
) -> None:
    """OpenSTA adds this energy for each toggle. Only switching power changes much."""
    pins = pin_table(gates, library, lef)
    positions = placed.pins_um(pins)
    found = wires(pins, positions, LOAD)
    commands = annotations(pins, positions, found, len(gates.cells), inputs="s{}/Q", outputs=False)
    toggles = Toggles(activity=np.full(gates.nets, 0.5), duty=np.full(gates.nets, 0.5))
    (tmp_path / "cells.lib").symlink_to(library.path.resolve())
    no_wires = annotations(
        pins, positions, wires(pins, positions, NO_WIRE), len(gates.cells), inputs="s{}/Q", outputs=False
    )
    (without,) = opensta_power(gates, [toggles], "top", PERIOD, tmp_path, no_wires)
    (with_wires,) = opensta_power(gates, [toggles], "top", PERIOD, tmp_path, commands)
    outputs = ("Z", "ZN", "Q")
    driven = {net for cell in gates.cells for name, net in cell.pins.items() if name in outputs and net != gates.clock}
    farads = 1e-15 * sum(found.ff[net] for net in driven if pins.counts[net] > 1)
    expected = 0.5 * farads * VOLTS**2 * 0.5 / (PERIOD * 1e-9)
    assert (with_wires - without)[:, 1].sum() == pytest.approx(expected, rel=0.01)
    assert with_wires[:, 2] == pytest.approx(without[:, 2]), "leakage"


def test_ladders(library, lef) -> None:
    found = ladders(library, lef)
    assert [cell.name for cell in found["INV_X1"]] == [f"INV_X{n}" for n in (1, 2, 4, 8, 16, 32)]
    assert [cell.name for cell in found["DFF_X1"]] == ["DFF_X1", "DFF_X2"]
    assert found["NAND2_X4"][0].name == "NAND2_X1"
    assert "BUF_X32" in {cell.name for cell in found["CLKBUF_X1"]}


def find_overloaded_nets(gates: GateNetlist, library, lef, placed: Placed, load: WireLoad) -> list[int]:
    """Return nets, except clocks, whose driver is overloaded although a stronger cell exists."""
    pins = pin_table(gates, library, lef)
    total = pins.loads_ff + wires(pins, placed.pins_um(pins), load).ff
    cells, ladder = {cell.name: cell for cell in library.cells}, ladders(library, lef)
    overloaded = []
    for cell in gates.cells:
        max_load = min(cells[cell.kind].outputs.values())
        for name in cells[cell.kind].outputs:
            net = cell.pins.get(name, 0)
            has_loads = net > 1 and pins.counts[net] > 1 and not pins.clocks[net]
            if has_loads and total[net] > max_load * LOAD_SHARE and cell.kind != ladder[cell.kind][-1].name:
                overloaded.append(net)
    return overloaded


@needs_placer
def test_cells_grow_with_their_loads(gates, library, lef, placed, grown) -> None:
    assert find_overloaded_nets(gates, library, lef, placed, LOAD), "some drivers are overloaded"
    assert find_overloaded_nets(grown.gates, library, lef, grown.near, LOAD) == []
    assert grown.stronger > 0
    assert grown.buffers > 0
    assert len(grown.gates.cells) == len(gates.cells) + grown.buffers
    assert grown.near.density > placed.density
    assert grown.sites_before == placed.widths.sum()
    assert grown.origins[: gates.nets].tolist() == list(range(gates.nets))
    assert set(grown.origins[gates.nets :]) <= set(range(gates.nets))
    heavier = grow(gates, library, lef, placed, replace(LOAD, ff_per_um=4 * LOAD.ff_per_um))
    assert heavier.near.density > grown.near.density
    repeated = grow(gates, library, lef, placed, LOAD)
    assert [cell.kind for cell in repeated.gates.cells] == [cell.kind for cell in grown.gates.cells]


def port_nets(gates: GateNetlist, direction: str) -> list[int]:
    """Return the nets of all ports of a direction."""
    return [int(net) for port_direction, nets in gates.ports.values() if port_direction == direction for net in nets]


def have_same_outputs(first: GateNetlist, second: GateNetlist, library, folder: Path) -> bool:
    """Return whether both netlists have the same outputs on random inputs."""
    simulations = []
    for name, gates in (("first", first), ("second", second)):
        (folder / name).mkdir()
        text = timing_verilog(gates)
        simulations.append(GateSimulation(read_netlist(text, "placed", library, folder / name)))
    inputs, first_outputs = (port_nets(first, direction) for direction in ("input", "output"))
    second_outputs = port_nets(second, "output")
    random = Random(1)
    for _ in range(40):
        values = {f"i{net}": random.getrandbits(1) for net in inputs if net != first.clock and net > 1}
        results = []
        for simulation, outputs in zip(simulations, (first_outputs, second_outputs), strict=True):
            simulation.drive(**values, clk=0)
            finish(simulation.settle())
            results.append([simulation.read(f"o{net}") for net in outputs if net > 1])
            finish(simulation.tick())
        if results[0] != results[1]:
            return False
    return True


@needs_placer
def test_grown_netlist_has_the_same_function(gates, library, grown, tmp_path: Path) -> None:
    assert have_same_outputs(gates, grown.gates, library, tmp_path)


@needs_placer
def test_a_buffer_on_another_net_is_found(gates, library, grown, tmp_path: Path) -> None:
    cells = list(grown.gates.cells)
    buffer = cells[len(gates.cells)]
    (source, net), (result, driven_net) = buffer.pins.items()
    elsewhere = next(cell.pins["Q"] for cell in cells if cell.kind.startswith("DFF") and cell.pins.get("Q", net) != net)
    cells[len(gates.cells)] = replace(buffer, pins={source: elsewhere, result: driven_net})
    assert not have_same_outputs(gates, replace(grown.gates, cells=cells), library, tmp_path)


@needs_placer
@needs_opensta
def test_growth_shortens_the_period(gates, library, lef, placed, grown, tmp_path: Path) -> None:
    before = measure_with_wires(gates, library, lef, placed, tmp_path, LOAD).period_ns
    assert measure_with_wires(grown.gates, library, lef, grown.near, tmp_path, LOAD).period_ns < before


@needs_placer
@needs_opensta
def test_memories_are_placed_around_a_core(library, lef, tmp_path: Path) -> None:
    gates = read_netlist(MEMORY + TOP, "tensordash_core", library, tmp_path)
    pins, widths = pin_table(gates, library, lef), cell_sites(gates, lef)
    assert pins.ports == sum(int((nets > 1).sum()) for _, nets in gates.ports.values()) - 1, "all but the clock"
    placed = place(pins, widths, floorplan(lef, 40 * sum(widths), 0.8), tmp_path)
    assert placed.faults == []
    found = wires(pins, placed.pins_um(pins), LOAD)
    (inverter,) = gates.cells
    assert found.length_um[inverter.pins["A"]] > 0
    commands = annotations(pins, placed.pins_um(pins), found, len(gates.cells))
    near, far = (measure_timing(gates, library, PERIOD, tmp_path, text).period_ns for text in ("", commands))
    assert 0 < near < far


def test_without_opensta(gates, library, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tensordash_synth.wire_timing.find_opensta", lambda: None)
    with pytest.raises(SynthesisError, match="OpenSTA is not installed"):
        measure_timing(gates, library, PERIOD, tmp_path)
