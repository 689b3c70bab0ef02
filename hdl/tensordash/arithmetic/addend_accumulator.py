"""Addend accumulator: adds the products of a cycle to an FP32 number as one FP32 number."""

from amaranth.hdl import Const, Module, Signal
from amaranth.lib.data import ArrayLayout
from amaranth.lib.wiring import In

from ..block import Block, placed
from ..configuration.formats import FP32
from ..configuration.numerics import Fused, Numerics
from ..configuration.parameters import require_int
from ..layouts import RawSumLayout
from .float_sum import FloatAddition
from .fused_accumulator import started
from .product_sum import ProductSum
from .sum_ports import SumSignature

__all__ = ["AddendAccumulator"]


class AddendAccumulator(Block):
    """Adds the rounded sum of `lanes` products to an FP32 number, to nearest with ties to even, once per cycle.

    Timing: products of one cycle are in the sum after `stages` cycles (1: all in one cycle; 2: their sum is registered,
    and the loop is an FP32 adder). It takes one set of products per cycle.

    Parameters
    ----------
    numerics : Numerics
        Floating-point formats, and a `Fused` accumulator with its addend after.
    lanes : int
        Products per cycle, at least 1.
    stages : int
        1 or 2.

    Members
    -------
    products, active, sum
        As in `FusedAccumulator`.

    Raises
    ------
    ValueError
        For a parameter out of range.

    Source: docs/numerics.md, "fused", `addend = "after"`; IEEE 754-2019, section 5.4.1, addition.
    """

    def __init__(self, *, numerics: Numerics, lanes: int, stages: int) -> None:
        self.lanes = require_int("lanes", lanes, 1)
        self.stages = require_int("stages", stages, 1, 2)
        self.product_sum = ProductSum(numerics=numerics, lanes=lanes)
        assert isinstance(numerics.accumulator, Fused)
        if numerics.accumulator.addend != "after":
            raise ValueError(f'numerics must have accumulator.addend = "after", not "{numerics.accumulator.addend}"')
        self.numerics = numerics
        self.addition = FloatAddition()
        super().__init__(
            {
                "products": In(ArrayLayout(self.product_sum.terms.product, lanes)),
                "active": In(lanes),
                "sum": In(SumSignature(numerics)),
            },
        )

    def elaborate(self, platform):
        """Add the products, register their sum with 2 stages, and add it to the accumulated number."""
        m = Module()
        m.submodules.product_sum = placed(self.product_sum, platform)
        layout = RawSumLayout(FP32.width)
        added = Signal(layout, reset_less=True)
        # Without an active lane the products' sum is zero, and changes nothing.
        m.d.comb += [
            self.product_sum.products.eq(self.products),
            self.product_sum.active.eq(self.active & ~self.sum.hold.replicate(self.lanes)),
        ]
        # A loop that adds nothing while the tile is frozen needs no enable. A loop after a register does.
        if self.stages > 1:
            with m.If(~self.sum.hold):
                m.d.sync += added.eq(self.product_sum.sum)
        else:
            m.d.comb += added.eq(self.product_sum.sum)
        accumulated = Signal(layout, reset_less=True)
        finished = Signal(layout, reset_less=True)
        basis = started(m, self.sum, accumulated, self.numerics)
        next_sum = self.addition.apply(m, basis, added)
        m.d.comb += self.sum.value.eq(finished)
        with m.If(~self.sum.hold if self.stages > 1 else Const(1)):
            m.d.sync += accumulated.eq(next_sum)
        with m.If(self.sum.take):
            m.d.sync += finished.eq(next_sum)
        return m
