"""Counters of the core, and their copies."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib.data import ArrayLayout, StructLayout
from amaranth.lib.wiring import In, Out

from ..block import Block
from ..configuration.parameters import require_int
from ..configuration.registers import COUNTERS

__all__ = ["Counters"]

BITS = 32


class Counters(Block):
    """Counts what happens in each cycle; a counter stays at its largest value.

    Timing: a copy has all cycles before the one in which it is taken.

    Parameters
    ----------
    most_pairs : int
        The largest step of `effectual`: pairs in a cycle.
    most_steps : int
        Likewise of `steps`.

    Members
    -------
    events : In(struct)
        For each of `COUNTERS` how much it grows in this cycle.
    take, clear : In(1)
        Copy all; begin to count anew. Both in one cycle: first the one, then the other.
    counters : Out(32, len(COUNTERS))
        Copies.

    Source: docs/core.md, "Registers".
    """

    def __init__(self, *, most_pairs: int, most_steps: int) -> None:
        most = {
            "effectual": require_int("most_pairs", most_pairs, 1),
            "steps": require_int("most_steps", most_steps, 1),
        }
        events = {name: most.get(name, 1).bit_length() for name, _ in COUNTERS}
        super().__init__(
            {
                "events": In(StructLayout(events)),
                "take": In(1),
                "clear": In(1),
                "counters": Out(ArrayLayout(BITS, len(COUNTERS))),
            }
        )

    def elaborate(self, platform):
        """A counter and a copy for each."""
        m = Module()
        for i, (name, _) in enumerate(COUNTERS):
            count = Signal(BITS, name=name)
            total = Signal(BITS + 1, name=f"next_{name}")
            copy = Signal(BITS, name=f"copy_{name}")
            m.d.comb += [total.eq(count + self.events[name]), self.counters[i].eq(copy)]
            m.d.sync += count.eq(Mux(self.clear, self.events[name], total[:BITS] | total[-1].replicate(BITS)))
            with m.If(self.take):
                m.d.sync += copy.eq(count)
        return m
