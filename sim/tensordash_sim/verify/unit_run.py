"""Run a unit's bench on one component of the core, emitted alone, in a Verilog simulator."""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tensordash.block import Block
from tensordash.configuration.core_config import CoreConfig
from tensordash.emission.library import Library

from .job import JOB_VARIABLE, BenchJob
from .run import read_results
from .simulators import Simulation, choose_simulator, simulator_names

__all__ = ["EmittedUnit", "emitted", "run_unit"]


@dataclass(frozen=True, kw_only=True)
class EmittedUnit:
    """A component's Verilog.

    Parameters
    ----------
    top : str
        Name of its module.
    text : str
        The Verilog of all its modules.
    """

    top: str
    text: str


def emitted(block: Block) -> EmittedUnit:
    """Emit a component once, for several runs."""
    library = Library()
    top, _ = library.module(block)
    return EmittedUnit(top=top, text=library.verilog())


def run_unit(
    block: Block | EmittedUnit,
    bench: str,
    config: CoreConfig,
    *,
    seed: int = 0,
    effort: float = 1.0,
    simulator: str | None = None,
    replaced: Sequence[tuple[str, str]] = (),
    options: dict | None = None,
    test: str | None = None,
) -> list[str]:
    """Emit a component and run a bench on it.

    Parameters
    ----------
    block : Block or EmittedUnit
        The component.
    bench : str
        A module of `tensordash_sim.verify.units`.
    config : CoreConfig
        The component's configuration, which the bench reads as `current_job().config`.
    seed, effort
        See `run_bench`.
    simulator : str, optional
        "icarus", "verilator" or "auto". The default is Icarus if it is installed, since it builds a unit faster.
    replaced : sequence of (str, str)
        Replacements in the Verilog for a deliberately broken variant; each old text must occur exactly once.
    options : dict, optional
        Further options of the bench.
    test : str, optional
        The only test to run; all tests if None.

    Returns
    -------
    list of str
        A line for each test that failed.

    Raises
    ------
    ValueError
        If a text to replace does not occur exactly once, or no test ran.
    """
    if simulator is None:
        simulator = "icarus" if "icarus" in simulator_names() else "auto"
    unit = block if isinstance(block, EmittedUnit) else emitted(block)
    text = unit.text
    for old, new in replaced:
        if text.count(old) != 1:
            raise ValueError(f"{old!r} must be in the Verilog once, not {text.count(old)} times")
        text = text.replace(old, new)
    with tempfile.TemporaryDirectory(prefix="tensordash-unit-") as scratch:
        folder = Path(scratch)
        (folder / "unit.v").write_text(text, encoding="utf-8")
        job = folder / "job.json"
        BenchJob(config=config, seed=seed, effort=effort, options=options or {}).write(job)
        simulation = Simulation(
            choose_simulator(simulator), unit.top, [folder / "unit.v"], folder, options=["--public-flat-rw"]
        )
        results = simulation.run(
            f"{__package__}.units.{bench}", {JOB_VARIABLE: str(job.resolve())}, seed, testcase=test
        )
        tests, failures = read_results(results)
    if not tests:
        raise ValueError(f"no test of {bench} ran")
    return failures
