"""Binned accumulator: sums the digits of the products in the highest bins that a sum has met."""

from functools import reduce
from operator import add, or_
from typing import NamedTuple

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib.data import ArrayLayout, StructLayout, View
from amaranth.lib.wiring import In

from ..block import Block
from ..configuration.formats import FloatFormat
from ..configuration.numerics import Numerics
from ..configuration.parameters import require_int
from ..layouts import BinnedShape, RawSumLayout, product_layout
from .binned_digits import cut_digits, digits_of, distances, fp32_term
from .largest import largest_of
from .sum_ports import SumSignature, starts_from_c

__all__ = ["BinnedAccumulator"]


class BinnedAccumulator(Block):
    """Sums the digits of `lanes` products per cycle by bin, and holds the last finished sum while the next one grows.

    No carries pass between bins. When a term's top bin is above the sum's, the bins move down, and those below the last
    register are dropped.

    Timing: products of one cycle are in the sum after `stages` cycles (1: the loop alone; 2: the digits of a cycle are
    registered first). It takes one set of products per cycle.

    Parameters
    ----------
    numerics : Numerics
        Floating-point formats, and a `Binned` accumulator.
    lanes : int
        Products per cycle, at least 1.
    stages : int
        1 or 2.

    Members
    -------
    products : In(product_layout, lanes)
    places : In(place_bits, lanes)
        Place of the highest bit of each product's significand, counted from the unit (`BinnedShape`). It replaces the
        product's shift, and is a separate input because it is available earlier.
    nonzero : In(lanes)
        Products that are nonzero, among those that are numbers. It is also available earlier.
    active, sum
        As in `ExactAccumulator`. A sum consists of the bins, the lowest first, and the number of the top bin
        (`BinnedShape`). A bin that leaves its range wraps.

    Raises
    ------
    ValueError
        For a parameter out of range.

    Source: docs/numerics.md, "binned"; J. Demmel and H. D. Nguyen, "Parallel Reproducible Summation", IEEE Transactions
    on Computers 64 (2015).
    """

    def __init__(self, *, numerics: Numerics, lanes: int, stages: int) -> None:
        self.lanes = require_int("lanes", lanes, 1)
        self.stages = require_int("stages", stages, 1, 2)
        self.numerics = numerics
        self.shape = BinnedShape(numerics)
        a, b = numerics.a_format, numerics.b_format
        assert isinstance(a, FloatFormat)
        assert isinstance(b, FloatFormat)
        self.bins, self.bin_bits = self.shape.bins, self.shape.bin_bits
        # As for one more lane, because of the carry of C.
        self.added_bits = self.bin_bits + 1 + self.lanes.bit_length()
        self.significand_bits = a.significand_bits + b.significand_bits
        super().__init__(
            {
                "products": In(ArrayLayout(product_layout(a, b, numerics.scale), lanes)),
                "places": In(ArrayLayout(self.shape.place_bits, lanes)),
                "nonzero": In(lanes),
                "active": In(lanes),
                "sum": In(SumSignature(numerics)),
            }
        )

    def elaborate(self, platform):
        """Cut the products into digits, (register,) align them and the sum to the larger top bin, and add."""
        m = Module()
        registered = self.stages > 1
        active = self.active if registered else self.active & ~self.sum.hold.replicate(self.lanes)
        top, lanes = self._digits_of_products(m, active)
        added = Signal(self.added_layout(), reset_less=True)
        counting = Signal()
        updates = [
            *(held.eq(lane) for held, lane in zip(added.lanes, lanes, strict=True)),
            added.top.eq(top),
            added.positive.eq(self._infinity(active, 0)),
            added.negative.eq(self._infinity(active, 1)),
            counting.eq(active.any()),
        ]
        if registered:
            with m.If(~self.sum.hold):
                m.d.sync += updates
        else:
            m.d.comb += updates

        accumulated = Signal(RawSumLayout(self.shape.width), reset_less=True)
        finished = Signal(RawSumLayout(self.shape.width), reset_less=True)
        accumulated_next = Signal(RawSumLayout(self.shape.width))
        basis = self._basis(m, accumulated)
        old_down, new_down = self._alignment(m, added.top, basis, top, accumulated_next)
        overflows = self._add(m, basis, old_down, new_down, added, accumulated_next)
        m.d.comb += [
            # The sum is undefined before the first stream.
            self.sum.overflow.eq(counting & ~self.sum.hold & overflows),
            self.sum.value.eq(finished),
        ]
        with m.If(~self.sum.hold if registered else Const(1)):
            m.d.sync += accumulated.eq(accumulated_next)
        with m.If(self.sum.take):
            m.d.sync += finished.eq(accumulated_next)
        return m

    def added_layout(self) -> StructLayout:
        """Return the layout of a cycle's products, cut into digits but not placed, and of their largest top bin.

        A lane has its digits one after the other, in one's complement; its sign; and `below`, one-hot: the distance of
        its top bin from the largest one, in bins. If no bit of `below` is set, the lane adds nothing.
        """
        lane = StructLayout({"digits": self.significand_bits + self.bin_bits - 1, "negative": 1, "below": self.bins})
        return StructLayout(
            {"lanes": ArrayLayout(lane, self.lanes), "top": self.shape.top_bits, "positive": 1, "negative": 1}
        )

    def _digits_of_products(self, m: Module, active: Value) -> tuple[Value, list[Value]]:
        """Find the largest top bin of the products, and cut each product to a lane of `added_layout`."""
        counts, tops, digits = [], [], []
        for lane, product in enumerate(self.products):
            counted, top = Signal(name=f"counted_{lane}"), Signal(self.shape.top_bits, name=f"top_{lane}")
            number, cut = cut_digits(
                m, self.shape, product.significand, product.sign, self.places[lane], f"digits_{lane}"
            )
            m.d.comb += [
                counted.eq(active[lane] & self.nonzero[lane] & ~product.infinite & ~product.nan),
                top.eq(number & counted.replicate(len(number))),
            ]
            counts.append(counted)
            tops.append(top)
            digits.append(cut)
        highest = largest_of(m, tops, "top")
        lanes = []
        for lane, product in enumerate(self.products):
            distance = Signal(self.shape.top_bits, name=f"distance_{lane}")
            m.d.comb += distance.eq(tops[lane] - highest)
            below = Cat(counts[lane] & (distance == -i % (1 << self.shape.top_bits)) for i in range(self.bins))
            lanes.append(Cat(digits[lane], product.sign, below))
        return highest, lanes

    def _infinity(self, active: Value, sign: int) -> Value:
        """Return whether an infinity of this sign, or a NaN, is among the products."""
        marks = [
            lane & (product.nan | (product.infinite & (product.sign == sign)))
            for lane, product in zip(active, self.products, strict=True)
        ]
        return reduce(or_, marks)

    def _basis(self, m: Module, accumulated: View) -> "_Basis":
        """Select the addend of this cycle's digits: the accumulated sum, or C where a sum starts from it."""
        sum_so_far = View(self.shape.layout, accumulated.number)
        basis = _Basis(
            [Signal(signed(self.shape.bin_width), name=f"basis_{place}") for place in range(self.bins)],
            Signal(self.shape.top_bits, name="basis_top"),
            Signal(name="basis_carry"),
            [Signal(name=f"basis_{name}") for name in ("positive", "negative")],
        )
        m.d.comb += [
            *(each.eq(old) for each, old in zip(basis.bins, sum_so_far.bins, strict=True)),
            basis.top.eq(sum_so_far.top),
            basis.marks[0].eq(accumulated.positive & ~self.sum.start),
            basis.marks[1].eq(accumulated.negative & ~self.sum.start),
        ]
        if starts_from_c(self.numerics):
            with m.If(self.sum.start):
                c = fp32_term(m, self.shape, self.sum.c, "c")
                m.d.comb += [
                    *(target.eq(digits) for target, digits in zip(basis.bins, c.bins, strict=True)),
                    basis.top.eq(c.top),
                    basis.carry.eq(c.carry),
                    *(mark.eq(value) for mark, value in zip(basis.marks, c.marks, strict=True)),
                ]
        return basis

    def _alignment(
        self, m: Module, top: Value, basis: "_Basis", top_next: Value, total: View
    ) -> tuple[list[Value], list[Value]]:
        """Compute the distances, one-hot in bins, by which the sum so far and this cycle's digits move down.

        Also drive the top bin of the total. With a register after the digits, the distances are computed a cycle ahead,
        from the next accumulated top bin. At the start of a sum they are not used, or computed again with C.
        """
        start = self.sum.start
        number = View(self.shape.layout, total.number)
        old_down, new_down = ([Signal(name=f"{name}_by_{i}") for i in range(self.bins)] for name in ("old", "new"))
        current = distances(m, top, basis.top, self.bins, "current")
        if self.stages > 1:
            ahead = distances(m, top_next, number.top, self.bins, "next")
            held = [Signal(self.bins, name=name, reset_less=True) for name in ("old_by", "new_by")]
            with m.If(~self.sum.hold):
                m.d.sync += [each.eq(Cat(*value)) for each, value in zip(held, ahead, strict=True)]
            old_distances, new_distances = ([*each] for each in held)
            if starts_from_c(self.numerics):
                old_distances, new_distances = (
                    [Mux(start, new, old) for new, old in zip(*each, strict=True)]
                    for each in ((current[0], old_distances), (current[1], new_distances))
                )
            current = old_distances, new_distances
        if not starts_from_c(self.numerics):
            current = (
                [each & ~start for each in current[0]],
                [current[1][0] | start, *(each & ~start for each in current[1][1:])],
            )
        m.d.comb += [each.eq(value) for each, value in zip(old_down, current[0], strict=True)]
        m.d.comb += [each.eq(value) for each, value in zip(new_down, current[1], strict=True)]
        m.d.comb += number.top.eq(Mux(old_down[0], basis.top, top))
        return old_down, new_down

    def _add(
        self, m: Module, basis: "_Basis", old_down: list[Value], new_down: list[Value], added: View, total: View
    ) -> Value:
        """Drive the sums of the bins, and the marks. Return whether a bin leaves its range."""
        number = View(self.shape.layout, total.number)
        placed = [self._placed(m, lane, new_down, f"lane_{i}") for i, lane in enumerate(added.lanes)]
        width = max(self.shape.bin_width, self.added_bits) + 1
        overflows = []
        for place in range(self.bins):
            old = Signal(signed(self.shape.bin_width), name=f"old_{place}")
            sources = list(zip(basis.bins[place:], old_down, strict=False))
            m.d.comb += old.eq(reduce(or_, (each & by.replicate(len(each)) for each, by in sources)))
            here = [each[place] for each in placed]
            # A complement's sign counts -1, which is its inverse minus 1. One constant replaces all sign extensions.
            extensions = Const(-self.lanes << self.bin_bits, signed(self.added_bits))
            terms = [*(sign for _, sign in here), extensions, *(Cat(bits, ~sign) for bits, sign in here)]
            if starts_from_c(self.numerics):
                terms.append(basis.carry & reduce(or_, (by for _, by in sources)))
            grown = Signal(signed(width), name=f"grown_{place}")
            m.d.comb += [grown.eq(reduce(add, [old, *terms])), number.bins[place].eq(grown)]
            upper = grown[self.shape.bin_width - 1 :]
            overflows.append(upper.any() & ~upper.all())
        m.d.comb += [
            total.positive.eq(basis.marks[0] | added.positive),
            total.negative.eq(basis.marks[1] | added.negative),
        ]
        return reduce(or_, overflows)

    def _placed(self, m: Module, lane: View, new_down: list[Value], name: str) -> list[tuple[Value, Value]]:
        """Place the digits of a product in their bins, the lowest bin first, as (one's complement, sign)."""
        below = [Signal(name=f"{name}_below_{i}") for i in range(self.bins)]
        for i, each in enumerate(below):
            m.d.comb += each.eq(reduce(or_, (lane.below[i - moved] & new_down[moved] for moved in range(i + 1))))
        digits = digits_of(self.shape, lane.digits, lane.negative)
        terms = []
        for from_top in reversed(range(self.bins)):
            sources = [(below[from_top - i], digit) for i, digit in enumerate(digits) if i <= from_top]
            bits = reduce(or_, (digit & here.replicate(self.bin_bits) for here, digit in sources))
            terms.append((bits, lane.negative & reduce(or_, (here for here, _ in sources))))
        return terms


class _Basis(NamedTuple):
    """The addend of this cycle's digits: bins, the lowest first, their top bin, a carry into each bin, and marks."""

    bins: list[Signal]
    top: Signal
    carry: Signal
    marks: list[Signal]
