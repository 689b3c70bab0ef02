"""Step sums: adds the products of each step of the window before they are scaled."""

from functools import reduce
from operator import add

from amaranth.hdl import Cat, Module, Signal, signed
from amaranth.lib.data import ArrayLayout
from amaranth.lib.wiring import In, Out

from ..block import Block
from ..configuration.formats import FloatFormat
from ..configuration.numerics import Numerics
from ..configuration.parameters import require_int
from ..layouts import FixedPoint, product_layout
from .accumulator import shifted_up

__all__ = ["StepSums", "step_sum_bits"]


def step_sum_bits(numerics: Numerics, lanes: int) -> int:
    """Return the bits of the sum of `lanes` products of elements, sign included."""
    a, b = numerics.a_format, numerics.b_format
    assert isinstance(a, FloatFormat)
    assert isinstance(b, FloatFormat)
    return (lanes * a.largest_units * b.largest_units).bit_length() + 1


class StepSums(Block):
    """Adds the products of a cycle separately for each step of the window.

    All values of a step share a scale, so only the sums have to be scaled, one per step of the window.

    Timing: combinational.

    Parameters
    ----------
    numerics : Numerics
        Floating-point formats without infinities and NaN.
    lanes : int
        Products.
    steps : int
        Steps of the window.

    Members
    -------
    products : In(product_layout, lanes)
    active : In(lanes)
        Products that count.
    chosen : In(steps, lanes)
        Only with more than one step: the step of each lane's pair, one-hot.
    sums : Out(signed(step_sum_bits), steps)
        Sums in units of the least product.
    counted : Out(steps)
        Whether any product of the step counts.

    Raises
    ------
    ValueError
        For a parameter out of range, or formats with infinities or NaN.

    Source: docs/numerics.md, "Scales"; the distributive law.
    """

    def __init__(self, *, numerics: Numerics, lanes: int, steps: int) -> None:
        a, b = numerics.a_format, numerics.b_format
        self.lanes, self.steps = require_int("lanes", lanes, 1), require_int("steps", steps, 1)
        if not isinstance(a, FloatFormat) or not isinstance(b, FloatFormat) or a.nan or b.nan:
            raise ValueError(f"numerics must be of formats in which every pattern is a number, not {numerics}")
        self.product_bits = FixedPoint(a, b, 0).product_bits
        super().__init__(
            {
                "products": In(ArrayLayout(product_layout(a, b), lanes)),
                "active": In(lanes),
                **({"chosen": In(ArrayLayout(steps, lanes))} if steps > 1 else {}),
                "sums": Out(ArrayLayout(signed(step_sum_bits(numerics, lanes)), steps)),
                "counted": Out(steps),
            }
        )

    def elaborate(self, platform):
        """Place the products, as (one's complement number, sign), and add those of each step."""
        m = Module()
        terms, signs = [], []
        for lane, product in enumerate(self.products):
            negative, term = Signal(name=f"negative_{lane}"), Signal(self.product_bits + 1, name=f"term_{lane}")
            bits = shifted_up(
                m,
                list(product.significand ^ product.sign.replicate(len(product.significand))),
                product.shift,
                below=product.sign,
                above=product.sign,
                width=self.product_bits,
                name=f"shifted_{lane}",
            )
            m.d.comb += [negative.eq(product.sign), term.eq(Cat(*bits, product.sign))]
            terms.append(term)
            signs.append(negative)
        for step in range(self.steps):
            counts = [
                self.active[lane] & self.chosen[lane][step] if self.steps > 1 else self.active[lane]
                for lane in range(self.lanes)
            ]
            masked = [
                (term & count.replicate(len(term))).as_signed() for term, count in zip(terms, counts, strict=True)
            ]
            ones = [sign & count for sign, count in zip(signs, counts, strict=True)]
            m.d.comb += [
                self.sums[step].eq(reduce(add, masked) + reduce(add, ones)),
                self.counted[step].eq(Cat(counts).any()),
            ]
        return m
