"""Feeder: what stands between an AXI4-Stream and a tile's port."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib.wiring import In, Out

from ..block import Block
from ..layouts import steps_layout
from ..tile.control import count_bits

__all__ = ["Feeder"]


class Feeder(Block):
    """Turns beats of `depth` steps into what a tile's port wants; a kind of staging has its own subclass.

    Timing: a beat's steps are offered in the cycle after it was taken. `tready` depends on `taken` in the same cycle.

    Parameters
    ----------
    width, lanes, depth : int
        Shape of a beat: `depth` steps of `lanes` values of `width` bits, in whole bytes.

    Members
    -------
    tdata, tkeep, tlast, tvalid, tready
        AXI4-Stream. The oldest step is in the lowest bytes; `tkeep` marks the steps that are there, which only in a
        stream's last beat may be fewer than `depth`; `tlast` ends the stream.
    steps, available, last, taken
        A tile's port.

    Source: AMBA AXI4-Stream Protocol, section 2.
    """

    def __init__(self, *, width: int, lanes: int, depth: int) -> None:
        self.lanes, self.depth, self.width = lanes, depth, width
        self.step_bits = width * lanes
        super().__init__(
            {
                "tdata": In(self.step_bits * depth),
                "tkeep": In(self.step_bits * depth // 8),
                "tlast": In(1),
                "tvalid": In(1),
                "tready": Out(1),
                "steps": Out(steps_layout(width, lanes, depth)),
                "available": Out(count_bits(depth)),
                "last": Out(1),
                "taken": In(count_bits(depth)),
            },
            identity=(width, lanes, depth),
        )

    def _offer_up_to_the_end(self, m: Module, count: Signal, ending: Signal) -> None:
        """Offer the steps that are there, up to the first that ends a stream.

        Parameters
        ----------
        m : Module
            The subclass's.
        count : Signal
            Steps that are there.
        ending : Signal
            Bit k: step k, of those from the oldest on, ends a stream.
        """
        m.d.comb += self.available.eq(Mux(count < self.depth, count, self.depth))
        for step in reversed(range(self.depth)):
            with m.If(ending[step] & (count > step) & ~ending[:step].any()):
                m.d.comb += [self.available.eq(step + 1), self.last.eq(1)]
