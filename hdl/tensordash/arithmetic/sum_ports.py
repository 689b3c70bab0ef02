"""Ports that everything around a sum has: accumulators, and every kind of PE."""

from amaranth.lib.wiring import In, Out

from ..block import Block
from ..configuration.numerics import Fused, Numerics
from ..layouts import RESULT_BITS, block_shape

__all__ = ["pass_through", "starts_from_c", "sum_members"]


def sum_members(numerics: Numerics) -> dict:
    """The pipeline's controls, what a sum starts from, and the finished block."""
    return {
        "hold": In(1),
        "clear": In(1),
        "take": In(1),
        **({"c": In(RESULT_BITS)} if starts_from_c(numerics) else {}),
        "block": Out(block_shape(numerics)),
        "overflow": Out(1),
    }


def starts_from_c(numerics: Numerics) -> bool:
    """Whether a sum starts from C. To an exact one, C is added when it leaves."""
    return numerics.initial and isinstance(numerics.accumulator, Fused)


def pass_through(outer: Block, inner: Block, numerics: Numerics) -> list:
    """Assignments that hand `sum_members` of an outer component on to, or from, the one inside it."""
    return [
        inner.hold.eq(outer.hold),
        inner.clear.eq(outer.clear),
        inner.take.eq(outer.take),
        *([inner.c.eq(outer.c)] if starts_from_c(numerics) else []),
        outer.block.eq(inner.block),
        outer.overflow.eq(inner.overflow),
    ]
