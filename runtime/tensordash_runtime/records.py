"""What is kept of each contraction that ran, and of what did not run on the device."""

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
        Of what it is: AxW, WxG or AxG, or "product" where that cannot be told.
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
        return self.executed.work.fused

    @property
    def row_zeros(self) -> float:
        """Share of zeros in the operand whose zeros are skipped."""
        return self.executed.zeros[self.executed.work.rows]


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
        How many, and their multiplications.
    cycles, dense_cycles : int
        Measured, or as expected; and what the dense core is expected to take.
    tile_cycles, dense_tile_cycles : int
        Of a tile and of the dense tile that never wait, as the cycle simulator counts them.
    traffic : int
        Bytes that memory is read and written.
    zeros : float
        Share of the multiplications whose row operand is zero, were zeros spread evenly.
    missed_macs : int
        Multiplications that did not run on the device, where they are known; 0 in sums over some of the contractions.
    unknown : int
        Missed operations whose multiplications are not known.
    """

    contractions: int
    macs: int
    cycles: int
    dense_cycles: int
    tile_cycles: int
    dense_tile_cycles: int
    traffic: int
    zeros: float
    missed_macs: int = 0
    unknown: int = 0

    @property
    def share(self) -> float | None:
        """Of all multiplications, those that ran on the device; None if some of the others are not known."""
        every = self.macs + self.missed_macs
        return None if self.unknown else self.macs / every if every else 1.0

    @property
    def speedup(self) -> float:
        """Of the core over the dense core."""
        return self.dense_cycles / self.cycles if self.cycles else 1.0

    @property
    def tile_speedup(self) -> float:
        """Of the tile over the dense tile: what is left of it is `speedup`."""
        return self.dense_tile_cycles / self.tile_cycles if self.tile_cycles else 1.0

    def to_json(self) -> dict[str, Any]:
        """As a document."""
        names = ("contractions", "macs", "missed_macs", "unknown", "share", "cycles", "dense_cycles", "traffic")
        return {name: getattr(self, name) for name in names} | {
            "speedup": round(self.speedup, 4),
            "tile_speedup": round(self.tile_speedup, 4),
            "row_zeros": round(self.zeros, 4),
        }
