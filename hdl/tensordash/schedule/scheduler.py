"""Scheduler: selects each lane's pair of this cycle, and finds how far the window can advance."""

from functools import reduce
from operator import or_

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib.data import ArrayLayout
from amaranth.lib.wiring import In, Out

from ..block import Block
from ..configuration.connectivity import Connectivity

__all__ = ["Scheduler"]


class Scheduler(Block):
    """Selects, level by level, an effectual position for every lane.

    Timing: combinational. The path runs through all levels.

    Parameters
    ----------
    connectivity : Connectivity
        Options of a lane, and the levels that follow from them.

    Members
    -------
    effectual : In(lanes, depth)
        Bit (step, lane) is set while that position is effectual and not consumed (the paper's Z, inverted).
    eligible : In(depth)
        Steps that may be selected from: ones from the oldest on. If all are zero, no schedule is made.
    select : Out(options, lanes)
        The paper's MS, one-hot, in priority order; all zero for a lane without work.
    remaining : Out(lanes, depth)
        `effectual` without the positions selected.
    advance : Out(depth)
        The paper's AS as a thermometer: ones for the leading eligible steps in which no position remains.

    Source: paper, section III-A, "The Hardware Scheduler", and Fig. 6.
    """

    def __init__(self, connectivity: Connectivity) -> None:
        self.connectivity = connectivity
        lanes, depth = connectivity.lanes, connectivity.depth
        super().__init__(
            {
                "effectual": In(ArrayLayout(lanes, depth)),
                "eligible": In(depth),
                "select": Out(ArrayLayout(len(connectivity.options), lanes)),
                "remaining": Out(ArrayLayout(lanes, depth)),
                "advance": Out(depth),
            },
        )

    def elaborate(self, platform):
        """Select for each lane its first free option.

        Signals are free_STEP_LANE, selected_LANE_OPTION and free_after_LEVEL_STEP_LANE. Lanes of one level share no
        position. They select from the positions that earlier levels left free.
        """
        m = Module()
        lanes, depth = self.connectivity.lanes, self.connectivity.depth
        selections: dict[tuple[int, int], list] = {}
        free = {}
        for step in range(depth):
            for lane in range(lanes):
                free[step, lane] = Signal(name=f"free_{step}_{lane}")
                m.d.comb += free[step, lane].eq(self.effectual[step][lane] & self.eligible[step])
        for level, members in enumerate(self.connectivity.levels):
            unselected = dict(free)
            for lane in members:
                earlier = []
                for option, position in enumerate(self.connectivity.positions(lane)):
                    # A separate signal: tools report a loop in a vector whose bits depend on one another.
                    selected = Signal(name=f"selected_{lane}_{option}")
                    m.d.comb += selected.eq(free[position] & ~Cat(earlier).any())
                    m.d.comb += self.select[lane][option].eq(selected)
                    earlier.append(free[position])
                    selections.setdefault(position, []).append(selected)
                    unselected[position] = Signal(name=f"free_after_{level}_{position[0]}_{position[1]}")
                    m.d.comb += unselected[position].eq(free[position] & ~selected)
            free = unselected

        drained = []
        for step in range(depth):
            for lane in range(lanes):
                taken = reduce(or_, selections.get((step, lane), []), 0)
                # A position that no lane has taken remains.
                m.d.comb += self.remaining[step][lane].eq(self.effectual[step][lane] & ~taken)
            drained.append(self.eligible[step] & ~self.remaining[step].any())
            # No position of the steps up to this one remains.
            m.d.comb += self.advance[step].eq(Cat(drained).all())
        return m
