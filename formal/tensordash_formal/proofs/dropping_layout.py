"""Dropping layout: a layout of side B writes every step that has a value other than zero, and no other step.

A step is written in its bank, after the bank's earlier steps, from its stream's first word on. Its index is the word
that it would have if no step were dropped. Two cycles after a stream's last step, its lengths are written: the steps of
each bank, and the words of the longest bank after its first.

Assumes: every read of a group of the buffer returns the same values.
"""

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value

from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.preset import load_any_preset
from tensordash.movers.dropping_layout import DroppingLayout

from ..dropping_layout_harness import DroppingLayoutHarness
from ..harness import Fault
from ..proof import BrokenVariant, Proof
from .layout import common_variants

__all__ = ["PROOF"]


def _banks_share_a_word(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += [word.eq(sound.write.word[0]) for word in outer.write.word]


def _swapped(values: Value, width: int) -> Value:
    """Exchange the negative zero and the smallest value."""
    zero, one = 1 << (width - 1), 1
    each = [values.word_select(k, width) for k in range(len(values) // width)]
    return Cat(Mux(value == zero, Const(one, width), Mux(value == one, Const(zero, width), value)) for value in each)


def _negative_zero_is_a_value(m: Module, sound: Any, outer: Any) -> None:
    """Let a negative zero count as a value, and the smallest value as zero."""
    width = outer.config.value_bits
    m.d.comb += [inner.eq(_swapped(data, width)) for inner, data in zip(sound.read.data, outer.read.data, strict=True)]
    m.d.comb += [
        data.eq(_swapped(inner, width)) for inner, data in zip(sound.write.data, outer.write.data, strict=True)
    ]


def _index_is_the_word(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += [index.eq(sound.index.word[k]) for k, index in enumerate(outer.index.index)]


def _all_banks_as_bank_0(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += [steps.eq(sound.index.lengths.counts[0]) for steps in outer.index.lengths.counts]


def _only_bank_0_counts(m: Module, sound: Any, outer: Any) -> None:
    steps = sound.index.lengths.counts[0]
    m.d.comb += outer.index.lengths.last_word.eq(steps - steps.any())


def _done_after_the_first(m: Module, sound: Any, outer: Any) -> None:
    has_written = Signal()
    m.d.sync += has_written.eq(sound.write.bank.any())
    m.d.comb += outer.command.done.eq(sound.command.done | has_written)


def _variant(claim: str, title: str, fault: Fault, depth: int = 15) -> BrokenVariant:
    return BrokenVariant(claim=claim, title=title, kind=DroppingLayout, fault=fault, depth=depth)


ZEROS = "negative zeros and the smallest values are exchanged"
BROKEN_VARIANTS = (
    *common_variants(DroppingLayout),
    _variant("every_step_is_written_once_and_in_order", "all banks write the word of bank 0", _banks_share_a_word),
    _variant("a_step_with_a_value_is_written", ZEROS, _negative_zero_is_a_value),
    _variant("a_step_without_a_value_is_dropped", ZEROS, _negative_zero_is_a_value),
    _variant("every_step_has_its_index", "a step's index is its word", _index_is_the_word),
    _variant(
        "a_streams_lengths_are_written_once",
        "no lengths are written if a stream has no step",
        lambda m, sound, outer: outer.index.ends.eq(sound.index.ends & Value.cast(sound.index.lengths.counts).any()),
    ),
    _variant(
        "lengths_are_written_to_the_streams_first_word",
        "lengths are written to the last word",
        lambda m, sound, outer: outer.index.begin.eq(sound.index.begin + sound.index.lengths.last_word),
        depth=19,
    ),
    _variant("lengths_have_the_steps_of_each_bank", "all banks have the steps of bank 0", _all_banks_as_bank_0),
    _variant("lengths_have_the_words_after_the_first", "only the steps of bank 0 count", _only_bank_0_counts, depth=19),
    _variant(
        "done_when_all_lengths_are_written", "`done` rises after the first step that is written", _done_after_the_first
    ),
)

PROOF = Proof(
    name="dropping_layout",
    build=DroppingLayoutHarness,
    applies=lambda config: isinstance(config, CoreConfig) and config.drop_steps,
    broken_variants=BROKEN_VARIANTS,
    cover_depth=18,
    broken_config=load_any_preset("core-drop"),
)
