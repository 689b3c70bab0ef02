"""Runs benches on gates."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tensordash_sim.verify.run import BenchResult
from tensordash_synth import POWER_UP


def run_on_gates(
    run: Callable[..., BenchResult], bench: str, config: Any, sources: Sequence[Path], folder: Path
) -> BenchResult:
    """Run a bench for a short while on a netlist and its cells."""
    how = {"seed": 3, "effort": 0.05, "simulator": "icarus"}
    return run(bench, config, folder, folder / "run", sources=sources, roots=[POWER_UP], **how)
