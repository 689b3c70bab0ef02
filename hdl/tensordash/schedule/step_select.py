"""Step select: which step of the window each lane's pair comes from."""

from functools import reduce
from operator import or_

from amaranth.hdl import Module
from amaranth.lib.data import ArrayLayout
from amaranth.lib.wiring import In, Out

from ..block import Block
from ..configuration.connectivity import Connectivity

__all__ = ["StepSelect"]


class StepSelect(Block):
    """Finds the step of each selected value, so that the step's scale is chosen with the value.

    Timing: combinational.

    Parameters
    ----------
    connectivity : Connectivity
        Options of a lane.
    ring : bool
        As in `OperandMux`.

    Members
    -------
    select : In(sources, lanes)
        As in `OperandMux`.
    steps : Out(depth, lanes)
        The slot of each lane's selection in the window, one-hot. All zero without a selection.

    Source: docs/numerics.md, "Scales".
    """

    def __init__(self, connectivity: Connectivity, *, ring: bool = False) -> None:
        self.connectivity = connectivity
        self.sources = connectivity.sources(ring)
        super().__init__(
            {
                "select": In(ArrayLayout(len(self.sources), connectivity.lanes)),
                "steps": Out(ArrayLayout(connectivity.depth, connectivity.lanes)),
            },
        )

    def elaborate(self, platform):
        """Build an OR of the options of each slot."""
        m = Module()
        for lane in range(self.connectivity.lanes):
            for slot in range(self.connectivity.depth):
                here = [self.select[lane][source] for source, (at, _) in enumerate(self.sources) if at == slot]
                m.d.comb += self.steps[lane][slot].eq(reduce(or_, here, 0))
        return m
