"""Staging ring: the window of one side. A step stays in its slot."""

from amaranth.hdl import Module, Signal
from amaranth.lib.data import StructLayout
from amaranth.lib.wiring import In, Out

from ..block import Block
from ..configuration.parameters import require_int
from ..layouts import steps_layout

__all__ = ["StagingRing", "ring_refill_layout"]


def ring_refill_layout(depth: int) -> StructLayout:
    """Return the layout of the next source of each age, one-hot, where the staging buffers are rings.

    Field ``age_j`` has the choices of place j in a window in order of age. The first ``depth - j`` are the steps in
    places j, j + 1, ... (choice 0: stay). The other `depth` are the steps on a port's lines 0, 1, ... A place without a
    choice takes an undefined value.
    """
    return StructLayout({f"age_{age}": 2 * depth - age for age in range(depth)})


class StagingRing(Block):
    """Holds the next `depth` steps of one side. A step is written once and stays in its slot until it leaves.

    Slot w takes only the step on line w of the port, so the input needs no mux. The control tracks which slot holds the
    oldest step.

    Timing: a step offered in one cycle is in the window in the next.

    Parameters
    ----------
    width : int
        Bits of a value.
    lanes : int
        Values of a step.
    depth : int
        Steps.

    Members
    -------
    steps : In(steps_layout)
        Steps offered, each on the line of its slot.
    write : In(depth)
        Slots that take the step on their line.
    window : Out(steps_layout)
        Slots. A slot that has not been written is undefined.

    Raises
    ------
    ValueError
        For a parameter below 1.

    Source: none; in place of the shifting buffer of the paper's section III-A (docs/cost.md).
    """

    def __init__(self, *, width: int, lanes: int, depth: int) -> None:
        require_int("width", width, 1)
        require_int("lanes", lanes, 1)
        self.depth = require_int("depth", depth, 1)
        layout = steps_layout(width, lanes, depth)
        super().__init__({"steps": In(layout), "write": In(depth), "window": Out(layout)})

    def elaborate(self, platform):
        """Build one register with an enable per slot, so that synthesis can gate its clock."""
        m = Module()
        held = Signal.like(self.window, reset_less=True)
        for slot in range(self.depth):
            with m.If(self.write[slot]):
                m.d.sync += held[slot].eq(self.steps[slot])
        m.d.comb += self.window.eq(held)
        return m
