"""Integer accumulator: the sum of a stream's integer products."""

from functools import reduce
from operator import add

from amaranth.hdl import Const, Module, Mux, Signal, signed
from amaranth.lib.data import ArrayLayout
from amaranth.lib.wiring import In

from ..block import Block
from ..configuration.numerics import Numerics
from ..configuration.parameters import require_int
from ..layouts import accumulator_shape, product_shape
from .sum_ports import SumSignature

__all__ = ["IntegerAccumulator"]


class IntegerAccumulator(Block):
    """Sums `lanes` integer products per cycle, and holds the last finished sum while the next one grows.

    Timing: products of one cycle are in the sum after `stages` cycles (1: the loop alone; 2: the products of a cycle
    are added first and registered). It takes one set of products per cycle.

    Parameters
    ----------
    numerics : Numerics
        Integer formats. The sum is as wide as a product plus the headroom.
    lanes : int
        Products per cycle, at least 1.
    stages : int
        1 or 2.

    Members
    -------
    products : In(signed, lanes)
    active, sum
        As in `ExactAccumulator`. Sums are in two's complement.

    Raises
    ------
    ValueError
        For a parameter out of range.

    Source: docs/numerics.md, "exact".
    """

    def __init__(self, *, numerics: Numerics, lanes: int, stages: int) -> None:
        self.lanes = require_int("lanes", lanes, 1)
        self.stages = require_int("stages", stages, 1, 2)
        self.width, _ = accumulator_shape(numerics)
        self.product = product_shape(numerics)
        if numerics.result != "int32":
            raise ValueError(f"numerics must be integer, not {numerics}")
        super().__init__(
            {
                "products": In(ArrayLayout(self.product, lanes)),
                "active": In(lanes),
                "sum": In(SumSignature(numerics)),
            },
        )

    def elaborate(self, platform):
        """Add the products of a cycle, then accumulate."""
        m = Module()
        width = self.width
        terms = [
            (product.as_unsigned() & (active & ~self.sum.hold).replicate(len(product))).as_signed()
            for product, active in zip(self.products, self.active, strict=True)
        ]
        total = Signal(signed(terms[0].shape().width + (self.lanes - 1).bit_length()), reset_less=True)
        counting = Signal()
        # A loop that adds nothing while the tile is frozen needs no enable. A loop after a register does.
        registered = self.stages > 1
        added = [total.eq(reduce(add, terms)), counting.eq(self.active.any() & ~self.sum.hold)]
        if registered:
            with m.If(~self.sum.hold):
                m.d.sync += added
        else:
            m.d.comb += added
        accumulated = Signal(signed(width), reset_less=True)
        finished = Signal(signed(width), reset_less=True)
        basis = Signal(signed(width))
        grown = Signal(signed(max(width, len(total)) + 1))
        m.d.comb += [
            basis.eq(Mux(self.sum.start, 0, accumulated)),
            grown.eq(basis + total),
            # The sum is undefined before the first stream.
            self.sum.overflow.eq(counting & ~self.sum.hold & ~(grown[width - 1 :].all() | ~grown[width - 1 :].any())),
            self.sum.value.eq(finished),
        ]
        with m.If(~self.sum.hold if registered else Const(1)):
            m.d.sync += accumulated.eq(grown)
        with m.If(self.sum.take):
            m.d.sync += finished.eq(grown)
        return m
