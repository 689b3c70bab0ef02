"""Benches and simulations of netlists, and the tools that they need."""

from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

import pytest

from tensordash_sim.verify.run import BenchResult
from tensordash_synth import POWER_UP
from tensordash_synth.placement import find_placer
from tensordash_synth.power import find_opensta

needs_placer = pytest.mark.skipif(find_placer() is None, reason="coloquinte is not installed")
needs_opensta = pytest.mark.skipif(find_opensta() is None, reason="OpenSTA is not installed")


def run_on_gates(
    run: Callable[..., BenchResult], bench: str, config: Any, sources: Sequence[Path], folder: Path
) -> BenchResult:
    """Run a bench for a short while on a netlist and its cells."""
    options = {"seed": 3, "effort": 0.05, "simulator": "icarus"}
    return run(bench, config, folder, folder / "run", sources=sources, roots=[POWER_UP], **options)


def finish(step: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine of a gate-level simulation, which never waits."""
    with pytest.raises(StopIteration):
        step.send(None)
