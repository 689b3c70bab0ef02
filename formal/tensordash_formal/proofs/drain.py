"""Drain: every block's beats leave once, in order, as fast as the sink allows. Arithmetic is abstracted.

`last` marks the final beat. Valid and payload hold until a beat is taken. Infinities and NaN are reported as they
leave.

Assumes: a block arrives only while there is room (`tile_control`).
"""

from typing import Any

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal, Value

from tensordash import TileConfig
from tensordash.block import Block
from tensordash.tile.drain import Drain

from ..harness import Fault, Harness
from ..proof import BrokenVariant, Proof
from ..stubs import ARITHMETIC_STUBS, TAG_BITS

__all__ = ["PROOF"]


def build(config: TileConfig, fault: tuple[type[Block], Fault] | None = None) -> Harness:
    """Build the claims about a tile's drain, which carries tags instead of numbers.

    Source: docs/tile.md, "State" and "One cycle", step 1; the docstring of `Drain`.
    """
    dut = Drain(rows=config.rows, columns=config.columns, out_rows=config.out_rows, numerics=config.numerics)
    harness = Harness(dut, stubs=ARITHMETIC_STUBS, fault=fault)
    # PEs take a block only while the drain is free, and hold it until they take the next one.
    harness.assume(dut.free | ~dut.take)
    taken_blocks = harness.free(dut.sums.shape(), "taken_blocks")
    blocks = Signal(dut.sums.shape())
    harness.drive(dut.sums, blocks)
    with harness.m.If(dut.take):
        harness.m.d.sync += blocks.eq(taken_blocks)
    beats = BeatState(harness, dut)
    watch = WatchedValue(harness, dut, beats, taken_blocks)

    out = dut.out
    stalled, payload = harness.past(out.valid & ~out.ready), harness.past(out.payload)
    harness.claim("valid_holds_until_taken", out.valid, when=stalled)
    harness.claim("payload_holds_until_taken", out.payload.as_value() == payload, when=stalled)
    harness.claim("valid_while_a_beat_is_there", out.valid, when=beats.out_full)
    harness.claim("valid_while_a_beat_is_there", ~out.valid, when=~beats.out_full)
    harness.claim("moves_when_there_is_room", dut.moves, when=beats.moves)
    harness.claim("moves_when_there_is_room", ~dut.moves, when=~beats.moves)
    harness.claim("free_when_the_block_has_left", dut.free, when=beats.free)
    harness.claim("free_when_the_block_has_left", ~dut.free, when=~beats.free)
    harness.claim("empty_when_every_beat_has_left", dut.empty, when=beats.inside == 0)
    harness.claim("empty_when_every_beat_has_left", ~dut.empty, when=beats.inside != 0)
    floating = config.numerics.result == "fp32"
    paths = [f"result_{row}_{column}" for row in range(config.out_rows) for column in range(config.columns)]
    specials = Cat(harness.port(f"{path}.non_finite", 1) for path in paths if floating)
    special = beats.leaves & specials.any() if floating else Const(0)
    if floating:
        harness.claim("infinities_and_nans_are_reported", dut.non_finite, when=special)
    harness.claim("infinities_and_nans_are_reported", ~dut.non_finite, when=~special)
    final = beats.leaving == beats.each - 1
    harness.claim("last_marks_the_final_beat", out.payload.last, when=out.valid & final)
    if beats.each > 1:
        harness.claim("last_marks_the_final_beat", ~out.payload.last, when=out.valid & ~final)
    value = Array(Value.cast(each)[:TAG_BITS] for row in out.payload.values for each in row)[watch.place]
    harness.claim(
        "value_comes_out_in_its_turn", value == watch.value, when=out.valid & watch.watched & (watch.ahead == 0)
    )
    _add_lemmas(harness, dut, beats, watch, blocks)
    return harness


class BeatState:
    """Reference model of the beats (docs/tile.md): in the block, the sum register and the output register.

    Parameters
    ----------
    harness : Harness
        Harness that gets the ghost registers.
    dut : Drain
        The component that the registers follow.
    """

    def __init__(self, harness: Harness, dut: Drain) -> None:
        m = harness.m
        self.each = each = dut.rows // dut.out_rows
        self.left = Signal(range(each + 1))
        self.sum_full = Signal()
        self.out_full = Signal()
        self.leaving = Signal(range(each + 1))  # index in its block of the next beat to leave
        self.moves = Signal()
        self.free = Signal()
        self.leaves = Signal()
        out_free, out_loads = Signal(), Signal()
        m.d.comb += [
            self.leaves.eq(self.out_full & dut.out.ready),
            out_free.eq(~self.out_full | dut.out.ready),
            self.free.eq((self.left == 0) | ((self.left == 1) & self.moves)),
        ]
        if dut.rounds_sum:
            m.d.comb += [
                self.moves.eq((self.left != 0) & (~self.sum_full | out_free)),
                out_loads.eq(self.sum_full & out_free),
            ]
            m.d.sync += self.sum_full.eq(self.moves | (self.sum_full & ~out_free))
        else:
            m.d.comb += [self.moves.eq((self.left != 0) & out_free), out_loads.eq(self.moves)]
        m.d.sync += self.out_full.eq(out_loads | (self.out_full & ~dut.out.ready))
        with m.If(dut.take):
            m.d.sync += self.left.eq(each)
        with m.Elif(self.moves):
            m.d.sync += self.left.eq(self.left - 1)
        with m.If(self.leaves):
            m.d.sync += self.leaving.eq(Mux(self.leaving == each - 1, 0, self.leaving + 1))
        self.inside = self.left + self.sum_full + self.out_full

        harness.lemma((self.left <= each) & (self.leaving < each))
        total = self.leaving + self.inside
        harness.lemma(Cat(total == blocks * each for blocks in range(4)).any())


class WatchedValue:
    """Tracks an arbitrary value of an arbitrary block, from the cycle in which the block is taken until it leaves.

    Parameters
    ----------
    harness : Harness
        Harness that gets the ghost registers.
    dut : Drain
        The component that the registers follow.
    beats : BeatState
        The beats.
    blocks : View
        The taken blocks.
    """

    def __init__(self, harness: Harness, dut: Drain, beats: BeatState, blocks: Any) -> None:
        m = harness.m
        self.places = places = dut.out_rows * dut.columns
        self.watched = Signal()
        self.ahead = Signal(range(beats.each + 4))  # beats that leave before the watched one
        self.value = Signal(TAG_BITS)
        self.beat = harness.constant(range(beats.each + 1), "beat")
        self.place = harness.constant(range(places + 1), "place")
        harness.assume((self.beat < beats.each) & (self.place < places))
        with m.If(self.watched & beats.leaves):
            m.d.sync += [self.watched.eq(self.ahead != 0), self.ahead.eq(self.ahead - 1)]
        with m.If(dut.take & ~self.watched & harness.free(1, "begin")):
            m.d.sync += [
                self.watched.eq(1),
                self.ahead.eq(self.beat + beats.inside - beats.leaves),
                self.value.eq(self.of(blocks)),
            ]
        self.moved = beats.sum_full + beats.out_full  # beats between the block and the sink
        if dut.adds_c:
            c = Array(each[-1] for row in dut.c for each in row)[self.place]
            with m.If(self.watched & dut.moves & (self.ahead == self.moved)):
                m.d.sync += self.value[-1].eq(self.value[-1] | c)

    def of(self, blocks: Any) -> Any:
        """Return the watched value's tags in a block."""
        tags = Array(Value.cast(each)[:TAG_BITS] for row in blocks for each in row)
        return tags[self.beat * self.places + self.place]


def _add_lemmas(harness: Harness, dut: Drain, beats: BeatState, watch: WatchedValue, blocks: Any) -> None:
    """State the lemmas about the registers of beats, and about the watched value in each of them."""
    each, ahead = beats.each, watch.ahead
    harness.lemma(harness.probe("beat", each) == Mux(beats.left == 0, 0, (1 << each) >> beats.left))
    in_block = watch.watched & (ahead >= watch.moved)
    harness.lemma((beats.left != 0) & (ahead + each == watch.moved + watch.beat + beats.left), when=in_block)
    harness.lemma(watch.of(blocks) == watch.value, when=in_block)
    harness.lemma(ahead < beats.inside, when=watch.watched)
    if dut.rounds_sum:
        harness.lemma(harness.probe("sum_valid", 1) == beats.sum_full)
        final = (beats.leaving + beats.out_full == each - 1) | (beats.leaving + beats.out_full == 2 * each - 1)
        harness.lemma(harness.probe("sum_final", 1) == final, when=beats.sum_full)
        sums = Array(
            harness.probe(f"initial_adder_{row}_{column}.held", TAG_BITS)
            for row in range(dut.out_rows)
            for column in range(dut.columns)
        )
        in_sum = watch.watched & beats.sum_full & (ahead == beats.out_full)
        harness.lemma(sums[watch.place] == watch.value, when=in_sum)


def _waits_for_ready(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += outer.out.valid.eq(sound.out.valid & outer.out.ready)


def _withdraws_valid(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += outer.out.valid.eq(sound.out.valid & ~_stalled(m, outer))


def _changes_payload(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += outer.out.payload.values[0][0].eq(sound.out.payload.values[0][0] ^ _stalled(m, outer))


def _stalled(m: Module, outer: Any) -> Signal:
    stalled = Signal()
    m.d.sync += stalled.eq(outer.out.valid & ~outer.out.ready)
    return stalled


def _last_row_first(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += [sound.sums[row].eq(outer.sums[outer.rows - 1 - row]) for row in range(outer.rows)]


def _columns_in_reverse(m: Module, sound: Any, outer: Any) -> None:
    for inner, row in zip(sound.out.payload.values, outer.out.payload.values, strict=True):
        m.d.comb += [row[column].eq(inner[outer.columns - 1 - column]) for column in range(outer.columns)]


def _every_beat_is_last(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += outer.out.payload.last.eq(1)


def _reports_none(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += outer.non_finite.eq(0)


def _reports_while_it_waits(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += outer.non_finite.eq(outer.out.valid)


def _empty_with_its_block(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += outer.empty.eq(sound.empty | (sound.free & ~sound.moves))


def _loses_c(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += sound.c.eq(0)


def _variant(claim: str, title: str, fault: Fault, config: TileConfig | None = None) -> BrokenVariant:
    return BrokenVariant(claim=claim, title=title, kind=Drain, fault=fault, depth=8, config=config)


BROKEN_VARIANTS = (
    _variant("valid_holds_until_taken", "`valid` falls before `ready` rises", _withdraws_valid),
    _variant("payload_holds_until_taken", "a value changes before `ready` rises", _changes_payload),
    _variant("valid_while_a_beat_is_there", "`valid` waits for `ready`", _waits_for_ready),
    _variant("moves_when_there_is_room", "a beat moves in every cycle", lambda m, sound, outer: outer.moves.eq(1)),
    _variant("free_when_the_block_has_left", "the drain is always free", lambda m, sound, outer: outer.free.eq(1)),
    _variant("last_marks_the_final_beat", "every beat is marked as the last", _every_beat_is_last),
    _variant("empty_when_every_beat_has_left", "the drain is always empty", lambda m, sound, outer: outer.empty.eq(1)),
    _variant("empty_when_every_beat_has_left", "the output register is ignored", _empty_with_its_block),
    _variant("infinities_and_nans_are_reported", "no infinity or NaN is reported", _reports_none),
    _variant("infinities_and_nans_are_reported", "beats are reported while they wait", _reports_while_it_waits),
    _variant("value_comes_out_in_its_turn", "the last row leaves first", _last_row_first),
    _variant("value_comes_out_in_its_turn", "columns leave in reverse", _columns_in_reverse),
    _variant("value_comes_out_in_its_turn", "C is not added", _loses_c, TileConfig(initial=True)),
    _variant("value_comes_out_in_its_turn", "int8: C is not added", _loses_c, TileConfig(initial=True, format="int8")),
)

PROOF = Proof(name="drain", build=build, applies=lambda config: True, broken_variants=BROKEN_VARIANTS, cover_depth=24)
