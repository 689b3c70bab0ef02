"""Steps: how a port offers operands to a tile."""

from amaranth.lib.data import ArrayLayout
from amaranth.lib.wiring import In, Out, Signature

from ..layouts import steps_layout
from .control import count_bits

__all__ = ["StepsSignature"]


class StepsSignature(Signature):
    """An input port of a tile: up to `depth` steps a cycle.

    Members
    -------
    steps : Out(steps_layout)
        Steps offered, oldest first. With staging rings, step t since reset is on line t modulo depth.
    scales : Out(scale_bits, depth)
        Only with scales: the scale of each step.
    available : Out(0..depth)
        Number of steps offered.
    last : Out(1)
        The step at ``available - 1`` ends the stream. The next stream is offered in the cycle after.
    taken : In(0..depth)
        Number of steps that enter in this cycle. It may depend on `available` in the same cycle, never the reverse.
    """

    def __init__(self, width: int, lanes: int, depth: int, scale_bits: int = 0) -> None:
        super().__init__(
            {
                "steps": Out(steps_layout(width, lanes, depth)),
                **({"scales": Out(ArrayLayout(scale_bits, depth))} if scale_bits else {}),
                "available": Out(count_bits(depth)),
                "last": Out(1),
                "taken": In(count_bits(depth)),
            }
        )
