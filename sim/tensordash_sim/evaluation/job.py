"""Pieces of work: each depends on its parameters alone, so that it can run anywhere, and is kept once it is done."""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from tensordash_storage import files

from ..performance.chip import code_digest

__all__ = ["Job", "JobKind", "Store"]

JobKind = Callable[..., dict[str, Any]]
"""Takes a job's parameters, and its places, by name; gives a document."""


@cache
def _code() -> str:
    """Of all code that answers depend on: what is simulated, and how it is asked here."""
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
class Job:
    """A piece of work.

    Attributes
    ----------
    kind : callable
        What is done, a function of a module that workers can import.
    parameters : dict
        Everything that the answer depends on, as JSON has it.
    places : dict
        Where its input is; the answer does not depend on that.
    """

    kind: JobKind
    parameters: Mapping[str, Any]
    places: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def key(self) -> str:
        """Of everything that the answer depends on."""
        text = json.dumps([_code(), self.kind.__name__, self.parameters], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:24]

    def run(self) -> dict[str, Any]:
        """Do it."""
        return self.kind(**self.parameters, **self.places)


class Store:
    """Answers that are there already, a file for each.

    Parameters
    ----------
    folder : Path
        Made when the first answer is kept.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def get(self, job: Job) -> dict[str, Any] | None:
        """The answer to a job, if it is there and whole."""
        try:
            document = json.loads(self._path(job).read_text(encoding="utf-8"))
        except (FileNotFoundError, ValueError):
            return None
        return document if isinstance(document, dict) else None

    def put(self, job: Job, answer: Mapping[str, Any]) -> None:
        """Keep an answer."""
        files.atomic_write(self._path(job), json.dumps(answer))

    def _path(self, job: Job) -> Path:
        return self.folder / f"{job.key}.json"
