"""Load: whatever memory answers, nothing is written outside of what the descriptor says."""

from typing import Any

from amaranth.hdl import Elaboratable, Instance, Module, Mux, Signal, Value

from tensordash.block import Block
from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.descriptors import OPERATIONS
from tensordash.configuration.preset import load_any_preset
from tensordash.movers.axi_reader import AxiReader
from tensordash.movers.inflate import Inflate
from tensordash.movers.load import Load

from ..harness import Fault, Harness, Stub
from ..move_nest import MoveNest
from ..proof import BrokenVariant, Proof
from ..reference_descriptor import corrupt_word

__all__ = ["PROOF"]

WAIT, FIRST, RUNS, TABLE, DRAIN, STOP, UNITS = range(7)
COUNT_BITS, WORD = 24, 32
"""Of groups and beats that are counted beside the hardware."""


class InflateAbstraction(Elaboratable):
    """Any inflate at all that gives no group that has not come: of plain ones as many as the beats that it was given
    are, otherwise no more than it was told.

    The proof `inflate_units` shows that it is like that.
    """

    def __init__(self, block: Block) -> None:
        assert isinstance(block, Inflate)
        self.block = block

    def elaborate(self, platform: Any) -> Module:
        """Free outputs, but for what has been given."""
        m, block = Module(), self.block
        shapes = {"valid": 1, "payload": len(block.out.payload), "parts": block.number, "ready": 1, "more": 1}
        free = {name: Signal(width, name=f"free_{name}") for name, width in shapes.items()}
        for name, signal in free.items():
            m.submodules[f"any_{name}"] = Instance("$anyseq", p_WIDTH=len(signal), o_Y=signal)
        got, given = Signal(COUNT_BITS, name="got"), Signal(COUNT_BITS, name="given")
        comes, left = Signal(name="comes"), Signal(16, name="left")
        there = Signal(name="there")
        m.d.comb += [
            there.eq(Mux(block.plain, given * _beats(block) < got + block.beats.valid, comes & (left != 0))),
            block.out.valid.eq(free["valid"] & there),
            block.out.payload.eq(free["payload"]),
            block.parts.eq(free["parts"]),
            block.last.eq(free["parts"][-1]),
            block.beats.ready.eq(free["ready"]),
            block.active.eq(comes | (block.plain & free["more"])),
        ]
        with m.If(block.beats.valid & block.beats.ready):
            m.d.sync += got.eq(got + 1)
        with m.If(block.out.valid & block.out.ready & block.last):
            m.d.sync += [given.eq(given + 1), left.eq(left - 1)]
        with m.If(~free["more"]):  # units are wrong, or there are enough
            m.d.sync += comes.eq(0)
        with m.If(block.start | ~(comes | block.plain)):
            m.d.sync += [got.eq(0), given.eq(0)]
        with m.If(block.start):
            m.d.sync += [comes.eq(~block.plain), left.eq(block.groups)]
        m.submodules.any_wrong = Instance("$anyseq", p_WIDTH=1, o_Y=block.wrong)
        return m


def _beats(block: Inflate) -> int:
    """Of a plain group."""
    return block.size // block.beat


class Bounded(Harness):
    """A load between descriptors that come as they like, a memory that sends what was asked for, and the buffer.

    What a run of the loops asks for is counted as it is asked, and what is written, as it is written.

    Source: docs/core.md, "Loops" and "Errors"; the docstring of `Load`.
    """

    def __init__(self, config: CoreConfig, fault: tuple[type[Block], Fault] | None = None) -> None:
        self.config = config
        self.dut = dut = Load(config=config)
        super().__init__(dut, stubs=(Stub(Inflate, InflateAbstraction),), fault=fault, black_box=True)
        self.given = MoveNest(self.m, dut.command, OPERATIONS["load"], config)
        self.assume(self.given.legal(dut.command.descriptor.payload))
        self.assume(dut.halt | ~self.past(dut.halt))
        self._memory()
        self._count()
        self._claims()
        self._follow()

    def _memory(self) -> None:
        """Beats and bursts that it owes: each burst ends with a beat that says so."""
        m, axi = self.m, self.dut.axi
        self.owed, self.bursts = Signal(COUNT_BITS, name="owed"), Signal(8, name="bursts")
        asks, sends = axi.arvalid & axi.arready, axi.rvalid & axi.rready
        m.d.sync += [
            self.owed.eq(self.owed + Mux(asks, axi.arlen + 1, 0) - sends),
            self.bursts.eq(self.bursts + asks - (sends & axi.rlast)),
        ]
        self.assume(self.owed <= self.bursts * self.dut._reader.burst)
        self.assume(~axi.rvalid | (self.owed != 0))
        self.assume(
            ~axi.rvalid | Mux(self.bursts == 1, axi.rlast == (self.owed == 1), axi.rlast | (self.owed > self.bursts))
        )

    def _count(self) -> None:
        """Groups that are asked for, and those that are written."""
        m, given = self.m, self.given
        shift = self.dut.beats.bit_length() - 1
        valid, ready = (self.port(f"reader.request_{name}", 1) for name in ("valid", "ready"))
        bits = self.config.address_bits - self.dut.skipped + 1
        payload = self.port("reader.request_payload", bits + self.dut._reader.count_bits)
        self.count = payload[bits:]
        m.d.comb += given.runs.eq(valid & ready & ~self.compressed)
        self.asked, self.written = Signal(COUNT_BITS, name="asked"), Signal(COUNT_BITS, name="written")
        with m.If(given.runs):
            m.d.sync += self.asked.eq(self.asked + (self.count >> shift))
        write = self.dut.buffer
        last = self.port("inflate.last", 1)
        with m.If(write.valid & write.ready & last):
            m.d.sync += self.written.eq(self.written + 1)
        with m.If(given.loads):
            m.d.sync += [self.asked.eq(Mux(self.compressed, given["count_0"], 0)), self.written.eq(0)]

    @property
    def compressed(self) -> Value:
        """Of the descriptor."""
        return self.given["compressed"]

    def _claims(self) -> None:
        dut, given, written = self.dut, self.given, self.written
        write, first = dut.buffer, given["address"]
        self.claim("nothing_is_written_without_a_descriptor", given.begun, when=write.valid)
        for bank in range(len(write.enable)):
            place = write.address[bank]
            self.claim("group_n_goes_n_places_on", place == (first + written)[: len(place)], when=write.valid)
        self.claim("nothing_is_written_beyond_the_buffer", first + written < self.config.groups, when=write.valid)
        self.claim("no_group_is_written_that_was_not_asked_for", written < self.asked, when=write.valid)
        self.claim("runs_are_those_of_the_loops", ~given.over & given.begun, when=given.runs)
        shift = self.dut.beats.bit_length() - 1
        self.claim("a_run_has_the_groups_that_stand_together", self.count == given["count_0"] << shift, when=given.runs)

    def _follow(self) -> None:
        """What makes it inductive: its registers are those beside it."""
        dut, given, config = self.dut, self.given, self.config
        begun, first = given.begun, given["address"]
        state = self.probe("load_state", 3)
        reader = {name: self.probe(f"reader.{name}", width) for name, width in self._registers().items()}
        left, on_way = reader["left"], reader["on_way"]
        self.lemma(state <= UNITS)
        given.follow(self)
        self.lemma(begun == (state != WAIT))
        self._descriptor()
        # The reader and memory.
        self.lemma(on_way == self.bursts)
        self.lemma((on_way <= config.outstanding) & (self.owed >= self.bursts))
        self.lemma((self.bursts != 0) | (self.owed == 0))
        self.lemma((left != 0) & (on_way != config.outstanding), when=reader["offered"])
        self.lemma((left == 0) & (self.owed == 0), when=(state == WAIT) | (state == FIRST))
        # Of plain moves.
        plain, beats = begun & ~self.compressed, dut.beats
        got, came = self.probe("inflate.got", COUNT_BITS), self.probe("inflate.given", COUNT_BITS)
        address = self.probe("walk_address", 17)
        self.lemma((state != TABLE) & (state != UNITS), when=plain)
        self.lemma((left == 0) & (self.owed == 0), when=state == STOP)
        self.lemma((got == 0) & (came == 0) & (self.written == 0), when=state == FIRST)
        self.lemma(came == self.written, when=plain)
        self.lemma(got + self.owed + left <= self.asked * beats, when=plain)
        self.lemma((self.asked == 0) | (first + self.asked <= config.groups), when=plain)
        self.lemma(self.asked <= config.groups, when=plain)
        self.lemma(address == first + self.asked, when=plain)
        self.lemma((self.asked == 0) & ~given.over, when=plain & (state == FIRST))
        self.lemma(~given.over, when=plain & (state == RUNS))
        given.follow_turns(self, when=plain & ~given.over)
        # Of compressed ones.
        compressed = begun & self.compressed
        comes, more = self.probe("inflate.comes", 1), self.probe("inflate.left", 16)
        self.lemma((state == DRAIN) | (state == STOP), when=comes)
        self.lemma(compressed & (came == self.written), when=comes)
        self.lemma(more + self.written == given["count_0"], when=comes)
        self.lemma(self.written == 0, when=compressed & (state != DRAIN) & (state != STOP))
        self.lemma(self.asked == given["count_0"], when=compressed)
        self.lemma(address == first, when=compressed)
        looked = (state == TABLE) | (state == UNITS) | comes
        fits = first + given["count_0"] <= config.groups
        self.lemma(fits, when=compressed & looked)
        self.lemma(~fits, when=compressed & (state == RUNS))

    def _registers(self) -> dict[str, int]:
        return {
            "left": self.dut._reader.count_bits,
            "on_way": self.config.outstanding.bit_length(),
            "offered": 1,
        }

    def _descriptor(self) -> None:
        """What the unit keeps of it, as far as it does not change."""
        given = self.given
        words = {k: self.probe(f"descriptor_{k}", WORD) for k in (0, 3, 4)}
        self.lemma(words[0][24] == given["compressed"], when=given.beat > 0)
        address = given["address"] + Mux(given.begun, self.written, 0)
        self.lemma(words[3][:16] == address[:16], when=given.beat > 0)
        self.lemma(words[4] == given.bits[4 * WORD : 5 * WORD], when=given.beat > 1)
        given.follow_words(self, (5,), when=~self.compressed)


def _writes_always(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += outer.buffer.valid.eq(1)


def _bank_is_one_further(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += outer.buffer.address[1].eq(sound.buffer.address[1] + 1)


def _beats_come_unasked(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += outer.beats.valid.eq(1)


def _variant(claim: str, title: str, fault: Fault, kind: type[Block] = Load) -> BrokenVariant:
    return BrokenVariant(claim=claim, title=title, kind=kind, fault=fault, depth=12)


BROKEN_VARIANTS = (
    _variant("nothing_is_written_without_a_descriptor", "it writes in every cycle", _writes_always),
    _variant("group_n_goes_n_places_on", "a bank is written one place further on", _bank_is_one_further),
    _variant("nothing_is_written_beyond_the_buffer", "the buffer goes round", corrupt_word(3, lambda word: word & 0xF)),
    _variant("no_group_is_written_that_was_not_asked_for", "beats come unasked", _beats_come_unasked, AxiReader),
    _variant("runs_are_those_of_the_loops", "loop 1 runs once more", corrupt_word(4, lambda word: word + (1 << 16))),
    _variant(
        "a_run_has_the_groups_that_stand_together", "a run has a group more", corrupt_word(4, lambda word: word + 1)
    ),
)

PROOF = Proof(
    name="load_bounds",
    build=Bounded,
    applies=lambda config: isinstance(config, CoreConfig) and config.compression,
    broken_variants=BROKEN_VARIANTS,
    cover_depth=14,
    broken_config=load_any_preset("core"),
)
