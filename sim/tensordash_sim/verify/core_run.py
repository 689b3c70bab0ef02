"""Run the benches of a core on its emitted files."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from tensordash.configuration.core_config import CoreConfig
from tensordash.emission.core_files import core_verilog

from .core_programs import PROGRAMS, run_core_programs
from .job import BenchJob
from .run import BenchResult, VerificationError, run_benches, run_simulation
from .simulators import choose_simulator, simulator_names

__all__ = ["CORE_BENCHES", "run_core_bench", "verify_core"]

PREFIX = "tensordash"
CORE_BENCHES = ("core", "core_queue", "core_errors")
"""Benches of a whole core: modules of `tensordash_sim.verify.units`."""

PROGRAMS_BENCH = "core_programs"
"""Bench of a core's Verilog built as a library, which needs Verilator."""

MAX_ICARUS_EFFORT = 0.3
"""Effort up to which a run in Icarus is shorter than Verilator's build of the core."""


def run_core_bench(
    bench: str,
    config: CoreConfig,
    verilog: Path,
    folder: Path,
    *,
    seed: int = 0,
    effort: float = 1.0,
    simulator: str = "auto",
    waves: bool = False,
    sources: Sequence[Path] = (),
    roots: Sequence[str] = (),
) -> BenchResult:
    """Run a bench on the core in the folder `verilog`.

    Parameters
    ----------
    bench : str
        One of `CORE_BENCHES`.
    config : CoreConfig
        The core that the Verilog implements.
    verilog : Path
        Folder that `tensordash.generate` wrote.
    folder : Path
        Folder to build and run in.
    seed, effort, simulator, waves, sources, roots
        See `run_bench`.

    Raises
    ------
    VerificationError
        If there is no such bench.
    SimulatorError
        If the simulator cannot build or run it.
    """
    if bench not in CORE_BENCHES:
        raise VerificationError(f"bench must be one of {', '.join(CORE_BENCHES)} for a core, not {bench!r}")
    chosen = choose_simulator(simulator)
    if simulator == "auto" and effort <= MAX_ICARUS_EFFORT and "icarus" in simulator_names():
        chosen = "icarus"
    emitted = [verilog / name for name in (f"{PREFIX}.vlt", f"{PREFIX}.v", f"{PREFIX}_memories.v")]
    job, build = BenchJob(config=config, seed=seed, effort=effort), {"waves": waves, "roots": roots}
    return run_simulation(f"units.{bench}", job, folder, chosen, f"{PREFIX}_core", list(sources) or emitted, build)


def verify_core(
    config: CoreConfig,
    *,
    seed: int = 0,
    effort: float = 1.0,
    simulator: str = "auto",
    waves: Path | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> list[BenchResult]:
    """Emit a core's Verilog and run its benches on it.

    The benches run legal and illegal programs and compare their outcomes with the golden core's.
    Full-size programs run on a library of the Verilog, if Verilator is installed and `simulator` allows it.

    Parameters
    ----------
    config : CoreConfig
        The core.
    seed, effort, simulator
        See `run_core_bench`.
    waves : Path, optional
        VCD file for the first bench's waveforms; the other benches do not run then.
    progress : callable
        Called with the name of each bench before it runs.
    """
    benches = CORE_BENCHES[:1] if waves is not None else CORE_BENCHES
    how = {"seed": seed, "effort": effort, "simulator": simulator}
    results = run_benches(benches, config, run_core_bench, how, waves=waves, progress=progress)
    if waves is None and simulator != "icarus" and "verilator" in simulator_names():
        progress(PROGRAMS_BENCH)
        results.append(_run_programs(config, seed, effort))
    return results


def _run_programs(config: CoreConfig, seed: int, effort: float) -> BenchResult:
    began = time.monotonic()
    failures = run_core_programs(config, core_verilog(config), seed=seed, effort=effort)
    return BenchResult(
        bench=PROGRAMS_BENCH,
        simulator="verilator",
        seed=seed,
        tests=len(PROGRAMS),
        failures=tuple(failures),
        seconds=time.monotonic() - began,
    )
