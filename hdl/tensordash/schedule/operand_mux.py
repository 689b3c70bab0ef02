"""Operand mux: brings the selected values of a window to the lanes of a PE."""

from functools import reduce
from operator import or_

from amaranth.hdl import Module
from amaranth.lib.data import ArrayLayout
from amaranth.lib.wiring import In, Out

from ..block import Block
from ..configuration.connectivity import Connectivity
from ..configuration.parameters import require_int
from ..layouts import steps_layout

__all__ = ["OperandMux"]


class OperandMux(Block):
    """Selects an operand for each lane, with a one-hot mux per lane.

    Timing: combinational. The operand of a lane without a selection is zero, so that its product adds nothing.

    Parameters
    ----------
    width : int
        Bits of a value.
    connectivity : Connectivity
        Options of a lane.
    ring : bool
        Whether the window is a ring, see `Connectivity.sources`.

    Members
    -------
    window : In(steps_layout)
        The staging buffer's steps.
    select : In(sources, lanes)
        One-hot per lane, or all zero.
    operands : Out(width, lanes)
        The selected values.

    Source: paper, Figs. 4 and 5.
    """

    def __init__(self, *, width: int, connectivity: Connectivity, ring: bool = False) -> None:
        self.width = require_int("width", width, 1)
        self.connectivity = connectivity
        self.sources = connectivity.sources(ring)
        lanes, depth = connectivity.lanes, connectivity.depth
        super().__init__(
            {
                "window": In(steps_layout(width, lanes, depth)),
                "select": In(ArrayLayout(len(self.sources), lanes)),
                "operands": Out(ArrayLayout(width, lanes)),
            },
        )

    def elaborate(self, platform):
        m = Module()
        lanes = self.connectivity.lanes
        for lane in range(lanes):
            chosen = [
                self.window[slot][(lane + offset) % lanes] & self.select[lane][source].replicate(self.width)
                for source, (slot, offset) in enumerate(self.sources)
            ]
            m.d.comb += self.operands[lane].eq(reduce(or_, chosen))
        return m
