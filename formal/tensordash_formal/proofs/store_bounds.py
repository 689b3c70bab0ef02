"""Store: whatever groups come, nothing is written in memory outside of what the descriptor says."""

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value

from tensordash.block import Block
from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.descriptors import OPERATIONS
from tensordash.configuration.preset import load_any_preset
from tensordash.movers.axi_writer import AxiWriter
from tensordash.movers.deflate import Deflate
from tensordash.movers.store import Store

from ..core_stands import AnyBeats
from ..given import GivenDescriptor
from ..harness import Fault, Harness, Stand
from ..proof import Broken, Proof

__all__ = ["PROOF"]

WAIT, FIRST, RECORD, UNITS, RUNS, DRAIN, COUNTS = range(7)
WORDS = 32


class Bounded(Harness):
    """A store between descriptors that come as they like, a buffer that gives anything, and memory.

    The loops are walked beside it: `places` are where the turns of each begin.

    Source: docs/core.md, "Loops" and `record`; the docstring of `Store`.
    """

    def __init__(self, config: CoreConfig, fault: tuple[type[Block], Fault] | None = None) -> None:
        self.config = config
        self.dut = dut = Store(config=config)
        super().__init__(dut, stands=(Stand(Deflate, AnyBeats),), fault=fault, hollow=True)
        self.given = given = GivenDescriptor(self.m, dut.command, OPERATIONS["store"])
        payload = dut.command.descriptor.payload
        self.records = given.bits[:4] == OPERATIONS["record"].code
        operation = payload[:4]
        known = (operation == OPERATIONS["store"].code) | (operation == OPERATIONS["record"].code)
        self.assume((given.beat != 0) | known)
        self.assume(given.legal(payload) | ((given.beat != 0) & self.records))
        self.assume(dut.halt | ~self.past(dut.halt))
        self.bits = config.address_bits - dut.skipped  # of the number of a beat in memory
        valid, ready = (self.port(f"writer.request_{name}", 1) for name in ("valid", "ready"))
        request = self.port("writer.request_payload", self.bits + dut._writer.count_bits)
        self.asks, self.beat, self.count = valid & ready, request[: self.bits], request[self.bits :]
        self._nest()
        self._rest()
        self._claims()
        self._follow()

    @property
    def compressed(self) -> Value:
        """Of the descriptor, if it is none of a record."""
        return self.given["compressed"] & ~self.records

    def _address(self, name: str, skipped: int) -> Value:
        low, high = self.given[name], self.given[f"{name}_high"]
        return Cat(low, high)[skipped : self.config.address_bits]

    def _nest(self) -> None:
        """Runs of a plain move: their places, and what is left of each loop."""
        m, given, config = self.m, self.given, self.config
        self.group_bits = config.address_bits - (config.group_bytes.bit_length() - 1)
        shift = config.group_bytes.bit_length() - 1
        self.places = [Signal(self.group_bits, name=f"place_{k}") for k in (1, 2, 3)]
        self.turns = [Signal(16, name=f"turns_{k}") for k in (1, 2, 3)]
        self.over, self.plain = Signal(name="over"), Signal(name="plain_runs")
        m.d.comb += self.plain.eq(given.begun & ~self.compressed & ~self.records)
        counts = [given[f"count_{k}"] for k in (1, 2, 3)]
        ends = [turn == 1 for turn in self.turns]
        after = [(self.places[k] + given[f"stride_{k + 1}"])[: self.group_bits] for k in range(3)]
        with m.If(self.asks & self.plain):
            with m.If(~ends[0]):
                m.d.sync += [self.turns[0].eq(self.turns[0] - 1), self.places[0].eq(after[0])]
            with m.Elif(~ends[1]):
                m.d.sync += [self.turns[0].eq(counts[0]), self.turns[1].eq(self.turns[1] - 1)]
                m.d.sync += [place.eq(after[1]) for place in self.places[:2]]
            with m.Else():
                m.d.sync += [*(turn.eq(count) for turn, count in zip(self.turns[:2], counts, strict=False))]
                m.d.sync += [self.turns[2].eq(self.turns[2] - 1), *(place.eq(after[2]) for place in self.places)]
                m.d.sync += self.over.eq(ends[2])
        with m.If(given.loads):
            m.d.sync += [turn.eq(count) for turn, count in zip(self.turns, counts, strict=True)]
            m.d.sync += [place.eq(self._address("memory", shift)) for place in self.places]
            m.d.sync += self.over.eq(0)

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
        self.claim("a_burst_is_of_what_was_asked_for", axi.awaddr[dut.skipped :] == self.next, when=writes)
        self.claim("a_burst_is_of_what_was_asked_for", axi.awlen < self.left, when=writes)
        self.claim("nothing_is_asked_for_without_a_descriptor", given.begun, when=self.asks)
        runs = self.asks & self.plain
        self.claim("runs_are_those_of_the_loops", ~self.over, when=runs)
        place = Cat(Const(0, shift), self.places[0]) if shift else self.places[0]
        self.claim("a_run_is_where_the_loops_say", self.beat == place[: self.bits], when=runs)
        self.claim("a_run_has_the_groups_that_stand_together", self.count == given["count_0"] << shift, when=runs)
        record = self.asks & self.records
        self.claim("a_record_is_written_once_where_it_shall_be", ~self.told, when=record)
        there = (self.beat == self._address("memory", dut.skipped)) & (self.count == dut.record_beats)
        self.claim("a_record_is_written_once_where_it_shall_be", there, when=record)

    def _follow(self) -> None:
        """What makes it inductive: its registers are those beside it."""
        dut, given = self.dut, self.given
        state, begun = self.probe("state_state", 3), given.begun
        self.lemma(state <= COUNTS)
        self.lemma(given.beat <= 4)
        self.lemma(self.probe("present", 1) == given.whole)
        self.lemma(begun == (state != WAIT))
        self.lemma(given.whole, when=begun)
        beat = self.probe("descriptor_beat", 4)
        for k in range(4):
            self.lemma(beat[k] == ((given.beat == k) | (given.whole if k == 0 else 0)))
        # The writer.
        left, at = self.probe("writer.left", dut._writer.count_bits), self.probe("writer.beat", self.bits)
        self.lemma(left <= self.left)
        self.lemma((left == self.left) & (at == self.next), when=left != 0)
        self.lemma(left != 0, when=self.probe("writer.offered", 1))
        # The walk.
        self.lemma((state == FIRST) | (state == RUNS) | (state == DRAIN), when=self.plain)
        self.lemma(~self.over, when=self.plain & ((state == FIRST) | (state == RUNS)))
        self.lemma(
            (state == FIRST) | (state == RUNS) | (state == DRAIN) | (state == UNITS), when=begun & self.compressed
        )
        recorded = (state == FIRST) | (state == RECORD) | (state == COUNTS) | (state == DRAIN)
        self.lemma(recorded, when=begun & self.records)
        self.lemma(~self.told, when=begun & self.records & ((state == FIRST) | (state == RECORD)))
        walks = self.plain & ~self.over
        for k in (1, 2):
            self.lemma(self.probe(f"walk_turns_{k}", 16) == self.turns[k - 1], when=walks)
            self.lemma(self.probe(f"walk_place_{k}", self.group_bits) == self.places[k - 1], when=walks)
        words = {k: self.probe(f"descriptor_{k}", WORDS) for k in (0, 1, 2, 4, 5, 6, 7, 8)}
        self.lemma(words[5][16:] == self.turns[2], when=walks)
        shift = self.config.group_bytes.bit_length() - 1
        memory = Cat(words[1], words[2])
        self.lemma(memory[shift : self.config.address_bits] == self.places[2], when=walks)
        beats = memory[dut.skipped : self.config.address_bits]  # what is below is no register everywhere
        same = beats == self._address("memory", dut.skipped)
        self.lemma(same, when=(given.beat > 0) & (~begun | self.records))
        for number, word in words.items():
            same = given.bits[WORDS * number : WORDS * number + WORDS]
            come = given.beat > number // 4
            if number == 0:
                self.lemma(word == same, when=come)
            elif number > 2:
                kept = Mux(begun, self.plain, ~given["compressed"])
                self.lemma(word[:16] == same[:16], when=come & kept)
                if number == 5:
                    self.lemma(word[16:] == same[16:], when=come & ~begun & ~given["compressed"])
                else:
                    self.lemma(word[16:] == same[16:], when=come & kept)


def _beat_of(m: Module, outer: Any) -> Signal:
    beat = Signal(2)
    with m.If(outer.command.descriptor.valid & outer.command.descriptor.ready):
        m.d.sync += beat.eq(beat + 1)
    return beat


def _word_is(number: int, change: Any) -> Fault:
    """A word of the descriptor is another one, in the unit."""

    def fault(m: Module, sound: Any, outer: Any) -> None:
        payload = outer.command.descriptor.payload
        low = number % 4 * WORDS
        changed = Cat(payload[:low], change(payload[low : low + WORDS])[:WORDS], payload[low + WORDS :])
        now = _beat_of(m, outer) == number // 4
        m.d.comb += sound.command.descriptor.payload.eq(Mux(now, changed, payload))

    return fault


def _is_one_further(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += outer.axi.awaddr.eq(sound.axi.awaddr + outer.data_bits // 8)


def _is_longer(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += outer.axi.awlen.eq(sound.axi.awlen + 1)


def _is_done_at_once(m: Module, sound: Any, outer: Any) -> None:
    """It says so as soon as it has a descriptor, and goes on with it."""
    has = Signal()
    taken = outer.command.descriptor.valid & outer.command.descriptor.ready
    m.d.sync += has.eq(taken & (_beat_of(m, outer) == 3))
    m.d.comb += outer.command.done.eq(has)


def _broken(claim: str, title: str, fault: Fault, kind: type[Block] = Store) -> Broken:
    return Broken(claim=claim, title=title, kind=kind, fault=fault, depth=14)


BROKEN = (
    _broken("a_burst_is_of_what_was_asked_for", "a burst begins a beat later", _is_one_further, AxiWriter),
    _broken("a_burst_is_of_what_was_asked_for", "a burst has a beat more", _is_longer, AxiWriter),
    _broken("nothing_is_asked_for_without_a_descriptor", "it says too early that it is done", _is_done_at_once),
    _broken("runs_are_those_of_the_loops", "loop 1 runs once more", _word_is(4, lambda word: word + (1 << 16))),
    _broken("a_run_is_where_the_loops_say", "a stride is one longer", _word_is(6, lambda word: word + 1)),
    _broken("a_run_has_the_groups_that_stand_together", "a run has a group more", _word_is(4, lambda word: word + 1)),
    _broken(
        "a_record_is_written_once_where_it_shall_be", "a record is a beat further", _word_is(1, lambda word: word + 32)
    ),
)

PROOF = Proof(
    name="store_bounds",
    build=Bounded,
    applies=lambda config: isinstance(config, CoreConfig) and config.compression,
    broken=BROKEN,
    cover_depth=12,
    breaks=load_any_preset("core"),
)
