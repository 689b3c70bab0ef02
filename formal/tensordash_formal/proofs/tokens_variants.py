"""Broken variants of the sequencer, one or more for each claim of `tokens`."""

from typing import Any

from amaranth.hdl import Module, Mux, Signal

from tensordash.block import Block
from tensordash.configuration.descriptors import OPERATIONS
from tensordash.configuration.preset import load_any_preset
from tensordash.configuration.registers import ERRORS
from tensordash.core.descriptor_check import DescriptorCheck
from tensordash.core.sequencer import Sequencer
from tensordash.movers.unit import COMMAND_BEATS

from ..harness import Fault
from ..proof import BrokenVariant

__all__ = ["BROKEN_VARIANTS"]


def _sends_loads_to_the_store(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += [
        outer.store.descriptor.valid.eq(sound.load.descriptor.valid),
        outer.load.descriptor.valid.eq(0),
        sound.load.descriptor.ready.eq(outer.store.descriptor.ready),
    ]


def _accepts_violations(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += outer.error.eq(Mux(sound.error == ERRORS["tokens"], 0, sound.error))


def _accepts_any_skip(m: Module, sound: Any, outer: Any) -> None:
    flag = next(field for field in OPERATIONS["multiply"].fields if field.name == "skip_masked")
    m.d.comb += sound.data.eq(Mux(outer.beat == 0, outer.data & ~flag.mask, outer.data))


def _changes_a_bit(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += outer.load.descriptor.payload.eq(sound.load.descriptor.payload ^ 1)


def _sends_without_tokens(m: Module, sound: Any, outer: Any) -> None:
    beats = Signal(range(2 * COMMAND_BEATS + 1))
    with m.If(outer.descriptors.valid & (beats != 2 * COMMAND_BEATS)):
        m.d.sync += beats.eq(beats + 1)
    m.d.comb += outer.layout_a.descriptor.valid.eq(sound.layout_a.descriptor.valid | (beats == 2 * COMMAND_BEATS))


def _done_with_the_next(m: Module, sound: Any, outer: Any) -> None:
    beats = Signal(34)
    m.d.sync += beats.eq(beats + outer.descriptors.valid)
    m.d.comb += outer.done.eq(Mux(beats[2:] == 0, 0, beats[2:] - 1))


def _counts_running(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += outer.done.eq(sound.done + sound.running.any())


def _ends_with_a_beat(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += outer.ended.eq(sound.ended | outer.descriptors.valid)


def _store_is_held_back(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += [outer.store.descriptor.valid.eq(0), sound.store.descriptor.ready.eq(0)]


def _never_fails(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += [outer.failed.eq(0), outer.error.eq(0)]


def _variant(claim: str, title: str, fault: Fault, kind: type[Block] = Sequencer, depth: int = 12) -> BrokenVariant:
    return BrokenVariant(claim=claim, title=title, kind=kind, fault=fault, depth=depth)


IN_ORDER = "a_descriptor_is_sent_once_in_order_to_its_unit"
BROKEN_VARIANTS = (
    _variant(IN_ORDER, "violations of the token rule are accepted", _accepts_violations, DescriptorCheck, 14),
    BrokenVariant(
        claim=IN_ORDER,
        title="`skip_masked` is accepted with every stride and position",
        kind=DescriptorCheck,
        fault=_accepts_any_skip,
        depth=14,
        config=load_any_preset("core-skip"),
    ),
    _variant(IN_ORDER, "loads go to the store unit", _sends_loads_to_the_store),
    _variant("it_is_sent_unchanged", "a bit of a load is inverted", _changes_a_bit),
    _variant(
        "a_descriptor_begins_with_its_tokens", "a layout is sent as soon as it is received", _sends_without_tokens
    ),
    _variant("the_oldest_has_its_tokens", "a descriptor is done when the next one is received", _done_with_the_next),
    _variant("done_counts_what_its_units_have_done", "running descriptors count as done", _counts_running),
    _variant("an_end_is_reported_when_all_before_it_is_done", "every beat raises `ended`", _ends_with_a_beat),
    _variant(
        "the_error_is_the_first_descriptors",
        "a token error is reported as a field error",
        lambda m, sound, outer: outer.error.eq(Mux(sound.error == ERRORS["tokens"], ERRORS["field"], sound.error)),
        DescriptorCheck,
        10,
    ),
    _variant(
        "the_oldest_begins_unless_another_moves", "the store unit gets no descriptors", _store_is_held_back, depth=14
    ),
    _variant("an_error_is_reported_when_all_is_quiet", "no error is reported", _never_fails),
)
