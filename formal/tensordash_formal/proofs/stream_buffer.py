"""Stream buffer: a bank's output is the word that it read last, with the value that was written last to each part.

A write is never lost and changes no other part, word or bank, whatever else is written in the same cycle. A bank reads
in every cycle in which its memory is not written. A displaced read and a write leave the output unchanged. A reset
loses neither contents nor outputs.

For each side the proof watches an arbitrary part of an arbitrary word in an arbitrary bank. The model has the stream
buffers of both sides, with all banks, parts and bits. Each memory stores one watched word and returns a free value for
every other word.

Assumes: a write to a bank selects at least one part, as the proofs `layout` and `pair_layout` show. The value of a part
that was not written since the first reset is unchecked.
"""

from typing import Any

from amaranth.hdl import Array, Module, Mux, Signal, Value
from amaranth.lib import wiring

from tensordash import TileConfig
from tensordash.block import Block, placed
from tensordash.configuration.core_config import CoreConfig
from tensordash.core.core import Core
from tensordash.memory.stream_buffer import PairStreamBuffer, StreamBuffer

from ..harness import Fault, Harness
from ..memory_abstraction import ONE_WORD_MEMORY
from ..proof import BrokenVariant, Proof
from .buffer import CORE, WIDE

__all__ = ["PROOF"]


class StreamBuffers(Block):
    """The stream buffers of both sides of a core."""

    def __init__(self, config: CoreConfig) -> None:
        self.streams = Core(config).streams
        super().__init__({side: wiring.Out(buffer.signature) for side, buffer in self.streams.items()})

    def elaborate(self, platform: Any) -> Module:
        """Connect the buffers to the ports."""
        m = Module()
        for side, buffer in self.streams.items():
            m.submodules[f"stream_buffer_{side}"] = placed(buffer, platform)
            wiring.connect(m, wiring.flipped(getattr(self, side)), buffer)
        return m


class StreamBufferHarness(Harness):
    """Stream buffers that are written and read in any cycle.

    Source: docs/core.md, "Memories"; the docstrings of `StreamBuffer`, its signatures and `Memory`.
    """

    def __init__(self, config: CoreConfig, fault: tuple[type[Block], Fault] | None = None) -> None:
        self.dut = dut = StreamBuffers(config)
        super().__init__(dut, stubs=(ONE_WORD_MEMORY,), fault=fault, black_box=True)
        for side, buffer in dut.streams.items():
            self._claim_side(side, buffer, getattr(dut, side))

    def _claim_side(self, side: str, buffer: StreamBuffer, ports: Any) -> None:
        bank, word, part = (
            self.constant(range(count), f"{side}_watched_{name}")
            for name, count in (("bank", buffer.depth), ("word", buffer.words), ("part", buffer.parts))
        )
        self.assume((bank < buffer.depth) & (word < buffer.words) & (part < buffer.parts))
        write = {
            name: Array(getattr(ports.write, name))[bank] if buffer.in_pairs else getattr(ports.write, name)
            for name in ("word", "part", "data")
        }
        is_write, address = ports.write.bank.bit_select(bank, 1), Array(ports.read.address)[bank]
        self.assume(~is_write | write["part"].any())
        value, is_written = self._watch_part(
            side, is_write & (write["word"] == word) & write["part"].bit_select(part, 1), write["data"]
        )
        self._add_memory_lemmas(side, buffer, bank, word, part, value, is_written)
        reads = ports.read.enable.bit_select(bank, 1) & ports.read.ready.bit_select(bank, 1)
        output = Array(ports.data)[bank].word_select(part, buffer.group_bits)
        self._claim_output(side, output, reads, reads & (address == word) & is_written, value)
        uses_memory = is_write if buffer.ways == 1 else is_write & (write["word"][0] == address[0])
        ready = ports.read.ready.bit_select(bank, 1)
        self.claim("a_bank_reads_unless_its_memory_is_written", ready, when=~uses_memory)
        self.claim("a_bank_reads_unless_its_memory_is_written", ~ready, when=uses_memory)

    def _watch_part(self, side: str, writes: Value, data: Value) -> tuple[Signal, Signal]:
        """Track the value of the watched part, and whether it was written since the first reset."""
        value = Signal(len(data), name=f"{side}_value", reset_less=True)
        is_written = Signal(name=f"{side}_is_written", reset_less=True)
        with self.m.If(writes):
            self.m.d.sync += value.eq(data)
        self.m.d.sync += is_written.eq(self.started & (is_written | writes))
        return value, is_written

    def _add_memory_lemmas(
        self, side: str, buffer: StreamBuffer, bank: Value, word: Value, part: Value, value: Value, is_written: Value
    ) -> None:
        """Make every memory watch the watched word, and state that the watched bank's memory has the value."""
        level = ".sound" if self._fault and self._fault[0] is type(buffer) else ""
        for k in range(buffer.depth):
            for way in range(buffer.ways):
                name = f"bank_{k}" if buffer.ways == 1 else f"way_{way}"
                path = f"stream_buffer_{side}{level}.{name}"
                within = word if buffer.ways == 1 else word[1:]
                self.assume(self.port(f"{path}.watched", len(within)) == within)
                is_here = (bank == k) & (1 if buffer.ways == 1 else word[0] == way)
                stored = self.probe(f"{path}.word", buffer.parts * buffer.group_bits)
                self.lemma(stored.word_select(part, buffer.group_bits) == value, when=is_written & is_here)

    def _claim_output(self, side: str, output: Value, reads: Value, reads_watched: Value, value: Value) -> None:
        """Claim that the watched bank's output is the value at the time of the bank's last read."""
        m = self.m
        expected = Signal(len(value), name=f"{side}_expected", reset_less=True)
        is_known = Signal(name=f"{side}_is_known", reset_less=True)
        has_read = Signal(name=f"{side}_has_read", reset_less=True)
        m.d.sync += [
            has_read.eq(reads),
            is_known.eq(self.started & Mux(reads, reads_watched, is_known)),
            expected.eq(Mux(reads, value, expected)),
        ]
        self.claim("a_read_returns_the_value_written_last", output == expected, when=is_known & has_read)
        self.claim("the_output_stays_until_the_next_read", output == expected, when=is_known & ~has_read)


def _last_word_is_not_written(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += sound.write.bank.eq(outer.write.bank & ~outer.write.word.all().replicate(outer.depth))


def _top_bit_is_ignored(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += sound.write.word.eq(outer.write.word[:-1])


def _only_the_first_bank_is_written(m: Module, sound: Any, outer: Any) -> None:
    """Write only the lowest of several banks."""
    m.d.comb += sound.write.bank.eq(outer.write.bank & -outer.write.bank)


def _writes_are_late(m: Module, sound: Any, outer: Any) -> None:
    """Write a cycle later, though the bank is ready."""
    late = {name: Signal.like(getattr(outer.write, name), name=f"late_{name}") for name in ("word", "part", "data")}
    bank = Signal.like(outer.write.bank, name="late_bank")
    m.d.sync += [bank.eq(outer.write.bank), *(late[name].eq(getattr(outer.write, name)) for name in late)]
    m.d.comb += [sound.write.bank.eq(bank), *(getattr(sound.write, name).eq(late[name]) for name in late)]
    m.d.comb += outer.read.ready.eq(sound.read.ready & ~outer.write.bank)


def _both_get_the_last(name: str) -> Fault:
    """Give the first bank the last bank's word, part or data if both are written."""

    def fault(m: Module, sound: Any, outer: Any) -> None:
        shown, hidden = getattr(outer.write, name), getattr(sound.write, name)
        both = outer.write.bank[0] & outer.write.bank[-1]
        m.d.comb += hidden[0].eq(Mux(both, shown[outer.depth - 1], shown[0]))

    return fault


def _all_parts_are_written(m: Module, sound: Any, outer: Any) -> None:
    for k in range(outer.depth):
        m.d.comb += sound.write.part[k].eq(-1)


def _last_part_is_not_written(m: Module, sound: Any, outer: Any) -> None:
    for k, part in enumerate(outer.write.part):
        m.d.comb += sound.write.bank[k].eq(outer.write.bank[k] & ~part[-1])


def _changes_output(when: Any) -> Fault:
    """Invert the last bank's output in the cycle after a condition."""

    def fault(m: Module, sound: Any, outer: Any) -> None:
        happened = Signal()
        m.d.sync += happened.eq(when(outer))
        last = outer.depth - 1
        m.d.comb += outer.data[last].eq(Mux(happened, ~sound.data[last], sound.data[last]))

    return fault


def _reset_clears_outputs(m: Module, sound: Any, outer: Any) -> None:
    cleared = Signal(init=1)
    with m.If(outer.read.enable.any()):
        m.d.sync += cleared.eq(0)
    for k in range(outer.depth):
        m.d.comb += outer.data[k].eq(Mux(cleared, 0, sound.data[k]))


def _ready_is(value: Any) -> Fault:
    return lambda m, sound, outer: outer.read.ready.eq(value(sound, outer))


def _variant(
    claim: str, title: str, fault: Fault, kind: type[Block] = StreamBuffer, config: TileConfig | CoreConfig = CORE
) -> BrokenVariant:
    return BrokenVariant(claim=claim, title=title, kind=kind, fault=fault, config=config)


CONTENTS = "a_read_returns_the_value_written_last"
STAYS = "the_output_stays_until_the_next_read"
READY = "a_bank_reads_unless_its_memory_is_written"

BROKEN_VARIANTS = (
    *(
        _variant(CONTENTS, title, fault)
        for title, fault in (
            ("the last word is not written", _last_word_is_not_written),
            ("writes ignore the top bit of a word's number", _top_bit_is_ignored),
            ("only the first of several banks is written", _only_the_first_bank_is_written),
            ("a write happens a cycle late", _writes_are_late),
            ("a displaced read counts as done", _ready_is(lambda sound, outer: -1)),
        )
    ),
    *(
        _variant(CONTENTS, f"{title}, with pairs", fault, PairStreamBuffer, WIDE)
        for title, fault in (
            *(
                (f"the first of two banks gets the {name} of the last", _both_get_the_last(name))
                for name in ("word", "part", "data")
            ),
            ("a write changes all parts", _all_parts_are_written),
            ("the last part is not written", _last_part_is_not_written),
        )
    ),
    *(
        _variant(STAYS, f"{title}{suffix}", fault, kind, config)
        for kind, config, suffix in ((StreamBuffer, CORE, ""), (PairStreamBuffer, WIDE, ", with pairs"))
        for title, fault in (
            ("a write of the bank changes the output", _changes_output(lambda ports: ports.write.bank[-1])),
            (
                "a displaced read changes the output",
                _changes_output(lambda ports: ports.write.bank[-1] & ports.read.enable[-1]),
            ),
            (
                "a read of another bank changes the output",
                _changes_output(lambda ports: ports.read.enable[0] & ~ports.read.enable[-1]),
            ),
            ("a reset clears the outputs", _reset_clears_outputs),
        )
    ),
    _variant(
        READY,
        "a write displaces the reads of all banks",
        _ready_is(lambda sound, outer: sound.read.ready & ~outer.write.bank.any().replicate(outer.depth)),
    ),
    _variant(
        READY,
        "the last bank is ready in any case, with pairs",
        _ready_is(lambda sound, outer: sound.read.ready | 1 << outer.depth - 1),
        PairStreamBuffer,
        WIDE,
    ),
)

PROOF = Proof(
    name="stream_buffer",
    build=StreamBufferHarness,
    applies=lambda config: config in (CORE, WIDE),
    broken_variants=BROKEN_VARIANTS,
    broken_config=CORE,
)
