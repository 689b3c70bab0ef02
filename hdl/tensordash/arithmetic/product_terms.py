"""Product terms: aligns the products of a cycle to the largest of them, for the components that add them."""

from functools import reduce
from operator import or_
from typing import Any

from amaranth.hdl import Cat, Const, Module, Signal, Value
from amaranth.lib.data import ArrayLayout, StructLayout

from ..configuration.formats import FloatFormat
from ..configuration.numerics import Fused, Numerics
from ..layouts import product_layout
from .float_sum import MIN_EXPONENT, scaled, shifted_right
from .largest import largest_of

__all__ = ["ProductTerms"]


class ProductTerms:
    """Shapes of aligned products, and the logic that aligns them.

    A `level` represents an exponent: the exponent minus FP32's least, plus one. So an FP32 number's level is its
    exponent field, or 1 if that is zero.

    Parameters
    ----------
    numerics : Numerics
        Floating-point formats, and a `Fused` accumulator.
    lanes : int
        Products per cycle.
    shared : bool
        All products of a cycle have the same scales, which are an argument of `align`. Exponents are compared without
        them, and the level of an accumulator of zero is not compared.

    Attributes
    ----------
    product : StructLayout
        A product.
    width : int
        Bits of a term's magnitude, which is below 4.
    level_bits : int
        Bits of a level that is not below 1.
    beneath : int
        Maximum distance of a level below 1: not 0 if an accumulator of zero counts as an exponent below FP32's least,
        and products have such exponents.

    Raises
    ------
    ValueError
        If the formats are not floating-point, or the accumulator is not fused.
    """

    def __init__(self, numerics: Numerics, lanes: int, *, shared: bool = False) -> None:
        a, b, accumulator = numerics.a_format, numerics.b_format, numerics.accumulator
        if not isinstance(accumulator, Fused) or not isinstance(a, FloatFormat) or not isinstance(b, FloatFormat):
            raise ValueError(f"numerics must be floating-point and fused, not {numerics}")
        self.lanes, self.fraction_bits = lanes, accumulator.fraction_bits
        self.width = self.fraction_bits + 2
        scale = numerics.scale
        self.shared = shared
        self.product = product_layout(a, b, None if shared else scale)
        self.product_fraction_bits = a.fraction_bits + b.fraction_bits
        # The exponent of a product with shift 0, and how far the least level of a product is below 1.
        scales = 0 if scale is None else 2 * scale.bias
        self.least_product = a.least_exponent + b.least_exponent + self.product_fraction_bits - scales
        self.below = max(0, MIN_EXPONENT - self.least_product)
        self.beneath = min(self.below, MIN_EXPONENT - accumulator.zero_exponent)
        reach = a.exponent_range + b.exponent_range - 2 + (0 if scale is None else 2 * (scale.exponent_range - 1))
        top_level = self.least_product + reach - MIN_EXPONENT + 1
        self.level_bits = max(8, top_level.bit_length())

    def align(
        self, m: Module, products: Any, active: Value, hold: Value, *, registered: bool, common: Any = None
    ) -> tuple[Signal, Any, Any]:
        """Find the largest level of the products that count, and align the products to it.

        Parameters
        ----------
        m : Module
            The module to build in.
        products : View of ArrayLayout, (lanes,)
            Products, each with the layout `product`.
        active, hold : Value
            Products that count; whether none does.
        registered : bool
            Whether the results are registers.
        common : View of scale_sum_layout
            Only if `shared`: the scales of all products.

        Returns
        -------
        level : Signal
            The largest level, at least the level of an accumulator of zero.
        terms : View of ArrayLayout, (lanes,)
            Magnitudes, in units of two to the power of the exponent minus `fraction_bits`, and signs.
        marks : View
            `counting`: any product counts. `positive`, `negative`: there is such an infinity, or (both) a NaN.
        """
        width = self.width
        levels, counts = [], []
        offset = self.least_product + self.below - MIN_EXPONENT  # so that level = shift + offset + 1 - below
        for lane, product in enumerate(products):
            counted = Signal(name=f"counted_{lane}")
            most = 1 << len(product.shift) if self.shared else self.below + (1 << self.level_bits)
            level = Signal(range(most), name=f"level_{lane}")
            m.d.comb += [
                counted.eq(active[lane] & ~hold & product.significand.any() & ~product.infinite & ~product.nan),
                # A product that does not count has the least level.
                level.eq((product.shift + (0 if self.shared else offset)) & counted.replicate(len(level))),
            ]
            levels.append(level)
            counts.append(counted)
        highest = self._highest(m, levels)

        terms = Signal(ArrayLayout(StructLayout({"magnitude": width, "sign": 1}), self.lanes), reset_less=True)
        # One more bit if the level may be below 1.
        lowest = 1 - (self.below if self.shared else self.beneath)
        level = Signal(range(lowest, 1 << self.level_bits), reset_less=True)
        marks = Signal(StructLayout({"counting": 1, "positive": 1, "negative": 1}), reset_less=True)

        infinities = [_has_infinity(products, active, hold, sign) for sign in (0, 1)]
        scaled_highest: Value = highest
        if self.shared:
            counting = Signal()
            m.d.comb += counting.eq(Cat(counts).any())
            whole = highest + common.sum
            scaled_highest = whole & counting.replicate(len(whole))
            infinities = [each | (common.nan & active.any() & ~hold) for each in infinities]
        updates = [
            level.eq(scaled_highest - self.below + 1),
            marks.counting.eq(active.any() & ~hold),
            marks.positive.eq(infinities[0]),
            marks.negative.eq(infinities[1]),
        ]
        for lane, product in enumerate(products):
            # Levels of narrow elements with shared scales have fewer bits than the shifter has stages.
            distance = Signal(max(len(levels[lane]), (width - 1).bit_length()), name=f"distance_{lane}")
            significand = scaled(product.significand, self.fraction_bits - self.product_fraction_bits, width)
            masked = significand & counts[lane].replicate(width)
            m.d.comb += distance.eq(highest - levels[lane])
            updates += [
                terms[lane].magnitude.eq(shifted_right(m, masked, distance, f"aligned_{lane}")),
                terms[lane].sign.eq(product.sign & counts[lane]),
            ]
        # A loop that adds nothing while the tile is frozen needs no enable. A loop after a register does.
        if registered:
            with m.If(~hold):
                m.d.sync += updates
        else:
            m.d.comb += updates
        return level, terms, marks

    def _highest(self, m: Module, levels: list[Signal]) -> Value:
        """Find the largest level, at least that for an accumulator of zero, by a tree of comparisons."""
        rest: list[Value] = [*levels]
        if not self.shared:
            rest.append(Const(self.below - self.beneath, len(levels[0])))
        return largest_of(m, rest, "higher")


def _has_infinity(products: Any, active: Value, hold: Value, sign: int) -> Value:
    """Return whether an infinity of this sign, or a NaN, is among the products."""
    each = [
        lane & ~hold & (product.nan | (product.infinite & (product.sign == sign)))
        for lane, product in zip(active, products, strict=True)
    ]
    return reduce(or_, each)
