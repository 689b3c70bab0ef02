"""Operand mux: brings the selected values of a window to the lanes of a PE."""

from functools import reduce
from operator import or_

from amaranth.hdl import Module
from amaranth.lib.data import ArrayLayout
from amaranth.lib.wiring import In, Out

from .block import Block
from .connectivity import Connectivity
from .layouts import steps_layout
from .parameters import require_int

__all__ = ["OperandMux"]


class OperandMux(Block):
    """One one-hot mux per lane.

    Timing: combinational. The operand of a lane without a selection is zero, so that its product adds nothing.

    Parameters
    ----------
    width : int
        Bits of a value.
    connectivity : Connectivity
        Options of a lane.

    Members
    -------
    window : In(steps_layout)
        The staging buffer's steps.
    select : In(options, lanes)
        One-hot per lane, or all zero.
    operands : Out(width, lanes)
        The selected values.

    Source: paper, Figs. 4 and 5.
    """

    def __init__(self, *, width: int, connectivity: Connectivity) -> None:
        self.width = require_int("width", width, 1)
        self.connectivity = connectivity
        lanes, depth = connectivity.lanes, connectivity.depth
        super().__init__(
            {
                "window": In(steps_layout(width, lanes, depth)),
                "select": In(ArrayLayout(len(connectivity.options), lanes)),
                "operands": Out(ArrayLayout(width, lanes)),
            },
            identity=(width, connectivity),
        )

    def elaborate(self, platform):
        """AND-OR."""
        m = Module()
        for lane in range(self.connectivity.lanes):
            chosen = [
                self.window[step][place] & self.select[lane][option].replicate(self.width)
                for option, (step, place) in enumerate(self.connectivity.positions(lane))
            ]
            m.d.comb += self.operands[lane].eq(reduce(or_, chosen))
        return m
