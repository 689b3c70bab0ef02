"""Ports that everything around a sum has: accumulators, and every kind of PE."""

from amaranth.lib.wiring import In, Out, Signature

from ..configuration.numerics import Binned, Fused, Numerics
from ..layouts import RESULT_BITS, sum_shape

__all__ = ["SumSignature", "starts_from_c"]


class SumSignature(Signature):
    """How a tile's pipeline runs a sum, and what it returns; directions as the pipeline has them.

    Parameters
    ----------
    numerics : Numerics
        Operand formats, accumulator, C input.

    Members
    -------
    hold : Out(1)
        The tile is frozen: nothing moves. `start` and `take` are low.
    start, take : Out(1)
        The products that are due start a new sum; the sum with them is finished: it becomes `value`.
    c : Out(32)
        Only where sums start from C: what a sum starts from, as FP32, in the cycle of `start`.
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
    """Whether a sum starts from C. To an exact one, and with `addend = "last"`, C is added when it leaves."""
    accumulator = numerics.accumulator
    added_inside = isinstance(accumulator, Binned) or (isinstance(accumulator, Fused) and accumulator.addend != "last")
    return numerics.initial and added_inside
