"""A plan: the schedule of a step's graph on a chip."""

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
    "fuse": "element-wise nodes and updates run with the nodes that write or read their values",
    "share": "products that read the same tensor run together",
    "depth-first": "a product's results flow into the next product, part by part",
    "recompute": "tensors that are cheap to recompute are not stored",
    "keep": "tensors stay on the chip from one stage to a later one",
    "compress": "results leave compressed",
    "overlap": "loads run ahead of stages, stores after them, and stages that wait for DRAM overlap with others",
}
"""Optimisations that a plan may use, in the order in which tables add them."""


@dataclass(frozen=True)
class Resident:
    """A tensor that stays on the chip.

    Attributes
    ----------
    tensor : str
        Name of the tensor.
    first, last : int
        The stage that writes it, and the last stage that reads it.
    """

    tensor: str
    first: int
    last: int


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The stages of a step, and the tensors that stay on the chip.

    Attributes
    ----------
    graph : Graph
        The step, including recomputed nodes.
    stages : tuple of Stage
        In order.
    residents : tuple of Resident
        Tensors that stay on the chip between stages.
    budget : Budget
        Resources of the chip.
    overlaps : tuple of Overlap
        Stages that run at the same time as others.
    measures : frozenset of str
        The allowed `MEASURES`.
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
        """DRAM cycles of all stages."""
        return ceil(self.dram / self.budget.dram_bytes_per_cycle)

    @cached_property
    def cycles(self) -> int:
        """Cycles of the step."""
        if "overlap" in self.measures:
            return overlapped(self.stages, self.budget, self.overlaps)
        return alone(self.stages, self.budget)
