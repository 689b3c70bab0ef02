"""Job of a bench: configuration, seed and effort, in a file whose path is in an environment variable."""

import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tensordash import TileConfig
from tensordash.configuration.core_config import CoreConfig

__all__ = ["JOB_VARIABLE", "BenchJob", "current_job"]

JOB_VARIABLE = "TENSORDASH_JOB"


@dataclass(frozen=True, kw_only=True)
class BenchJob:
    """A run of a bench.

    Parameters
    ----------
    config : TileConfig or CoreConfig
        The configuration that the Verilog should implement.
    seed : int
        Seed of all random stimulus.
    effort : float
        Amount of random stimulus, relative to a usual run.
    options : dict
        Options of single benches, such as a file of operands. "patience" (default 1) scales the number of cycles
        after which a bench reports a hang.
    """

    config: Any
    seed: int
    effort: float = 1.0
    options: dict[str, Any] = field(default_factory=dict)

    def patience(self, cycles: int) -> int:
        """Return the number of cycles after which a bench reports a hang; `cycles` is the default."""
        return round(cycles * self.options.get("patience", 1))

    def write(self, path: Path) -> None:
        """Write the job for a bench to read."""
        document = {**asdict(self), "config": self.config.to_mapping()}
        path.write_text(json.dumps(document), encoding="utf-8")


def current_job() -> BenchJob:
    """Return the job of the bench that runs in this process."""
    document = json.loads(Path(os.environ[JOB_VARIABLE]).read_text(encoding="utf-8"))
    kind = CoreConfig if "core" in document["config"] else TileConfig
    return BenchJob(**{**document, "config": kind.from_mapping(document["config"])})
