"""Staging buffer: the window of one side."""

from amaranth.hdl import Module, Signal
from amaranth.lib.data import ArrayLayout
from amaranth.lib.wiring import In, Out

from ..block import Block
from ..configuration.parameters import require_int
from ..layouts import steps_layout
from ..one_hot import one_hot_mux

__all__ = ["StagingBuffer", "refill_layout"]


def refill_layout(depth: int) -> ArrayLayout:
    """Return the layout of each slot's next source, one-hot. The tile's control drives it to all buffers.

    Slot j of `depth` has `depth + 1` choices. The first ``depth - j`` are the steps in slots j, j + 1, ... (choice 0:
    stay). The others are steps 0, 1, ... j of those offered. A slot without a choice takes an undefined value.
    """
    return ArrayLayout(depth + 1, depth)


class StagingBuffer(Block):
    """Holds the next `depth` steps of one side. In each cycle up to `depth` steps leave, and as many enter.

    With `depth` 1 it is the operand register of the baseline.

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
        Steps offered, oldest first.
    refill : In(refill_layout)
        The source of each slot.
    window : Out(steps_layout)
        Steps held, oldest first. A slot that is not filled is undefined.

    Raises
    ------
    ValueError
        For a parameter below 1.

    Source: paper, section III-A ("an array of registers with as many row-wide write ports as the number of rows").
    """

    def __init__(self, *, width: int, lanes: int, depth: int) -> None:
        require_int("width", width, 1)
        require_int("lanes", lanes, 1)
        self.depth = require_int("depth", depth, 1)
        layout = steps_layout(width, lanes, depth)
        super().__init__(
            {"steps": In(layout), "refill": In(refill_layout(depth)), "window": Out(layout)},
        )

    def elaborate(self, platform):
        """Build one AND-OR mux and one register per slot."""
        m = Module()
        held = Signal.like(self.window, reset_less=True)
        window = [held[j].as_value() for j in range(self.depth)]
        offered = [self.steps[i].as_value() for i in range(self.depth)]
        for slot in range(self.depth):
            stays, *choices = self.refill[slot]
            with m.If(~stays):  # an enable, not a source: synthesis gates the clock of a slot that stays
                m.d.sync += window[slot].eq(one_hot_mux(choices, [*window[slot + 1 :], *offered[: slot + 1]]))
        m.d.comb += self.window.eq(held)
        return m
