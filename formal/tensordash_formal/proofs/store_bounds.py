"""Store: whatever groups it reads, writes to memory stay within the descriptor's range.

Every burst lies within a request, and every request belongs to a descriptor. Each run of a plain move is where its
loops place it. A record is requested once. Nothing is requested outside the bounds. Only tests cover the addresses of a
compressed store's bursts.

Assumes: descriptors are stores and records with legal fields. A beat of deflate stays until it is taken (`deflate`).
"""

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


class StoreBoundsHarness(Harness):
    """A store between free descriptors, a buffer with free contents, and memory.

    Source: docs/core.md, "Loops" and `record`; the docstring of `Store`.
    """

    def __init__(self, config: CoreConfig, fault: tuple[type[Block], Fault] | None = None) -> None:
        self.config = config
        self.dut = dut = Store(config=config)
        super().__init__(dut, stubs=(Stub(Deflate, DeflateAbstraction),), fault=fault, black_box=True)
        self.descriptor = descriptor = MoveNest(self.m, dut.command, OPERATIONS["store"], config)
        payload = dut.command.descriptor.payload
        self.records = descriptor.bits[:4] == OPERATIONS["record"].code
        operation = payload[:4]
        known = (operation == OPERATIONS["store"].code) | (operation == OPERATIONS["record"].code)
        self.assume((descriptor.beat_count != 0) | known)
        self.assume(descriptor.is_legal(payload) | ((descriptor.beat_count != 0) & self.records))
        self.assume(dut.halt | ~self.past(dut.halt))
        self.bits = (
            config.address_bits - dut.skipped + 1
        )  # bits of a beat's number in memory, with one more bit for numbers above all addresses
        valid, ready = (self.port(f"writer.request_{name}", 1) for name in ("valid", "ready"))
        request = self.port("writer.request_payload", self.bits + dut._writer.count_bits)
        self.requests, self.beat, self.count = valid & ready, request[: self.bits], request[self.bits :]
        self.plain = Signal(name="plain")
        self.m.d.comb += [
            self.plain.eq(descriptor.active & ~self.compressed & ~self.records),
            descriptor.runs.eq(self.requests & self.plain),
        ]
        self._track_requests()
        self._claims()
        self._add_lemmas()

    @property
    def compressed(self) -> Value:
        """The descriptor's bit `compressed`. Records do not have this bit."""
        return self.descriptor["compressed"] & ~self.records

    def _track_requests(self) -> None:
        """Track the beats of the last request whose address memory has not accepted."""
        m, axi = self.m, self.dut.axi
        self.next, self.left = Signal(self.bits, name="next_beat"), Signal(self.dut._writer.count_bits, name="left")
        self.record_requested = Signal(name="record_requested")
        address_taken = axi.awvalid & axi.awready
        with m.If(address_taken):
            m.d.sync += [self.next.eq(self.next + axi.awlen + 1), self.left.eq(self.left - axi.awlen - 1)]
        with m.If(self.requests):
            m.d.sync += [
                self.next.eq(self.beat),
                self.left.eq(self.count),
                self.record_requested.eq(self.record_requested | self.records),
            ]
        with m.If(self.descriptor.starting):
            m.d.sync += self.record_requested.eq(0)

    def _claims(self) -> None:
        dut, axi, descriptor = self.dut, self.dut.axi, self.descriptor
        shift = dut.beats.bit_length() - 1
        writes = axi.awvalid
        is_next = Cat(axi.awaddr[dut.skipped :], Const(0, 1)) == self.next
        self.claim("a_burst_is_within_the_request", is_next, when=writes)
        pages = axi.awaddr[PAGE_BITS:]
        inside = (dut.bounds.base <= pages) & (pages <= dut.bounds.limit)
        self.claim("a_burst_begins_within_the_bounds", inside, when=writes & ~self.past(writes & ~axi.awready))
        self.claim("a_burst_is_within_the_request", axi.awlen < self.left, when=writes)
        self.claim("nothing_is_requested_without_a_descriptor", descriptor.active, when=self.requests)
        runs = descriptor.runs
        self.claim("runs_follow_the_loops", ~descriptor.over, when=runs)
        place = Cat(Const(0, shift), descriptor.places[0]) if shift else descriptor.places[0]
        where = Mux(descriptor.outside, self.beat[-1], self.beat == place[: self.bits])
        self.claim("a_run_is_at_the_loops_position", where, when=runs)
        self.claim("no_run_follows_one_above_all_addresses", ~descriptor.outside_requested, when=runs)
        self.claim("a_run_has_the_adjacent_groups", self.count == descriptor["count_0"] << shift, when=runs)
        record = self.requests & self.records
        self.claim("a_record_is_written_once_at_its_address", ~self.record_requested, when=record)
        is_record = (self.beat == descriptor.memory(dut.skipped)) & (self.count == dut.record_beats)
        self.claim("a_record_is_written_once_at_its_address", is_record, when=record)

    def _add_lemmas(self) -> None:
        """State the lemmas: the unit's registers equal the ghost registers."""
        dut, descriptor = self.dut, self.descriptor
        state, active = self.probe("store_state", 3), descriptor.active
        self.lemma(state <= COUNTS)
        descriptor.add_lemmas(self)
        self.lemma(active == (state != WAIT))
        # The writer.
        left, at = self.probe("writer.left", dut._writer.count_bits), self.probe("writer.beat", self.bits)
        self.lemma(left <= self.left)
        self.lemma((left == self.left) & (at == self.next), when=left != 0)
        self.lemma(left != 0, when=self.probe("writer.offered", 1))
        # The writer drops a burst above all addresses and takes no request after it.
        offered, outside = self.probe("writer.offered", 1), self.port("writer.outside", 1)
        self.lemma(~at[-1], when=offered)
        self.lemma(offered == self.past(self.dut.axi.awvalid & ~self.dut.axi.awready))
        self.lemma(outside | ((left != 0) & at[-1] & ~offered), when=descriptor.outside_requested & active & self.plain)
        self.lemma(descriptor["count_0"] != 0, when=(descriptor.beat_count > 1) & ~self.records)
        self.lemma(~self.probe("memory_outside", 1), when=active & (state != UNITS) & (state != DRAIN))
        self.lemma(
            self.probe("walk_outside", 1) == descriptor.outside,
            when=self.plain & ~descriptor.over & ~descriptor.outside_requested,
        )
        # The walk.
        self.lemma((state == FIRST) | (state == RUNS) | (state == DRAIN), when=self.plain)
        self.lemma(~descriptor.over, when=self.plain & ((state == FIRST) | (state == RUNS)))
        self.lemma(
            (state == FIRST) | (state == RUNS) | (state == DRAIN) | (state == UNITS), when=active & self.compressed
        )
        recorded = (state == FIRST) | (state == RECORD) | (state == COUNTS) | (state == DRAIN)
        self.lemma(recorded, when=active & self.records)
        self.lemma(~self.record_requested, when=active & self.records & ((state == FIRST) | (state == RECORD)))
        walks = self.plain & ~descriptor.over & ~descriptor.outside_requested
        for place in descriptor.places[1:]:
            inside = ~place[descriptor.group_bits :].any()
            self.lemma(inside | (place == descriptor.places[0]), when=walks)
        descriptor.add_turn_lemmas(self, when=walks)
        for k in (1, 2):
            place = descriptor.places[k - 1]
            walked = self.probe(f"walk_place_{k}", descriptor.group_bits)
            self.lemma(walked == place[: descriptor.group_bits], when=walks)
        memory = Cat(self.probe(f"descriptor_{name}", WORD) for name in ("memory", "memory_high"))
        memory = memory[: self.config.address_bits]
        self.lemma(memory[descriptor.shift :] == descriptor.places[2][: descriptor.group_bits], when=walks)
        # Address bits below a beat are not registers in every configuration.
        unchanged = (descriptor.beat_count > 0) & (~active | self.records)
        self.lemma(memory[dut.skipped :] == descriptor.memory(dut.skipped), when=unchanged)
        received = descriptor.beat_count > 0
        self.lemma(self.probe("descriptor_operation", 4) == descriptor.bits[:4], when=received)
        self.lemma(self.probe("descriptor_compressed", 1) == descriptor["compressed"], when=received)
        counted = ("count_0", *(f"{kind}_{k}" for k in (1, 2, 3) for kind in ("count", "stride")))
        descriptor.add_unchanged_lemmas(self, counted, when=self.plain)


def _is_one_further(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += outer.axi.awaddr.eq(sound.axi.awaddr + outer.data_bits // 8)


def _is_longer(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += outer.axi.awlen.eq(sound.axi.awlen + 1)


def _has_no_limit(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += sound.bounds.limit.eq(-1)


def _goes_on(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += outer.request.ready.eq(sound.request.ready | sound.outside)


def _is_done_at_once(m: Module, sound: Any, outer: Any) -> None:
    """Report `done` as soon as the descriptor is complete, and continue."""
    has = Signal()
    taken = outer.command.descriptor.valid & outer.command.descriptor.ready
    m.d.sync += has.eq(taken & (next_beat(m, outer) == 3))
    m.d.comb += outer.command.done.eq(has)


def _variant(claim: str, title: str, fault: Fault, kind: type[Block] = Store) -> BrokenVariant:
    return BrokenVariant(claim=claim, title=title, kind=kind, fault=fault, depth=14)


BROKEN_VARIANTS = (
    _variant("a_burst_is_within_the_request", "a burst begins one beat later", _is_one_further, AxiWriter),
    _variant("a_burst_is_within_the_request", "a burst has one more beat", _is_longer, AxiWriter),
    _variant("nothing_is_requested_without_a_descriptor", "`done` rises too early", _is_done_at_once),
    _variant("runs_follow_the_loops", "loop 1 runs once more", corrupt_word(4, lambda word: word + (1 << 16))),
    _variant("a_run_is_at_the_loops_position", "a stride is one too large", corrupt_word(6, lambda word: word + 1)),
    _variant("a_run_has_the_adjacent_groups", "a run has one more group", corrupt_word(4, lambda word: word + 1)),
    _variant("a_burst_begins_within_the_bounds", "the limit is ignored", _has_no_limit, AxiWriter),
    _variant("no_run_follows_one_above_all_addresses", "requests are taken after a refusal", _goes_on, AxiWriter),
    _variant(
        "a_record_is_written_once_at_its_address",
        "a record is one beat too high",
        corrupt_word(1, lambda word: word + 32),
    ),
)

PROOF = Proof(
    name="store_bounds",
    build=StoreBoundsHarness,
    applies=lambda config: isinstance(config, CoreConfig) and config.compression,
    broken_variants=BROKEN_VARIANTS,
    cover_depth=12,
    broken_config=load_any_preset("core"),
)
