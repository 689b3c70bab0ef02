"""Step feeder: puts the steps of AXI4-Stream beats at the port of a tile with staging buffers, oldest first."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib.data import ArrayLayout

from .feeder import Feeder

__all__ = ["StepFeeder"]


class StepFeeder(Feeder):
    """Offers the steps that are there, at any offset in their beats, from the oldest on.

    Timing: as in `Feeder`. It holds ``2 * depth - 1`` steps, enough that the tile never waits while beats keep coming.

    Parameters and members: those of `Feeder`.
    """

    def elaborate(self, platform):
        """A shift register of steps, each with the mark of a stream's end."""
        m = Module()
        depth, slots = self.depth, 2 * self.depth - 1
        held = Signal(ArrayLayout(self.step_bits, slots), reset_less=True)
        ending = Signal(slots)
        count = Signal(range(slots + 1))
        left = Signal(range(slots + 1))
        arriving = Signal(range(depth + 1))

        # Steps are whole: the first byte of each tells.
        kept = [self.tkeep[step * (self.step_bits // 8)] for step in range(depth)]
        entering = Signal()
        m.d.comb += [
            self.tready.eq(left <= slots - depth),
            entering.eq(self.tvalid & self.tready),
            left.eq(count - self.taken),
            arriving.eq(Mux(entering, sum(kept), 0)),
        ]
        m.d.sync += count.eq(left + arriving)
        shifted = held.as_value() >> (self.taken * self.step_bits)
        shifted_ending = ending >> self.taken
        for slot in range(slots):
            value, end = shifted.word_select(slot, self.step_bits), shifted_ending[slot]
            for step in range(min(depth, slot + 1)):
                here = left == slot - step
                ends = self.tlast & kept[step] & (Const(step == depth - 1) | ~Cat(kept[step + 1 :]).any())
                value = Mux(here, self.tdata.word_select(step, self.step_bits), value)
                end = Mux(here, entering & ends, end)
            m.d.sync += [held[slot].eq(value), ending[slot].eq(end)]

        self._offer_up_to_the_end(m, count, ending)
        m.d.comb += [self.steps[step].eq(held[step]) for step in range(depth)]
        return m
