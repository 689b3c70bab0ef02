"""Ports of sums, which accumulators and all kinds of PEs have."""

from amaranth.lib.wiring import In, Out, Signature

from ..configuration.numerics import Binned, Fused, Numerics
from ..layouts import RESULT_BITS, sum_shape

__all__ = ["SumSignature", "starts_from_c"]


class SumSignature(Signature):
    """Controls of a sum and its value, with the directions of the tile's pipeline.

    Parameters
    ----------
    numerics : Numerics
        Operand formats, accumulator, C input.

    Members
    -------
    hold : Out(1)
        The tile is frozen: nothing advances. `start` and `take` are low.
    start, take : Out(1)
        The present products start a new sum; the sum with them is finished and becomes `value`.
    c : Out(32)
        Only where sums start from C: the C of a sum as FP32, in the cycle of `start`.
    value : In(sum_shape)
        The sum finished last.
    overflow : In(1)
        The sum leaves its range in this cycle.
    """

    def __init__(self, numerics: Numerics) -> None:
        super().__init__(
            {
                "hold": Out(1),
                "start": Out(1),
                "take": Out(1),
                **({"c": Out(RESULT_BITS)} if starts_from_c(numerics) else {}),
                "value": In(sum_shape(numerics)),
                "overflow": In(1),
            }
        )


def starts_from_c(numerics: Numerics) -> bool:
    """Return whether a sum starts from C. With an exact accumulator or `addend = "last"`, C is added when it leaves."""
    accumulator = numerics.accumulator
    added_inside = isinstance(accumulator, Binned) or (isinstance(accumulator, Fused) and accumulator.addend != "last")
    return numerics.initial and added_inside
