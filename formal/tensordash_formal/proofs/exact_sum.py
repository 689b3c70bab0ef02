"""An exact accumulator's sum: the terms of every cycle since the stream's first, in a number wide enough."""

from functools import reduce
from operator import add, or_

from amaranth.hdl import Cat, Const, Mux, ResetSignal, Signal, Value, signed

from tensordash import TileConfig
from tensordash.accumulator import ExactAccumulator
from tensordash.block import Block
from tensordash.integer_accumulator import IntegerAccumulator
from tensordash.pe import PE

from ..harness import Fault, Harness
from ..proof import Broken, Proof
from .exact_term import product_bits, term_of
from .multiplier import is_eight_bit_exact

__all__ = ["PROOF"]


class SumHarness(Harness):
    """The true sum beside the hardware's (docs/numerics.md, "exact").

    Terms may be any numbers here, and are zero while the tile is frozen: `exact_term` says what they are. int8 has its
    products for terms. A frozen tile neither clears nor takes (`tile_control`).

    No claim speaks of a sum before the first `clear`: hardware does not know it either.
    """

    def __init__(self, config: TileConfig, fault: tuple[type[Block], Fault] | None = None) -> None:
        dut = PE(numerics=config.numerics, lanes=config.lanes, stages=config.stages).accumulator
        assert isinstance(dut, (ExactAccumulator, IntegerAccumulator))
        super().__init__(dut, fault=fault)
        self.dut, self.config = dut, config
        self.assume(~dut.hold | ~(dut.clear | dut.take))
        bits = product_bits(config)
        self.width = bits + 1 + config.headroom_bits
        marks: list[Value] = []
        active = [each & ~dut.hold for each in dut.active]
        if isinstance(dut, ExactAccumulator):
            terms = self._terms(dut, bits)
            for sign in (0, 1):
                infinite = [each.infinite & (each.sign == sign) for each in dut.products]
                marks.append(
                    reduce(
                        or_,
                        [
                            counts & (each.nan | own)
                            for counts, each, own in zip(active, dut.products, infinite, strict=True)
                        ],
                    )
                )
        else:
            self.width = config.a_format.width + config.b_format.width + config.headroom_bits
            terms = [Mux(counts, each, 0) for counts, each in zip(active, dut.products, strict=True)]
        # As wide as it must be, and in the order of the lanes, as the hardware's: a solver sees that they are equal.
        total = Signal(signed(len(Value.cast(terms[0])) + (config.lanes - 1).bit_length()))
        self.m.d.comb += total.eq(reduce(add, terms))
        self._sum(total, Cat(active).any(), marks)

    def _terms(self, dut: ExactAccumulator, bits: int) -> list[Value]:
        numbers, signs = [], []
        for lane in range(dut.lanes):
            number, width, sign = term_of(dut, lane, bits)
            magnitude, negative = self.cut(number, width), self.cut(sign, 1)
            self.assume(~dut.hold | ((magnitude == 0) & ~negative))
            numbers.append(Cat(magnitude, negative).as_signed())
            signs.append(negative)
        return [*numbers, *signs]

    def _sum(self, total: Value, counts: Value, marks: list[Value]) -> None:
        """Add up, a cycle later where the accumulator has a register for the total."""
        dut, m, width = self.dut, self.m, self.width
        moves = ~dut.hold
        if dut.stages > 1:
            total, counts = self._registered(total, moves), self._registered(counts, moves)
            marks = [self._registered(mark, moves) for mark in marks]
            for name, value in zip(("positive", "negative"), marks, strict=False):
                self.lemma(self.probe(name, 1) == value, when=self._loaded(moves))
            self.lemma(self.probe("total", total.shape()) == total, when=self._loaded(moves))
            self.lemma(self.probe("counting", 1) == counts)
        loaded = self._loaded(moves) if dut.stages > 1 else Const(1)
        true_sum, block = Signal(signed(width)), Signal(signed(width))
        known, taken = Signal(), Signal()
        grown = Signal(signed(max(width, len(total)) + 1))
        m.d.comb += grown.eq(Mux(dut.clear, 0, true_sum) + total)
        sound = (known | dut.clear) & loaded
        state = self.probe("accumulated", width + len(marks))
        self.lemma(state[:width].as_signed() == true_sum, when=known)
        self.lemma(loaded, when=known)
        with m.If(moves):
            m.d.sync += [true_sum.eq(grown), known.eq(sound)]
        with m.If(dut.take):
            m.d.sync += [block.eq(grown), taken.eq(sound)]
        result = Value.cast(dut.block)
        self.claim("the_sum_taken_is_that_of_the_terms", result[:width].as_signed() == block, when=taken)
        fits = (grown >= -(1 << (width - 1))) & (grown < (1 << (width - 1)))
        leaves = moves & counts & ~fits
        overflow = "overflow_exactly_where_the_sum_leaves_the_range"
        self.claim(overflow, dut.overflow == leaves, when=sound | ~(moves & counts))
        if self.config.headroom_bits == 0:  # with more, it takes too many cycles to get there
            self.claim(overflow, dut.overflow, when=sound & leaves)
        for index, mark in enumerate(marks):
            marked, block_marked, following = (Signal(name=f"{name}_{index}") for name in ("marked", "out", "next"))
            m.d.comb += following.eq((marked & ~dut.clear) | mark)
            self.lemma(state[width + index] == marked, when=known)
            with m.If(moves):
                m.d.sync += marked.eq(following)
            with m.If(dut.take):
                m.d.sync += block_marked.eq(following)
            self.claim("infinities_and_nan_mark_the_sum", result[width + index], when=taken & block_marked)
            self.claim("nothing_else_marks_it", ~result[width + index], when=taken & ~block_marked)
        waits = self.past(~dut.take & ~ResetSignal())
        self.claim("the_block_stays_until_the_next", result == self.past(result), when=waits)

    def _registered(self, value: Value, moves: Value) -> Signal:
        signal = Signal(Value.cast(value).shape(), name=f"late_{self._statements}")
        self._statements += 1
        with self.m.If(moves):
            self.m.d.sync += signal.eq(value)
        return signal

    def _loaded(self, moves: Value) -> Signal:
        """Something has come in since the reset."""
        if not hasattr(self, "_loaded_once"):
            self._loaded_once = Signal()
            with self.m.If(moves):
                self.m.d.sync += self._loaded_once.eq(1)
        return self._loaded_once


def _broken(claim: str, title: str, fault: Fault) -> Broken:
    return Broken(claim=claim, title=title, kind=ExactAccumulator, fault=fault)


BROKEN = (
    _broken(
        "the_sum_taken_is_that_of_the_terms",
        "a stream does not start from zero",
        lambda m, sound, outer: sound.clear.eq(outer.clear & ~outer.take),
    ),
    _broken(
        "overflow_exactly_where_the_sum_leaves_the_range",
        "an overflow is not seen",
        lambda m, sound, outer: outer.overflow.eq(0),
    ),
    _broken(
        "overflow_exactly_where_the_sum_leaves_the_range",
        "a negative sum counts as an overflow",
        lambda m, sound, outer: outer.overflow.eq(sound.overflow | sound.block.number[-1]),
    ),
    _broken(
        "infinities_and_nan_mark_the_sum",
        "an infinity is not marked",
        lambda m, sound, outer: [product.infinite.eq(0) for product in sound.products],
    ),
    _broken(
        "nothing_else_marks_it",
        "marks stay from stream to stream",
        lambda m, sound, outer: sound.clear.eq(0),
    ),
    _broken(
        "the_block_stays_until_the_next",
        "the block follows the sum",
        lambda m, sound, outer: sound.take.eq(1),
    ),
)

PROOF = Proof(
    name="exact_sum",
    build=SumHarness,
    applies=is_eight_bit_exact,
    broken=BROKEN,
    cover_depth=5,
    breaks=TileConfig(format="fp8_e4m3", headroom_bits=0),
)
