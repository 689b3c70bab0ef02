"""Run benches on emitted Verilog and read their results."""

import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from tensordash import TensorDashError, TileConfig
from tensordash.configuration.core_config import CoreConfig
from tensordash.emission.verilog import generate
from tensordash_storage.files import annotate_oserror, atomic_copy

from .job import JOB_VARIABLE, BenchJob
from .simulators import Simulation, SimulatorError, choose_simulator, quicker_simulator

__all__ = ["BENCHES", "BenchResult", "VerificationError", "run_bench", "run_benches", "verify"]

PREFIX = "tensordash"
BENCHES: dict[str, tuple[str, str | None]] = {
    "scheduler": ("scheduler", 'tile.sparsity "rows" or "both"'),
    "staging_buffer": ("staging_buffer", 'tile.staging "shift"'),
    "staging_ring": ("staging_ring", 'tile.staging "ring" and tile.sparsity "rows" or "both"'),
    "transposer": ("transposer", None),
    "block_quantiser": ("block_quantiser", 'tile.scale "e8m0"'),
    "pe": ("pe", None),
    "tile": ("tile", None),
    "axi_stream": ("axi_stream_tile", None),
}
"""Benches by name: the module that each drives, and the setting that the module needs, or None."""

OWN_FILES = ("transposer", "block_quantiser")
CYCLES = {"tile": 7500, "axi_stream": 700, "pe": 3000}
"""Approximate cycles of benches with an effort of 1; the other benches' modules are small."""


class VerificationError(TensorDashError, ValueError):
    """The requested bench cannot run; the message is one line."""


@dataclass(frozen=True, kw_only=True)
class BenchResult:
    """Result of a bench.

    Parameters
    ----------
    bench : str
        Its name.
    simulator : str
        The simulator.
    seed : int
        Seed of its stimulus.
    tests : int
        Number of tests that ran; 0 is not a pass.
    failures : tuple of str
        First line of each failure, with the test's name.
    seconds : float
        Time to build and run.
    """

    bench: str
    simulator: str
    seed: int
    tests: int
    failures: tuple[str, ...]
    seconds: float

    @property
    def passed(self) -> bool:
        """Whether tests ran and none failed."""
        return self.tests > 0 and not self.failures


def applicable(config: TileConfig) -> list[str]:
    """Return the benches whose modules a configuration's Verilog has."""
    missing = {"staging_buffer" if config.ring else "staging_ring"}
    if config.sparsity == "none":
        missing.add("scheduler")
    if config.scale != "e8m0":
        missing.add("block_quantiser")
    return [name for name in BENCHES if name not in missing]


def run_bench(
    bench: str,
    config: TileConfig,
    verilog: Path,
    folder: Path,
    *,
    seed: int = 0,
    effort: float = 1.0,
    simulator: str = "auto",
    waves: bool = False,
    sources: Sequence[Path] = (),
    roots: Sequence[str] = (),
    companions: Sequence[Path] = (),
    options: Sequence[str] = (),
    plusargs: Sequence[str] = (),
) -> BenchResult:
    """Run one bench on the Verilog in the folder `verilog`.

    Parameters
    ----------
    bench : str
        One of `BENCHES`.
    config : TileConfig
        The tile that the Verilog implements.
    verilog : Path
        Folder that `tensordash.generate` wrote.
    folder : Path
        Folder to build and run in.
    seed, effort
        See `BenchJob`.
    simulator : str
        "auto", "icarus" or "verilator".
    waves : bool
        Dump the run to ``folder / "dump.vcd"``.
    sources : sequence of Path
        Verilog to run instead of the files in `verilog`, such as a netlist with its cells.
    companions : sequence of Path
        Files to compile with the Verilog, such as assertions.
    roots, options : sequence of str
        See `Simulation`.
    plusargs : sequence of str
        Plusargs of the simulation.

    Raises
    ------
    VerificationError
        If there is no such bench for this configuration.
    SimulatorError
        If the simulator cannot build or run it.
    """
    if bench not in BENCHES:
        raise VerificationError(f"bench must be one of {', '.join(BENCHES)}, not {bench!r}")
    if bench not in applicable(config):
        raise VerificationError(
            f"bench {bench} needs {BENCHES[bench][1]}, "
            f"not tile.staging {config.staging!r} and tile.sparsity {config.sparsity!r}"
        )
    choose_simulator(simulator)  # Report errors before writing anything.
    top = f"{PREFIX}_{BENCHES[bench][0]}"
    file = f"{top}.v" if bench in OWN_FILES else f"{PREFIX}.v"
    files = list(sources) or [verilog / f"{PREFIX}.vlt", *companions, verilog / file]
    positions = config.lanes * (1 if bench == "pe" else config.rows * config.columns)
    cycles = CYCLES.get(bench, 0) * effort
    chosen = quicker_simulator(simulator, top, files, cycles=cycles, positions=positions, waves=waves)
    job = BenchJob(config=config, seed=seed, effort=effort, options={"gates": bool(sources)})
    build = {"waves": waves, "roots": roots, "options": options}
    return run_simulation(f"benches.{bench}", job, folder, chosen, top, files, build, plusargs=plusargs)


def run_simulation(
    bench: str,
    job: BenchJob,
    folder: Path,
    simulator: str,
    top: str,
    files: Sequence[Path],
    build: Mapping[str, Any],
    *,
    plusargs: Sequence[str] = (),
) -> BenchResult:
    """Build a simulation with the options `build`, run a bench of this package on it, and read its results.

    Raises
    ------
    SimulatorError
        If the simulator cannot build or run it.
    """
    began = time.monotonic()
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "job.json"
    with annotate_oserror(folder, if_nameless=True):
        job.write(file)
        simulation = Simulation(simulator, top, list(files), folder, **build)
        environment = {JOB_VARIABLE: str(file.resolve())}
        results = simulation.run(f"{__package__}.{bench}", environment, job.seed, plusargs=plusargs)
        tests, failures = read_results(results)
    return BenchResult(
        bench=bench.rpartition(".")[2],
        simulator=simulator,
        seed=job.seed,
        tests=tests,
        failures=tuple(failures),
        seconds=time.monotonic() - began,
    )


def read_results(path: Path) -> tuple[int, list[str]]:
    """Return the number of tests that ran in a results file, and a line for each failed test."""
    tests, failures = 0, []
    for case in ElementTree.parse(path).iter("testcase"):
        if case.find("skipped") is not None:
            continue
        tests += 1
        failed = case.find("failure") if case.find("failure") is not None else case.find("error")
        if failed is not None:
            text = (failed.get("error_msg") or failed.get("message") or failed.text or "failed").strip()
            failures.append(f"{case.get('name')}: {text.splitlines()[0]}")
    return tests, failures


def verify(
    config: TileConfig,
    benches: Iterable[str] = (),
    *,
    seed: int = 0,
    effort: float = 1.0,
    simulator: str = "auto",
    waves: Path | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> list[BenchResult]:
    """Emit a configuration's Verilog and run benches on it.

    Parameters
    ----------
    config : TileConfig
        The tile.
    benches : iterable of str
        Names from `BENCHES`; if empty, all that the configuration has modules for.
    seed, effort, simulator
        See `run_bench`.
    waves : Path, optional
        VCD file for the last bench's waveforms.
    progress : callable
        Called with the name of each bench before it runs.

    Returns
    -------
    list of BenchResult
    """
    chosen = list(benches) or applicable(config)
    for bench in chosen:
        if bench not in applicable(config):
            raise VerificationError(f"bench must be one of {', '.join(applicable(config))}, not {bench!r}")
    how = {"seed": seed, "effort": effort, "simulator": simulator}
    return run_benches(chosen, config, run_bench, how, waves=waves, progress=progress)


def run_benches(
    benches: Iterable[str],
    config: TileConfig | CoreConfig,
    run: Callable[..., BenchResult],
    how: Mapping[str, Any],
    *,
    waves: Path | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> list[BenchResult]:
    """Emit a configuration's Verilog and run benches on it in sequence.

    Parameters
    ----------
    benches : iterable of str
        Their names.
    config : TileConfig or CoreConfig
        A tile or a core.
    run : callable
        `run_bench` or `run_core_bench`.
    how : mapping
        Its keyword arguments, including "simulator".
    waves : Path, optional
        VCD file for the last bench's waveforms.
    progress : callable
        Called with the name of each bench before it runs.
    """
    choose_simulator(how["simulator"])  # Report errors before writing anything.
    with tempfile.TemporaryDirectory(prefix="tensordash-") as scratch:
        verilog = Path(scratch) / "verilog"
        generate(config, verilog, PREFIX)
        results = []
        for bench in benches:
            progress(bench)
            folder = Path(scratch) / bench
            results.append(run(bench, config, verilog, folder, **how, waves=waves is not None))
            if waves is not None:
                dump = folder / "dump.vcd"
                if not dump.exists():
                    raise SimulatorError(f"bench {bench} left no waveforms")
                atomic_copy(dump, waves)
    return results
