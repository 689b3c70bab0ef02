"""Sticky flags of a tile."""

from amaranth.hdl import Cat, Module
from amaranth.lib.wiring import In, Out

from ..block import Block

__all__ = ["FLAGS", "Flags"]

FLAGS = ("protocol_error", "non_finite", "overflow", "result_non_finite")


class Flags(Block):
    """Holds each flag from the cycle in which it is raised until it is cleared.

    Timing: a flag shows in the cycle after it is raised.

    Members
    -------
    raised : In(len(FLAGS))
        Flags to set, in the order of `FLAGS`.
    clear : In(1)
        All flags are zero in the next cycle, whatever is raised.
    protocol_error, non_finite, overflow, result_non_finite : Out(1)
        As docs/tile.md, "Counters and flags".

    Source: docs/tile.md, "Counters and flags".
    """

    def __init__(self) -> None:
        super().__init__(
            {"raised": In(len(FLAGS)), "clear": In(1), **{name: Out(1) for name in FLAGS}},
        )

    def elaborate(self, platform):
        """Build a register for each flag."""
        m = Module()
        flags = Cat(getattr(self, name) for name in FLAGS)
        m.d.sync += flags.eq(flags | self.raised)
        with m.If(self.clear):
            m.d.sync += flags.eq(0)
        return m
