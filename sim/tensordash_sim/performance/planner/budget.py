"""The resources of a chip that a plan may use, and the cycles of stages on them."""

from dataclasses import dataclass
from math import ceil

from ..chip import ChipConfig
from .stages import Stage

__all__ = ["Budget"]

PREFETCH_SHARE = 8


@dataclass(frozen=True)
class Budget:
    """The resources that a plan may use.

    The planner treats the three memories as one: any tensor may be in any of them. It reserves an eighth for early
    loads and late stores.

    Attributes
    ----------
    capacity, prefetch : float
        Bytes for running stages, and for early loads and late stores.
    dram_bytes_per_cycle : float
        Off-chip bandwidth.
    elements_per_cycle : int
        Values that the element-wise units process per cycle.

    Examples
    --------
    >>> budget = Budget.of(ChipConfig(), gbps=25.6, columns=4)
    >>> budget.capacity / 2**20, budget.dram_bytes_per_cycle, budget.elements_per_cycle
    (21.0, 51.2, 1024)
    """

    capacity: float
    prefetch: float
    dram_bytes_per_cycle: float
    elements_per_cycle: int

    @classmethod
    def of(cls, chip: ChipConfig, *, gbps: float, columns: int) -> "Budget":
        """Return the budget of a chip; every tile has an element-wise unit for a row of its results.

        Parameters
        ----------
        chip : ChipConfig
            Supplies tiles and memories.
        gbps : float
            DRAM bandwidth in GB/s.
        columns : int
            Columns of a tile.
        """
        every = 3 * chip.memory.capacity
        return cls(
            capacity=every - every / PREFETCH_SHARE,
            prefetch=every / PREFETCH_SHARE,
            dram_bytes_per_cycle=gbps * 1e3 / chip.clock_mhz,
            elements_per_cycle=chip.tiles * columns,
        )

    def on_chip(self, stage: Stage) -> int:
        """Return a stage's cycles without DRAM; tiles and element-wise units work at the same time."""
        return max(stage.cycles, stage.element_cycles)

    def dram(self, stage: Stage) -> int:
        """Return the DRAM cycles of a stage."""
        return ceil(stage.dram / self.dram_bytes_per_cycle)
