"""Product sum: adds the products of a cycle, aligned to the largest of them, to one FP32 number."""

from amaranth.hdl import Const, Module
from amaranth.lib.data import ArrayLayout
from amaranth.lib.wiring import In, Out

from ..block import Block
from ..configuration.formats import FP32
from ..configuration.numerics import Fused, Numerics
from ..configuration.parameters import require_int
from ..layouts import RawSumLayout
from .float_sum import Rounding, signed_total
from .product_terms import ProductTerms

__all__ = ["ProductSum"]


class ProductSum(Block):
    """Adds `lanes` products, aligned to the largest exponent, and rounds the sum to FP32.

    Timing: combinational.

    Parameters
    ----------
    numerics : Numerics
        Floating-point formats, and a `Fused` accumulator.
    lanes : int
        Products per cycle, at least 1.

    Members
    -------
    products : In(product_layout, lanes)
    active : In(lanes)
        Products that count.
    sum : Out(RawSumLayout(32))
        FP32 bits and marks of infinities and NaN. The sign of a zero is undefined.

    Raises
    ------
    ValueError
        For a parameter out of range.

    Source: docs/numerics.md, "fused", `addend = "after"`.
    """

    def __init__(self, *, numerics: Numerics, lanes: int) -> None:
        self.lanes = require_int("lanes", lanes, 1)
        self.terms = ProductTerms(numerics, lanes)
        assert isinstance(numerics.accumulator, Fused)
        self.rounding = Rounding(
            fraction_bits=self.terms.fraction_bits,
            result_bits=FP32.fraction_bits,
            nearest=numerics.accumulator.rounding == "nearest",
            level_bits=self.terms.level_bits,
            below=self.terms.beneath,
        )
        super().__init__(
            {
                "products": In(ArrayLayout(self.terms.product, lanes)),
                "active": In(lanes),
                "sum": Out(RawSumLayout(FP32.width)),
            }
        )

    def elaborate(self, platform):
        """Align, add, normalise and round."""
        m = Module()
        level, terms, marks = self.terms.align(m, self.products, self.active, Const(0, 1), registered=False)
        total = signed_total(m, [(term.magnitude, term.sign) for term in terms], self.terms.width)
        m.d.comb += self.sum.eq(self.rounding.apply(m, total, level, (marks.positive, marks.negative)))
        return m
