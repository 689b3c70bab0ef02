"""Step index: it shows the indices that were written last to the word read last, and the lengths of the stream.

A write changes no other word or bank, and indices and lengths do not change each other. Without a read, the outputs do
not change, whatever is written. A reset changes neither contents nor outputs. The proof watches an arbitrary word in an
arbitrary bank, and the lengths in an arbitrary word. Each memory stores one watched word and returns a free value for
every other word.

Assumes: nothing. A read of a word that is written in the same cycle, or that was not written since the first reset, is
unchecked.
"""

from typing import Any

from amaranth.hdl import Array, Module, Mux, Signal, Value

from tensordash.block import Block
from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.preset import load_any_preset
from tensordash.core.core import Core
from tensordash.memory.step_index import StepIndex

from ..harness import Fault, Harness
from ..memory_abstraction import ONE_WORD_MEMORY
from ..proof import BrokenVariant, Proof

__all__ = ["PROOF"]


class StepIndexHarness(Harness):
    """A step index that is written and read in any cycle.

    Source: docs/core.md, "Memories"; the docstrings of `StepIndex`, its signatures and `Memory`.
    """

    def __init__(self, config: CoreConfig, fault: tuple[type[Block], Fault] | None = None) -> None:
        self.dut = dut = Core(config).step_index
        super().__init__(dut, stubs=(ONE_WORD_MEMORY,), fault=fault, black_box=True)
        write, read = dut.write, dut.read
        bank = self.constant(range(dut.depth), "watched_bank")
        word, begin = (self.constant(range(dut.words), f"watched_{name}") for name in ("word", "begin"))
        for place in (word, begin):
            self.assume(place < dut.words)
        for k in range(dut.depth):
            self.assume(self.port(f"bank_{k}.watched", len(word)) == word)
        self.assume(self.port("lengths.watched", len(begin)) == begin)
        writes = write.bank.bit_select(bank, 1) & (Array(write.word)[bank] == word)
        value = self._claim("indices", writes, Array(write.index)[bank], read.enable, word, Array(read.index)[bank])
        for k in range(dut.depth):
            stored = self.probe(f"bank_{k}.word", len(value))
            self.lemma(stored == value, when=self.is_written & (bank == k))
        lengths, reads = Value.cast(write.lengths), read.enable & read.begins
        writes = write.ends & (write.begin == begin)
        value = self._claim("lengths", writes, lengths, reads, begin, Value.cast(read.lengths))
        self.lemma(self.probe("lengths.word", len(value)) == value, when=self.is_written)

    def _claim(self, name: str, writes: Value, data: Value, reads: Value, word: Value, output: Value) -> Signal:
        """Claim that the output is the value at the time of the last read. Return the watched word's value."""
        m = self.m
        value, expected = (Signal(len(data), name=f"{name}_{each}", reset_less=True) for each in ("value", "expected"))
        self.is_written, is_known, has_read = (
            Signal(name=f"{name}_{each}", reset_less=True) for each in ("is_written", "is_known", "has_read")
        )
        reads_watched = (self.dut.read.word == word) & self.is_written & ~writes
        m.d.sync += [
            self.is_written.eq(self.started & (self.is_written | writes)),
            value.eq(Mux(writes, data, value)),
            has_read.eq(reads),
            is_known.eq(self.started & Mux(reads, reads_watched, is_known)),
            expected.eq(Mux(reads, value, expected)),
        ]
        self.claim(f"a_read_returns_the_{name}_written_last", output == expected, when=is_known & has_read)
        self.claim("outputs_stay_until_the_next_read", output == expected, when=is_known & ~has_read)
        return value


def _last_word_is_not_written(m: Module, sound: Any, outer: Any) -> None:
    for k, word in enumerate(outer.write.word):
        m.d.comb += sound.write.bank[k].eq(outer.write.bank[k] & (word != outer.words - 1))


def _both_get_the_last(m: Module, sound: Any, outer: Any) -> None:
    """Give the first bank the last bank's index if both are written."""
    both, last = outer.write.bank[0] & outer.write.bank[-1], outer.depth - 1
    m.d.comb += sound.write.index[0].eq(Mux(both, outer.write.index[last], outer.write.index[0]))


def _lengths_with_every_index(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += sound.write.ends.eq(outer.write.ends | outer.write.bank.any())


def _lengths_at_the_written_word(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += sound.write.begin.eq(outer.write.word[0])


def _a_write_changes_the_output(m: Module, sound: Any, outer: Any) -> None:
    last, written = outer.depth - 1, Signal()
    m.d.sync += written.eq(outer.write.bank[-1])
    m.d.comb += outer.read.index[last].eq(Mux(written, ~sound.read.index[last], sound.read.index[last]))


def _reset_clears_the_lengths(m: Module, sound: Any, outer: Any) -> None:
    cleared = Signal(init=1)
    with m.If(outer.read.enable):
        m.d.sync += cleared.eq(0)
    lengths = Value.cast(sound.read.lengths)
    m.d.comb += Value.cast(outer.read.lengths).eq(Mux(cleared, 0, lengths))


def _variant(claim: str, title: str, fault: Fault) -> BrokenVariant:
    return BrokenVariant(claim=claim, title=title, kind=StepIndex, fault=fault)


INDICES, LENGTHS = "a_read_returns_the_indices_written_last", "a_read_returns_the_lengths_written_last"
STAYS = "outputs_stay_until_the_next_read"
BROKEN_VARIANTS = (
    _variant(INDICES, "the last word is not written", _last_word_is_not_written),
    _variant(INDICES, "the first of two banks gets the index of the last", _both_get_the_last),
    _variant(LENGTHS, "lengths are written with every index", _lengths_with_every_index),
    _variant(LENGTHS, "lengths are written to the word of bank 0", _lengths_at_the_written_word),
    _variant(STAYS, "the lengths of every word are read", lambda m, sound, outer: sound.read.begins.eq(1)),
    _variant(STAYS, "a write of a bank changes its output", _a_write_changes_the_output),
    _variant(STAYS, "a reset clears the lengths", _reset_clears_the_lengths),
)

PROOF = Proof(
    name="step_index",
    build=StepIndexHarness,
    applies=lambda config: isinstance(config, CoreConfig) and config.drop_steps,
    broken_variants=BROKEN_VARIANTS,
    broken_config=load_any_preset("core-drop"),
    is_quick=True,
)
