"""Ring feeder: puts the steps of AXI4-Stream beats on the port lines of a tile with staging rings."""

from functools import reduce
from operator import or_

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib.data import ArrayLayout

from ..one_hot import one_hot_mux
from .feeder import Feeder

__all__ = ["RingFeeder"]


class RingFeeder(Feeder):
    """Offers step t since reset on line t modulo `depth`.

    A beat has its oldest step in its lowest bytes. It is rotated when it enters. After that no step moves. Each line
    has two slots.

    Timing, parameters and members: as in `Feeder`.

    Source: docs/tile.md, "Ports".
    """

    def __init__(self, *, width: int, lanes: int, depth: int, scale_bits: int = 0) -> None:
        super().__init__(width=width, lanes=lanes, depth=depth, scale_bits=scale_bits)
        self._reading = Signal(self.slots, name="reading", init=1)  # slot of the next step to leave, one-hot
        self._writing = Signal(self.slots, name="writing", init=1)  # slot of the next step to enter, one-hot
        self._held = Signal(ArrayLayout(self.step_bits, self.slots), name="held", reset_less=True)
        self._ending = Signal(self.slots, name="ending", reset_less=True)

    def _hold(self, m: Module):
        """Store steps and marks of streams' ends in slots. The pointers advance; steps do not move."""
        depth = self.depth
        taken = [self.port.taken == number for number in range(1, depth + 1)]
        entering = self._enters & ~Cat(self._enters[1:], Const(0, 1))
        m.d.sync += [
            self._reading.eq(_rotate(self._reading, taken)),
            self._writing.eq(_rotate(self._writing, list(entering))),
        ]
        self._enter(m)
        return self._show(m)

    def _enter(self, m: Module) -> None:
        """Write step k of a beat to the slot that is `k` after the next slot to write."""
        depth, slots, writing = self.depth, self.slots, self._writing
        for line in range(depth):
            lines = [(writing[(line - k) % slots] | writing[(line - k + depth) % slots]) for k in range(depth)]
            placed = Signal(self.step_bits, name=f"placed_{line}")
            steps = [self._step(k) for k in range(depth)]
            m.d.comb += placed.eq(one_hot_mux(lines, steps))
            for slot in (line, line + depth):
                here = Cat(writing[(slot - k) % slots] for k in range(depth))
                with m.If((here & self._enters).any()):
                    m.d.sync += [self._held[slot].eq(placed), self._ending[slot].eq((here & self._ends).any())]
                with m.If(writing[(slot + 1) % slots] & self._closes):
                    m.d.sync += self._ending[slot].eq(1)

    def _show(self, m: Module):
        """Show on each line the older of its two slots. Return the marks of streams' ends by age."""
        depth, slots, reading = self.depth, self.slots, self._reading
        for line in range(depth):
            upper = reading[line + 1 : line + 1 + depth].any()
            self._show_step(m, line, Mux(upper, self._held[line + depth], self._held[line]))
        ending = Signal(depth, name="ending_by_age")
        for step in range(depth):
            here = (reading[slot] & self._ending[(slot + step) % slots] for slot in range(slots))
            # A slot still has the mark of a step that left.
            m.d.comb += ending[step].eq(reduce(or_, here) & (self._known > step))
        return ending


def _rotate(place, by):
    """Rotate a one-hot place by k + 1 if bit k of `by` is set, or not at all if no bit is."""
    stays = ~Cat(by).any()
    return (place & stays.replicate(len(place))) | one_hot_mux(
        by, [place.rotate_left(number) for number in range(1, len(by) + 1)]
    )
