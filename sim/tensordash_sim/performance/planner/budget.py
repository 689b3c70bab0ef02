"""What a plan may use of a chip, and what its stages take there."""

from dataclasses import dataclass
from math import ceil

from ..chip import ChipConfig
from .stages import Stage

__all__ = ["Budget"]

PREFETCH_SHARE = 8


@dataclass(frozen=True)
class Budget:
    """What a plan may use.

    The three memories are one to the planner: any tensor may lie in any of them. An eighth of them is left for what is
    loaded ahead and stored behind.

    Attributes
    ----------
    capacity, prefetch : float
        Bytes for what stages need, and for what comes early or leaves late.
    dram_bytes_per_cycle : float
        Off-chip bandwidth.
    elements_per_cycle : int
        Values that the element-wise units take in a cycle.

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
        """Return a chip's: every tile has an element-wise unit for a row of its results.

        Parameters
        ----------
        chip : ChipConfig
            Has the memories.
        gbps : float
            DRAM's GB/s.
        columns : int
            Of a tile.
        """
        every = 3 * chip.memory.capacity
        return cls(
            capacity=every - every / PREFETCH_SHARE,
            prefetch=every / PREFETCH_SHARE,
            dram_bytes_per_cycle=gbps * 1e3 / chip.clock_mhz,
            elements_per_cycle=chip.tiles * columns,
        )

    def on_chip(self, stage: Stage) -> int:
        """Return cycles of a stage without DRAM: tiles and element-wise units work at the same time."""
        return max(stage.cycles, stage.element_cycles)

    def dram(self, stage: Stage) -> int:
        """Return cycles that DRAM needs for a stage."""
        return ceil(stage.dram / self.dram_bytes_per_cycle)
