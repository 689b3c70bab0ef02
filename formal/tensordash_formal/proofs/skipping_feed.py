"""Skipping feed: every step of every pass that the pass filter queues is offered once, in order, from its word.

The filter gets each descriptor once, with its fields, and its reads and marks pass unchanged. `last` marks the end of a
pass. All steps of a pass are offered, whether or not another entry follows: the filter may wait for the output unit,
and the output unit for the pass's block. There is no bubble if the next entry is known when the last word of a pass
becomes the head's. `done` follows the last step, or the last entry if it has no pass.

Assumes: the tile takes no more steps than are offered (`tile_control`). A bank's output is the word that it read last.
An entry of the filter stays until it is taken. None follows the last one, and only the last one has no pass. Without an
entry, the filter shows zeros (`pass_filter`). Words beyond a stream buffer are unchecked.
"""

from typing import Any

from amaranth.hdl import Module, Mux, Signal

from tensordash.block import Block
from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.preset import load_any_preset
from tensordash.core.pass_filter import PassFilter, pass_layout
from tensordash.core.skipping_multiply import SkippingMultiply

from ..feed_model import CountedFeedModel
from ..filtered_feed import FilteredFeedHarness, filtered_variants
from ..harness import Fault, FreeOutputs, Stub
from ..proof import Proof

__all__ = ["PROOF"]


class EntrySequence(CountedFeedModel):
    """Reference model of the entries: the current pass, the next one, and the end.

    The unit takes an entry when it has no pass, or when the last word of its pass becomes the head's.

    Parameters
    ----------
    m, dut
        As in `FeedModel`.
    entry : View of pass_layout
        The filter's first entry.
    valid, ready : Signal
        There is an entry; the unit takes it.

    Attributes
    ----------
    count : Signal
        Passes that were taken and have steps left: none, the current one, or the next one too.
    slots : list of dict of str to Signal
        The first words of the current pass and of the next one.
    end_known : Signal
        The last entry was taken.
    turns : Signal
        The last word of a pass becomes the head's in the next cycle.
    finished : Signal
        The descriptor ended in the previous cycle.
    """

    def __init__(self, m: Module, dut: SkippingMultiply, entry: Any, valid: Signal, ready: Signal) -> None:
        super().__init__(m, dut)
        self.count, self.end_known = Signal(2, name="passes_taken"), Signal(name="end_known")
        self.taken, self.popped, self.turns = (
            Signal(name=name) for name in ("entry_taken", "pass_done", "model_turns")
        )
        self.finished, next_ends = Signal(name="model_finished"), Signal(name="next_word_ends")
        self.slots = [
            {side: Signal(range(dut.words[side]), name=f"slot_{k}_{side}", reset_less=True) for side in "ab"}
            for k in range(2)
        ]
        runs, passed = self.taken & entry.runs, self.in_passes & self.word_done
        starts = (self.count != 0) & ~self.in_passes
        is_first = ~self.in_passes | self.word_ends  # the next word is the first one of a pass
        m.d.comb += [
            self.taken.eq(valid & ready),
            self.popped.eq(passed & self.word_ends),
            self.final.eq(self.word_ends & (self.count == 1)),
            next_ends.eq(Mux(is_first, self.words == 1, self.word + 2 == self.words)),
            self.turns.eq(next_ends & (starts | (passed & ~self.final))),
        ]
        ends = (passed & self.final & self.end_known) | (self.taken & ~entry.runs & (self.count == 0))
        m.d.sync += [self.count.eq(self.count + runs - self.popped), self.finished.eq(ends)]
        with m.If(self.starting):
            m.d.sync += self.end_known.eq(0)
        with m.Elif(self.taken & entry.last):
            m.d.sync += self.end_known.eq(1)
        with m.If(starts):
            m.d.sync += [self.in_passes.eq(1), self.word.eq(0), self.bank.eq(0)]
        with m.Elif(self.in_passes):
            m.d.sync += self.bank.eq(self.reached)
            with m.If(passed):
                m.d.sync += [self.in_passes.eq(~self.final), self.word.eq(Mux(self.word_ends, 0, self.word + 1))]
        for side in "ab":
            new, words = entry[f"{side}_word"], dut.words[side]
            for k, slot in enumerate(self.slots):
                added = runs & (self.count - self.popped == k)
                m.d.sync += slot[side].eq(Mux(added, new, Mux(self.popped, self.slots[1][side], slot[side])))
            current, next_slot = (slot[side] for slot in self.slots)
            m.d.comb += [
                self.place[side].eq(current + self.word),
                self.next_place[side].eq(Mux(self.word_ends, next_slot, current + self.word + 1)),
                self.is_known[side].eq(current + self.words <= words),
                self.next_is_known[side].eq(Mux(self.word_ends, next_slot, current) + self.words <= words),
            ]


class SkippingFeedHarness(FilteredFeedHarness):
    """A multiply unit whose pass filter queues any entries that the proof `pass_filter` allows.

    Source: docs/core.md, "Multiply" and "Memories"; the docstrings of `Multiply`, `SkippingMultiply` and `PassFilter`.
    """

    def __init__(self, config: CoreConfig, fault: tuple[type[Block], Fault] | None = None) -> None:
        dut, stubs = SkippingMultiply(config), (Stub(PassFilter, FreeOutputs),)
        super().__init__(dut, entries="filter.passes", layout=pass_layout(config), stubs=stubs, fault=fault)
        self.passes = EntrySequence(self.m, dut, self.entry, self.valid, self.ready)
        self.assume_entries()
        self.assume(self.valid | (self.bits == 0))
        self.claim_filter()
        self.claim_steps(self.passes)
        self._claim_progress()
        self._add_lemmas()

    def _claim_progress(self) -> None:
        dut, passes = self.dut, self.passes
        free = passes.in_passes & ~self.late_banks.any()
        self.claim("all_that_can_be_read_is_offered", dut.available == passes.limit(), when=free)
        room = passes.count - passes.popped
        self.claim("no_entry_is_taken_too_early", room < 2, when=passes.taken & self.entry.runs)
        first = passes.active & (passes.count == 0) & ~passes.end_known
        self.claim("entries_are_taken_in_time", self.ready, when=first & self.valid)
        follows = passes.turns & self.valid & self.entry.runs
        self.claim("entries_are_taken_in_time", self.ready, when=follows)
        self.claim_end()

    def _add_lemmas(self) -> None:
        """State the lemmas about the hardware's walk, which is a word ahead of the tile."""
        passes, depth = self.passes, self.dut.depth
        active, in_passes, count, end_known = passes.active, passes.in_passes, passes.count, passes.end_known
        self.add_filter_lemmas()
        passes.add_count_lemmas(self)
        loaded = (count != 0) & ~in_passes
        self.lemma(self.probe("loaded", 1) == loaded)
        self.lemma(passes.finished == (active & end_known & (count == 0)))
        self.lemma(active, when=count != 0)
        self.lemma(count != 0, when=in_passes)
        self.lemma(count < 2, when=~in_passes)
        self.lemma(in_passes & passes.word_ends, when=count == 2)
        self.lemma(count <= 2)
        self.lemma(self.probe("pass_is_last", 1) == end_known, when=count != 0)
        steps, final = passes["steps"], passes.final
        left = Mux(passes.word_ends, steps, steps - (passes.word + 1) * depth)[:16]
        self.lemma(self.probe("steps_left", 16) == Mux(loaded, steps, left), when=(in_passes & ~final) | loaded)
        for side in "ab":
            word = self.probe(f"{side}_word", (self.dut.words[side] - 1).bit_length())
            self.lemma(word == passes.slots[0][side], when=loaded)
            known = passes.next_is_known[side] | passes.word_ends
            self.lemma(word == passes.next_place[side], when=in_passes & ~final & known)


PROOF = Proof(
    name="skipping_feed",
    build=SkippingFeedHarness,
    applies=lambda config: isinstance(config, CoreConfig) and config.skip_masked and not config.drop_steps,
    broken_variants=filtered_variants(SkippingMultiply, 14),
    cover_depth=16,
    broken_config=load_any_preset("core-skip"),
)
