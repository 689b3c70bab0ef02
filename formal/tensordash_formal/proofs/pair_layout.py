"""Pair layout: a layout of two groups a cycle follows the loop nest of docs/core.md, for every descriptor.

Each step is written once and in order, at its word, bank and part, alone or with the next step. The zeros after a run
are written with its last step. A valid position has its value, transposed or not; all others are zero. The unit
continues within 20 cycles unless the buffer stalls it. Sizes are those of side A.

Assumes: every read of a group of the buffer returns the same values.
"""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value

from tensordash.block import Block
from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.preset import load_any_preset
from tensordash.movers.pair_layout import PairLayout
from tensordash.movers.pair_queue import PairQueue
from tensordash.movers.pair_walk import PairWalk

from ..harness import Fault
from ..pair_layout_harness import PairLayoutHarness
from ..proof import BrokenVariant, Proof
from ..reference_descriptor import corrupt_word
from .layout import common_variants

__all__ = ["PROOF"]

CARRY_BIT = 8
"""Lowest address bit that the carry does not reach in a broken variant."""


def _one_word_for_both(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += [word.eq(sound.write.word[0]) for word in outer.write.word]


def _one_part_for_both(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += [part.eq(sound.write.part[0]) for part in outer.write.part]


def _banks_have_the_next_ones_data(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += [data.eq(sound.write.data[k ^ 1]) for k, data in enumerate(outer.write.data)]


def _fills_with_the_last_step(m: Module, sound: Any, outer: Any) -> None:
    filled = sound.write.bank.all()
    last = outer.depth - 1
    m.d.comb += outer.write.data[last].eq(Mux(filled, sound.write.data[0], sound.write.data[last]))


def _does_not_fill(m: Module, sound: Any, outer: Any) -> None:
    banks = sound.write.bank
    m.d.comb += outer.write.bank.eq(Mux(banks.all(), banks[: outer.depth - 1], banks))


def _odd_steps(m: Module, sound: Any, outer: Any) -> None:
    corrupt_word(1, lambda word: Cat(word[:16], word[16:] | 1))(m, sound, outer)


def _reads_half_0(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += [data.eq(outer.read.data[k & ~1]) for k, data in enumerate(sound.read.data)]


def _pairs_do_not_wait(m: Module, sound: Any, outer: Any) -> None:
    both = Cat(outer.read.enable[2 * k : 2 * k + 2].all() for k in range(outer.lanes)).any()
    m.d.comb += sound.read.ready.eq(outer.read.ready | both)


def _groups_change_places(m: Module, sound: Any, outer: Any) -> None:
    first, second = (Value.cast(group) for group in sound.groups)
    m.d.comb += Value.cast(outer.groups).eq(Cat(second, first))


def _two_leave_for_one(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += sound.leave.eq(outer.leave[0].replicate(2))


def _the_second_stays(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += sound.leave.eq(outer.leave[0])


def _a_group_is_left_over(m: Module, sound: Any, outer: Any) -> None:
    group, shown = Value.cast(sound.groups[0]), Signal()
    earlier = Signal.like(group)
    with m.If(outer.start):
        m.d.sync += [shown.eq(sound.groups[0].valid), earlier.eq(group)]
    with m.Elif(outer.leave[0]):
        m.d.sync += shown.eq(0)
    m.d.comb += Value.cast(outer.groups[0]).eq(Mux(shown & sound.groups[0].valid, earlier, group))


def _no_carry_in_the_second_address(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += outer.next_address.eq(Cat(sound.next_address[:CARRY_BIT], sound.address[CARRY_BIT:]))


def _outermost_stands(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += sound.address_steps[outer.loops - 1].eq(0)


def _variant(claim: str, title: str, fault: Fault, kind: type[Block] = PairLayout, depth: int = 14) -> BrokenVariant:
    return BrokenVariant(claim=claim, title=title, kind=kind, fault=fault, depth=depth)


ORDER, VALUE = "every_step_is_written_once_and_in_order", "a_position_has_its_value"
BROKEN_VARIANTS = (
    *common_variants(PairLayout),
    _variant(ORDER, "both steps of a pair are written to the same word", _one_word_for_both, depth=16),
    _variant(ORDER, "both steps of a pair are written to the same part", _one_part_for_both, depth=16),
    _variant(ORDER, "no zeros are written after a run of one step", _does_not_fill),
    _variant(ORDER, "a run has an odd number of steps", _odd_steps, depth=16),
    _variant(VALUE, "the groups of a pair are swapped", _banks_have_the_next_ones_data),
    _variant(VALUE, "both halves of a bank return the word of half 0", _reads_half_0),
    _variant(VALUE, "reads of two groups do not wait for the buffer", _pairs_do_not_wait),
    _variant(VALUE, "the first two groups are in the wrong order", _groups_change_places, PairQueue),
    _variant(VALUE, "two groups leave the queue instead of one", _two_leave_for_one, PairQueue),
    _variant(VALUE, "the second group of a pair stays in the queue", _the_second_stays, PairQueue),
    # It fails in a second layout. The solver had no answer for cycle 11 after three minutes.
    BrokenVariant(
        claim=VALUE,
        title="a group of the previous layout stays in the queue",
        kind=PairQueue,
        fault=_a_group_is_left_over,
        depth=21,
        skip=20,
    ),
    _variant(VALUE, "the second group's address has no carry", _no_carry_in_the_second_address, PairWalk),
    _variant(
        VALUE, "the second group has the x of the first", lambda m, sound, outer: outer.next_x.eq(sound.x), PairWalk
    ),
    _variant(VALUE, "the outermost loop does not step", _outermost_stands, PairWalk),
    _variant("zeros_after_a_run", "the last step is written to all banks after it", _fills_with_the_last_step),
)

PROOF = Proof(
    name="pair_layout",
    build=PairLayoutHarness,
    applies=lambda config: isinstance(config, CoreConfig) and config.layout_groups == 2,
    broken_variants=BROKEN_VARIANTS,
    cover_depth=16,
    broken_config=load_any_preset("core-wide"),
)
