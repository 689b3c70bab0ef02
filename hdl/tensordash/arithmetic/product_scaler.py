"""Product scaler: multiplies products by the scales of their steps, which are powers of two."""

from functools import reduce
from operator import or_

from amaranth.hdl import Module, Signal, Value
from amaranth.lib.data import ArrayLayout, StructLayout, View
from amaranth.lib.wiring import In, Out

from ..block import Block
from ..configuration.formats import FloatFormat
from ..configuration.numerics import Numerics
from ..configuration.parameters import require_int
from ..layouts import product_layout

__all__ = ["ProductScaler", "scale_sum", "scale_sum_layout"]


def scale_sum_layout(bits: int) -> StructLayout:
    """Return the layout of the product of both sides' scales: the sum of two patterns, or a mark of NaN."""
    return StructLayout({"sum": bits + 1, "nan": 1})


def scale_sum(m: Module, a: Value, b: Value, name: str) -> View:
    """Add both sides' E8M0 scales of a step."""
    both = Signal(scale_sum_layout(len(a)), name=name)
    m.d.comb += [both.sum.eq(a + b), both.nan.eq(a.all() | b.all())]
    return both


class ProductScaler(Block):
    """Adds the scales of a pair's step to the exponent of its product.

    Both sides' scales are added once for each step of the window. Each lane selects one of these sums.

    Timing: combinational.

    Parameters
    ----------
    numerics : Numerics
        Floating-point formats, and a scale that is a power of two.
    lanes : int
        Products.
    steps : int
        Steps of the window.

    Members
    -------
    products : In(product_layout of the elements, lanes)
    a_scales, b_scales : In(8, steps)
        The scale of each step of the window.
    chosen : In(steps, lanes)
        Only with more than one step: the step of each lane's pair, one-hot.
    scaled : Out(product_layout with the scale, lanes)
        The products. A product with a NaN scale is NaN.

    Raises
    ------
    ValueError
        For a parameter out of range, or numerics without a scale that is a power of two.

    Source: docs/numerics.md, "Scales".
    """

    def __init__(self, *, numerics: Numerics, lanes: int, steps: int) -> None:
        a, b, scale = numerics.a_format, numerics.b_format, numerics.scale
        self.lanes, self.steps = require_int("lanes", lanes, 1), require_int("steps", steps, 1)
        if (
            scale is None
            or scale.number is not None
            or not isinstance(a, FloatFormat)
            or not isinstance(b, FloatFormat)
        ):
            raise ValueError(f"numerics must have a scale that is a power of two, not {numerics}")
        super().__init__(
            {
                "products": In(ArrayLayout(product_layout(a, b), lanes)),
                "a_scales": In(ArrayLayout(scale.width, steps)),
                "b_scales": In(ArrayLayout(scale.width, steps)),
                **({"chosen": In(ArrayLayout(steps, lanes))} if steps > 1 else {}),
                "scaled": Out(ArrayLayout(product_layout(a, b, scale), lanes)),
            }
        )

    def elaborate(self, platform):
        """Build an adder for each step, and an AND-OR mux and an adder for each lane."""
        m = Module()
        sums = [
            scale_sum(m, self.a_scales[step], self.b_scales[step], f"scale_sum_{step}") for step in range(self.steps)
        ]
        for lane, (product, scaled) in enumerate(zip(self.products, self.scaled, strict=True)):
            common = sums[0]
            if self.steps > 1:
                common = Signal.like(sums[0], name=f"scale_{lane}")
                masked = [
                    each.as_value() & self.chosen[lane][step].replicate(len(each.as_value()))
                    for step, each in enumerate(sums)
                ]
                m.d.comb += common.eq(reduce(or_, masked))
            m.d.comb += [
                scaled.significand.eq(product.significand),
                scaled.shift.eq(product.shift + common.sum),
                scaled.sign.eq(product.sign),
                scaled.nan.eq(product.nan | common.nan),
                scaled.infinite.eq(product.infinite & ~common.nan),
            ]
        return m
