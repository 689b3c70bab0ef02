"""Row scheduler: the schedule of a row, and the window of effectual positions that it draws from."""

from functools import reduce
from operator import or_

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib.data import ArrayLayout
from amaranth.lib.wiring import In, Out

from ..block import Block, placed
from ..configuration.connectivity import Connectivity
from ..one_hot import one_hot_mux
from .motion import MotionSignature
from .scheduler import Scheduler

__all__ = ["RowScheduler"]


class RowScheduler(Block):
    """Tracks which positions of the window are effectual and not yet consumed, and schedules them.

    A row may consume more steps than the tile advances. These steps stay here, marked as consumed. The window has a bit
    for each value of a staging buffer. It is in order of age even if the buffers are rings, because priorities go by
    age.

    Timing: the schedule of a cycle is in registers when the cycle begins, so that muxes and multipliers have the full
    cycle. The schedule is computed from the next window. The loop (advance, refill, levels) closes in one cycle.

    Parameters
    ----------
    connectivity : Connectivity
        Options of a lane.
    ring : bool
        Whether the staging buffers are rings.

    Members
    -------
    nonzero : In(lanes, depth)
        Which values of the steps offered are effectual.
    motion : In(MotionSignature)
        How the window moves. While `scheduled` is low, this cycle's schedule is void, and is computed again.
    select : Out(sources, lanes)
        This cycle's schedule, as in `Scheduler`. For a ring it selects by slot instead of by step
        (`Connectivity.sources`). It is undefined while no step is eligible.
    active : Out(lanes)
        Lanes that consume a position in this cycle.
    advance : Out(depth)
        AS of this cycle's schedule, as in `Scheduler`. It is also a register's output.

    Source: paper, section III-A, and Fig. 7 (the scheduler of a row).
    """

    def __init__(self, connectivity: Connectivity, *, ring: bool = False) -> None:
        self.connectivity = connectivity
        self.ring = ring
        lanes, depth = connectivity.lanes, connectivity.depth
        super().__init__(
            {
                "nonzero": In(ArrayLayout(lanes, depth)),
                "motion": In(MotionSignature(depth, ring)),
                "select": Out(ArrayLayout(len(connectivity.sources(ring)), lanes)),
                "active": Out(lanes),
                "advance": Out(depth),
            },
        )
        self.scheduler = Scheduler(connectivity)

    def elaborate(self, platform):
        """Build the next window from remaining and new steps; register the schedule made from it."""
        m = Module()
        m.submodules.scheduler = placed(self.scheduler, platform)
        depth, lanes = self.connectivity.depth, self.connectivity.lanes
        select = Signal(self.scheduler.select.shape(), name="select_by_age" if self.ring else "select", reset_less=True)
        # Steps 1 and up. Step 0 is always drained: each lane prefers its own position there, and no other lane has it.
        remaining = Signal(ArrayLayout(lanes, depth - 1), name="remaining_after_first", reset_less=True)  # values left
        further = Signal(depth - 1, name="advance_after_first", reset_less=True)  # further steps that leave
        window, window_next = (Signal(ArrayLayout(lanes, depth), name=name) for name in ("window", "window_next"))
        m.d.sync += [
            select.eq(self.scheduler.select),
            further.eq(self.scheduler.advance[1:]),
            remaining.eq(self.scheduler.remaining.as_value()[lanes:]),
        ]
        m.d.comb += [self.select.eq(self._by_slot(select) if self.ring else select), self.advance.eq(Cat(1, further))]
        m.d.comb += [self.active[lane].eq(select[lane].any() & self.motion.scheduled) for lane in range(lanes)]
        taken: dict[tuple[int, int], list] = {(step, lane): [] for step in range(depth) for lane in range(lanes)}
        for lane in range(lanes):
            for option, position in enumerate(self.connectivity.positions(lane)):
                taken[position].append(select[lane][option])
        for (step, lane), selections in taken.items():
            unselected = remaining[step - 1][lane] if step else 0
            m.d.comb += window[step][lane].eq(unselected | Cat(selections).any())
        for slot in range(depth):
            # A step stays in its slot only in a cycle without a schedule: every schedule drains the oldest step.
            sources = [window[slot], *(remaining[step - 1] for step in range(slot + 1, depth))]
            if self.ring:  # a step may enter from any line
                choices = self.motion.refill[f"age_{slot}"]
                sources += list(self.nonzero)
            else:
                choices = self.motion.refill[slot]
                sources += [self.nonzero[step] for step in range(slot + 1)]
            m.d.comb += window_next[slot].eq(one_hot_mux(choices, sources))
        m.d.comb += [self.scheduler.effectual.eq(window_next), self.scheduler.eligible.eq(self.motion.eligible_next)]
        return m

    def _by_slot(self, select):
        """Rotate the schedule by the slot of the oldest step. This is after the register, so it is not in the loop."""
        lanes, depth = self.connectivity.lanes, self.connectivity.depth
        rotated = []
        for lane in range(lanes):
            for slot, offset in self.connectivity.sources(ring=True):
                options = [
                    self.motion.oldest[(slot - step) % depth] & select[lane][option]
                    for option, (step, at) in enumerate(self.connectivity.options)
                    if at % lanes == offset
                ]
                rotated.append(reduce(or_, options))
        return Cat(rotated)
