"""Staging ring: the window of one side, in slots that each stay where they are."""

from amaranth.hdl import Module, Signal
from amaranth.lib.data import StructLayout
from amaranth.lib.wiring import In, Out

from ..block import Block
from ..configuration.parameters import require_int
from ..layouts import steps_layout

__all__ = ["StagingRing", "ring_refill_layout"]


def ring_refill_layout(depth: int) -> StructLayout:
    """What each of `depth` places of a window in order of age takes next, one-hot, where the staging buffers are rings.

    Field ``age_j`` has the choices of place j: the first ``depth - j`` are what is in place j, j + 1, ... (choice 0:
    stay), the other `depth` what a port offers on its line 0, 1, ... What a place without a choice takes means nothing.
    """
    return StructLayout({f"age_{age}": 2 * depth - age for age in range(depth)})


class StagingRing(Block):
    """Holds the next `depth` steps of one side; a step is written once and stays in its slot until it has left.

    Slot w takes only what stands on line w of the port, so there is nothing to select on the way in; and nothing moves.
    Which slot holds the oldest step is the control's business.

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
        Slots that take what stands on their line.
    window : Out(steps_layout)
        Slots. What stands in one that has not been written means nothing.

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
        """Build one register with an enable per slot: synthesis gates the other clocks."""
        m = Module()
        held = Signal.like(self.window, reset_less=True)
        for slot in range(self.depth):
            with m.If(self.write[slot]):
                m.d.sync += held[slot].eq(self.steps[slot])
        m.d.comb += self.window.eq(held)
        return m
