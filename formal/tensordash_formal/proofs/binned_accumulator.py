"""Binned accumulator at its real width, with free products: each bin is the sum of its digits, in any order of terms.

The proof watches one bin, whose number is free but constant. Its model adds up the signed digits of all terms in this
bin modulo the register's range, and tracks the largest top bin. Both follow docs/numerics.md. If a taken sum has the
watched bin, the bin's register equals the model's sum.

`overflow` rises if the watched bin leaves its range, and not without products. With 16 bits of headroom, the range is
thousands of cycles away; the property is then a lemma without a cover. The proof does not check that `overflow` rises
nowhere else. A sum is defined from its `start` on. PEs of one stage and tiles with a C input are not covered.

Assumes: a frozen tile neither starts nor takes (`tile_control`). The place and the zero mark of a product agree with
its shift and significand. A product is not both infinite and NaN.
"""

from dataclasses import dataclass
from functools import partial, reduce
from operator import add, or_

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib.data import View

from tensordash import TileConfig
from tensordash.arithmetic.binned_accumulator import BinnedAccumulator
from tensordash.block import Block
from tensordash.configuration.numerics import Binned
from tensordash.layouts import RawSumLayout
from tensordash.tile.pe import PE

from ..harness import Fault, Harness
from ..proof import Proof, make_variants

__all__ = ["PROOF"]


def build(config: TileConfig, fault: tuple[type[Block], Fault] | None = None) -> Harness:
    """Build the claims about the binned accumulator of a tile's PE (docs/numerics.md, "binned" and "Products").

    Assumptions: a frozen tile neither starts nor takes, and the ports of a product agree with each other.
    """
    dut = PE(numerics=config.numerics, lanes=config.lanes, stages=config.stages).accumulator
    assert isinstance(dut, BinnedAccumulator)
    harness = Harness(dut, fault=fault)
    harness.assume(~dut.sum.hold | ~(dut.sum.start | dut.sum.take))
    model = SumModel(harness, dut)
    model.add_register_lemmas()
    model.claim_sums()
    return harness


@dataclass(frozen=True)
class Term:
    """A product of a lane in the form that the model adds.

    In a negative term, `digit` is complemented, and `negative` adds 1 to negate it. The order of additions is the
    hardware's, so the solver finds equal sums.
    """

    counts: Value
    sign: Value
    top: Value
    digit: Value
    negative: Value

    @property
    def parts(self) -> list[Value]:
        """Numbers that a lane adds to a bin. The sign of a complement is its inverse, minus 1."""
        return [self.negative, Cat(self.digit, ~self.negative)]


class SumModel:
    """Reference model: the sum of the digits in one bin, the largest top bin, and the marks of infinities and NaN.

    The terms are registers, as in the hardware.
    """

    def __init__(self, harness: Harness, dut: BinnedAccumulator) -> None:
        self.harness, self.dut, self.shape = harness, dut, dut.shape
        self.m, self.sum = harness.m, dut.sum
        self.watched = harness.constant(signed(self.shape.top_bits + 1), "watched_bin")
        harness.assume(self.watched > -self.shape.bins)
        harness.assume(self.watched <= self.shape.max_top)
        # The ends of the digits of a product in the hardware, the top digit first.
        self.ends = range(dut.significand_bits + self.shape.bin_bits - 1, 0, -self.shape.bin_bits)[: self.shape.bins]
        self.loaded = Signal(reset_less=True)
        self.m.d.sync += self.loaded.eq(harness.started & (self.loaded | ~self.sum.hold))
        self.terms = [Term(*map(self._held, self._term(lane))) for lane in range(dut.lanes)]
        self.new_marks = [self._held(self._mark(sign)) for sign in (0, 1)]
        self.added = View(dut.added_layout(), harness.probe("added", dut.added_layout().size))
        self.state = View(RawSumLayout(self.shape.width), harness.probe("accumulated", self.shape.width + 2))
        self.accumulated = View(self.shape.layout, self.state.number)
        self.digits = Signal(signed(self.shape.bin_width), reset_less=True)
        self.top = Signal(self.shape.top_bits, reset_less=True)
        self.joining_by = harness.probe("new_by", self.shape.bins)

    def _held(self, value: Value) -> Signal:
        """Delay a value by one cycle, not counting cycles in which the tile is frozen."""
        held = Signal(Value.cast(value).shape(), reset_less=True)
        with self.m.If(~self.sum.hold):
            self.m.d.sync += held.eq(value)
        return held

    def _past(self, value: Value) -> Signal:
        """Delay a value by one cycle."""
        past = Signal(Value.cast(value).shape(), reset_less=True)
        self.m.d.sync += past.eq(value)
        return past

    def _term(self, lane: int) -> tuple[Value, Value, Value, Value, Value]:
        """Cut the digit of a lane's product in the watched bin, from its magnitude."""
        harness, shape, product, place = self.harness, self.shape, self.dut.products[lane], self.dut.places[lane]
        width = self.dut.significand_bits
        finite = ~product.infinite & ~product.nan
        harness.assume(~product.infinite | ~product.nan)
        harness.assume(place == product.shift + shape.first_place)
        harness.assume(place // shape.bin_bits <= shape.max_top)
        harness.assume(~finite | (self.dut.nonzero[lane] == product.significand.any()))
        counts = self.dut.active[lane] & finite & product.significand.any()
        # The place of the significand's lowest bit, counted from the lowest place of the watched bin.
        lowest = Signal(signed(shape.place_bits + 2))
        self.m.d.comb += lowest.eq(place - (width - 1) - self.watched * shape.bin_bits)
        digit = Signal(shape.bin_bits)
        for distance in range(1 - width, shape.bin_bits):
            moved = product.significand << distance if distance >= 0 else product.significand >> -distance
            with self.m.If(lowest == distance):
                self.m.d.comb += digit.eq(moved)
        top = Mux(counts, place // shape.bin_bits, 0)[: shape.top_bits]
        # A product without a digit in the watched bin has the digit 0, so it needs no negation.
        negative = counts & product.sign & self._has_digit(top)
        return counts, product.sign, top, Mux(counts, digit, 0) ^ negative.replicate(shape.bin_bits), negative

    def _has_digit(self, top: Value) -> Value:
        """Return whether a product with a top bin may have a digit in the watched bin."""
        return (top >= self.watched) & (top - self.watched < len(self.ends))

    def _mark(self, sign: int) -> Value:
        marks = [
            self.dut.active[lane] & (product.nan | (product.infinite & (product.sign == sign)))
            for lane, product in enumerate(self.dut.products)
        ]
        return Cat(marks).any()

    def _is_watched(self, top: Value, place: int) -> Value:
        """Return whether a sum with a top bin has the watched bin in this place."""
        return top - (self.shape.bins - 1) + place == self.watched

    def _digits(self, lane: View) -> list[Value]:
        """Return the digits into which the hardware has cut a product, the top digit first."""
        bits = self.shape.bin_bits
        padded = Cat(lane.negative.replicate(bits), lane.digits)
        return [padded[end : end + bits] for end in self.ends]

    def add_register_lemmas(self) -> None:
        """State the lemmas that map the registers of digits and distances to the model's terms."""
        lemma, bins, added = partial(self.harness.lemma, when=self.loaded), self.shape.bins, self.added
        lemma(added.top == _largest([term.top for term in self.terms]))
        lemma(Cat(added.positive, added.negative) == Cat(*self.new_marks))
        for lane, term in zip(added.lanes, self.terms, strict=True):
            lemma(lane.negative == term.sign)
            lemma(lane.below == Cat(term.counts & (added.top - term.top == i) for i in range(bins)))
            for i, digit in enumerate(self._digits(lane)):
                lemma((digit == term.digit) | ~term.counts | (term.top - self.watched != i))
            cut = term.counts & self._has_digit(term.top)
            lemma(term.negative == (term.sign & cut))
            lemma((term.digit == 0) | cut)
        rise = added.top - self.accumulated.top
        for held, downward in ((self.harness.probe("old_by", bins), 1), (self.joining_by, -1)):
            lemma(held == Cat(rise * downward <= 0, *(rise == downward * i for i in range(1, bins))))

    def _place_terms(self) -> list[list[list[Value]]]:
        """Return the numbers that the hardware's lanes add to each bin, the lowest bin first."""
        start, bins = self.sum.start, self.shape.bins
        joining = [self.joining_by[0] | start, *(each & ~start for each in self.joining_by[1:])]
        placed: list[list[list[Value]]] = [[] for _ in range(bins)]
        for lane in self.added.lanes:
            below = [reduce(or_, (lane.below[i - k] & joining[k] for k in range(i + 1))) for i in range(bins)]
            for place, parts in enumerate(placed):
                sources = list(zip(self._digits(lane), reversed(below[: bins - place]), strict=False))
                digit = reduce(or_, (each & by.replicate(len(each)) for each, by in sources))
                negative = lane.negative & reduce(or_, (by for _, by in sources))
                parts.append([negative, Cat(digit, ~negative)])
        return placed

    def claim_sums(self) -> None:
        """Claim that taken sums have the bins and marks of the products since their start."""
        m, lemma, shape, start, digits, top = (
            self.m,
            self.harness.lemma,
            self.shape,
            self.sum.start,
            self.digits,
            self.top,
        )
        marks = [Signal(name=f"model_mark_{sign}", reset_less=True) for sign in (0, 1)]
        known = Signal(reset_less=True)
        sound = self.harness.started & (known | (start & self.loaded))
        m.d.sync += known.eq(sound)
        next_top = _largest([Mux(start, 0, top), *(term.top for term in self.terms)])
        next_marks = [(old & ~start) | new for old, new in zip(marks, self.new_marks, strict=True)]
        width, old = max(shape.bin_width, self.dut.added_bits) + 1, Mux(start, 0, digits)
        grown = Signal(signed(width))
        lowest = Const(-self.dut.lanes << shape.bin_bits, signed(self.dut.added_bits))
        negatives, complements = zip(*(term.parts for term in self.terms), strict=True)
        m.d.comb += grown.eq(reduce(add, [old, *negatives, lowest, *complements]))
        with m.If(~self.sum.hold):
            m.d.sync += [digits.eq(grown), top.eq(next_top)]
            m.d.sync += [mark.eq(each) for mark, each in zip(marks, next_marks, strict=True)]

        lemma(self.loaded, when=known)
        lemma(self.accumulated.top == top, when=known)
        lemma(Cat(self.state.positive, self.state.negative) == Cat(*marks), when=known)
        lemma(digits == 0, when=known & (self.watched > top))
        for place, each in enumerate(self.accumulated.bins):
            lemma(each == digits, when=known & self._is_watched(top, place))

        was_sound, past_top, past_old, past_grown = map(self._past, (sound, next_top, old, grown))
        past_terms = [[self._past(part) for part in term.parts] for term in self.terms]
        was_watched = []
        for place, lanes in enumerate(self._place_terms()):
            watched = was_sound & self._is_watched(past_top, place)
            was_watched.append(watched)
            old_here = self._past(self.harness.probe(f"old_{place}", signed(shape.bin_width)))
            lemma(old_here == past_old, when=watched)
            for parts, past_parts in zip(lanes, past_terms, strict=True):
                for part, past_part in zip(parts, past_parts, strict=True):
                    lemma(self._past(part) == past_part, when=watched)
            grown_here = self._past(self.harness.probe(f"grown_{place}", signed(width)))
            lemma(grown_here == past_grown, when=watched)
        self._claim_taken(sound, grown, next_top, next_marks)
        self._claim_overflow(was_watched, grown[shape.bin_width - 1 :])

    def _claim_taken(self, sound: Value, grown: Signal, next_top: Value, next_marks: list[Value]) -> None:
        m, claim, shape, take = self.m, self.harness.claim, self.shape, self.sum.take
        taken_digits, taken_top = (
            Signal.like(each, name=f"taken_{each.name}", reset_less=True) for each in (self.digits, self.top)
        )
        taken, taken_marks = Signal(reset_less=True), Signal(2, reset_less=True)
        m.d.sync += taken.eq(Mux(take, sound, taken & self.harness.started))
        with m.If(take):
            m.d.sync += [taken_digits.eq(grown), taken_top.eq(next_top), taken_marks.eq(Cat(*next_marks))]
        value, was_taken = self.sum.value, self._past(take)
        same = (value.as_value() == self.state.as_value()) & (taken_digits == self.digits)
        self.harness.lemma(same, when=was_taken)
        number, found_marks = View(shape.layout, value.number), (value.positive, value.negative)
        claim("the_top_bin_is_the_largest_of_the_terms", number.top == taken_top, when=taken)
        for place, each in enumerate(number.bins):
            watched = self._is_watched(taken_top, place)
            claim("a_bin_is_the_sum_of_its_digits", each == taken_digits, when=taken & watched)
        for mark, expected in zip(found_marks, taken_marks, strict=True):
            claim("infinities_and_nan_mark_the_sum", mark, when=taken & expected)
            claim("nothing_else_marks_it", ~mark, when=taken & ~expected)
        before = self._past(Value.cast(value))
        claim("the_sum_stays_until_the_next", Value.cast(value) == before, when=self._past(~take))

    def _claim_overflow(self, is_watched: list[Value], upper: Value) -> None:
        m = self.m
        counting = Signal()
        with m.If(~self.sum.hold):
            m.d.sync += counting.eq(self.dut.active.any())
        self.harness.lemma(self.harness.probe("counting", 1) == counting)
        counts = counting & ~self.sum.hold
        self.harness.claim("no_overflow_without_products", ~self.sum.overflow, when=~counts)
        # The claim is one cycle late because the lemmas about a cycle's sums are known in the next cycle.
        leaves, overflowed = self._past(counts & upper.any() & ~upper.all()), self._past(self.sum.overflow)
        # With more headroom, no run leaves the range within the cycles in which a cover is searched for.
        leaves_early = self.dut.lanes << (self.shape.bin_bits + 1) > 1 << (self.shape.bin_width - 1)
        claim = partial(self.harness.claim, "overflow_where_a_bin_leaves_its_range")
        for watched in is_watched:
            (claim if leaves_early else self.harness.lemma)(overflowed, when=leaves & watched)


def _largest(tops: list[Value]) -> Value:
    return reduce(lambda one, other: Mux(one > other, one, other), tops)


def _no_start_when_taken(m: Module, sound: BinnedAccumulator, outer: BinnedAccumulator) -> None:
    m.d.comb += sound.sum.start.eq(outer.sum.start & ~outer.sum.take)


def _no_hold(m: Module, sound: BinnedAccumulator, outer: BinnedAccumulator) -> None:
    m.d.comb += sound.sum.hold.eq(0)


def _bins_stay(m: Module, sound: BinnedAccumulator, outer: BinnedAccumulator) -> None:
    """Report the top bin of the previous sum if it was higher."""
    layout = outer.shape.layout
    before = Signal(outer.shape.top_bits)
    found, outside = (View(layout, each.sum.value.number) for each in (sound, outer))
    with m.If(sound.sum.take):
        m.d.sync += before.eq(found.top)
    m.d.comb += outside.top.eq(_largest([found.top, before]))


def _no_drop(m: Module, sound: BinnedAccumulator, outer: BinnedAccumulator) -> None:
    """Add the lowest bin of the previous sum to the lowest bin of this sum."""
    found, outside = (View(outer.shape.layout, each.sum.value.number) for each in (sound, outer))
    before = Signal.like(found.bins[0])
    with m.If(sound.sum.take):
        m.d.sync += before.eq(found.bins[0])
    m.d.comb += outside.bins[0].eq(found.bins[0] + before)


def _no_negative_mark(m: Module, sound: BinnedAccumulator, outer: BinnedAccumulator) -> None:
    m.d.comb += outer.sum.value.negative.eq(sound.sum.value.negative & ~sound.sum.value.positive)


def _mark_of_a_number(m: Module, sound: BinnedAccumulator, outer: BinnedAccumulator) -> None:
    number = View(outer.shape.layout, sound.sum.value.number)
    m.d.comb += outer.sum.value.positive.eq(sound.sum.value.positive | number.bins[0].all())


def _overflow_when_taken(m: Module, sound: BinnedAccumulator, outer: BinnedAccumulator) -> None:
    m.d.comb += outer.sum.overflow.eq(sound.sum.overflow & outer.sum.take)


def _overflow_while_frozen(m: Module, sound: BinnedAccumulator, outer: BinnedAccumulator) -> None:
    m.d.comb += outer.sum.overflow.eq(sound.sum.overflow | (outer.sum.hold & outer.active.any()))


A_BIN, THE_TOP = "a_bin_is_the_sum_of_its_digits", "the_top_bin_is_the_largest_of_the_terms"

BROKEN_VARIANTS = make_variants(
    BinnedAccumulator,
    {
        A_BIN: {
            "products of inactive lanes are added": lambda m, sound, outer: sound.active.eq(~0),
            "a sum starts with the bins of the previous one": lambda m, sound, outer: sound.sum.start.eq(0),
            "a sum of one cycle starts with the bins of the previous one": _no_start_when_taken,
            "products of a frozen tile are added": _no_hold,
            "a product is one place too high": lambda m, sound, outer: sound.places[1].eq(outer.places[1] + 1),
            "a product loses its sign": lambda m, sound, outer: sound.products[0].sign.eq(0),
            "the lowest bin of the previous sum is added": _no_drop,
        },
        THE_TOP: {
            "a product of zero raises the top bin": lambda m, sound, outer: sound.nonzero.eq(~0),
            "products of a frozen tile raise the top bin": _no_hold,
            "a sum keeps the top bin of the previous one": _bins_stay,
        },
        "the_sum_stays_until_the_next": {
            "every sum is taken": lambda m, sound, outer: sound.sum.take.eq(~outer.sum.hold)
        },
        "infinities_and_nan_mark_the_sum": {"NaN counts as an infinity": _no_negative_mark},
        "nothing_else_marks_it": {"a lowest bin of -1 counts as an infinity": _mark_of_a_number},
        "no_overflow_without_products": {"a frozen tile overflows": _overflow_while_frozen},
        "overflow_where_a_bin_leaves_its_range": {"overflow is reported only for taken sums": _overflow_when_taken},
    },
)


def _is_proven(config: TileConfig) -> bool:
    """Return whether the tile's accumulator is binned and has two stages, and sums start from zero."""
    return isinstance(config.numerics.accumulator, Binned) and config.stages == 2 and not config.initial


PROOF = Proof(
    name="binned_accumulator",
    build=build,
    applies=_is_proven,
    broken_variants=BROKEN_VARIANTS,
    broken_config=TileConfig(
        lanes=2,
        depth=2,
        connectivity=((0, 0), (1, 0), (1, 1)),
        format="fp8_e4m3",
        accumulator={"bins": 3, "bin_bits": 8},
        headroom_bits=1,
    ),
    cover_depth=6,
)
