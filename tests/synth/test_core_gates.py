"""Compare netlists of a core's buffer and of a core with their RTL in simulation."""

import re

import pytest

from tensordash.configuration.core_config import CoreConfig
from tensordash.memory.buffer import Buffer
from tensordash_sim.verify import simulator_names
from tensordash_sim.verify.core_run import run_core_bench
from tensordash_sim.verify.job import JOB_VARIABLE, BenchJob
from tensordash_sim.verify.run import read_results
from tensordash_sim.verify.simulators import Simulation
from tensordash_sim.verify.unit_run import emitted
from tensordash_synth import POWER_UP, gate_level_files
from tensordash_synth.hierarchy import Hierarchy

from .gates import run_on_gates

pytestmark = pytest.mark.skipif("icarus" not in simulator_names(), reason="Icarus has the library's primitives")
SHAPE = {"lanes": 4, "width": 8, "groups": 8, "regions": 2, "readers": 2, "writers": 1}
SMALL = CoreConfig.from_toml(
    "",
    [
        "tile.format=fp8_e4m3",
        "core.buffer=1",
        "core.regions=1",
        "core.stream_buffer=1",
        "core.partial_sums=1",
        "core.axi_bits=32",
        "core.address_bits=32",
        "core.window=4",
        "core.outstanding=1",
        "core.prefetch=2",
    ],
)
"""The smallest core for the benches' programs."""


@pytest.mark.parametrize("wrong", [False, True])
def test_netlist_of_a_buffer(wrong, tmp_path):
    unit = emitted(Buffer(**SHAPE))
    sources = gate_level_files(Hierarchy(unit.text, unit.top), tmp_path / "gates", seed=3)
    netlist, _, power_up = sources
    assert len(re.findall(r"memory\[\d+\] = 32'h", power_up.read_text())) == SHAPE["lanes"] * SHAPE["groups"]
    if wrong:
        text = netlist.read_text()
        inputs = re.findall(r"\.write_enable\((.*?)\)", text)
        netlist.write_text(text.replace(f".write_enable({inputs[0]})", f".write_enable({inputs[1]})", 1))
    job = tmp_path / "job.json"
    BenchJob(config=SMALL, seed=3, effort=0.3, options=SHAPE).write(job)
    simulation = Simulation("icarus", unit.top, sources, tmp_path / "run", roots=[POWER_UP])
    tests, failures = read_results(simulation.run("tensordash_sim.verify.units.buffer", {JOB_VARIABLE: str(job)}, 3))
    assert tests
    assert bool(failures) == wrong, failures


@pytest.mark.slow
def test_programs_on_the_netlist_of_a_small_core(tmp_path):
    sources = gate_level_files(SMALL, tmp_path / "gates", seed=3)
    result = run_on_gates(run_core_bench, "core", SMALL, sources, tmp_path)
    assert result.tests == 4
    assert result.passed, result.failures
