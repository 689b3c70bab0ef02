"""Exact accumulator of 8-bit formats and of the paper's PE, compared with a true sum in every cycle.

The paper's PE has fp16 at its real width of 97 bits, 4 lanes and two stages. Every sum that leaves is the sum of the
products since the `start` of its stream, with infinities and NaN. `overflow` rises if and only if a sum leaves the
range. The shift of a product is proven first, with free inputs. The other claims use its value.

A sum is defined from its `start` on, also after it was taken. Other sums, and products from before a reset, are
unchecked.

Assumes: a frozen tile neither starts nor takes (`tile_control`). No finite product exceeds the product of the largest
operands (`multiplier`, for 8-bit formats).
"""

from dataclasses import dataclass
from functools import reduce
from operator import add

from amaranth.hdl import Cat, Const, Module, Mux, ResetSignal, Signal, Value, signed

from tensordash import TileConfig
from tensordash.arithmetic.accumulator import ExactAccumulator
from tensordash.arithmetic.integer_accumulator import IntegerAccumulator
from tensordash.block import Block
from tensordash.configuration.formats import FloatFormat, Format
from tensordash.tile.pe import PE

from ..harness import Fault, Harness
from ..proof import BrokenVariant, Proof
from .multiplier import is_eight_bit_exact, is_exact, magnitude

__all__ = ["PROOF"]

Accumulator = ExactAccumulator | IntegerAccumulator


def build(config: TileConfig, fault: tuple[type[Block], Fault] | None = None) -> Harness:
    """Build the claims about the accumulator of a tile's PE (docs/numerics.md, "exact" and "Products").

    Assumptions: a frozen tile neither starts nor takes; no finite product exceeds the largest operands' product.
    """
    dut = PE(numerics=config.numerics, lanes=config.lanes, stages=config.stages).accumulator
    assert isinstance(dut, Accumulator)
    harness = Harness(dut, fault=fault)
    harness.assume(~dut.sum.hold | ~(dut.sum.start | dut.sum.take))
    product_bits = (_largest_magnitude(config.a_format) * _largest_magnitude(config.b_format)).bit_length()
    terms = _floating(harness, dut, product_bits) if isinstance(dut, ExactAccumulator) else _integer(dut)
    total_bits = product_bits + 1 + (config.lanes - 1).bit_length()
    sums = SumModel(harness, dut, terms, total_bits=total_bits, width=product_bits + 1 + config.headroom_bits)
    sums.add_step_lemmas()
    sums.claim_sums()
    return harness


def _largest_magnitude(fmt: Format) -> int:
    """Return the largest magnitude of a finite operand, in units of the smallest nonzero magnitude."""
    if isinstance(fmt, FloatFormat):
        return max(magnitude(fmt, pattern) or 0 for pattern in range(1 << (fmt.width - 1)))
    return 1 << (fmt.width - 1)


@dataclass(frozen=True)
class Terms:
    """The terms that the products of a cycle add to a sum.

    Since -x is ~x + 1, the model adds all the ones last, in the hardware's order. So the solver finds equal sums.
    """

    parts: list[list[Value]]  # for each number, its bits and, for floating-point products, its sign
    positive: Value  # a product is +infinity or NaN
    negative: Value  # a product is -infinity or NaN


def _floating(harness: Harness, dut: ExactAccumulator, product_bits: int) -> Terms:
    """Return the finite products of active lanes as numbers, and their infinities and NaNs as marks."""
    parts: list[list[Value]] = []
    positive, negative = [], []
    for lane, product in enumerate(dut.products):
        active = dut.active[lane] & ~dut.sum.hold
        finite = ~product.infinite & ~product.nan
        size = product.significand << product.shift
        harness.assume(((size >> product_bits) == 0) | ~finite)
        bits = Mux(active & finite, Mux(product.sign, ~size, size), 0)[:product_bits]
        sign = active & finite & product.sign
        parts.append([bits, sign])
        harness.cut(f"term_{lane}", Cat(bits, sign))
        harness.cut(f"negative_{lane}", sign)
        positive.append(active & (product.nan | (product.infinite & ~product.sign)))
        negative.append(active & (product.nan | (product.infinite & product.sign)))
    return Terms(parts, Cat(positive).any(), Cat(negative).any())


def _integer(dut: IntegerAccumulator) -> Terms:
    """Return the products of active lanes as numbers."""
    active = [each & ~dut.sum.hold for each in dut.active]
    parts: list[list[Value]] = [[Mux(each, value, 0)] for value, each in zip(dut.products, active, strict=True)]
    return Terms(parts, Const(0), Const(0))


def _sum_of(parts: list[list[Signal]]) -> Value:
    """Add the numbers first, then the ones of the negative numbers."""
    return reduce(add, [Cat(*each).as_signed() for each in parts] + [each[1] for each in parts if len(each) > 1])


class SumModel:
    """Reference model of the sum.

    The model is `age` cycles late, and reads the hardware through registers. The solver finds equal sums more easily if
    their terms are registers that were equal in the previous cycle.

    `add_step_lemmas` states the lemmas about the component's own steps. `claim_sums` states the claims about the true
    sum.
    """

    def __init__(self, harness: Harness, dut: Accumulator, terms: Terms, *, total_bits: int, width: int) -> None:
        self.harness, self.dut, self.terms = harness, dut, terms
        self.total_bits, self.width = total_bits, width
        # Products are added in their own cycle (one stage) or in the next cycle (two stages).
        self.age = 3 - dut.stages
        self.has_marks = isinstance(dut, ExactAccumulator)
        self.hold, self.start, self.take = (self._history(each) for each in (dut.sum.hold, dut.sum.start, dut.sum.take))
        self.block, self.overflow = self._history(Value.cast(dut.sum.value)), self._history(dut.sum.overflow)
        state = harness.probe("accumulated", width + 2 if self.has_marks else width)
        self.number = self._history(state[:width].as_signed())
        self.total = self._history(harness.probe("total", signed(total_bits)))
        self.marks, self.marking = [], []
        if self.has_marks:
            self.marks = [self._history(state[width]), self._history(state[width + 1])]
            self.marking = [self._history(harness.probe(name, 1)) for name in ("positive", "negative")]

    def _delay(self, value: Value) -> Signal:
        delayed = Signal(value.shape(), reset_less=True)
        self.harness.m.d.sync += delayed.eq(value)
        return delayed

    def _history(self, value: Value) -> list[Value]:
        """Return a value in this cycle and in each of the `age` cycles before it, the newest first."""
        values = [value]
        for _ in range(self.age):
            values.append(self._delay(values[-1]))
        return values

    def _updates(self, age: int) -> Value:
        """Return whether the sum register loads. With one stage it always does, and a frozen tile adds zero."""
        return Const(1) if self.dut.stages == 1 else ~self.hold[age]

    def _is_out_of_range(self, number: Value) -> Value:
        """Return whether a sum is out of range."""
        return (number < -(1 << (self.width - 1))) | (number >= 1 << (self.width - 1))

    def _counting(self) -> Value:
        """Return whether the total includes a product."""
        if isinstance(self.dut, ExactAccumulator):
            return self.harness.probe("counted", len(self.dut.active)).any()
        return self.harness.probe("counting", 1) if self.dut.stages > 1 else self.dut.active.any() & ~self.dut.sum.hold

    def _start(self, age: int, number: Value) -> Value:
        return Mux(self.start[age], 0, number)

    def add_step_lemmas(self) -> None:
        """State the lemmas about a step of the component's sum, and about its outputs."""
        lemma = self.harness.lemma
        counting = self._history(self._counting())
        when = self.harness.started
        for age in range(1, self.age + 1):
            when = when if age == 1 else self._delay(when)
            lemma(~self.hold[age] | ~(self.start[age] | self.take[age]), when=when)
            moves = self._updates(age)
            grown = Signal(signed(max(self.width, self.total_bits) + 1))
            self.harness.m.d.comb += grown.eq(self._start(age, self.number[age]) + self.total[age])
            next_number = Mux(moves, grown[: self.width].as_signed(), self.number[age])
            lemma(self.number[age - 1] == next_number, when=when)
            for mark, marking in zip(self.marks, self.marking, strict=True):
                lemma(mark[age - 1] == Mux(moves, (mark[age] & ~self.start[age]) | marking[age], mark[age]), when=when)
            state = Cat(self.number[age - 1], *(mark[age - 1] for mark in self.marks))
            lemma(self.block[age - 1] == state, when=when & self.take[age])
            lemma(self.block[age - 1] == self.block[age], when=when & ~self.take[age])
            lemma(self.overflow[age] == (counting[age] & ~self.hold[age] & self._is_out_of_range(grown)), when=when)
        self.counting, self.settled = counting, when

    def _next_terms(self) -> tuple[Signal, list[Signal], Signal]:
        """Return the terms of the true sum, their marks, and whether both come from products since the reset."""
        m, lemma, terms = self.harness.m, self.harness.lemma, self.terms
        parts = [[self._delay(part) for part in each] for each in terms.parts]
        any_active = self._delay(self.dut.active.any() & ~self.dut.sum.hold)
        lemma(~Cat(*parts).any(), when=~any_active)
        added = Signal(signed(self.total_bits))
        m.d.comb += added.eq(_sum_of(parts))
        marks = [self._delay(mark) for mark in (terms.positive, terms.negative)]

        resets = self._delay(ResetSignal())
        counts = any_active & ~resets if self.dut.stages > 1 else any_active
        pairs = [(self.total, added), *zip(self.marking, marks, strict=False), (self.counting, counts)]
        for probed, value in pairs:
            if self.dut.stages == 1:
                lemma(probed[1] == value)
            else:
                unreset = probed[1] & ~resets if probed is self.counting else probed[1]
                lemma(probed[0] == Mux(self.hold[1], unreset, value))

        addend, loaded = Signal(signed(self.total_bits), reset_less=True), Signal()
        next_active, *next_marks = (Signal(name=f"next_{i}", reset_less=True) for i in range(3))
        with m.If(self._updates(1)):
            m.d.sync += [
                addend.eq(added),
                next_active.eq(any_active),
                *(a.eq(b) for a, b in zip(next_marks, marks, strict=True)),
            ]
        m.d.sync += loaded.eq(self.harness.started & (loaded | (self._updates(1) & ~resets)))
        lemma(~loaded, when=resets)
        lemma(self.total[-1] == addend, when=loaded)
        lemma(self.counting[-1] == next_active, when=loaded)
        lemma(addend == 0, when=loaded & ~next_active)
        for marking, mark in zip(self.marking, next_marks, strict=False):
            lemma(marking[-1] == mark, when=loaded)
        return addend, next_marks, loaded

    def claim_sums(self) -> None:
        """Claim that taken sums are the true ones, and when the sum overflows."""
        m, lemma, claim = self.harness.m, self.harness.lemma, self.harness.claim
        addend, next_marks, loaded = self._next_terms()
        clear, take, hold, block = self.start[-1], self.take[-1], self.hold[-1], self.block[-1]
        true_sum, true_block = Signal(signed(self.width)), Signal(signed(self.width))
        grown = Signal(signed(max(self.width, self.total_bits) + 1))
        known, taken = Signal(), Signal()
        sound = known | (clear & loaded)
        m.d.comb += grown.eq(self._start(-1, true_sum) + addend)
        m.d.sync += [known.eq(sound | (take & loaded))]
        with m.If(self._updates(-1)):
            # A taken sum is known because the block shows it.
            m.d.sync += true_sum.eq(Mux(sound, grown[: self.width], self.block[-2][: self.width]))
        with m.If(take):
            m.d.sync += [true_block.eq(grown), taken.eq(sound)]
        lemma(loaded, when=known)
        lemma(loaded, when=taken)
        lemma(self.settled, when=loaded)
        lemma(self.number[-1] == true_sum, when=known)
        claim("a_taken_sum_is_the_sum_of_the_products", block[: self.width].as_signed() == true_block, when=taken)
        for i, (mark, next_mark) in enumerate(zip(self.marks, next_marks, strict=False)):
            marked, block_marked = Signal(name=f"true_mark_{i}"), Signal(name=f"true_block_mark_{i}")
            next_marked = (marked & ~clear) | next_mark
            with m.If(self._updates(-1)):
                m.d.sync += marked.eq(Mux(sound, next_marked, self.block[-2][self.width + i]))
            with m.If(take):
                m.d.sync += block_marked.eq(next_marked)
            lemma(mark[-1] == marked, when=known)
            claim("infinities_and_nan_mark_the_sum", block[self.width + i], when=taken & block_marked)
            claim("nothing_else_marks_it", ~block[self.width + i], when=taken & ~block_marked)

        stays, before = Signal(), self._delay(self.block[0])
        m.d.sync += stays.eq(~self.dut.sum.take)
        claim("the_block_stays_until_the_next", self.block[0] == before, when=stays)

        counts = self.dut.active.any()
        if self.dut.stages > 1:
            next_active = Signal()
            with m.If(~self.dut.sum.hold):
                m.d.sync += next_active.eq(counts)
            lemma(self.counting[0] == next_active)
            counts = next_active
        claim("no_overflow_without_products", ~self.dut.sum.overflow, when=self.dut.sum.hold | ~counts)

        leaves = self._is_out_of_range(grown)
        left_range, in_range, overflowed = Signal(), Signal(), self._delay(self.overflow[-1])
        m.d.sync += [left_range.eq(sound & ~hold & leaves), in_range.eq(sound & (hold | ~leaves))]
        claim("overflow_where_the_sum_leaves_the_range", overflowed, when=left_range)
        claim("no_overflow_elsewhere", ~overflowed, when=in_range)


def _short_shift(m: Module, sound: ExactAccumulator, outer: ExactAccumulator) -> None:
    m.d.comb += sound.products[1].shift.eq(outer.products[1].shift[:-1])


def _unsigned_product(m: Module, sound: IntegerAccumulator, outer: IntegerAccumulator) -> None:
    m.d.comb += sound.products[0].eq(outer.products[0][:-1])


def _take_always(m: Module, sound: Accumulator, outer: Accumulator) -> None:
    m.d.comb += sound.sum.take.eq(~outer.sum.hold)


def _no_negative_mark(m: Module, sound: ExactAccumulator, outer: ExactAccumulator) -> None:
    m.d.comb += outer.sum.value.negative.eq(sound.sum.value.negative & ~sound.sum.value.positive)


def _mark_of_a_number(m: Module, sound: ExactAccumulator, outer: ExactAccumulator) -> None:
    m.d.comb += outer.sum.value.positive.eq(sound.sum.value.positive | sound.sum.value.number.all())


def _overflow_when_taken(m: Module, sound: Accumulator, outer: Accumulator) -> None:
    m.d.comb += outer.sum.overflow.eq(sound.sum.overflow & outer.sum.take)


def _overflow_at_first(m: Module, sound: Accumulator, outer: Accumulator) -> None:
    m.d.comb += outer.sum.overflow.eq(sound.sum.overflow | (outer.active.any() & ~outer.sum.hold & outer.sum.start))


def _overflow_while_frozen(m: Module, sound: Accumulator, outer: Accumulator) -> None:
    m.d.comb += outer.sum.overflow.eq(sound.sum.overflow | (outer.sum.hold & outer.active.any()))


def _variant(claim: str, title: str, fault: Fault, *, fmt: str = "fp8_e4m3") -> BrokenVariant:
    kind = IntegerAccumulator if fmt == "int8" else ExactAccumulator
    return BrokenVariant(
        claim=claim, title=title, kind=kind, fault=fault, config=TileConfig(format=fmt, headroom_bits=3)
    )


SUM_CLAIM = "a_taken_sum_is_the_sum_of_the_products"
OVERFLOW_CLAIM = "overflow_where_the_sum_leaves_the_range"

BROKEN_VARIANTS = (
    _variant(SUM_CLAIM, "products of inactive lanes are added", lambda m, sound, outer: sound.active.eq(~0)),
    _variant(SUM_CLAIM, "a new sum does not start at zero", lambda m, sound, outer: sound.sum.start.eq(0)),
    _variant(SUM_CLAIM, "the top bit of a shift is dropped", _short_shift),
    _variant(SUM_CLAIM, "int8: a frozen tile adds", lambda m, sound, outer: sound.sum.hold.eq(0), fmt="int8"),
    _variant(SUM_CLAIM, "int8: a product loses its sign", _unsigned_product, fmt="int8"),
    _variant("the_block_stays_until_the_next", "every sum is taken", _take_always),
    _variant("infinities_and_nan_mark_the_sum", "NaN counts as an infinity", _no_negative_mark),
    _variant("nothing_else_marks_it", "a sum of -1 counts as an infinity", _mark_of_a_number),
    _variant("no_overflow_without_products", "a frozen tile overflows", _overflow_while_frozen),
    _variant("no_overflow_elsewhere", "the first products overflow", _overflow_at_first),
    _variant(OVERFLOW_CLAIM, "overflow is reported only when a sum is taken", _overflow_when_taken),
    _variant(OVERFLOW_CLAIM, "int8: overflow is reported only when a sum is taken", _overflow_when_taken, fmt="int8"),
)


def _is_proven(config: TileConfig) -> bool:
    """Return whether the solver can prove a tile: 8-bit formats, or fp16 with 4 lanes and two stages (paper's PE)."""
    is_fp16 = config.a_format.name == config.b_format.name == "fp16"
    return is_eight_bit_exact(config) or (is_exact(config) and is_fp16 and config.lanes == 4 and config.stages > 1)


PROOF = Proof(
    name="accumulator",
    build=build,
    applies=_is_proven,
    broken_variants=BROKEN_VARIANTS,
    cover_depth=6,
)
