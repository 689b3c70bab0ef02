"""Draw the cores of a campaign, and each core's share of the goals."""

from contextlib import suppress
from dataclasses import dataclass
from random import Random
from typing import Any

from tensordash import ConfigError
from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.numerics import Binned

from ..programs.expected_outcome import BUFFER_IMAGE

__all__ = ["SIZE", "CoreGoals", "CoreJob", "draw_core_job", "key_points"]

SIZE = 1 << 17
"""Bytes of memory."""
MIXED = ({"a": "fp8_e4m3", "b": "fp8_e5m2"}, {"a": "fp8_e5m2", "b": "fp8_e4m3"})
FORMATS = ("fp16", "fp8_e4m3", "bf16", "int8", "fp16", "fp8_e5m2", *MIXED)
BINNED = {"bins": 3, "bin_bits": 16}
TILE = {
    "lanes": (4, 4, 8, 4),
    "depth": (4, 3, 2),
    "format": FORMATS,
    "sparsity": ("rows", "both", "rows", "none"),
    "pipeline": ("auto", 1, 2, 3),
    "full_window": ("auto", True, False),
    "headroom_bits": (12, 14, 16),
    "accumulator": ("exact", BINNED, "exact", {"bins": 4, "bin_bits": 11}),
}
CORE = {
    "buffer": (4, 8, 16, 32, 64),
    "regions": (1, 2, 4, 8),
    "stream_buffer": (2, 3, 4, 8, 16),
    "partial_sums": (1, 3, 4, 16, 64),
    "result_cycles": (1, 2, 4, 8),
    "axi_bits": (32, 64, 128, 256, 512),
    "address_bits": (32, 40, 48, 64),
    "outstanding": (1, 2, 16, 128),
    "prefetch": (2, 4, 32),
    "window": (4, 8, 16, 32),
    **dict.fromkeys(("bias", "scale", "relu", "mask", "stochastic", "compression"), (True, True, True, False, True)),
    "nvfp4": (False, True),
    "skip_masked": (False, True),
    "drop_steps": (False, False, True),
}
"""Values of each key; more frequent values are repeated."""
TRIES = 300
"""Maximum number of cores to draw until one is valid, at first with the values whose turn it is."""


@dataclass(frozen=True, kw_only=True)
class CoreGoals:
    """Least numbers that a campaign, or one of its cores, has to reach.

    Parameters
    ----------
    positions : int
        Multiply positions of layers.
    descriptors : int
        Descriptors executed.
    faults : int
        Programs with a fault: illegal or fuzzed descriptors, failing or silent memory, wrong use of the queue, or a
        soft reset.
    """

    positions: int
    descriptors: int
    faults: int

    def share(self, cores: int) -> "CoreGoals":
        return CoreGoals(**{name: -(-value // cores) for name, value in vars(self).items()})


@dataclass(frozen=True, kw_only=True)
class CoreJob:
    """One job: a core and its goals.

    Parameters
    ----------
    seed, index : int
        The campaign's seed and the job's number, which determine everything else.
    config : CoreConfig
        The core.
    goals : CoreGoals
        The job's share of the campaign's goals.
    """

    seed: int
    index: int
    config: CoreConfig
    goals: CoreGoals

    @property
    def name(self) -> str:
        """Seed, index and goals, which identify the job."""
        return ":".join(map(str, (self.seed, self.index, *vars(self.goals).values())))


def draw_core_job(seed: int, index: int, goals: CoreGoals) -> CoreJob:
    """Return a campaign's job by its number; successive jobs take turns through the values of each key.

    >>> goals = CoreGoals(positions=1, descriptors=1, faults=1)
    >>> draw_core_job(3, 5, goals) == draw_core_job(3, 5, goals), draw_core_job(3, 5, goals).config.window
    (True, 32)
    """
    random = Random(f"soak core {seed} {index}")
    turns = {name: _turn(f"{seed} {name}", values, index) for name, values in (TILE | CORE).items()}
    for k in range(TRIES):
        # The more tries have failed, the more fields are drawn at random.
        free = random.sample(sorted(turns), min(k // 10, len(turns)))
        fields = turns | {name: random.choice((TILE | CORE)[name]) for name in free}
        with suppress(ConfigError):
            config = CoreConfig.from_mapping(_document(random, fields))
            if config.groups >= 64 and config.groups * config.group_bytes <= SIZE - BUFFER_IMAGE:
                return CoreJob(seed=seed, index=index, config=config, goals=goals)
    raise AssertionError(f"no core can be drawn for job {seed}:{index}")


def _turn(name: str, values: Any, index: int) -> Any:
    """Return a job's value: `len(values)` successive jobs use each value once, in a random order."""
    turn, place = divmod(index, len(values))
    return Random(f"{name} {turn}").sample(values, len(values))[place]


def _document(random: Random, fields: dict[str, Any]) -> dict[str, Any]:
    """Return a configuration with these fields and random other ones."""
    tile, core = ({name: fields[name] for name in names} for names in (TILE, CORE))
    if core["drop_steps"]:  # The keys that it requires.
        core |= {"mask": True, "skip_masked": True, "layout_groups": 2}
        tile |= {"sparsity": "rows", "depth": tile["depth"] // 2 * 2}
    lanes, depth = tile["lanes"], tile["depth"]
    sides = (lanes, lanes, 2 * lanes) if lanes == 4 else (lanes,)
    offsets = random.sample(range(lanes), random.randint(1, min(3, lanes)))
    tile |= {
        "rows": lanes if core["drop_steps"] else random.choice(sides),
        "columns": random.choice(sides),
        "connectivity": [(0, 0), *((step, offset) for step in range(1, depth) for offset in offsets)],
        "staging": "shift" if tile["sparsity"] == "none" else "ring",
    }
    if tile["format"] == "bf16" and tile["accumulator"] == "exact":
        tile["accumulator"] = BINNED
    if tile["format"] == "int8":
        tile["accumulator"] = "exact"
    core["skip_masked"] &= core["mask"]
    return {"tile": tile, "core": core}


def key_points(config: CoreConfig | None = None) -> set[str]:
    """Return the coverage points of a core's keys, or of all values of keys if `config` is None."""
    if config is None:
        points = {f"{name} {value}" for name, values in CORE.items() for value in values}
        points |= {f"{name} {value}" for name in ("lanes", "depth", "sparsity") for value in TILE[name]}
        points |= {f"format {_format_name(value)}" for value in FORMATS}
        return points | {"accumulator exact", "accumulator binned, 3", "accumulator binned, 4"}
    tile = config.tile
    points = {f"{name} {getattr(config, name)}" for name in CORE}
    points |= {f"lanes {tile.lanes}", f"depth {tile.depth}", f"sparsity {tile.sparsity}"}
    accumulator = tile.numerics.accumulator
    points.add(f"accumulator binned, {accumulator.bins}" if isinstance(accumulator, Binned) else "accumulator exact")
    return points | {f"format {tile.a_format.name} {tile.b_format.name}"}


def _format_name(value: Any) -> str:
    return " ".join((value["a"], value["b"]) if isinstance(value, dict) else (value, value))
