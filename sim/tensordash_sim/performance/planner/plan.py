"""A plan: how a step's graph runs on a chip."""

from dataclasses import dataclass
from functools import cached_property
from math import ceil

from .budget import Budget
from .graph import Graph
from .overlap import Overlap
from .stages import Stage
from .timeline import alone, overlapped

__all__ = ["MEASURES", "Plan", "Resident"]

MEASURES = {
    "fuse": "element-wise work and updates run with what makes or takes their values",
    "share": "products that read the same tensor run together",
    "depth-first": "a product's results flow into the next product, part by part",
    "recompute": "what is cheap to make again is not stored",
    "keep": "tensors stay on the chip from one stage to a later one",
    "compress": "results leave compressed",
    "overlap": "loads run ahead of the stages, stores after them, and what waits for DRAM beside what does not",
}
"""What a plan may do, in the order in which tables add it."""


@dataclass(frozen=True)
class Resident:
    """A tensor that stays on the chip.

    Attributes
    ----------
    tensor : str
        Which.
    first, last : int
        The stage that writes it, and the last one that reads it.
    """

    tensor: str
    first: int
    last: int


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How a step runs.

    Attributes
    ----------
    graph : Graph
        The step, recomputed nodes included.
    stages : tuple of Stage
        In order.
    residents : tuple of Resident
        Tensors that stay on the chip between stages.
    budget : Budget
        What it may use.
    overlaps : tuple of Overlap
        Stages that run at the same time as others.
    measures : frozenset of str
        Of `MEASURES`.
    """

    graph: Graph
    stages: tuple[Stage, ...]
    residents: tuple[Resident, ...]
    budget: Budget
    measures: frozenset[str]
    overlaps: tuple[Overlap, ...] = ()

    @property
    def dram(self) -> float:
        """Bytes between DRAM and the chip."""
        return sum(stage.dram for stage in self.stages) + sum(
            one.reloaded_bytes * len(one.resumed) for one in self.overlaps
        )

    @property
    def on_chip(self) -> int:
        return sum(self.budget.on_chip(stage) for stage in self.stages)

    @property
    def dram_cycles(self) -> int:
        """Return the DRAM cycles of all stages."""
        return ceil(self.dram / self.budget.dram_bytes_per_cycle)

    @cached_property
    def cycles(self) -> int:
        """Cycles of the step."""
        if "overlap" in self.measures:
            return overlapped(self.stages, self.budget, self.overlaps)
        return alone(self.stages, self.budget)
