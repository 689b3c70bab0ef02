"""Snapshot: a copy of all counters at one moment, for a bus that reads them one after the other."""

from amaranth.hdl import Module
from amaranth.lib.wiring import In, Out

from ..block import Block
from ..configuration.parameters import require_int
from .counters import CounterSignature

__all__ = ["Snapshot"]


class Snapshot(Block):
    """Shows the last copy of the counters while they continue to count.

    Timing: `copied` shows the counters' values of a cycle with `take` from the next cycle on.

    Parameters
    ----------
    rows : int
        Rows of the tile.

    Members
    -------
    counted : In(CounterSignature)
        The counters.
    take : In(1)
        Copy all counters in this cycle.
    copied : Out(CounterSignature)
        The copy; zero after a reset.

    Raises
    ------
    ValueError
        For a parameter below 1.

    Source: docs/tile.md, "Counters and flags".
    """

    def __init__(self, *, rows: int) -> None:
        self.rows = require_int("rows", rows, 1)
        signature = CounterSignature(rows)
        super().__init__({"counted": In(signature), "take": In(1), "copied": Out(signature)})

    def elaborate(self, platform):
        """Build a register for each counter."""
        m = Module()
        with m.If(self.take):
            for name in self.copied.signature.members:
                m.d.sync += getattr(self.copied, name).eq(getattr(self.counted, name))
        return m
