"""Store of C: its beats leave once, in order, and a stream may start when a complete block is stored.

Assumes: a block of C leaves only after a stream has started with it.
"""

from typing import Any

from amaranth.hdl import Array, Cat, Module, Mux, ResetSignal, Signal

from tensordash import TileConfig
from tensordash.arithmetic.sum_ports import starts_from_c
from tensordash.block import Block
from tensordash.configuration.formats import FloatFormat
from tensordash.layouts import RESULT_BITS
from tensordash.tile.initial_store import InitialStore

from ..harness import Fault, Harness
from ..proof import Proof, make_variants

__all__ = ["PROOF"]


def build(config: TileConfig, fault: tuple[type[Block], Fault] | None = None) -> Harness:
    """Build the claims about a tile's store of C.

    Source: docs/tile.md, "State" and "One cycle", steps 1, 3, 4 and 6; the docstring of `InitialStore`.
    """
    loads_accumulators = starts_from_c(config.numerics)
    dut = InitialStore(
        rows=config.rows,
        columns=config.columns,
        out_rows=config.out_rows,
        pops_blocks=loads_accumulators,
        floating=isinstance(config.a_format, FloatFormat),
    )
    harness = Harness(dut, fault=fault)
    stored = StoreState(harness, dut)
    watch = WatchedValue(harness, dut, stored)
    # Streams start only with a complete block. Beats leave only after a stream has started, or in the same cycle.
    harness.assume((stored.complete != 0) | ~dut.starts)
    harness.assume((stored.started != 0) | dut.starts | ~dut.pop)

    # `ready` depends only on the stored beats, not on other inputs of the cycle.
    harness.claim("ready_while_there_is_room", dut.c.ready, when=(stored.beats < dut.slots) & ~ResetSignal())
    harness.claim("never_ready_in_reset", ~dut.c.ready, when=ResetSignal())
    harness.claim("empty_while_there_is_no_c", dut.empty, when=stored.beats == 0)
    harness.claim("empty_while_there_is_no_c", ~dut.empty, when=stored.beats != 0)
    harness.claim("ready_while_there_is_room", ~dut.c.ready, when=stored.beats == dut.slots)
    harness.claim("available_while_a_block_is_complete", dut.available, when=stored.complete != 0)
    harness.claim("available_while_a_block_is_complete", ~dut.available, when=stored.complete == 0)
    if loads_accumulators:
        pending = watch.watched & (stored.beats == dut.slots)
        place = watch.beat * watch.places + watch.place
    else:
        pending, place = watch.watched & (watch.ahead == 0), watch.place
    value = Array(each for row in dut.values for each in row)[place]
    harness.claim("value_comes_out_in_its_turn", value == watch.value, when=pending)

    final = stored.filling == dut.beats - 1
    wrong = stored.enters & (dut.c.payload.last ^ final)
    harness.claim("wrong_last_is_reported", dut.wrong_last, when=wrong)
    harness.claim("wrong_last_is_reported", ~dut.wrong_last, when=~wrong)
    special = Cat(value[23:31].all() for row in dut.c.payload.values for value in row).any()
    reported = stored.enters & special & dut.floating
    if dut.floating:
        harness.claim("infinities_and_nans_are_reported", dut.non_finite, when=reported)
    harness.claim("infinities_and_nans_are_reported", ~dut.non_finite, when=~reported)
    _add_lemmas(harness, dut, stored, watch)
    return harness


class StoreState:
    """Reference model of the store (docs/tile.md).

    Parameters
    ----------
    harness : Harness
        Harness that gets the ghost registers.
    dut : InitialStore
        The component that the registers follow.
    """

    def __init__(self, harness: Harness, dut: InitialStore) -> None:
        m, each, slots = harness.m, dut.beats, dut.slots
        self.beats = Signal(range(slots + 1))
        self.started = Signal(range(slots + 1))  # beats of blocks whose stream has started
        self.complete = Signal(range(slots // each + 1))  # blocks whose stream has not started
        self.filling = Signal(range(each + 1))  # beats of the incomplete block
        self.enters = Signal()
        self.completes = Signal()
        leaving = Mux(dut.pop, slots if dut.pops_blocks else 1, 0)
        m.d.comb += [
            self.enters.eq(dut.c.valid & dut.c.ready),
            self.completes.eq(self.enters & (self.filling == each - 1)),
        ]
        m.d.sync += [
            self.beats.eq(self.beats + self.enters - leaving),
            self.started.eq(self.started + Mux(dut.starts, each, 0) - leaving),
            self.complete.eq(self.complete + self.completes - dut.starts),
            self.filling.eq(Mux(self.completes, 0, self.filling + self.enters)),
        ]
        harness.lemma(self.beats == self.started + self.complete * each + self.filling)
        harness.lemma((self.beats <= slots) & (self.filling < each))
        if dut.pops_blocks:
            harness.lemma((self.started == 0) | (self.started == slots))


class WatchedValue:
    """Tracks an arbitrary value of an arbitrary beat, from its entry until it leaves.

    Parameters
    ----------
    harness : Harness
        Harness that gets the ghost registers.
    dut : InitialStore
        The component that the registers follow.
    stored : StoreState
        The stored beats.
    """

    def __init__(self, harness: Harness, dut: InitialStore, stored: StoreState) -> None:
        m = harness.m
        self.places = dut.out_rows * dut.columns
        self.place = harness.constant(range(self.places + 1), "place")
        harness.assume(self.place < self.places)
        self.watched = Signal()
        self.begins = Signal()
        self.ahead = Signal(range(dut.slots + 1))  # beats that leave before the watched one
        self.beat = Signal(range(dut.beats + 1))  # index of the watched beat in its block
        self.value = Signal(RESULT_BITS)
        values = Array(each for row in dut.c.payload.values for each in row)
        m.d.comb += self.begins.eq(stored.enters & ~self.watched & harness.free(1, "begin"))
        with m.If(self.begins):
            m.d.sync += [
                self.watched.eq(1),
                self.ahead.eq(stored.beats - dut.pop),
                self.beat.eq(stored.filling),
                self.value.eq(values[self.place]),
            ]
        with m.Elif(dut.pop):
            leaves = 1 if dut.pops_blocks else self.ahead == 0
            m.d.sync += [self.watched.eq(self.watched & ~leaves), self.ahead.eq(self.ahead - 1)]
        harness.lemma(self.ahead < stored.beats, when=self.watched)
        if dut.pops_blocks:
            harness.lemma(self.ahead == self.beat, when=self.watched)


def _add_lemmas(harness: Harness, dut: InitialStore, stored: StoreState, watch: WatchedValue) -> None:
    """State the lemmas about the ring, its pointers, and the watched value's slot."""
    m, slots = harness.m, dut.slots
    write = Signal(range(slots + 1))
    slot = Signal(range(slots + 1))
    with m.If(stored.enters):
        m.d.sync += write.eq(Mux(write == slots - 1, 0, write + 1))
    with m.If(watch.begins):
        m.d.sync += slot.eq(write)
    read = Signal(range(slots + 1))
    m.d.comb += read.eq(Mux(stored.beats > write, write + slots - stored.beats, write - stored.beats))
    harness.lemma(write < slots)
    harness.lemma((write == stored.filling) | (write == stored.filling + dut.beats))
    harness.lemma(harness.probe("writing", slots) == 1 << write)
    harness.lemma(harness.probe("held", len(stored.beats)) == stored.beats)
    if not dut.pops_blocks:
        harness.lemma(harness.probe("blocks", len(stored.complete)) == stored.complete)
        harness.lemma(harness.probe("reading", slots) == 1 << read)
    harness.lemma((slot == read + watch.ahead) | (slot + slots == read + watch.ahead), when=watch.watched)
    harness.lemma(slot < slots, when=watch.watched)
    bits = RESULT_BITS * watch.places
    for index in range(slots):
        held = dut.values.as_value()[index * bits :][:bits] if dut.pops_blocks else harness.probe(f"beat_{index}", bits)
        value = held.word_select(watch.place, RESULT_BITS)
        harness.lemma(value == watch.value, when=watch.watched & (slot == index))


def _columns_in_reverse(m: Module, sound: Any, outer: Any) -> None:
    for inner, row in zip(sound.c.payload.values, outer.c.payload.values, strict=True):
        m.d.comb += [inner[column].eq(row[outer.columns - 1 - column]) for column in range(outer.columns)]


def _rows_in_reverse(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += [outer.values[row].eq(sound.values[outer.rows - 1 - row]) for row in range(outer.rows)]


def _empty_without_blocks(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += outer.empty.eq(sound.empty & ~sound.available & outer.c.valid)


def _reports_nothing(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += [outer.wrong_last.eq(0), outer.non_finite.eq(0)]


FUSED = TileConfig(initial=True, accumulator="volta")

BROKEN_VARIANTS = (
    *make_variants(
        InitialStore,
        {
            "ready_while_there_is_room": {
                "a full store is ready": lambda m, sound, outer: outer.c.ready.eq(1),
                "`ready` waits for `valid`": lambda m, sound, outer: outer.c.ready.eq(sound.c.ready & outer.c.valid),
            },
            "never_ready_in_reset": {
                "a store in reset is ready": lambda m, sound, outer: outer.c.ready.eq(sound.c.ready | ResetSignal())
            },
            "empty_while_there_is_no_c": {
                "the store is always empty": lambda m, sound, outer: outer.empty.eq(1),
                "the store is empty only while C is offered": _empty_without_blocks,
            },
            "available_while_a_block_is_complete": {
                "one block serves many streams": lambda m, sound, outer: sound.starts.eq(0)
            },
            "value_comes_out_in_its_turn": {
                "the oldest beat stays": lambda m, sound, outer: sound.pop.eq(0),
                "columns enter in reverse": _columns_in_reverse,
            },
            "wrong_last_is_reported": {"no error is reported": _reports_nothing},
            "infinities_and_nans_are_reported": {"no infinity or NaN is reported": _reports_nothing},
        },
        depth=12,
    ),
    *make_variants(
        InitialStore,
        {
            "value_comes_out_in_its_turn": {"the block's rows are reversed": _rows_in_reverse},
        },
        depth=12,
        config=FUSED,
    ),
)

PROOF = Proof(
    name="initial_store",
    build=build,
    applies=lambda config: config.initial,
    broken_variants=BROKEN_VARIANTS,
    cover_depth=40,
    broken_config=TileConfig(initial=True, rows=2, columns=2),
)
