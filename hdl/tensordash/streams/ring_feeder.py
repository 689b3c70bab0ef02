"""Ring feeder: puts the steps of AXI4-Stream beats on the lines that a tile with staging rings wants them on."""

from functools import reduce
from operator import or_

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib.data import ArrayLayout

from ..schedule.staging_buffer import one_hot_mux
from .feeder import Feeder

__all__ = ["RingFeeder"]


class RingFeeder(Feeder):
    """Offers step t since reset on line t modulo `depth`.

    A beat, whose oldest step is in its lowest bytes, is rotated on its way in; then no step moves. Two slots belong to
    each line.

    Timing: as in `Feeder`. It holds ``2 * depth`` steps, enough that the tile never waits while beats keep coming.

    Parameters and members: those of `Feeder`.

    Source: docs/tile.md, "Ports".
    """

    def elaborate(self, platform):
        """Where the next steps enter and leave, one-hot; then what enters, and what is offered."""
        m = Module()
        depth, slots = self.depth, 2 * self.depth
        self._reading = Signal(slots, name="reading", init=1)
        self._writing = Signal(slots, name="writing", init=1)
        self._held = Signal(ArrayLayout(self.step_bits, slots), name="held", reset_less=True)
        self._ending = Signal(slots, name="ending", reset_less=True)
        count = Signal(range(slots + 1))
        left = Signal(range(slots + 1))
        # Steps are whole, and there from the lowest on: the first byte of each tells.
        kept = Signal(depth)
        entering = Signal()
        m.d.comb += [
            kept.eq(Cat(self.tkeep[step * (self.step_bits // 8)] for step in range(depth))),
            self.tready.eq(left <= depth),
            entering.eq(self.tvalid & self.tready),
            left.eq(count - self.taken),
        ]
        m.d.sync += [
            count.eq(left + Mux(entering, sum(kept), 0)),
            self._reading.eq(_turned(self._reading, [self.taken == number for number in range(1, depth + 1)])),
        ]
        final = kept & ~Cat(kept[1:], Const(0, 1))
        with m.If(entering):
            m.d.sync += self._writing.eq(_turned(self._writing, list(final)))
        self._enter(m, kept & entering.replicate(depth), final & self.tlast.replicate(depth))
        self._offer(m, count)
        return m

    def _enter(self, m: Module, entering, ends) -> None:
        """Step k of a beat goes to the slot that is `k` behind the next one to write."""
        depth, slots, writing = self.depth, 2 * self.depth, self._writing
        for line in range(depth):
            lines = [(writing[(line - k) % slots] | writing[(line - k + depth) % slots]) for k in range(depth)]
            placed = Signal(self.step_bits, name=f"placed_{line}")
            steps = [self.tdata.word_select(k, self.step_bits) for k in range(depth)]
            m.d.comb += placed.eq(one_hot_mux(lines, steps))
            for slot in (line, line + depth):
                here = Cat(writing[(slot - k) % slots] for k in range(depth))
                with m.If((here & entering).any()):
                    m.d.sync += [self._held[slot].eq(placed), self._ending[slot].eq((here & ends).any())]

    def _offer(self, m: Module, count: Signal) -> None:
        """Each line shows the older of its two slots, from the next one to read on; up to the end of a stream."""
        depth, slots, reading = self.depth, 2 * self.depth, self._reading
        for line in range(depth):
            upper = reading[line + 1 : line + 1 + depth].any()
            m.d.comb += self.steps[line].eq(Mux(upper, self._held[line + depth], self._held[line]))
        ending = Signal(depth, name="ending_by_age")
        for step in range(depth):
            here = (reading[slot] & self._ending[(slot + step) % slots] for slot in range(slots))
            m.d.comb += ending[step].eq(reduce(or_, here))
        self._offer_up_to_the_end(m, count, ending)


def _turned(place, by):
    """A one-hot place moved on by 1, 2, ... as the line for it says; without one, as it is."""
    stays = ~Cat(by).any()
    return (place & stays.replicate(len(place))) | one_hot_mux(
        by, [place.rotate_left(number) for number in range(1, len(by) + 1)]
    )
