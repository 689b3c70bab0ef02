"""Records of contractions that ran on the device, and of products that did not."""

import math
from dataclasses import dataclass
from typing import Any

from .jobs import ExecutedOperation

__all__ = ["Contracted", "Missed", "Totals"]


@dataclass(frozen=True, kw_only=True)
class Contracted:
    """A contraction that ran on the device.

    Parameters
    ----------
    step : int
        The training step, counted from 0.
    layer, operation : str
        Name of the layer, and its operation: AxW, WxG or AxG, or "product" outside of layers.
    executed : ExecutedOperation
        The operation's record.
    """

    step: int
    layer: str
    operation: str
    executed: ExecutedOperation

    @property
    def macs(self) -> int:
        """Multiplications, including those by zero."""
        return self.executed.geometry.macs

    @property
    def fused(self) -> tuple[str, ...]:
        """Fused operations of the output unit: bias, relu and mask."""
        return self.executed.problem.fused

    @property
    def row_zeros(self) -> float:
        """Share of zeros, before rounding, in the operand whose zeros are skipped."""
        return self.executed.zeros[self.executed.problem.rows]

    @property
    def flushed_row_zeros(self) -> float:
        """Share of zeros in the same operand after rounding."""
        counts = self.executed.operands[self.executed.problem.rows]
        return (counts.zeros + counts.flushed) / counts.values


@dataclass(frozen=True, kw_only=True)
class Missed:
    """A PyTorch operation whose products did not run on the device.

    Parameters
    ----------
    step : int
        The training step.
    layer : str
        Name of the layer, or "".
    operation, reason : str
        Name of the operation, and why it did not run on the device.
    macs : int, optional
        Number of multiplications; None if unknown.
    """

    step: int
    layer: str
    operation: str
    reason: str
    macs: int | None

    def __str__(self) -> str:
        place = f" of {self.layer}" if self.layer else ""
        macs = "" if self.macs is None else f", {self.macs:,} MACs"
        return f"{self.operation}{place} did not run on the device{macs}: {self.reason}"


@dataclass(frozen=True, kw_only=True)
class Totals:
    """Sums over contractions.

    Attributes
    ----------
    contractions, macs : int
        The number of contractions, and their multiplications.
    cycles, dense_cycles : int
        Cycles of the core, measured or expected, and expected cycles of the dense core. The core skips only the
        tensors' zeros before rounding.
    tile_cycles, dense_tile_cycles : int
        Cycles of the tile and of the dense tile without waiting, from the cycle simulator, for the same zeros.
    flushed_cycles, flushed_tile_cycles : int
        Cycles of core and tile if they also skip the zeros that rounding made, as the device does.
    traffic : int
        Bytes read from memory and written to it.
    zeros, flushed_zeros : float
        Share of the multiplications whose row operand is zero, for evenly spread zeros; before and after rounding.
    flushed, saturated : int
        Values that rounding made zero; finite values that it made infinite, NaN or the largest number.
    non_finite : int
        Contractions with infinities or NaN in an operand.
    missed_macs : int
        Known multiplications that did not run on the device; 0 in sums over a selection of contractions.
    unknown : int
        Missed operations with an unknown number of multiplications.
    uncounted : int
        Contractions without counted cycles. Sums of cycles and bytes leave them out, and speedups are NaN.
    """

    contractions: int
    macs: int
    cycles: int
    dense_cycles: int
    tile_cycles: int
    dense_tile_cycles: int
    flushed_cycles: int
    flushed_tile_cycles: int
    traffic: int
    zeros: float
    flushed_zeros: float
    flushed: int
    saturated: int
    non_finite: int
    missed_macs: int = 0
    unknown: int = 0
    uncounted: int = 0

    @property
    def share(self) -> float | None:
        """Share of all multiplications that ran on the device; None if missed multiplications are unknown."""
        total = self.macs + self.missed_macs
        return None if self.unknown else self.macs / total if total else 1.0

    @property
    def speedup(self) -> float:
        """Speedup of the core over the dense core from the tensors' zeros before rounding."""
        return self._ratio(self.dense_cycles, self.cycles)

    @property
    def tile_speedup(self) -> float:
        """Speedup of the tile over the dense tile; loads and stores reduce it to `speedup`."""
        return self._ratio(self.dense_tile_cycles, self.tile_cycles)

    @property
    def flushed_speedup(self) -> float:
        """Speedup of the core over the dense core, including the zeros that rounding made."""
        return self._ratio(self.dense_cycles, self.flushed_cycles)

    @property
    def flushed_tile_speedup(self) -> float:
        """Speedup of the tile over the dense tile, including the zeros that rounding made."""
        return self._ratio(self.dense_tile_cycles, self.flushed_tile_cycles)

    def _ratio(self, dense: int, cycles: int) -> float:
        return math.nan if self.uncounted else dense / cycles if cycles else 1.0

    def to_json(self) -> dict[str, Any]:
        """Return a JSON document. Values that were not counted are null."""
        names = ("contractions", "uncounted", "macs", "missed_macs", "unknown", "share")
        lost = ("flushed", "saturated", "non_finite")
        cycles = {
            "cycles": self.cycles,
            "dense_cycles": self.dense_cycles,
            "traffic": self.traffic,
            "speedup": round(self.speedup, 4),
            "tile_speedup": round(self.tile_speedup, 4),
            "cycles_with_flushed": self.flushed_cycles,
            "speedup_with_flushed": round(self.flushed_speedup, 4),
            "tile_speedup_with_flushed": round(self.flushed_tile_speedup, 4),
        }
        return {name: getattr(self, name) for name in (*names, *lost)} | {
            "row_zeros": round(self.zeros, 4),
            "row_zeros_with_flushed": round(self.flushed_zeros, 4),
            **(dict.fromkeys(cycles) if self.uncounted else cycles),
        }
