"""Addend accumulator: FP32, to which the products of a cycle are added as one FP32 number."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib.data import ArrayLayout, View
from amaranth.lib.wiring import In

from ..block import Block, placed
from ..configuration.formats import FP32
from ..configuration.numerics import Fused, Numerics
from ..configuration.parameters import require_int
from ..layouts import RawSumLayout
from .float_sum import EXPONENT_BITS, Rounding, shifted_right, signed_total
from .fused_accumulator import started
from .product_sum import ProductSum
from .sum_ports import SumSignature

__all__ = ["AddendAccumulator"]

BEHIND = 3
"""Bits behind an FP32 fraction that rounding to nearest needs: a guard bit, one for what moves up, and a mark of the
rest."""


class AddendAccumulator(Block):
    """Adds the rounded sum of `lanes` products to an FP32 number, to nearest with ties to even, once a cycle.

    Timing: products of one cycle are in the sum after `stages` cycles (1: all at once; 2: their sum is registered, and
    the loop is an FP32 adder); throughput one set of products per cycle.

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
        self.rounding = Rounding(
            fraction_bits=FP32.fraction_bits + BEHIND,
            result_bits=FP32.fraction_bits,
            nearest=True,
            level_bits=EXPONENT_BITS,
        )
        super().__init__(
            {
                "products": In(ArrayLayout(self.product_sum.terms.product, lanes)),
                "active": In(lanes),
                "sum": In(SumSignature(numerics)),
            },
        )

    def elaborate(self, platform):
        """Add the products; register; add what was accumulated."""
        m = Module()
        m.submodules.product_sum = placed(self.product_sum, platform)
        layout = RawSumLayout(FP32.width)
        added = Signal(layout, reset_less=True)
        # Without an active lane the sum is zero, and changes nothing.
        m.d.comb += [
            self.product_sum.products.eq(self.products),
            self.product_sum.active.eq(self.active & ~self.sum.hold.replicate(self.lanes)),
        ]
        # A loop that adds nothing while the tile is frozen needs no enable; one behind a register does.
        if self.stages > 1:
            with m.If(~self.sum.hold):
                m.d.sync += added.eq(self.product_sum.sum)
        else:
            m.d.comb += added.eq(self.product_sum.sum)
        accumulated = Signal(layout, reset_less=True)
        finished = Signal(layout, reset_less=True)
        basis = started(m, self.sum, accumulated, self.numerics)
        following = self._add(m, basis, added)
        m.d.comb += self.sum.value.eq(finished)
        with m.If(~self.sum.hold if self.stages > 1 else Const(1)):
            m.d.sync += accumulated.eq(following)
        with m.If(self.sum.take):
            m.d.sync += finished.eq(following)
        return m

    def _add(self, m: Module, basis: View, added: View) -> View:
        """The sum of two FP32 numbers with their marks; the one with the smaller exponent moves down."""
        fraction_bits = FP32.fraction_bits
        levels, significands = [], []
        for name, term in (("basis", basis), ("added", added)):
            field = term.number[fraction_bits:-1]
            normal, level = Signal(name=f"{name}_normal"), Signal(EXPONENT_BITS, name=f"{name}_level")
            m.d.comb += [normal.eq(field.any()), level.eq(Cat(field[0] | ~normal, field[1:]))]
            levels.append(level)
            significands.append(Cat(term.number[:fraction_bits], normal))
        up, down = (Signal(EXPONENT_BITS + 1, name=name) for name in ("up", "down"))
        above = Signal()
        near, far = (Signal(fraction_bits + 1, name=name) for name in ("near", "far"))
        near_sign, far_sign = (Signal(name=name) for name in ("near_sign", "far_sign"))
        distance, top_level = (Signal(EXPONENT_BITS, name=name) for name in ("distance", "top_level"))
        m.d.comb += [
            up.eq(levels[0] - levels[1]),
            down.eq(levels[1] - levels[0]),
            above.eq(~up[-1]),
            distance.eq(Mux(above, up, down)),
            top_level.eq(Mux(above, *levels)),
            near.eq(Mux(above, *significands)),
            far.eq(Mux(above, *reversed(significands))),
            near_sign.eq(Mux(above, basis.number[-1], added.number[-1])),
            far_sign.eq(Mux(above, added.number[-1], basis.number[-1])),
        ]
        width = fraction_bits + 1 + BEHIND
        moved = shifted_right(m, Cat(Const(0, BEHIND), far), distance, "aligned", marked=True)
        total = signed_total(m, [(Cat(Const(0, BEHIND), near), near_sign), (moved, far_sign)], width)
        infinite = (basis.positive | added.positive, basis.negative | added.negative)
        return self.rounding.apply(m, total, top_level, infinite)
