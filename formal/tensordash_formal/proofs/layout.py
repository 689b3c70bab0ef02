"""Layout: writes to the stream buffer follow the loop nest of docs/core.md, for every descriptor.

Each step is written once and in order, at its word, bank and part. A valid position has its value, transposed or not;
all others are zero. The unit continues within 20 cycles unless the buffer stalls it. `layout_nest.py` is an independent
model of the nest. Sizes are those of side A.

Assumes: every read of a group of the buffer returns the same values.
"""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal

from tensordash.block import Block
from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.preset import load_any_preset
from tensordash.configuration.registers import ERRORS
from tensordash.movers.aligner import Aligner
from tensordash.movers.layout import Layout
from tensordash.movers.layout_unit import LayoutUnit
from tensordash.movers.placement import Placement
from tensordash.movers.walk import Walk

from ..harness import Fault
from ..layout_harness import LayoutHarness
from ..layout_nest import LOOPS
from ..proof import BrokenVariant, Proof
from ..reference_descriptor import corrupt_word

__all__ = ["PROOF", "common_variants"]


def _turns_banks(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += outer.write.bank.eq(sound.write.bank.rotate_left(1))


def _repeats_the_first_word(m: Module, sound: Any, outer: Any) -> None:
    first = Signal.like(outer.write.word, name="first_word")
    written = Signal()
    with m.If(outer.write.bank.any()):
        m.d.sync += written.eq(1)
        with m.If(~written):
            m.d.sync += first.eq(sound.write.word)
    m.d.comb += outer.write.word.eq(Mux(written, first, sound.write.word))


def _writes_once_more(m: Module, sound: Any, outer: Any) -> None:
    before = Signal.like(outer.write.bank, name="before")
    m.d.sync += before.eq(sound.write.bank)
    m.d.comb += outer.write.bank.eq(Mux(sound.write.bank.any(), sound.write.bank, before))


def _base_wraps(m: Module, sound: Any, outer: Any) -> None:
    corrupt_word(1, lambda word: Cat(word[:16] & (outer.words - 1), word[16:]))(m, sound, outer)


def _ports_stand_together(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += sound.stride.eq(1)


def _limit_is_too_high(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += sound.limit.eq(Mux(outer.limit.all() | (outer.limit == 0), outer.limit, outer.limit + 1))


def _positions_below_zero_are_read(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += sound.first.eq(0)


def _done_with_the_first(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += outer.command.done.eq(sound.command.done | sound.write.bank.any())


def _no_error(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += outer.command.error.eq(0)


def _always_an_error(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += outer.command.error.eq(ERRORS["address"])


def _never_ready(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += sound.read.ready.eq(0)


def _withdraws(m: Module, sound: Any, outer: Any) -> None:
    waited = Signal()
    m.d.sync += waited.eq(outer.read.valid & ~outer.read.ready)
    m.d.comb += outer.read.valid.eq(sound.read.valid & ~waited)


def _always_takes(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += outer.command.descriptor.ready.eq(1)


def common_variants(unit: type[LayoutUnit]) -> tuple[BrokenVariant, ...]:
    """Return the broken variants that layouts of one and of two groups per cycle share."""

    def variant(claim: str, title: str, fault: Fault, kind: type[Block] = unit, depth: int = 13) -> BrokenVariant:
        return BrokenVariant(claim=claim, title=title, kind=kind, fault=fault, depth=depth)

    not_transposed = corrupt_word(0, lambda word: word & ~(1 << 24))
    return (
        variant(
            "every_step_is_written_once_and_in_order", "each step is written to the bank of the next", _turns_banks
        ),
        variant(
            "nothing_is_written_after_the_last_step", "the last step is written twice", _writes_once_more, depth=15
        ),
        variant("nothing_is_written_beyond_the_stream_buffer", "the base address wraps", _base_wraps),
        variant("a_position_has_its_value", "the stride counts as 1", _ports_stand_together, Aligner),
        variant("a_position_has_its_value", "nothing is transposed", not_transposed),
        variant("zeros_where_no_position_is", "x_size is one too large", _limit_is_too_high, Placement),
        variant("zeros_where_no_position_is", "positions below 0 are read", _positions_below_zero_are_read, Placement),
        variant("done_when_all_is_written", "`done` rises with the first step", _done_with_the_first),
        variant("the_error_is_the_descriptors", "no error is reported", _no_error),
        variant("the_error_is_the_descriptors", "an error is always reported", _always_an_error),
        variant(
            "advances_unless_the_buffer_stalls", "the unit never receives `ready` of the buffer", _never_ready, depth=30
        ),
        variant("a_read_stays_until_it_is_taken", "a read is withdrawn", _withdraws),
        variant("takes_a_descriptor_while_it_has_none", "a descriptor is always taken", _always_takes),
    )


BROKEN_VARIANTS = (
    *common_variants(Layout),
    BrokenVariant(
        claim="every_step_is_written_once_and_in_order",
        title="every step goes to the first word",
        kind=Layout,
        fault=_repeats_the_first_word,
        depth=16,
    ),
    BrokenVariant(
        claim="a_position_has_its_value",
        title="the outermost loop does not step",
        kind=Walk,
        fault=lambda m, sound, outer: sound.address_steps[LOOPS - 1].eq(0),
        depth=13,
    ),
    BrokenVariant(
        claim="a_position_has_its_value",
        title="loop 1 has one turn too few",
        kind=Walk,
        fault=lambda m, sound, outer: sound.counts[1].eq(Mux(outer.counts[1] == 1, 1, outer.counts[1] - 1)),
        depth=15,
    ),
)

PROOF = Proof(
    name="layout",
    build=LayoutHarness,
    applies=lambda config: isinstance(config, CoreConfig) and config.layout_groups == 1,
    broken_variants=BROKEN_VARIANTS,
    cover_depth=16,
    broken_config=load_any_preset("core"),
)
