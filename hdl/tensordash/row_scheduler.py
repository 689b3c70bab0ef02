"""Row scheduler: a scheduler with the window of effectual positions that it draws from."""

from amaranth.hdl import Module, Signal
from amaranth.lib.data import ArrayLayout
from amaranth.lib.wiring import In, Out

from .block import Block
from .connectivity import Connectivity
from .scheduler import Scheduler
from .staging_buffer import refill, refill_layout

__all__ = ["RowScheduler"]


class RowScheduler(Block):
    """Keeps which positions of the window are effectual and not yet consumed, and schedules them.

    A row that consumed more steps than the tile advances keeps them here, marked consumed.

    Timing: the schedule is combinational from the window, which closes its loop (window, levels, advance,
    refill) in one cycle.

    Parameters
    ----------
    connectivity : Connectivity
        Options of a lane.

    Members
    -------
    nonzero : In(lanes, depth)
        Which values of the steps offered are effectual.
    refill : In(refill_layout)
        What each slot takes, as in the staging buffers.
    eligible, select, advance
        As in `Scheduler`.

    Source: paper, section III-A, and Fig. 7 (the scheduler of a row).
    """

    def __init__(self, connectivity: Connectivity) -> None:
        self.connectivity = connectivity
        lanes, depth = connectivity.lanes, connectivity.depth
        super().__init__(
            {
                "nonzero": In(ArrayLayout(lanes, depth)),
                "refill": In(refill_layout(depth)),
                "eligible": In(depth),
                "select": Out(ArrayLayout(len(connectivity.options), lanes)),
                "advance": Out(depth),
            },
            identity=(connectivity,),
        )
        self.scheduler = Scheduler(connectivity)

    def elaborate(self, platform):
        """Window, scheduler, and what remains back into the window."""
        m = Module()
        m.submodules.scheduler = self.scheduler.place(platform)
        depth = self.connectivity.depth
        window = Signal(ArrayLayout(self.connectivity.lanes, depth), reset_less=True)
        remaining = [self.scheduler.remaining[j] for j in range(depth)]
        offered = [self.nonzero[i] for i in range(depth)]
        m.d.comb += [
            self.scheduler.effectual.eq(window),
            self.scheduler.eligible.eq(self.eligible),
            self.select.eq(self.scheduler.select),
            self.advance.eq(self.scheduler.advance),
        ]
        for slot in range(depth):
            m.d.sync += window[slot].eq(refill(slot, self.refill[slot], remaining, offered))
        return m
