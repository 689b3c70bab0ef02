"""Command queue: every descriptor of the ring reaches the sequencer once, complete and in order; `busy` is exact.

Descriptor n is read from place n modulo the ring's size, and only after `tail` has passed it. FIFO and window never
overflow. The model has a FIFO of at most 4 descriptors and ends where the sequencer takes a beat.

Assumes: base and size of the ring do not change while the queue is enabled. `tail` grows, at most 2^15 ahead of `head`.
`done` grows, not beyond `head`.
"""

from dataclasses import replace
from typing import Any

from amaranth.hdl import Array, Cat, Const, Elaboratable, Instance, Module, Mux, ResetSignal, Signal, Value

from tensordash.block import Block
from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.descriptors import BITS, BYTES
from tensordash.core.command_queue import CommandQueue
from tensordash.memory.memory import Memory
from tensordash.movers.axi import PAGE_BITS
from tensordash.movers.unit import COMMAND_BEATS, COMMAND_BITS
from tensordash_axi import Axi4Rules

from ..harness import Fault, Harness, Stub
from ..proof import Proof
from .command_queue_variants import BROKEN_VARIANTS, SMALL

__all__ = ["PROOF"]

MAX_RING_BITS = 15
"""Base-2 logarithm of the number of places in the largest ring."""
PREFETCH = 4
"""Places of the FIFO in the model. A proof with 32, as in the presets, takes too long."""


class FifoAbstraction(Elaboratable):
    """An abstraction of the FIFO's memory: it stores one watched descriptor, in an arbitrary place.

    Other places return a free value. The output is stable until the next read.
    """

    def __init__(self, block: Block) -> None:
        assert isinstance(block, Memory)
        self.block = block
        self.beats = BITS // (block.bits - 1)

    def elaborate(self, platform: Any) -> Module:
        """Create registers with fixed names, to which lemmas refer."""
        m, block = Module(), self.block
        m.d.sync += Signal(name="clocked").eq(1)  # without a register, the module would have no clock and reset ports
        watched = Signal(range(block.words // self.beats), name="watched")
        m.submodules.any_watched = Instance("$anyconst", p_WIDTH=len(watched), o_Y=watched)
        free = Signal(block.bits, name="free")
        m.submodules.any_free = Instance("$anyseq", p_WIDTH=block.bits, o_Y=free)
        words = [Signal(block.bits, name=f"word_{k}", reset_less=True) for k in range(self.beats)]
        read = Signal(block.bits, name="read", reset_less=True)
        m.d.comb += block.read_data.eq(read)
        with m.If(block.read_enable):
            m.d.sync += read.eq(free)
        for k, word in enumerate(words):
            at = watched * self.beats + k
            with m.If(block.write_enable & (block.write_address == at)):
                m.d.sync += word.eq(block.write_data)
            with m.If(block.read_enable & (block.read_address == at)):
                m.d.sync += read.eq(word)
        return m


class CommandQueueHarness(Harness):
    """A command queue between a ring in memory and a sequencer that takes beats in any cycle.

    Base and size of the ring are constant. `tail` grows, and is never further ahead of the passed descriptors than the
    size of the largest ring. Memory follows the rules of AXI4, except that a beat need not stay until it is taken. Data
    arrive in the order of the reads. The proof compares the descriptor in one arbitrary place of the FIFO bit by bit.

    Source: docs/core.md, "Registers" (a program's life, `busy`); the docstring of `CommandQueue`.
    """

    def __init__(self, config: CoreConfig, fault: tuple[type[Block], Fault] | None = None) -> None:
        self.config = config = replace(config, prefetch=min(config.prefetch, PREFETCH))
        self.dut = dut = CommandQueue(config=config)
        super().__init__(dut, stubs=(Stub(Memory, FifoAbstraction),), fault=fault, black_box=True)
        self.words = config.prefetch * dut.beats
        axi, out, m = dut.axi, dut.descriptors, self.m
        self.rules = Axi4Rules(data_bits=config.axi_bits, address_bits=config.address_bits, reads=config.prefetch)
        m.submodules.rules = self.rules
        for name in axi.signature.members:
            m.d.comb += getattr(self.rules.bus, name).eq(Value.cast(getattr(axi, name)))
        for rule in self.rules.rules:
            # The arbiter withdraws beats while the other reader is not ready.
            if rule.name.startswith(("ar_", "r_")) and rule.name not in ("r_stays", "r_stable"):
                (self.assume if rule.side == "slave" else self.lemma)(getattr(self.rules.holds, rule.name))
        self.base, self.size = self.constant(config.address_bits, "ring_base"), self.constant(4, "ring_size")
        self.drive(dut.queue_base, self.base)
        # The proof `core_axi` covers bounds. Here all addresses are within the bounds.
        pages = config.address_bits - PAGE_BITS
        self.drive(dut.bounds, Const(-1, 2 * pages + 1) << pages + 1)
        self.drive(dut.queue_size, self.size)
        self.requested = Signal(32)  # descriptors whose address was taken
        self.received = Signal(32)  # descriptors whose last beat has arrived
        self.received_words = Signal(range(max(dut.beats, 2)))  # received beats of the next descriptor
        self.passed = Signal(32)  # descriptors whose last beat was passed on
        self.beats = Signal(range(COMMAND_BEATS))  # passed beats of the next descriptor
        self.halted = Signal()  # `halt` was high since the last reset
        self.requests, self.passes = axi.arvalid & axi.arready, out.valid & out.ready
        self.receives = axi.rvalid & axi.rready & ~dut.halt
        self._assume()
        self._count()
        self._claim_requests()
        self._claim_beats()
        self._claim_busy()
        self._add_request_lemmas()
        self._add_fifo_lemmas()

    def _assume(self) -> None:
        """Assume the behaviour of the registers, the sequencer and a soft reset."""
        dut, past, config = self.dut, self.past, self.config
        self.assume(self.base[: BYTES.bit_length() - 1] == 0)
        self.assume(self.base + (Const(BYTES) << self.size) <= 1 << config.address_bits)
        self.assume(_difference(dut.tail, past(dut.tail)) <= 1 << MAX_RING_BITS)
        self.assume(_difference(dut.tail, self.passed) <= 1 << MAX_RING_BITS)
        self.assume(_difference(dut.done, past(dut.done)) <= config.window)
        self.assume(_difference(self.passed, dut.done) <= config.window)
        self.assume(dut.halt | ~past(dut.halt))

    def _count(self) -> None:
        """Count the descriptors at the ports, and store the bits of the descriptor in the watched place."""
        m, dut, axi = self.m, self.dut, self.dut.axi
        m.d.sync += self.halted.eq(self.halted | dut.halt)
        self.watched = self.port("fifo.watched", range(self.config.prefetch))
        self.shadow = [Signal(self.config.axi_bits + 1, name=f"shadow_{k}", reset_less=True) for k in range(dut.beats)]
        with m.If(self.requests):
            m.d.sync += self.requested.eq(self.requested + 1)
        with m.If(self.receives):
            m.d.sync += self.received_words.eq(Mux(axi.rlast, 0, self.received_words + 1))
            with m.If(axi.rlast):
                m.d.sync += self.received.eq(self.received + 1)
            for k, word in enumerate(self.shadow):
                with m.If((self.received_words == k) & (self._slot(self.received) == self.watched)):
                    m.d.sync += word.eq(Cat(axi.rdata, axi.rresp[1]))
        with m.If(self.passes):
            m.d.sync += self.beats.eq(self.beats + 1)
            with m.If(self.beats == COMMAND_BEATS - 1):
                m.d.sync += self.passed.eq(self.passed + 1)

    def _slot(self, number: Value) -> Value:
        """Return the place of a descriptor in the FIFO."""
        return number[: (self.config.prefetch - 1).bit_length()]

    def _claim_requests(self) -> None:
        dut, axi, config = self.dut, self.dut.axi, self.config
        self.offered = axi.arvalid & ~self.halted
        place = Signal(MAX_RING_BITS)
        self.address = Signal(config.address_bits)
        self.m.d.comb += [
            place.eq(self.requested & ~(Const(-1, MAX_RING_BITS) << self.size)),
            self.address.eq(self.base + (place << BYTES.bit_length() - 1)),
        ]
        ahead = _difference(self.requested, self.passed)
        self.claim("descriptors_come_from_their_places", axi.araddr == self.address, when=self.offered)
        self.claim("each_is_requested_in_one_burst", axi.arlen == dut.beats - 1, when=self.offered)
        self.claim("none_is_requested_beyond_the_tail", self.requested != dut.tail, when=self.offered)
        self.claim("no_more_are_requested_than_the_fifo_holds", ahead < config.prefetch, when=self.offered)
        self.on_way = self.rules.reads[0].count
        self.claim(
            "none_is_lost_and_none_repeated",
            _difference(self.requested, self.received) == self.on_way,
            when=~self.halted,
        )

    def _claim_beats(self) -> None:
        dut, out, config = self.dut, self.dut.descriptors, self.config
        self.claim("beats_are_taken_when_they_arrive", dut.axi.rready, when=dut.axi.rvalid & ~ResetSignal())
        words = self._words_of(self.beats)
        is_received = (self.received != self.passed) | (self.received_words >= words)
        self.claim("none_is_passed_before_it_arrived", is_received, when=out.valid)
        room = _difference(self.passed, dut.done) < config.window
        self.claim("none_is_passed_that_the_window_has_no_room_for", room, when=out.valid)
        data, failed = self._beat()
        is_watched = self._slot(self.passed) == self.watched
        self.claim("beats_pass_in_order_and_unchanged", out.payload.data == data, when=self.passes & is_watched)
        self.claim("beats_pass_in_order_and_unchanged", out.payload.error == failed, when=self.passes & is_watched)
        self.claim("beats_pass_in_order_and_unchanged", ~out.payload.outside, when=self.passes)
        self.claim("head_counts_received_descriptors", dut.head == self.received)
        # One cycle to read the FIFO, then one for each word of a beat but the last.
        max_wait = max(1, COMMAND_BITS // config.axi_bits)
        self.waits = Signal(range(max_wait + 1))  # cycles without a beat although a descriptor has arrived and may pass
        stuck = (self.received != self.passed) & room & ~out.valid & ~ResetSignal()
        self.m.d.sync += self.waits.eq(Mux(stuck, Mux(self.waits == max_wait, max_wait, self.waits + 1), 0))
        self.claim("received_descriptors_are_passed", self.waits < max_wait, when=stuck)

    def _words_of(self, beats: Value) -> Value:
        """Return the number of bus beats that must have arrived before a beat of a descriptor can pass."""
        bits = self.config.axi_bits
        return Array(-(-(k + 1) * COMMAND_BITS // bits) for k in range(COMMAND_BEATS))[beats]

    def _beat(self) -> tuple[Value, Value]:
        """Return the next beat of the watched descriptor: data, and whether one of its bus beats had an error."""
        bits = self.config.axi_bits
        data = Cat(word[:bits] for word in self.shadow)
        count = max(1, COMMAND_BITS // bits)
        errors = []
        for beat in range(COMMAND_BEATS):
            first = beat * COMMAND_BITS // bits
            errors.append(Cat(self.shadow[first + k][bits] for k in range(count)).any())
        return data.word_select(self.beats, COMMAND_BITS), Array(errors)[self.beats]

    def _claim_busy(self) -> None:
        """Claim that `busy` is high if and only if a descriptor waits in the ring, or is fetched and not done."""
        dut = self.dut
        begun = (self.requested != dut.done) | dut.axi.arvalid
        waiting = dut.enable & (dut.tail != self.requested)
        self.claim("busy_until_all_are_done", dut.busy, when=(self.requested != dut.done) | self.offered)
        self.claim("busy_while_one_waits_in_the_ring", dut.busy, when=waiting & ~self.halted & ~dut.halt)
        self.claim("not_busy_otherwise", ~dut.busy, when=~begun & ~waiting & ~self.halted & ~dut.halt)

    def _add_request_lemmas(self) -> None:
        """State the lemmas: the hardware's request registers equal the ghost registers."""
        dut, config, on_way, rules = self.dut, self.config, self.on_way, self.rules
        left = self.probe("reader.left", dut.beats.bit_length())
        chosen = self.probe("requested", 32)  # descriptors that the reader was asked to fetch
        beat = self.probe("reader.beat", config.address_bits - dut._reader.skipped + 1)
        self.lemma(~self.port("reader.outside", 1) & ~self.probe("refuses", 1))
        waits = left != 0
        self.lemma(self.probe("reader.in_flight", config.prefetch.bit_length()) == on_way)
        self.lemma(on_way <= config.prefetch)
        self.lemma(waits & (on_way < config.prefetch), when=self.probe("reader.offered", 1))
        # The lemma bounds the sum of the differences, which excludes wrapped differences.
        ahead = (
            _difference(chosen, self.requested)
            + _difference(self.requested, self.received)
            + _difference(self.received, self.passed)
        )
        self.lemma(ahead <= config.prefetch)
        self.lemma(rules.read_beats[0] == self.received_words, when=~self.halted)
        self.lemma(self.received_words == 0, when=~self.halted & (on_way == 0))
        for index, read in enumerate(rules.reads[0].entries):
            self.lemma(read.len == dut.beats - 1, when=~self.halted & (on_way > index))
        self.lemma(~waits | ~beat[-1])
        self.lemma(dut.halt, when=self.halted)
        self.lemma(_difference(chosen, self.requested) == waits, when=~self.halted)
        self.lemma(_difference(chosen, self.requested) == 1, when=waits)
        self.lemma(_difference(chosen, self.requested) <= 1)
        self.lemma(~waits | ((left == dut.beats) & ((beat & (dut.beats - 1)) == 0)))
        self.lemma(beat == self.address[dut._reader.skipped :], when=waits & ~self.halted)
        self.lemma(_difference(dut.tail, chosen) <= 1 << MAX_RING_BITS, when=~self.halted)

    def _add_fifo_lemmas(self) -> None:
        """State the lemmas about the FIFO's pointers and the stored beats of the watched descriptor."""
        dut, config = self.dut, self.config
        bits, beats, words = config.axi_bits, dut.beats, self.words
        pointer = range(2 * words)
        count_bits = (config.window + config.prefetch).bit_length()
        written, read = self.probe("written", pointer), self.probe("read", pointer)
        present = self.probe("present", 1)
        self.lemma(self.probe("beat", 2) == self.beats)
        self.lemma(self.probe("forwarded", count_bits) == self.passed[:count_bits])
        wraps = len(written)
        come = Signal(wraps)  # words that have arrived
        first = Signal(wraps)  # the first word of the descriptor that passes
        within = Signal(range(beats + 1))  # words of this descriptor that were passed on
        stored = Signal(range(words + beats + 1))  # words from `first` on
        self.m.d.comb += [
            come.eq(self.received * beats + self.received_words),
            first.eq(self.passed * beats),
            stored.eq((come - first)[:wraps]),
        ]
        index: Value = Const(0)
        if bits == COMMAND_BITS:
            self.m.d.comb += within.eq(self.beats)
        elif bits > COMMAND_BITS:
            ratio = bits // COMMAND_BITS
            index = self.probe("index", range(ratio))
            self.lemma(index == self.beats % ratio)
            self.lemma(present, when=index != 0)
            self.m.d.comb += within.eq(self.beats // ratio)
        else:
            index = self.probe("index", range(COMMAND_BITS // bits))
            self.m.d.comb += within.eq(self.beats * (COMMAND_BITS // bits) + index)
        self.lemma(written == come)
        self.lemma((read - first - within - present)[:wraps] == 0)
        self.lemma(_difference(self.received, self.passed) * beats + self.received_words <= words)
        self.lemma(self.received_words < beats)
        self.lemma(within + present <= stored)
        self.lemma(self.waits <= (index + present if bits < COMMAND_BITS else present))
        distance = (self.watched - self._slot(self.passed))[: len(self._slot(self.passed))]
        for k, word in enumerate(self.shadow):
            same = self.probe(f"fifo.word_{k}", bits + 1) == word
            self.lemma(same, when=distance * beats + k < stored)
        is_watched = distance == 0
        output = self.probe("fifo.read", bits + 1)
        self.lemma(output == Array(self.shadow)[within], when=present & is_watched)
        if bits < COMMAND_BITS:
            self._add_narrow_bus_lemmas(index, within, is_watched)

    def _add_narrow_bus_lemmas(self, index: Value, within: Value, is_watched: Value) -> None:
        """State the lemmas about words that wait for the last word of their beat."""
        bits = self.config.axi_bits
        count = COMMAND_BITS // bits
        earlier, failed = self.probe("earlier", COMMAND_BITS - bits), self.probe("earlier_failed", 1)
        words = Array(self.shadow)
        for held in range(count):
            seen = [words[within - held + k] for k in range(held)]
            at = is_watched & (index == held)
            self.lemma(failed == Cat(word[bits] for word in seen).any() if seen else ~failed, when=at)
            for k, word in enumerate(seen):
                low = (count - 1 - held + k) * bits
                self.lemma(earlier[low : low + bits] == word[:bits], when=at)


def _difference(larger: Value, smaller: Any) -> Value:
    """Return the difference of two wrapping counts."""
    return (larger - smaller)[:32]


PROOF = Proof(
    name="command_queue",
    build=CommandQueueHarness,
    applies=lambda config: isinstance(config, CoreConfig),
    broken_variants=BROKEN_VARIANTS,
    broken_config=SMALL,
    cover_depth=30,
)
