"""Operand mux: brings the selected values of a window to the lanes of a PE."""

from functools import reduce
from operator import or_

from amaranth.hdl import Module, Signal
from amaranth.lib.data import ArrayLayout
from amaranth.lib.wiring import In, Out

from .block import Block
from .connectivity import Connectivity
from .layouts import steps_layout
from .parameters import require_int

__all__ = ["OperandMux"]


class OperandMux(Block):
    """One one-hot mux per lane, with the operand register behind it.

    Timing: one cycle. A lane without a selection holds its operand, so that nothing behind it toggles.

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
        The selected values, one cycle later.

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
        """AND-OR, register."""
        m = Module()
        operands = Signal.like(self.operands, reset_less=True)
        m.d.comb += self.operands.eq(operands)
        for lane in range(self.connectivity.lanes):
            chosen = [
                self.window[step][place] & self.select[lane][option].replicate(self.width)
                for option, (step, place) in enumerate(self.connectivity.positions(lane))
            ]
            with m.If(self.select[lane].any()):
                m.d.sync += operands[lane].eq(reduce(or_, chosen))
        return m
