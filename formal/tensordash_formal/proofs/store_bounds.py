"""Store: whatever groups come, nothing is written in memory outside of what the descriptor says."""

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value

from tensordash.block import Block
from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.descriptors import OPERATIONS
from tensordash.configuration.preset import load_any_preset
from tensordash.movers.axi import PAGE_BITS
from tensordash.movers.axi_writer import AxiWriter
from tensordash.movers.deflate import Deflate
from tensordash.movers.store import Store

from ..core_stubs import DeflateAbstraction
from ..harness import Fault, Harness, Stub
from ..move_nest import MoveNest
from ..proof import BrokenVariant, Proof
from ..reference_descriptor import WORD, corrupt_word, next_beat

__all__ = ["PROOF"]

WAIT, FIRST, RECORD, UNITS, RUNS, DRAIN, COUNTS = range(7)


class Bounded(Harness):
    """A store between descriptors that come as they like, a buffer that gives anything, and memory.

    Source: docs/core.md, "Loops" and `record`; the docstring of `Store`.
    """

    def __init__(self, config: CoreConfig, fault: tuple[type[Block], Fault] | None = None) -> None:
        self.config = config
        self.dut = dut = Store(config=config)
        super().__init__(dut, stubs=(Stub(Deflate, DeflateAbstraction),), fault=fault, black_box=True)
        self.given = given = MoveNest(self.m, dut.command, OPERATIONS["store"], config)
        payload = dut.command.descriptor.payload
        self.records = given.bits[:4] == OPERATIONS["record"].code
        operation = payload[:4]
        known = (operation == OPERATIONS["store"].code) | (operation == OPERATIONS["record"].code)
        self.assume((given.beat != 0) | known)
        self.assume(given.legal(payload) | ((given.beat != 0) & self.records))
        self.assume(dut.halt | ~self.past(dut.halt))
        self.bits = config.address_bits - dut.skipped + 1  # of the number of a beat in memory, or one above all
        valid, ready = (self.port(f"writer.request_{name}", 1) for name in ("valid", "ready"))
        request = self.port("writer.request_payload", self.bits + dut._writer.count_bits)
        self.asks, self.beat, self.count = valid & ready, request[: self.bits], request[self.bits :]
        self.plain = Signal(name="plain")
        self.m.d.comb += [
            self.plain.eq(given.begun & ~self.compressed & ~self.records),
            given.runs.eq(self.asks & self.plain),
        ]
        self._rest()
        self._claims()
        self._follow()

    @property
    def compressed(self) -> Value:
        """Of the descriptor, if it is none of a record."""
        return self.given["compressed"] & ~self.records

    def _rest(self) -> None:
        """What of the last request no address has been given for."""
        m, axi = self.m, self.dut.axi
        self.next, self.left = Signal(self.bits, name="next_beat"), Signal(self.dut._writer.count_bits, name="left")
        self.told = Signal(name="record_is_asked_for")
        given = axi.awvalid & axi.awready
        with m.If(given):
            m.d.sync += [self.next.eq(self.next + axi.awlen + 1), self.left.eq(self.left - axi.awlen - 1)]
        with m.If(self.asks):
            m.d.sync += [self.next.eq(self.beat), self.left.eq(self.count), self.told.eq(self.told | self.records)]
        with m.If(self.given.loads):
            m.d.sync += self.told.eq(0)

    def _claims(self) -> None:
        dut, axi, given = self.dut, self.dut.axi, self.given
        shift = dut.beats.bit_length() - 1
        writes = axi.awvalid
        there = Cat(axi.awaddr[dut.skipped :], Const(0, 1)) == self.next
        self.claim("a_burst_is_of_what_was_asked_for", there, when=writes)
        pages = axi.awaddr[PAGE_BITS:]
        inside = (dut.bounds.base <= pages) & (pages <= dut.bounds.limit)
        self.claim("a_burst_begins_within_the_bounds", inside, when=writes & ~self.past(writes & ~axi.awready))
        self.claim("a_burst_is_of_what_was_asked_for", axi.awlen < self.left, when=writes)
        self.claim("nothing_is_asked_for_without_a_descriptor", given.begun, when=self.asks)
        runs = given.runs
        self.claim("runs_are_those_of_the_loops", ~given.over, when=runs)
        place = Cat(Const(0, shift), given.places[0]) if shift else given.places[0]
        where = Mux(given.outside, self.beat[-1], self.beat == place[: self.bits])
        self.claim("a_run_is_where_the_loops_say", where, when=runs)
        self.claim("no_run_follows_one_above_all_addresses", ~given.gone, when=runs)
        self.claim("a_run_has_the_groups_that_stand_together", self.count == given["count_0"] << shift, when=runs)
        record = self.asks & self.records
        self.claim("a_record_is_written_once_where_it_shall_be", ~self.told, when=record)
        there = (self.beat == given.memory(dut.skipped)) & (self.count == dut.record_beats)
        self.claim("a_record_is_written_once_where_it_shall_be", there, when=record)

    def _follow(self) -> None:
        """What makes it inductive: its registers are those beside it."""
        dut, given = self.dut, self.given
        state, begun = self.probe("store_state", 3), given.begun
        self.lemma(state <= COUNTS)
        given.follow(self)
        self.lemma(begun == (state != WAIT))
        # The writer.
        left, at = self.probe("writer.left", dut._writer.count_bits), self.probe("writer.beat", self.bits)
        self.lemma(left <= self.left)
        self.lemma((left == self.left) & (at == self.next), when=left != 0)
        self.lemma(left != 0, when=self.probe("writer.offered", 1))
        # What lies above all addresses is dropped, and nothing is taken after it.
        offered, outside = self.probe("writer.offered", 1), self.port("writer.outside", 1)
        self.lemma(~at[-1], when=offered)
        self.lemma(offered == self.past(self.dut.axi.awvalid & ~self.dut.axi.awready))
        self.lemma(outside | ((left != 0) & at[-1] & ~offered), when=given.gone & begun & self.plain)
        self.lemma(given["count_0"] != 0, when=(given.beat > 1) & ~self.records)
        self.lemma(~self.probe("memory_outside", 1), when=begun & (state != UNITS) & (state != DRAIN))
        self.lemma(self.probe("walk_outside", 1) == given.outside, when=self.plain & ~given.over & ~given.gone)
        # The walk.
        self.lemma((state == FIRST) | (state == RUNS) | (state == DRAIN), when=self.plain)
        self.lemma(~given.over, when=self.plain & ((state == FIRST) | (state == RUNS)))
        self.lemma(
            (state == FIRST) | (state == RUNS) | (state == DRAIN) | (state == UNITS), when=begun & self.compressed
        )
        recorded = (state == FIRST) | (state == RECORD) | (state == COUNTS) | (state == DRAIN)
        self.lemma(recorded, when=begun & self.records)
        self.lemma(~self.told, when=begun & self.records & ((state == FIRST) | (state == RECORD)))
        walks = self.plain & ~given.over & ~given.gone
        for place in given.places[1:]:
            inside = ~place[given.places_bits :].any()
            self.lemma(inside | (place == given.places[0]), when=walks)
        given.follow_turns(self, when=walks)
        for k in (1, 2):
            place = given.places[k - 1]
            walked = self.probe(f"walk_place_{k}", given.places_bits)
            self.lemma(walked == place[: given.places_bits], when=walks)
        memory = Cat(self.probe(f"descriptor_{k}", WORD) for k in (1, 2))[: self.config.address_bits]
        self.lemma(memory[given.shift :] == given.places[2][: given.places_bits], when=walks)
        # What is below a beat is no register everywhere.
        still = (given.beat > 0) & (~begun | self.records)
        self.lemma(memory[dut.skipped :] == given.memory(dut.skipped), when=still)
        self.lemma(self.probe("descriptor_0", WORD) == given.bits[:WORD], when=given.beat > 0)
        given.follow_words(self, (4, 5, 6, 7, 8), when=self.plain)


def _is_one_further(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += outer.axi.awaddr.eq(sound.axi.awaddr + outer.data_bits // 8)


def _is_longer(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += outer.axi.awlen.eq(sound.axi.awlen + 1)


def _has_no_limit(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += sound.bounds.limit.eq(-1)


def _goes_on(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += outer.request.ready.eq(sound.request.ready | sound.outside)


def _is_done_at_once(m: Module, sound: Any, outer: Any) -> None:
    """It says so as soon as it has a descriptor, and goes on with it."""
    has = Signal()
    taken = outer.command.descriptor.valid & outer.command.descriptor.ready
    m.d.sync += has.eq(taken & (next_beat(m, outer) == 3))
    m.d.comb += outer.command.done.eq(has)


def _variant(claim: str, title: str, fault: Fault, kind: type[Block] = Store) -> BrokenVariant:
    return BrokenVariant(claim=claim, title=title, kind=kind, fault=fault, depth=14)


BROKEN_VARIANTS = (
    _variant("a_burst_is_of_what_was_asked_for", "a burst begins a beat later", _is_one_further, AxiWriter),
    _variant("a_burst_is_of_what_was_asked_for", "a burst has a beat more", _is_longer, AxiWriter),
    _variant("nothing_is_asked_for_without_a_descriptor", "it says too early that it is done", _is_done_at_once),
    _variant("runs_are_those_of_the_loops", "loop 1 runs once more", corrupt_word(4, lambda word: word + (1 << 16))),
    _variant("a_run_is_where_the_loops_say", "a stride is one longer", corrupt_word(6, lambda word: word + 1)),
    _variant(
        "a_run_has_the_groups_that_stand_together", "a run has a group more", corrupt_word(4, lambda word: word + 1)
    ),
    _variant("a_burst_begins_within_the_bounds", "the limit is ignored", _has_no_limit, AxiWriter),
    _variant("no_run_follows_one_above_all_addresses", "requests are taken after a refusal", _goes_on, AxiWriter),
    _variant(
        "a_record_is_written_once_where_it_shall_be",
        "a record is a beat further",
        corrupt_word(1, lambda word: word + 32),
    ),
)

PROOF = Proof(
    name="store_bounds",
    build=Bounded,
    applies=lambda config: isinstance(config, CoreConfig) and config.compression,
    broken_variants=BROKEN_VARIANTS,
    cover_depth=12,
    broken_config=load_any_preset("core"),
)
