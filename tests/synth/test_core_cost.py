"""Test that a core's cost is the sum of its units, with separate memories."""

from dataclasses import replace

import pytest

from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.preset import load_any_preset
from tensordash_synth import core_cost_table, measure_areas, synthesize_core
from tensordash_synth.core_cost import CoreCostReport, CoreDesign
from tensordash_synth.core_energy import CoreMemories, StepEnergy, StepOperation
from tensordash_synth.memories import MemoryCost

OURS = CoreDesign(units={"core": 10.0, "tile": 1000.0, "load": 300.0}, memories={}, slowest=("load", 0.5))
THEIRS = replace(OURS, units={"core": 10.0, "tile": 800.0, "load": 300.0})
REPORT = CoreCostReport(
    digest="", library="cells", clock_ns=2.0, tensordash=OURS, baseline=THEIRS, around_ns=1.5, gate_area=0.8
)


def test_ratios_and_table():
    assert REPORT.logic_ratio == 0.31
    assert REPORT.ratio == pytest.approx(1310 / 1110)
    document = REPORT.to_json()
    assert document["logic_ratio"] == 0.31
    assert document["tensordash"]["units_ge"]["load"] == 300
    lines = core_cost_table(REPORT).splitlines()
    assert [line.split()[0] for line in lines[3:6]] == ["tile", "load", "core"]
    assert "0.310" in next(line for line in lines if line.startswith("logic around"))


def test_costs_of_memories_and_of_a_step():
    """TensorDash has two memories and takes 1,000 cycles of 2 ns; the baseline has one and takes 2,000."""
    costs = {
        "512x64": {
            "cacti": MemoryCost(built="one", area_um2=1e6, read_pj=2.0, write_pj=3.0, leakage_mw=0.5, access_ns=1.0),
            "macros": MemoryCost(built="four", area_um2=3e6, read_pj=4.0, write_pj=5.0, leakage_mw=1.5, access_ns=1.0),
        }
    }
    memories = CoreMemories(counts={"512x64": 2}, costs=costs), CoreMemories(counts={"512x64": 1}, costs=costs)
    operation = StepOperation(name="x", cycles=1000, accesses={"buffer 512x64": (10, 20)}, memory_bytes=100)
    ours, theirs = (
        StepEnergy(operations=(operation,) * count, memories=each, watts={"tile": 0.3, "load": 0.1}, clock_ns=2.0)
        for count, each in ((1, memories[0]), (2, memories[1]))
    )
    parts = {name: 1e6 * joules for name, joules in ours.parts.items()}
    assert parts == pytest.approx(
        {
            "tile": 0.6,
            "around": 0.2,
            "accesses, cacti": 80e-6,
            "leakage, cacti": 2e-3,
            "accesses, macros": 140e-6,
            "leakage, macros": 6e-3,
        }
    )
    assert 1e6 * ours.off_chip == pytest.approx(100 * 8 * 8e-6)  # 8 pJ for each bit
    lines = core_cost_table(replace(REPORT, memories=memories, step=(ours, theirs))).splitlines()
    rows = {line[:34].strip(): line[34:].split() for line in lines if len(line[34:].split()) == 2}
    assert rows["memories, CACTI 7"] == ["2.0000", "1.0000"]
    assert rows["memories, macros"] == ["6.0000", "3.0000"]
    assert rows["logic"] == ["0.0010", "0.0009"]  # 1,310 and 1,110 GE of 0.8 um2
    assert rows["reads of buffer"] == ["10", "20"]
    assert rows["writes of buffer"] == ["20", "40"]
    assert rows["mean power of logic, mW"] == ["400.0", "400.0"]


@pytest.mark.slow
def test_the_core_of_the_preset():
    config = load_any_preset("core")
    assert isinstance(config, CoreConfig)
    report = synthesize_core(config)
    alone = measure_areas(config.tile, transposers=0)
    tile = alone.ge_per_pe("total")[0] * config.tile.rows * config.tile.columns
    assert report.tensordash.tile == pytest.approx(tile, rel=0.1)  # In a core, sums leave the tile before rounding.
    bits = sum(count * bits for count, bits in report.tensordash.memories.values())
    assert bits >= (config.buffer + 2 * config.stream_buffer) * 8192
    equal_units = ("load", "store", "output_unit", "sequencer")
    assert all(report.tensordash.units[unit] == report.baseline.units[unit] for unit in equal_units)
