"""Simulation jobs of experiments. A job depends on its parameters alone, so it can run anywhere and be cached."""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from tensordash_storage import files

from ..performance.chip import code_digest

__all__ = ["JobKind", "SimulationJob"]

JobKind = Callable[..., dict[str, Any]]
"""Function that gets a job's parameters and places by name, and returns a JSON document."""


@cache
def _code() -> str:
    """Return a digest of all code that answers depend on."""
    here = Path(__file__).parent
    package = here.parent
    rounding = [
        here / "block_formats.py",
        package / "golden" / "quantization.py",
        package / "trace" / "layer_operands.py",
    ]
    planner = package.joinpath("performance", "planner").glob("*.py")
    asked = sorted([*here.glob("measure*.py"), *planner, *rounding])
    return f"{code_digest()} {files.code_digest(*asked)}"


@dataclass(frozen=True)
class SimulationJob:
    """A simulation of an experiment's plan.

    Attributes
    ----------
    kind : callable
        Function that runs the job, in a module that workers can import.
    parameters : dict
        Everything that the answer depends on, as JSON values.
    places : dict
        Paths of the input. The answer does not depend on them.
    """

    kind: JobKind
    parameters: Mapping[str, Any]
    places: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def key(self) -> str:
        """Digest of everything that the answer depends on."""
        text = json.dumps([_code(), self.kind.__name__, self.parameters], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:24]

    def run(self) -> dict[str, Any]:
        return self.kind(**self.parameters, **self.places)
