"""Step feeder: puts the steps of AXI4-Stream beats at the port of a tile with staging buffers, oldest first."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib.data import ArrayLayout

from .feeder import Feeder

__all__ = ["StepFeeder"]


class StepFeeder(Feeder):
    """Offers the steps that have arrived from the oldest on, at any offset in their beats.

    Timing, parameters and members: as in `Feeder`.
    """

    def __init__(self, *, width: int, lanes: int, depth: int, scale_bits: int = 0) -> None:
        super().__init__(width=width, lanes=lanes, depth=depth, scale_bits=scale_bits)
        self._held = Signal(ArrayLayout(self.step_bits, self.slots), name="held", reset_less=True)
        self._ending = Signal(self.slots, name="ending")

    def _hold(self, m: Module):
        """Build a shift register of steps with marks of streams' ends. A place without a step has no mark."""
        port, depth = self.port, self.depth
        shifted = self._held.as_value() >> (port.taken * self.step_bits)
        shifted_ending = self._ending >> port.taken
        for slot in range(self.slots):
            value = shifted.word_select(slot, self.step_bits)
            end = shifted_ending[slot] | (self._closes & (self._left == slot + 1))
            # A beat enters where at least `depth` places are free.
            for step in range(max(0, slot - depth), min(depth, slot + 1)):
                here = self._left == slot - step
                value = Mux(here, self._step(step), value)
                end = Mux(here, self._ends[step], end)
            m.d.sync += [self._held[slot].eq(value), self._ending[slot].eq(end)]
        for step in range(depth):
            self._show_step(m, step, self._held[step])
        return self._ending
