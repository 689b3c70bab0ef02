"""Run one job: emit its tile, build it, run its episodes, and return a record."""

import json
import shutil
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tensordash import generate

from ..job import JOB_VARIABLE, BenchJob
from ..run import PREFIX, read_results
from ..simulators import Simulation, SimulatorError, choose_simulator
from .draw import SoakJob

__all__ = ["Record", "run_job"]


@dataclass(frozen=True, kw_only=True)
class Record:
    """Result of a job.

    Parameters
    ----------
    index : int
        The job's number.
    digest : str
        Digest of its tile.
    simulator : str
        The simulator.
    failure : str or None
        The first difference of Verilog and golden model, or None; after a failure, the counts below are 0 or empty.
    positions, steps, cycles : int
        Multiply positions and dense steps that the tile consumed, and clock cycles, equal to golden.
    build_seconds, seconds : float
        Time to emit and build the Verilog, and to run it.
    coverage : dict of str to dict of str to int
        `Coverage.counts`.
    options : list of list of int, (lanes, options)
        `Coverage.options`.
    """

    index: int
    digest: str
    simulator: str
    failure: str | None
    positions: int
    steps: int
    cycles: int
    build_seconds: float
    seconds: float
    coverage: dict[str, dict[str, int]]
    options: list[list[int]]

    def to_json(self) -> dict[str, Any]:
        """Return the record as JSON types."""
        return asdict(self)


def run_job(job: SoakJob, folder: Path, *, simulator: str = "auto", waves: bool = False) -> Record:
    """Run a job in this process and a simulator's.

    Parameters
    ----------
    job : SoakJob
        The job.
    folder : Path
        Folder for Verilog, build and logs; an existing folder is deleted first.
    simulator : str
        "auto", "verilator" or "icarus".
    waves : bool
        Dump the run to ``folder / "run" / "dump.vcd"``.

    Raises
    ------
    SimulatorError
        If the simulator cannot build or run it, or ends without a result.
    """
    chosen = choose_simulator(simulator)
    shutil.rmtree(folder, ignore_errors=True)
    run = folder.resolve() / "run"
    run.mkdir(parents=True)
    began = time.monotonic()
    generate(job.config, folder / "verilog", PREFIX)
    sources = [folder / "verilog" / f"{PREFIX}.vlt", folder / "verilog" / f"{PREFIX}.v"]
    simulation = Simulation(chosen, f"{PREFIX}_tile", sources, run, waves=waves, keep=False)
    built = time.monotonic()
    options = {"stimulus": f"soak {job.name}", "steps": job.steps, "result": str(run / "result.json")}
    BenchJob(config=job.config, seed=job.seed, options=options).write(run / "job.json")
    bench = f"{__package__.rpartition('.')[0]}.benches.soak"
    tests, failures = read_results(simulation.run(bench, {JOB_VARIABLE: str(run / "job.json")}, job.seed))
    if tests != 1:
        raise SimulatorError(f"soak job {job.name}: {chosen} ran {tests} tests, not 1")
    found: dict[str, Any] = {"steps": 0, "cycles": 0, "coverage": {}, "options": []}
    if not failures:
        found = json.loads((run / "result.json").read_text(encoding="utf-8"))
    return Record(
        index=job.index,
        digest=job.config.digest,
        simulator=chosen,
        failure=failures[0].removeprefix("soak: ") if failures else None,
        positions=found["steps"] * job.config.multipliers,
        build_seconds=round(built - began, 3),
        seconds=round(time.monotonic() - built, 3),
        **found,
    )
