"""Test the emitted core with cocotbext-axi's memory, which is independent of this project."""

import shutil
from pathlib import Path

import pytest

from tensordash.configuration.core_config import CoreConfig
from tensordash.emission.verilog import generate
from tensordash_sim.verify import simulator_names
from tensordash_sim.verify.job import JOB_VARIABLE, BenchJob
from tensordash_sim.verify.run import read_results
from tensordash_sim.verify.simulators import Simulation

from .plain_testbench import change

SMALL = CoreConfig.from_toml("[core]\nbuffer = 8\nstream_buffer = 4\nmask = false\nstochastic = false")
SEED = 1
VERILATOR = pytest.param("verilator", marks=pytest.mark.slow)


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("verilog")
    generate(SMALL, folder)
    return folder


@pytest.fixture
def verilog(generated: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a copy of the core's Verilog, which a test may change."""
    monkeypatch.syspath_prepend(Path(__file__).parent)  # Python in the simulator imports the bench.
    return Path(shutil.copytree(generated, tmp_path / "verilog"))


def run(verilog: Path, simulator: str) -> tuple[int, list[str]]:
    """Run the bench; return the number of tests and their failures."""
    if simulator not in simulator_names():
        pytest.skip(f"{simulator} cannot run here")
    folder = verilog.with_name("run")
    folder.mkdir()
    job = folder / "job.json"
    BenchJob(config=SMALL, seed=SEED).write(job)
    files = [verilog / f"tensordash{end}" for end in (".vlt", ".v", "_memories.v")]
    simulation = Simulation(simulator, "tensordash_core", files, folder)
    return read_results(simulation.run("axi_ram_bench", {JOB_VARIABLE: str(job)}, SEED))


@pytest.mark.parametrize("simulator", ["icarus", VERILATOR])
def test_programs(simulator: str, verilog: Path) -> None:
    assert run(verilog, simulator) == (2, [])


def test_writes_with_all_strobes_are_found(verilog: Path) -> None:
    """The core sets all strobes of a beat."""
    change(verilog / "tensordash.v", r"assign axi_wstrb = beats_payload_strobe & ", "assign axi_wstrb = ")
    tests, failures = run(verilog, "icarus")
    assert (tests, len(failures)) == (2, 2)
    assert all(": byte 0x" in failure for failure in failures), failures
