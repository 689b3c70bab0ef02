"""Members and operand selection of the adders of a core's sums."""

from typing import Any

from amaranth.hdl import Const, Module, Shape, Signal, Value
from amaranth.lib.wiring import In, Out

from ..layouts import RawSumLayout

__all__ = ["adder_members", "chosen_terms"]


def adder_members(layout: RawSumLayout | Shape, *, biased: bool) -> dict[str, Any]:
    """Return the members of `SumAdder`, for sums of a layout."""
    more = {"second_pass": In(1), "earlier": In(layout), "bias": In(layout), "carry": In(1)}
    return {
        "sum": In(layout),
        "partial": In(layout),
        "add": In(1),
        **(more if biased else {}),
        "total": Out(layout),
        "overflow": Out(1),
    }


def chosen_terms(m: Module, adder: Any, layout: RawSumLayout | Shape) -> tuple[Any, Any, Value]:
    """Select the two terms of an adder, and the carry of the second one."""
    left, right = Signal(layout, name="left"), Signal(layout, name="right")
    added = Value.cast(adder.partial) & adder.add.replicate(Shape.cast(layout).width)
    m.d.comb += [left.eq(adder.sum), right.eq(added)]
    if not adder.biased:
        return left, right, Const(0, 1)
    m.d.comb += right.eq(added | Value.cast(adder.bias))
    with m.If(adder.second_pass):
        m.d.comb += left.eq(adder.earlier)
    return left, right, adder.carry
