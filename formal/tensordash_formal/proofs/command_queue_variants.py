"""Broken variants of the command queue, one or more for each claim of `command_queue`."""

from typing import Any

from amaranth.hdl import Module, Signal

from tensordash.configuration.descriptors import BYTES
from tensordash.configuration.preset import load_any_preset
from tensordash.core.command_queue import CommandQueue

from ..harness import Fault
from ..proof import BrokenVariant

__all__ = ["BROKEN_VARIANTS", "SMALL"]


def _one_place_on(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += outer.axi.araddr.eq(sound.axi.araddr + BYTES)


def _drops_a_beat_of_a_request(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += outer.axi.arlen.eq(sound.axi.arlen ^ 1)


def _one_ahead(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += sound.tail.eq(outer.tail + 1)


def _ignores_done(m: Module, sound: Any, outer: Any) -> None:
    passed = Signal(34)
    m.d.sync += passed.eq(passed + (outer.descriptors.valid & outer.descriptors.ready))
    m.d.comb += sound.done.eq(passed[2:])


def _fetches_without_end(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += outer.axi.arvalid.eq(1)


def _offers_at_once(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += outer.descriptors.valid.eq(sound.descriptors.valid | outer.enable)


def _repeats_a_beat(m: Module, sound: Any, outer: Any) -> None:
    repeats = Signal()
    m.d.sync += repeats.eq(outer.descriptors.valid & outer.descriptors.ready & ~repeats)
    m.d.comb += [
        sound.descriptors.ready.eq(outer.descriptors.ready & ~repeats),
        outer.descriptors.payload.eq(sound.descriptors.payload),
    ]


def _changes_the_last_bit(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += outer.descriptors.payload.data[-1].eq(~sound.descriptors.payload.data[-1])


def _drops_a_beat(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += outer.axi.rready.eq(sound.axi.rready & outer.descriptors.ready)


def _never_passes(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += [outer.descriptors.valid.eq(0), sound.descriptors.ready.eq(0)]


def _counts_beats(m: Module, sound: Any, outer: Any) -> None:
    beats = Signal(32)
    m.d.sync += beats.eq(beats + (outer.descriptors.valid & outer.descriptors.ready))
    m.d.comb += outer.head.eq(beats)


def _requests_twice(m: Module, sound: Any, outer: Any) -> None:
    is_second = Signal()
    with m.If(outer.axi.arvalid & outer.axi.arready):
        m.d.sync += is_second.eq(~is_second)
    m.d.comb += sound.axi.arready.eq(outer.axi.arready & is_second)


def _idle_between_descriptors(m: Module, sound: Any, outer: Any) -> None:
    """Make `busy` low while a descriptor waits in the queue, and the bus and the sequencer are idle."""
    passed = Signal(34)
    m.d.sync += passed.eq(passed + (outer.descriptors.valid & outer.descriptors.ready))
    waits = outer.enable & (outer.head != outer.tail)
    m.d.comb += outer.busy.eq((passed[2:] != outer.done) | ~outer.idle | waits)


def _idle_while_disabled(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += outer.busy.eq(sound.busy & outer.enable)


def _busy_once_it_passed(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += outer.busy.eq(outer.head != outer.done)


def _busy_while_disabled(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += outer.busy.eq(sound.busy | (outer.head != outer.tail))


NARROW = load_any_preset("core", ["core.window=4", "core.prefetch=2", "core.axi_bits=32"])
SMALL = load_any_preset("core", ["core.window=4", "core.prefetch=2"])
WIDE = load_any_preset("core", ["core.window=4", "core.prefetch=2", "core.axi_bits=256"])
WIDEST = load_any_preset("core-fp8", ["core.window=4", "core.prefetch=2", "core.axi_bits=512"])


def _variant(claim: str, title: str, fault: Fault, depth: int = 10, config: Any = SMALL) -> BrokenVariant:
    return BrokenVariant(claim=claim, title=title, kind=CommandQueue, fault=fault, depth=depth, config=config)


UNCHANGED = "beats_pass_in_order_and_unchanged"
BROKEN_VARIANTS = (
    _variant("descriptors_come_from_their_places", "the first place of the ring is skipped", _one_place_on),
    _variant(
        "descriptors_come_from_their_places", "the ring does not wrap", lambda m, sound, outer: sound.queue_size.eq(15)
    ),
    _variant("each_is_requested_in_one_burst", "one beat is not requested", _drops_a_beat_of_a_request, config=WIDE),
    _variant("none_is_requested_beyond_the_tail", "the queue reads one descriptor beyond the tail", _one_ahead),
    _variant("no_more_are_requested_than_the_fifo_holds", "requests are not counted", _fetches_without_end),
    _variant("none_is_lost_and_none_repeated", "each descriptor is read twice", _requests_twice),
    _variant("beats_are_taken_when_they_arrive", "a beat waits for the sequencer", _drops_a_beat),
    _variant("none_is_passed_before_it_arrived", "beats are offered before they arrive", _offers_at_once),
    _variant("none_is_passed_that_the_window_has_no_room_for", "the queue ignores `done`", _ignores_done, 30, WIDEST),
    _variant(UNCHANGED, "a beat is passed twice", _repeats_a_beat, 12),
    _variant(UNCHANGED, "a bit is inverted", _changes_the_last_bit, 12, WIDEST),
    _variant(UNCHANGED, "errors are lost", lambda m, sound, outer: outer.descriptors.payload.error.eq(0), 14, NARROW),
    _variant("received_descriptors_are_passed", "no beat is passed", _never_passes, 14, WIDE),
    _variant("head_counts_received_descriptors", "`head` counts beats", _counts_beats),
    _variant("busy_until_all_are_done", "`busy` is low while a descriptor waits", _idle_between_descriptors, 12),
    _variant(
        "busy_until_all_are_done",
        "`busy` is low while a descriptor waits (256 bits)",
        _idle_between_descriptors,
        12,
        WIDE,
    ),
    _variant(
        "busy_until_all_are_done",
        "`busy` is low while a descriptor waits (512 bits)",
        _idle_between_descriptors,
        12,
        WIDEST,
    ),
    _variant("busy_until_all_are_done", "`busy` is low while the queue is disabled", _idle_while_disabled),
    _variant("busy_while_one_waits_in_the_ring", "`busy` is low until a descriptor arrives", _busy_once_it_passed),
    _variant("not_busy_otherwise", "`busy` is high while the queue is disabled", _busy_while_disabled),
)
