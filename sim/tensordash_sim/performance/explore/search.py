"""Hill climbing over the options of a structure and their order."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from tensordash import Connectivity, TileConfig
from tensordash.configuration.connectivity import Option

from .workload import Workload

__all__ = ["MAX_LEVELS", "Found", "Structure", "climb", "search", "start_options"]

MAX_LEVELS = 6
"""Maximum of levels in a scheduler, which form its critical path: the number in the paper's widest one (Fig. 14)."""
REACH = 3
"""Largest lane offset to try, in both directions. A longer wire gives a lane no better choice of work."""


@dataclass(frozen=True)
class Structure:
    """The parameters of a tile that a search does not change.

    Attributes
    ----------
    lanes, depth, rows, columns : int
        As in `TileConfig`.
    sources : int
        Inputs of each lane's mux. With shifting steps, these are its options. In a ring, a lane reads every slot at the
        same lane offsets, but may take only its own position of the oldest step. It has fewer options than sources.
    staging : "shift" or "ring"
        As in `TileConfig`.
    """

    lanes: int
    depth: int
    rows: int
    columns: int
    sources: int
    staging: str = "shift"

    @property
    def offsets(self) -> tuple[int, ...]:
        """Lane offsets to try, the nearest first."""
        # Offsets count modulo `lanes`: with an even number of lanes, include the opposite lane only once.
        reach = range(-min(REACH, (self.lanes - 1) // 2), min(REACH, self.lanes // 2) + 1)
        return tuple(sorted(reach, key=lambda offset: (abs(offset), -offset)))

    @property
    def positions(self) -> tuple[Option, ...]:
        """Possible options besides (0, 0), as (step, lane offset), the oldest step first."""
        return tuple((step, offset) for step in range(1, self.depth) for offset in self.offsets)

    @property
    def is_possible(self) -> bool:
        """Whether a lane can have `sources` sources."""
        if self.staging == "ring":
            return self.sources % self.depth == 0 and self.sources // self.depth <= len(self.offsets)
        return self.sources <= len(self.positions) + 1

    @property
    def label(self) -> str:
        """Short name, such as "4 lanes, 3 deep, 4 sources, 4x4"."""
        ring = ", ring" if self.staging == "ring" else ""
        return f"{self.lanes} lanes, {self.depth} deep, {self.sources} sources{ring}, {self.rows}x{self.columns}"

    def fits(self, config: TileConfig) -> bool:
        """Return whether a tile's options have this structure."""
        if (config.lanes, config.depth, config.staging) != (self.lanes, self.depth, self.staging):
            return False
        connectivity = Connectivity(config.options, lanes=config.lanes, depth=config.depth)
        return len(connectivity.sources(config.ring)) == self.sources

    def config(self, base: TileConfig, options: Sequence[Option]) -> TileConfig:
        """Return a tile with this structure and these options, and all other fields from `base`."""
        return replace(
            base,
            lanes=self.lanes,
            depth=self.depth,
            rows=self.rows,
            columns=self.columns,
            connectivity=tuple(options),
            staging=self.staging,
        )


@dataclass(frozen=True)
class Found:
    """The best of a search.

    Attributes
    ----------
    options : tuple of (step, lane offset)
        In priority order.
    speedup : float
        Mean speedup over the workloads.
    start : float
        Mean speedup of the start of the search.
    """

    options: tuple[Option, ...]
    speedup: float
    start: float

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> "Found":
        """Build from the output of `dataclasses.asdict`, with lists for tuples as in JSON."""
        return cls(**document | {"options": tuple((step, offset) for step, offset in document["options"])})


def start_options(structure: Structure) -> tuple[Option, ...]:
    """Return start options: the nearest lane offsets, in the order of steps, the oldest first.

    >>> start_options(Structure(lanes=4, depth=3, rows=4, columns=4, sources=5))
    ((0, 0), (1, 0), (1, 1), (2, 0), (2, 1))
    >>> start_options(Structure(lanes=4, depth=2, rows=4, columns=4, sources=6, staging="ring"))
    ((0, 0), (1, 0), (1, 1), (1, -1))
    """
    if structure.staging == "ring":
        offsets = structure.offsets[: structure.sources // structure.depth]
        return ((0, 0), *((step, offset) for step in range(1, structure.depth) for offset in offsets))
    nearest = sorted(structure.positions, key=lambda option: (abs(option[1]), -option[1]))
    chosen = set(nearest[: structure.sources - 1])
    return ((0, 0), *(option for option in structure.positions if option in chosen))


def search(
    structure: Structure,
    base: TileConfig,
    workloads: Sequence[Workload],
    *,
    starts: Sequence[tuple[Option, ...]] = (),
    tries: int,
    seed: int,
    drop_steps: bool = False,
) -> Found:
    """Climb from the best start: swap two options in the order or replace one, and accept each faster candidate.

    In a ring, a replacement changes a lane offset in every step.

    Parameters
    ----------
    structure : Structure
        The structure, which does not change.
    base : TileConfig
        Supplies all fields that the structure does not define.
    workloads : sequence of Workload
        The workloads whose mean speedup is maximised.
    starts : sequence of tuple of (step, lane offset)
        Good options to start from, in addition to `start_options`.
    tries : int
        Number of candidates.
    seed : int
        Seed of the climb.
    drop_steps : bool
        Whether the tile drops steps that are empty in all rows.

    Returns
    -------
    Found
    """

    def score(options: Sequence[Option]) -> float:
        config = structure.config(base, options)
        return sum(workload.speedup(config, drop_steps=drop_steps) for workload in workloads) / len(workloads)

    return climb(structure, score, starts=starts, tries=tries, seed=seed)


def climb(
    structure: Structure,
    score: Callable[[Sequence[Option]], float],
    *,
    starts: Sequence[tuple[Option, ...]] = (),
    tries: int,
    seed: int,
) -> Found:
    """Search as `search` does, with an arbitrary score of options; more is better."""
    random = Random(seed)
    best = max([start_options(structure), *starts], key=score)
    start = speedup = score(best)
    seen = {best}
    for _ in range(tries):
        candidate = _neighbour(best, structure, random)
        if candidate not in seen and _level_count(candidate, structure) <= MAX_LEVELS:
            seen.add(candidate)
            found = score(candidate)
            if found > speedup:
                best, speedup = candidate, found
    return Found(options=best, speedup=speedup, start=start)


def _level_count(options: Sequence[Option], structure: Structure) -> int:
    return len(Connectivity(options, lanes=structure.lanes, depth=structure.depth).levels)


def _neighbour(options: tuple[Option, ...], structure: Structure, random: Random) -> tuple[Option, ...]:
    changed = list(options)
    if structure.staging == "ring":
        # A lane's own offset must stay, because the oldest step may be in any slot.
        offsets = sorted({offset for _, offset in options[1:]} - {0})
        used = {offset % structure.lanes for offset in offsets}
        unused = [offset for offset in structure.offsets if offset != 0 and offset % structure.lanes not in used]
        if offsets and unused and random.random() < 0.2:
            old, new = random.choice(offsets), random.choice(unused)
            return ((0, 0), *((step, new if offset == old else offset) for step, offset in options[1:]))
        free: list[Option] = []
    else:
        reached = {(step, offset % structure.lanes) for step, offset in changed}
        free = [each for each in structure.positions if (each[0], each[1] % structure.lanes) not in reached]
    if len(changed) > 2 and (not free or random.random() < 0.5):
        i, j = random.sample(range(1, len(changed)), 2)
        changed[i], changed[j] = changed[j], changed[i]
    elif free and len(changed) > 1:
        changed[random.randrange(1, len(changed))] = random.choice(free)
    return tuple(changed)
