"""Unit counters: counts of the events of a core's units, and their copies."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib.data import StructLayout
from amaranth.lib.wiring import In, Out

from ..block import Block
from ..configuration.registers import COUNTERS

__all__ = ["TILE_COUNTERS", "UNIT_COUNTERS", "UnitCounters"]

BITS = 32
TILE_COUNTERS = {
    "scheduled": "cycles",
    "steps": "steps",
    "effectual": "effectual",
    "stall_input": "stall_input",
    "stall_output": "stall_output",
}
"""Counters of a core that its tile counts, and their names in the tile."""
UNIT_COUNTERS = tuple(name for name, _ in COUNTERS if name not in TILE_COUNTERS)


class UnitCounters(Block):
    """Counts the cycles with each event. Counters saturate.

    Timing: a copy has the counts of all earlier cycles.

    Members
    -------
    events : In(struct)
        For each of `UNIT_COUNTERS`: its event happens in this cycle.
    take, clear : In(1)
        Copy all counters; reset them to zero. With both, the copy has the counts before the reset.
    counters : Out(struct)
        The copies, of 32 bits each.

    Source: docs/core.md, "Registers".
    """

    def __init__(self) -> None:
        super().__init__(
            {
                "events": In(StructLayout(dict.fromkeys(UNIT_COUNTERS, 1))),
                "take": In(1),
                "clear": In(1),
                "counters": Out(StructLayout(dict.fromkeys(UNIT_COUNTERS, BITS))),
            }
        )

    def elaborate(self, platform):
        """Build a counter and a copy for each event."""
        m = Module()
        for name in UNIT_COUNTERS:
            count = Signal(BITS, name=name)
            total = Signal(BITS + 1, name=f"next_{name}")
            copy = Signal(BITS, name=f"copy_{name}")
            m.d.comb += [total.eq(count + self.events[name]), self.counters[name].eq(copy)]
            m.d.sync += count.eq(Mux(self.clear, 0, total[:BITS] | total[-1].replicate(BITS)))
            with m.If(self.take):
                m.d.sync += copy.eq(count)
        return m
