"""Settings of the evaluation: scale, seed, recorded networks, synthesis results."""

import hashlib
import json
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import tensordash
from tensordash import TensorDashError, TileConfig
from tensordash.configuration.parameters import require_choice, require_int

from ..networks import NAMES, SCALES
from ..trace import Trace, example_trace
from ..trace.format import INDEX
from .job import SimulationJob
from .measure import random_streams, recorded_step

__all__ = ["DIGITS", "PAPER_MODELS", "Network", "Settings"]

DIGITS = "digits"
"""The network of the package's example trace."""
PAPER_MODELS = ("bert", "snli", "detectron2", "squeezenet", "vgg16", "resnet50-sparse", "img2txt", "ncf")
"""Networks of the paper's Table I, with ResNet-50 pruned as in its figures. Means are over these."""
VALUES = "values"
"""Name of the folder of recordings with values, inside the folder of recordings."""
SAMPLES = {"full": 10, "small": 10, "tiny": 2}
STEPS = {"full": 10_000_000, "small": 50_000, "tiny": 4_000}


MAX_STREAMS = 2000
"""Maximum number of streams in a sample, which bounds the time to draw them."""


@dataclass(frozen=True)
class Network:
    """A recorded network.

    Attributes
    ----------
    name : str
        A network of `tensordash_sim.networks`, `DIGITS`, or the name of its trace.
    trace : Trace
        The recording. If one step is simulated, it is the last.
    """

    name: str
    trace: Trace

    @property
    def steps(self) -> list[int]:
        """Indices of the recorded steps."""
        return [step.index for step in self.trace.steps]


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings of the evaluation.

    Attributes
    ----------
    scale : str
        "full", "small" or "tiny": scale of the networks, and length of random streams.
    seed : int
        Seed of all random numbers.
    traces : Path or None
        Folder of recordings, each NAME.trace. Recordings of networks of `tensordash_sim.networks` are used if they are
        at this scale, and all other recordings are used.
    stand_in : bool
        Whether to use the package's example trace if there is no recording.
    synthesis : dict of str to dict
        Documents of ``tensordash synth --json`` by preset.
    """

    scale: str = "small"
    seed: int = 0
    traces: Path | None = None
    stand_in: bool = True
    synthesis: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        require_choice("scale", self.scale, SCALES)
        require_int("seed", self.seed, 0, 2**31)

    @property
    def samples(self) -> range:
        """Seeds of the samples of random streams."""
        return range(self.seed, self.seed + SAMPLES[self.scale])

    @property
    def random_steps(self) -> int:
        """Steps of a sample of random streams."""
        return STEPS[self.scale]

    @cached_property
    def _found(self) -> tuple[dict[str, Network], list[str]]:
        """Recordings that are used, and those that are left out, with the reason."""
        if self.traces is None or not self.traces.is_dir():
            return {}, []
        found: dict[str, Network] = {}
        left_out = []
        for path in sorted(self.traces.iterdir()):
            if not (path.suffix == ".trace" or (path / INDEX).is_file()) or not path.is_dir():
                continue
            trace, name = Trace.open(path), path.stem
            model, scale = trace.conditions.get("model"), trace.conditions.get("scale")
            if not trace.steps:
                left_out.append(f"{path.name} (no step)")
            elif model in NAMES and scale != self.scale:
                left_out.append(f"{path.name} (scale {scale})")
            elif name in NAMES and model in NAMES and model != name:
                left_out.append(f"{path.name} (of {model})")
            else:
                # A trace that only has the name of a built-in network must not be compared with the paper's numbers.
                name = path.name if name in (*NAMES, DIGITS) and model != name else name
                found[name] = Network(name, trace)
        known = [name for name in NAMES if name in found]
        return {name: found[name] for name in (*known, *(name for name in found if name not in known))}, left_out

    @property
    def recorded(self) -> dict[str, Network]:
        """Recorded networks: those of `tensordash_sim.networks` in its order, then others."""
        return self._found[0]

    @property
    def left_out(self) -> list[str]:
        """Recordings that are left out, each with the reason."""
        return self._found[1]

    @cached_property
    def networks(self) -> dict[str, Network]:
        """Recorded networks or, if there are none and `stand_in` allows it, the package's example trace.

        Raises
        ------
        TensorDashError
            If there are no networks.
        """
        if not self.recorded and not self.stand_in:
            where = "a folder without any"
            if self.traces is not None and (self.traces / INDEX).is_file():
                where = "a trace itself"
            elif self.traces is not None and not self.traces.exists():
                where = "missing"
            elif self.left_out:
                where = f"a folder with none of scale {self.scale}: left out {', '.join(self.left_out)}"
            raise TensorDashError(
                f"--traces must be a folder of recorded networks, NAME.trace each; {self.traces} is {where}"
            )
        return self.recorded or {DIGITS: Network(DIGITS, Trace.open(example_trace()))}

    @cached_property
    def with_values(self) -> dict[str, Network]:
        """The package's example trace, and the traces of this scale in the folder `values` of `traces`.

        Raises
        ------
        TensorDashError
            If a trace has no values.
        """
        found = {DIGITS: Network(DIGITS, Trace.open(example_trace()))}
        for path in sorted((self.traces / VALUES).glob("*.trace")) if self.traces is not None else ():
            trace = Trace.open(path)
            if not trace.steps or trace.conditions.get("scale", self.scale) != self.scale:
                continue
            if any(operand.values is None for record in trace.records for operand in record.operands.values()):
                raise TensorDashError(f"{path} must have values: record it with --values")
            found[path.stem] = Network(path.stem, trace)
        return found

    @property
    def values_note(self) -> str:
        """Note on the recordings with values that are used."""
        used = [
            f"{name} (step {network.steps[-1]}, trace {network.trace.digest[:12]})"
            for name, network in self.with_values.items()
        ]
        missing = "" if len(used) > 1 else " `make traces` records more."
        return f"The values are from the last recorded step: {', '.join(used)}.{missing}"

    @property
    def built_in(self) -> list[str]:
        """Recorded networks of `tensordash_sim.networks`."""
        return [name for name in self.recorded if name in NAMES]

    @property
    def averaged(self) -> list[str]:
        """Networks of the means: the recorded networks of the paper or, if there are none, all networks."""
        return [name for name in self.networks if name in PAPER_MODELS] or list(self.networks)

    def network_job(
        self,
        name: str,
        tile: TileConfig,
        *,
        step: int | None = None,
        tiles: int = 256,
        row_order: str = "natural",
        **how: Any,
    ) -> SimulationJob:
        """Return the job of a network's step on a chip. `step` is by default the last one; `how` is as in `Machine`."""
        network = self.networks[name]
        parameters = {"digest": network.trace.digest, "step": network.steps[-1] if step is None else step}
        parameters |= {"tile": tile.to_mapping(), "tiles": tiles, "row_order": row_order, **how}
        return SimulationJob(recorded_step, parameters, {"path": str(network.trace.path.resolve())})

    def random_job(
        self,
        tile: TileConfig,
        zeros: float,
        *,
        length: int | None = None,
        cluster: str = "none",
        row_order: str = "natural",
    ) -> SimulationJob:
        """Return the job of random streams on a tile. Without a length, each sample is one endless stream."""
        steps = self.random_steps
        if length is not None:
            steps = min(steps // length, MAX_STREAMS) * length
        parameters: dict[str, Any] = {"tile": tile.to_mapping(), "zeros": zeros, "seeds": list(self.samples)}
        parameters |= {"steps": steps, "length": length or steps, "cluster": cluster, "row_order": row_order}
        return SimulationJob(random_streams, parameters)

    @cached_property
    def conditions(self) -> dict[str, Any]:
        """Conditions of the numbers, without those of the networks."""
        return {"scale": self.scale, "seed": self.seed, "version": tensordash.__version__, "commit": commit()}

    def data(self, networks: Mapping[str, Network]) -> dict[str, dict[str, Any]]:
        """Return the conditions of the networks' recordings."""
        return {
            name: {"digest": network.trace.digest, "steps": network.steps, **network.trace.conditions}
            for name, network in networks.items()
        }


def configurations_digest(jobs: list[SimulationJob]) -> str:
    """Return a hash of the configurations of all jobs of a figure."""
    text = json.dumps(sorted({json.dumps(job.parameters, sort_keys=True) for job in jobs}))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def commit() -> str | None:
    """Return the checkout's commit, with + if files have changed; None outside a checkout."""
    here = ["git", "--no-optional-locks", "-C", str(Path(__file__).parent)]
    try:
        found = subprocess.run([*here, "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
        changed = subprocess.run([*here, "status", "--porcelain", "-uno"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return found[:12] + ("+" if changed.stdout.strip() else "")
