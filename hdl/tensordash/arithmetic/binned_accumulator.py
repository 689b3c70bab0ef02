"""Binned accumulator: the digits of the products, summed in the highest bins that a sum has met."""

from functools import reduce
from operator import add, or_

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib.data import ArrayLayout, StructLayout, View
from amaranth.lib.wiring import In

from ..block import Block
from ..configuration.formats import FP32, FloatFormat
from ..configuration.numerics import Numerics
from ..configuration.parameters import require_int
from ..layouts import BinnedShape, RawSumLayout, product_layout
from .accumulator import shifted_up
from .largest import largest_of
from .sum_ports import SumSignature, starts_from_c

__all__ = ["BinnedAccumulator"]


class BinnedAccumulator(Block):
    """Sums the digits of `lanes` products a cycle by bin, and keeps the last finished sum while the next one grows.

    Bins have no carries between them. When a term's top bin is above the sum's, the bins move down, and those below
    the last register are dropped.

    Timing: products of one cycle are in the sum after `stages` cycles (1: the loop alone; 2: the digits of a cycle are
    added up first and registered); throughput one set of products per cycle.

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
    nonzero : In(lanes)
        Which of the products that are numbers are not zero. It comes apart from them, since it is known earlier.
    active, sum
        As in `ExactAccumulator`. A sum is the bins, the lowest first, and the number of the top bin (`BinnedShape`). A
        bin that leaves its range wraps.

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
        self.added_bits = self.bin_bits + 1 + (self.lanes - 1).bit_length()
        super().__init__(
            {
                "products": In(ArrayLayout(product_layout(a, b, numerics.scale), lanes)),
                "nonzero": In(lanes),
                "active": In(lanes),
                "sum": In(SumSignature(numerics)),
            }
        )

    def elaborate(self, platform):
        """Cut the products into digits, add those of each bin, (register,) align with the sum, add."""
        m = Module()
        registered = self.stages > 1
        active = self.active if registered else self.active & ~self.sum.hold.replicate(self.lanes)
        top, digits = self._digits_of_products(m, active)
        layout = StructLayout(
            {
                "bins": ArrayLayout(signed(self.added_bits), self.bins),
                "top": self.shape.top_bits,
                "positive": 1,
                "negative": 1,
            }
        )
        added = Signal(layout, reset_less=True)
        counting = Signal()
        updates = [
            *(added.bins[place].eq(_total(digits, place)) for place in range(self.bins)),
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
        leaves = self._add(m, basis, added, accumulated_next)
        m.d.comb += [
            # The sum is undefined before the first stream.
            self.sum.overflow.eq(counting & ~self.sum.hold & leaves),
            self.sum.value.eq(finished),
        ]
        with m.If(~self.sum.hold if registered else Const(1)):
            m.d.sync += accumulated.eq(accumulated_next)
        with m.If(self.sum.take):
            m.d.sync += finished.eq(accumulated_next)
        return m

    def _digits_of_products(self, m: Module, active: Value) -> tuple[Value, list[list[tuple[Value, Value]]]]:
        """The largest top bin of the products, and each product's digits below it: (one's complement, sign) by bin."""
        counts, tops, offsets = [], [], []
        for lane, product in enumerate(self.products):
            counted, top = Signal(name=f"counted_{lane}"), Signal(self.shape.top_bits, name=f"top_{lane}")
            number, offset = _split(m, product.shift + self.shape.first_place, self.bin_bits, f"product_{lane}")
            m.d.comb += [
                counted.eq(active[lane] & self.nonzero[lane] & ~product.infinite & ~product.nan),
                top.eq(number & counted.replicate(len(number))),
            ]
            counts.append(counted)
            tops.append(top)
            offsets.append(offset)
        highest = largest_of(m, tops, "top")
        digits = []
        for lane, product in enumerate(self.products):
            below = Signal(self.shape.top_bits, name=f"below_{lane}")
            m.d.comb += below.eq(highest - tops[lane])
            parts = self._cut(m, product.significand, product.sign, offsets[lane], f"digit_{lane}")
            by = [Signal(name=f"below_{lane}_by_{distance}") for distance in range(self.bins)]
            m.d.comb += [each.eq(counts[lane] & (below == distance)) for distance, each in enumerate(by)]
            digits.append([self._digit_at(place, parts, product.sign, by) for place in range(self.bins)])
        return highest, digits

    def _cut(self, m: Module, significand: Value, negative: Value, offset: Value, name: str) -> list[Value]:
        """The digits of a significand whose highest place is `offset` in its top bin, the top one first.

        They are complemented before the shift, with the sign shifted in at both ends: fewer gates than after it.
        """
        width, bits = len(significand) - 1 + self.bin_bits, significand ^ negative.replicate(len(significand))
        shifted = shifted_up(m, list(bits), offset, below=negative, above=negative, width=width, name=name)
        count = -(-(len(significand) - 1) // self.bin_bits) + 1
        padded = [negative] * (count * self.bin_bits - width) + list(shifted)
        cut = [Cat(padded[place * self.bin_bits : (place + 1) * self.bin_bits]) for place in range(count)]
        return cut[::-1][: self.bins]

    def _digit_at(self, place: int, parts: list[Value], negative: Value, by: list[Signal]) -> tuple[Value, Value]:
        """The digit that comes to a bin, the lowest being 0, if `parts` move down: (one's complement, sign)."""
        from_top = self.bins - 1 - place
        sources = [(by[from_top - i], part) for i, part in enumerate(parts) if i <= from_top]
        digit = reduce(or_, (part & here.replicate(self.bin_bits) for here, part in sources))
        return digit, negative & reduce(or_, (here for here, _ in sources))

    def _infinity(self, active: Value, sign: int) -> Value:
        """Whether an infinity of this sign, or a NaN, is among the products."""
        marks = [
            lane & (product.nan | (product.infinite & (product.sign == sign)))
            for lane, product in zip(active, self.products, strict=True)
        ]
        return reduce(or_, marks)

    def _basis(self, m: Module, accumulated: View) -> tuple[list[Value], Value, Value, list[Value]]:
        """What digits are added to: bins, a carry into them, top bin, marks; at the start of a sum, C or nothing."""
        sum_so_far = View(self.shape.layout, accumulated.number)
        start = self.sum.start
        bins = [Signal(signed(self.shape.bin_width), name=f"basis_{place}") for place in range(self.bins)]
        top, carry = Signal(self.shape.top_bits, name="basis_top"), Signal(name="basis_carry")
        marks = [Signal(name=f"basis_{name}") for name in ("positive", "negative")]
        m.d.comb += [
            *(each.eq(old) for each, old in zip(bins, sum_so_far.bins, strict=True)),
            top.eq(sum_so_far.top),
            marks[0].eq(accumulated.positive),
            marks[1].eq(accumulated.negative),
        ]
        with m.If(start):
            m.d.comb += [each.eq(0) for each in (*bins, top, *marks)]
            if starts_from_c(self.numerics):
                self._start_from_c(m, bins, top, carry, marks)
        return bins, carry, top, marks

    def _start_from_c(self, m: Module, bins: list[Signal], top: Signal, carry: Signal, marks: list[Signal]) -> None:
        """Drive the digits of C, one's complement with a carry into each bin if C is negative."""
        c = self.sum.c
        fraction, field, sign = c[: FP32.fraction_bits], c[FP32.fraction_bits : -1], c[-1]
        special, payload, normal = field.all(), fraction.any(), field.any()
        # Signed exponent of C's highest place, less the unit's: the least exponent field above zero is 1.
        place = Cat(field[0] | ~normal, field[1:]) + (-FP32.bias - self.shape.unit)
        number, offset = _split(m, place, self.bin_bits, "c")
        counts, negative = Signal(name="c_counts"), Signal(name="c_negative")
        m.d.comb += [counts.eq(c[:-1].any() & ~special), negative.eq(sign & counts)]
        significand = Cat(fraction, normal) & counts.replicate(FP32.significand_bits)
        parts = self._cut(m, significand, negative, offset, "c_digit")
        parts += [negative.replicate(self.bin_bits)] * (self.bins - len(parts))
        m.d.comb += [
            *(each.eq(Cat(part, negative).as_signed()) for each, part in zip(reversed(bins), parts, strict=True)),
            top.eq(number & counts.replicate(len(number))),
            carry.eq(negative),
            marks[0].eq(special & (payload | ~sign)),
            marks[1].eq(special & (payload | sign)),
        ]

    def _add(self, m: Module, basis: tuple[list[Value], Value, Value, list[Value]], added: View, total: View) -> Value:
        """Drive the sum of both, each moved down to the larger top bin. Return whether a bin leaves its range."""
        bins, carry, top, marks = basis
        rise, fall = (Signal(signed(self.shape.top_bits + 1), name=name) for name in ("rise", "fall"))
        m.d.comb += [rise.eq(added.top - top), fall.eq(top - added.top)]
        rises = fall[-1]
        moved, here = _moved(m, bins, [~rises, *(rise == i for i in range(1, self.bins))], "kept")
        joining, _ = _moved(m, list(added.bins), [~rise[-1], *(fall == i for i in range(1, self.bins))], "joining")
        number = View(self.shape.layout, total.number)
        leaves = []
        for place in range(self.bins):
            grown = Signal(signed(max(self.shape.bin_width, self.added_bits) + 1), name=f"grown_{place}")
            summed: Value = moved[place] + joining[place]
            if starts_from_c(self.numerics):
                # One bit more at the lower end, so that one carry chain adds the sum, C's complement and its sign.
                carried = Cat(carry & here[place], joining[place]).as_signed()
                summed = (Cat(Const(1, 1), moved[place]).as_signed() + carried)[1:].as_signed()
            m.d.comb += [grown.eq(summed), number.bins[place].eq(grown)]
            upper = grown[self.shape.bin_width - 1 :]
            leaves.append(upper.any() & ~upper.all())
        m.d.comb += [
            number.top.eq(Mux(rises, added.top, top)),
            total.positive.eq(marks[0] | added.positive),
            total.negative.eq(marks[1] | added.negative),
        ]
        return reduce(or_, leaves)


def _split(m: Module, place: Value, bin_bits: int, name: str) -> tuple[Value, Value]:
    """The number of the bin that a place is in, and the place's offset there."""
    low = (bin_bits - 1).bit_length()
    if (1 << len(place)) <= bin_bits:
        return Const(0, 1), place
    if bin_bits == 1 << low:
        return place[low:], place[:low]
    # Divided by a multiplication with the shortest reciprocal for which every place comes out right.
    count = 1 << len(place)
    power = next(
        power
        for power in range(low, 2 * len(place) + 2)
        if all(x * ((1 << power) // bin_bits + 1) >> power == x // bin_bits for x in range(count))
    )
    number = Signal(range((count - 1) // bin_bits + 1), name=f"{name}_bin")
    offset = Signal(range(bin_bits), name=f"{name}_offset")
    m.d.comb += [
        number.eq(place * ((1 << power) // bin_bits + 1) >> power),
        offset.eq(place - number * bin_bits),
    ]
    return number, offset


def _total(digits: list[list[tuple[Value, Value]]], place: int) -> Value:
    """The sum of all products' digits in a bin."""
    here = [each[place] for each in digits]
    return reduce(add, [Cat(bits, sign).as_signed() for bits, sign in here] + [sign for _, sign in here])


def _moved(m: Module, bins: list[Value], by: list[Value], name: str) -> tuple[list[Signal], list[Value]]:
    """`bins`, the lowest first, moved down by as many as `by` has set; and whether one comes to each place."""
    chosen = [Signal(name=f"{name}_by_{distance}") for distance in range(len(bins))]
    m.d.comb += [each.eq(value) for each, value in zip(chosen, by, strict=True)]
    moved, here = [], []
    for place in range(len(bins)):
        made = Signal(signed(len(bins[0])), name=f"{name}_{place}")
        sources = list(zip(bins[place:], chosen, strict=False))
        m.d.comb += made.eq(reduce(or_, (each & one.replicate(len(each)) for each, one in sources)))
        moved.append(made)
        here.append(reduce(or_, (one for _, one in sources)))
    return moved, here
