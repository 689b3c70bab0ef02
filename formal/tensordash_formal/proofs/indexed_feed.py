"""Indexed feed: every step of every word that the step walk queues is offered once, in order, from its words.

Side B reads the word itself. Each bank of side A reads the word that belongs to the bank's step, even if its read is
late. `empty` has the banks of side B whose word has no step. `last` marks the end of a pass. There is no bubble if the
next word is known when a word becomes the head's. `done` follows the last step, or the last entry if it has no word.
The filter gets each descriptor once, and the walk gets the filter's passes.

Assumes: the tile takes no more steps than are offered (`tile_control`). A bank's output is the word that it read last.
A word of the walk stays until it is taken. The next word of a pass waits in the cycle after that (`step_walk`). No
entry follows the last one, and only the last one has no word.
"""

from typing import Any

from amaranth.hdl import Array, Const, Module, Mux, Signal, Value
from amaranth.lib.data import View

from tensordash.block import Block
from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.preset import load_any_preset
from tensordash.core.indexed_multiply import IndexedMultiply
from tensordash.core.pass_filter import PassFilter, pass_layout
from tensordash.core.step_walk import StepWalk, word_layout

from ..feed_model import FeedModel
from ..filtered_feed import FILTER_LINKS, FilteredFeedHarness, filtered_variants
from ..harness import Fault, FreeOutputs, Stub
from ..proof import BrokenVariant, Proof

__all__ = ["PROOF"]


class WordSequence(FeedModel):
    """Reference model of the words: the current one, the next one, and the end.

    The unit takes a word when it has no next one, or when the next one becomes the head's.

    Parameters
    ----------
    m, dut
        As in `FeedModel`.
    entry : View of word_layout
        The walk's first entry.
    valid, ready : Signal
        There is an entry; the unit takes it.

    Attributes
    ----------
    current, next_word : View of word_layout
        The word and the next one.
    waits : Signal
        There is a next entry.
    leaves : Signal
        The next entry becomes the word, or it ends the descriptor.
    end_known : Signal
        The last entry was taken.
    finished : Signal
        The descriptor ended in the previous cycle.
    """

    def __init__(self, m: Module, dut: IndexedMultiply, entry: Any, valid: Signal, ready: Signal) -> None:
        super().__init__(m, dut)
        self.layout = word_layout(dut.config)
        self.current, self.next_word = (
            Signal(self.layout, name=name, reset_less=True) for name in ("current_word", "following_word")
        )
        self.waits, self.end_known, self.finished = (
            Signal(name=f"model_{name}") for name in ("waits", "end_known", "finished")
        )
        self.taken, self.leaves = Signal(name="entry_taken"), Signal(name="next_leaves")
        passed, next_word = self.in_passes & self.word_done, self.next_word
        starts = self.waits & next_word.runs & ~self.in_passes
        absent = self.waits & ~next_word.runs & ~self.in_passes
        moves = starts | (passed & ~self.final)
        m.d.comb += [
            self.word_ends.eq(self.current.ends),
            self.taken.eq(valid & ready),
            self.leaves.eq(moves | absent),
        ]
        m.d.sync += self.finished.eq((passed & self.current.last) | absent)
        with m.If(self.taken):
            m.d.sync += [self.waits.eq(1), Value.cast(next_word).eq(Value.cast(entry))]
        with m.Elif(self.leaves):
            m.d.sync += self.waits.eq(0)
        with m.If(self.starting):
            m.d.sync += self.end_known.eq(0)
        with m.Elif(self.taken & entry.last):
            m.d.sync += self.end_known.eq(1)
        with m.If(starts):
            m.d.sync += [self.in_passes.eq(1), self.bank.eq(0)]
        with m.Elif(self.in_passes):
            m.d.sync += [self.bank.eq(self.reached), self.in_passes.eq(~(passed & self.final))]
        with m.If(moves):
            m.d.sync += [Value.cast(self.current).eq(Value.cast(next_word)), self.final.eq(~(valid & entry.runs))]

    def word(self, is_next: Any) -> Any:
        """Return the word or the next one."""
        return View(self.layout, Mux(is_next, Value.cast(self.next_word), Value.cast(self.current)))

    def at(self, side: str, bank: Any, is_next: Any) -> tuple[Value, Value]:
        """Return the place that a bank reads for the word or the next one."""
        word = self.word(is_next)
        places = [word.a_words[k] for k in range(self.depth)] if side == "a" else [word.b_word] * self.depth
        return Array(places)[bank], Const(1)


class IndexedFeedHarness(FilteredFeedHarness):
    """A multiply unit whose step walk queues any words that the proof `step_walk` allows.

    Source: docs/core.md, "Multiply" and "Memories"; the docstrings of `Multiply`, `IndexedMultiply` and `StepWalk`.
    """

    def __init__(self, config: CoreConfig, fault: tuple[type[Block], Fault] | None = None) -> None:
        dut, stubs = IndexedMultiply(config), tuple(Stub(kind, FreeOutputs) for kind in (PassFilter, StepWalk))
        super().__init__(dut, entries="walk.words", layout=word_layout(config), stubs=stubs, fault=fault)
        self.passes: WordSequence = WordSequence(self.m, dut, self.entry, self.valid, self.ready)
        self.assume_entries()
        self.assume(self.entry.ends | ~self.entry.last)
        self.assume(self.entry.ends | self.entry.runs)
        is_owed = self.past(self.passes.taken & ~self.entry.ends)
        self.assume(~is_owed | (self.valid & self.entry.runs))
        self.claim_filter({**FILTER_LINKS, "index": "walk.read"})
        self._claim_walk(pass_layout(config).size, level=".sound" if fault and fault[0] is StepWalk else "")
        self.claim_steps(self.passes)
        self._claim_empty()
        self._claim_progress()
        self._add_lemmas()

    def _claim_walk(self, bits: int, level: str) -> None:
        """Claim that the walk gets the filter's passes."""
        for name, width in (("payload", bits), ("valid", 1), ("ready", 1)):
            ports = [self.port(f"{unit}.passes_{name}", width) for unit in ("filter", f"walk{level}")]
            self.claim("the_walk_has_the_filters_passes", ports[0] == ports[1])

    def _claim_empty(self) -> None:
        """Claim that `empty` has the banks without a step, as far as they are offered."""
        dut, passes, depth = self.dut, self.passes, self.dut.depth
        for k in range(depth):
            at = passes.bank + k
            bank = at[: (depth - 1).bit_length()]
            is_empty = passes.word(at >= depth).empty.bit_select(bank, 1)
            shown = dut.empty.bit_select(bank, 1)
            self.claim("banks_without_a_step_are_empty", shown == is_empty, when=passes.in_passes & (dut.available > k))

    def _claim_progress(self) -> None:
        passes = self.passes
        free = passes.in_passes & ~self.late_banks.any()
        self.claim("all_that_can_be_read_is_offered", self.dut.available == passes.limit(), when=free)
        has_place = ~passes.waits | passes.leaves
        self.claim("no_entry_is_taken_too_early", has_place, when=passes.taken)
        self.claim("entries_are_taken_in_time", self.ready, when=self.valid & has_place)
        self.claim_end()

    def _add_lemmas(self) -> None:
        """State the lemmas about the stored words and about the end."""
        passes = self.passes
        in_passes, waits, end_known, final = passes.in_passes, passes.waits, passes.end_known, passes.final
        current, next_word = passes.current, passes.next_word
        self.add_filter_lemmas()
        self.lemma(self.probe("next_valid", 1) == waits)
        words = {"head_word": (current, in_passes), "next_word": (next_word, waits)}
        for name, (word, when) in words.items():
            self.lemma(self.probe(name, passes.layout.size) == Value.cast(word), when=when)
            self.lemma(word.ends, when=when & (word.last | ~word.runs))
            self.lemma(end_known, when=when & word.last)
            self.lemma(word.runs | word.last, when=when)
        self.lemma(current.runs, when=in_passes)
        self.lemma(passes.active, when=waits)
        self.lemma(next_word.last, when=waits & end_known)
        self.lemma(current.last == (end_known & ~waits), when=in_passes)
        self.lemma(self.valid & self.entry.runs, when=waits & ~next_word.ends)
        self.lemma(waits & next_word.runs, when=in_passes & ~final)
        self.lemma(current.ends, when=in_passes & final)
        self.lemma(passes.finished == (passes.active & end_known & ~in_passes & ~waits))
        late = self.late_banks[self.dut.depth :]
        for k in range(self.dut.depth):
            ahead = k < passes.bank
            known = in_passes & ~late[k] & ~(ahead & final)
            self.lemma(self.dut.empty[k] == passes.word(ahead).empty[k], when=known)


DEPTH = 14


def _reads_the_word_of_bank_0(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += [each.eq(sound.a_read.address[0]) for each in outer.a_read.address]


def _reads_side_b_by_indices(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += [each.eq(sound.a_read.address[k]) for k, each in enumerate(outer.b_read.address)]


def _empty_is_late(m: Module, sound: Any, outer: Any) -> None:
    late = Signal.like(outer.empty)
    m.d.sync += late.eq(sound.empty)
    m.d.comb += outer.empty.eq(late)


def _empty_with_all_banks(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += outer.empty.eq(sound.empty.all().replicate(outer.depth))


def _lengths_of_the_first_stream(m: Module, sound: Any, outer: Any) -> None:
    has_read = Signal()
    with m.If(sound.index.enable):
        m.d.sync += has_read.eq(1)
    m.d.comb += outer.index.begins.eq(sound.index.begins & ~has_read)


def _passes_never_end(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += sound.passes.payload.last.eq(0)


def _variant(claim: str, title: str, fault: Fault, kind: type[Block] = IndexedMultiply) -> BrokenVariant:
    return BrokenVariant(claim=claim, title=title, kind=kind, fault=fault, depth=DEPTH)


STEPS, EMPTY = "every_step_is_offered_from_its_word", "banks_without_a_step_are_empty"
BROKEN_VARIANTS = (
    *filtered_variants(IndexedMultiply, DEPTH),
    _variant(STEPS, "all banks of side A read the word of bank 0", _reads_the_word_of_bank_0),
    _variant(STEPS, "side B reads the words of side A", _reads_side_b_by_indices),
    _variant(EMPTY, "`empty` is low", lambda m, sound, outer: outer.empty.eq(0)),
    _variant(EMPTY, "`empty` changes a cycle late", _empty_is_late),
    _variant(EMPTY, "`empty` is set only if all banks have no step", _empty_with_all_banks),
    _variant("reads_and_marks_pass", "only the lengths of the first stream are read", _lengths_of_the_first_stream),
    _variant("the_walk_has_the_filters_passes", "no pass of the walk is the last", _passes_never_end, StepWalk),
)

PROOF = Proof(
    name="indexed_feed",
    build=IndexedFeedHarness,
    applies=lambda config: isinstance(config, CoreConfig) and config.drop_steps,
    broken_variants=BROKEN_VARIANTS,
    cover_depth=16,
    broken_config=load_any_preset("core-drop"),
)
