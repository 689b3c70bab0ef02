"""What is kept of each contraction that ran, and of what did not run on the device."""

import math
from dataclasses import dataclass
from typing import Any

from .jobs import Executed

__all__ = ["Contracted", "Missed", "Totals"]


@dataclass(frozen=True, kw_only=True)
class Contracted:
    """A contraction that ran on the device.

    Parameters
    ----------
    step : int
        The training step, counted from 0.
    layer, operation : str
        Its operation: AxW, WxG or AxG, or "product" if that is unknown.
    executed : Executed
        How it went.
    """

    step: int
    layer: str
    operation: str
    executed: Executed

    @property
    def macs(self) -> int:
        """Multiplications, those with zeros among them."""
        return self.executed.geometry.macs

    @property
    def fused(self) -> tuple[str, ...]:
        """What the output unit did besides, of bias, relu and mask."""
        return self.executed.problem.fused

    @property
    def row_zeros(self) -> float:
        """Share of the tensor's own zeros in the operand whose zeros are skipped."""
        return self.executed.zeros[self.executed.problem.rows]

    @property
    def flushed_row_zeros(self) -> float:
        """Share of zeros in the same operand after rounding."""
        counts = self.executed.operands[self.executed.problem.rows]
        return (counts.zeros + counts.flushed) / counts.values


@dataclass(frozen=True, kw_only=True)
class Missed:
    """Something that multiplies and did not run on the device.

    Parameters
    ----------
    step : int
        The training step.
    layer : str
        Its name, or nothing.
    operation, reason : str
        What it was, and why it did not.
    macs : int, optional
        Its multiplications, where they are known.
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
        Of the core, measured or expected; and of the dense core, expected. The core skips only zeros that the tensors
        have themselves.
    tile_cycles, dense_tile_cycles : int
        Of a tile and of the dense tile that never wait, as the cycle simulator counts them for the same zeros.
    flushed_cycles, flushed_tile_cycles : int
        Of core and tile that skip the zeros that rounding made, too, as the device does.
    traffic : int
        Bytes that memory is read and written.
    zeros, flushed_zeros : float
        Share of the multiplications whose row operand is zero, were zeros spread evenly; before and after rounding.
    flushed, saturated : int
        Values that rounding made zero; finite ones that it made infinite, NaN or the largest number.
    non_finite : int
        Contractions with infinities or NaN in an operand.
    missed_macs : int
        Multiplications that did not run on the device, where they are known; 0 in sums over some of the contractions.
    unknown : int
        Missed operations whose multiplications are not known.
    uncounted : int
        Contractions whose cycles were not counted. Sums of cycles and bytes leave them out. With any, speedups are NaN.
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
        """Share of all multiplications that ran on the device; None if some of the others are not known."""
        every = self.macs + self.missed_macs
        return None if self.unknown else self.macs / every if every else 1.0

    @property
    def speedup(self) -> float:
        """Speedup of the core over the dense core for the tensors' own zeros."""
        return self._ratio(self.dense_cycles, self.cycles)

    @property
    def tile_speedup(self) -> float:
        """Speedup of the tile over the dense tile; loads and stores leave `speedup`."""
        return self._ratio(self.dense_tile_cycles, self.tile_cycles)

    @property
    def flushed_speedup(self) -> float:
        """Speedup of the core over the dense core, with the zeros that rounding made."""
        return self._ratio(self.dense_cycles, self.flushed_cycles)

    @property
    def flushed_tile_speedup(self) -> float:
        """Speedup of the tile over the dense tile, with the zeros that rounding made."""
        return self._ratio(self.dense_tile_cycles, self.flushed_tile_cycles)

    def _ratio(self, dense: int, cycles: int) -> float:
        return math.nan if self.uncounted else dense / cycles if cycles else 1.0

    def to_json(self) -> dict[str, Any]:
        """Return a JSON document; values that were not counted are null."""
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
