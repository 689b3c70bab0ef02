"""Deflate: the units that leave are those of the groups that were taken, each once, in order and at its place."""

from typing import Any

from amaranth.hdl import Array, Cat, Const, Module, Mux, ResetSignal, Signal

from tensordash.block import Block
from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.preset import load_any_preset
from tensordash.movers.deflate import Deflate

from ..group_units import GroupUnits, proven_shape
from ..harness import Fault, Harness
from ..proof import BrokenVariant, Proof
from .deflate import assume_what_stores_keep_to

__all__ = ["PROOF"]

PARTITIONS = 5
"""Number of queries: more of them are each easier."""


class Deflated(Harness):
    """A deflate between groups that come as they like and a bus that takes what it likes.

    A unit of the sequence is at a place of a beat: the first unit after a start is at place `offset` of the first beat,
    each at the place after the one before. Every unit of a group is looked at: `which` is any of them. Until its beat
    leaves, one of those that have been taken is remembered, whichever.

    Source: docs/core.md, "Tensors"; the docstring of `Deflate`.
    """

    def __init__(self, config: CoreConfig, fault: tuple[type[Block], Fault] | None = None) -> None:
        self.dut = dut = Deflate(**proven_shape(config))
        width = dut.width
        super().__init__(dut, fault=fault, partitions=PARTITIONS)
        started = assume_what_stores_keep_to(self, dut)
        m, beat, shift = self.m, dut.beat, dut.shift
        groups, beats = dut.groups, dut.beats
        values = [groups.payload.word_select(j, width) for j in range(dut.size)]
        mask = Signal(dut.size, name="mask_of_group")
        m.d.comb += mask.eq(Cat(value != 0 for value in values))
        self.cut("mask", mask)
        # Where the sequence is: units of a beat before the next group; beats that have left of the one that is offered.
        before = Signal(shift)
        gone = Signal(range(dut.most_beats + 1))
        first = Signal()  # no beat has left since a start
        offset = Const(0, shift)
        if dut.offset_bits:
            offset = Cat(Const(0, shift - dut.offset_bits), dut.offset)
        units = GroupUnits(m, begin=before, mask=mask, plain=dut.plain, width=width, places=beat + dut.most)
        end = units.place[-1]
        whole = Signal(range(dut.most_beats + 1))
        leaves, taken = beats.valid & beats.ready, groups.valid & groups.ready
        m.d.comb += whole.eq(end >> shift)
        with m.If(leaves):
            m.d.sync += [gone.eq(gone + 1), first.eq(0)]
        with m.If(taken):
            m.d.sync += [before.eq(end), gone.eq(0)]
        with m.If(leaves & ~groups.valid):
            m.d.sync += [before.eq(0), gone.eq(0)]
        with m.If(dut.start):
            m.d.sync += [before.eq(offset), gone.eq(0), first.eq(1)]

        more = groups.valid & (gone < whole)
        rest = ~groups.valid & dut.flush & (before != 0)
        self.claim("offers_beats_that_are_whole_and_the_last", beats.valid == (more | rest))
        self.claim(
            "takes_a_group_with_its_last_whole_beat", groups.ready == (gone + leaves == whole), when=groups.valid
        )
        for p in range(beat):
            there = (groups.valid | (p < before)) & ~(first & (p < offset))
            strobes = beats.payload.strobe.word_select(p, width // 8)
            self.claim("strobes_are_those_of_units", strobes == there.replicate(len(strobes)), when=beats.valid)

        def at(place: Any) -> Any:
            return Array(beats.payload.data.word_select(p, width) for p in range(beat))[place]

        which = self.constant(range(dut.most), "which")
        self.assume(which < dut.most)
        contents = [mask.word_select(k, width) for k in range(dut.masks)] + values
        places = [before + k for k in range(dut.masks)] + units.place[:-1]
        theres = [~dut.plain] * dut.masks + units.has_unit
        content, place, there = Signal(width), Signal(range(beat + dut.most)), Signal()
        m.d.comb += [content.eq(Array(contents)[which]), place.eq(Array(places)[which]), there.eq(Array(theres)[which])]
        here = beats.valid & ~dut.mute
        of_group = groups.valid & there & (place >> shift == gone)
        self.claim("every_unit_leaves_at_its_place", at(place[:shift]) == content, when=here & of_group)

        pick = self.free(1, "pick")
        kept, kept_place, kept_content = Signal(), Signal(shift), Signal(width)
        with m.If(leaves):
            m.d.sync += kept.eq(0)
        with m.If(taken & there & (place >> shift == whole) & (pick | ~kept | leaves)):
            m.d.sync += [kept.eq(1), kept_place.eq(place), kept_content.eq(content)]
        with m.If(dut.start):
            m.d.sync += kept.eq(0)
        self.claim(
            "what_is_left_of_a_group_leaves_at_its_place",
            at(kept_place) == kept_content,
            when=here & kept & (gone == 0),
        )

        self.lemma(self.probe("filled", shift) == before, when=started, first=True)
        self.lemma(self.probe("sent", (dut.most_beats - 1).bit_length()) == gone, when=started, first=True)
        self.lemma((gone == 0) | (groups.valid & (gone < whole)), when=~ResetSignal(), first=True)
        self.lemma((kept_place < before) & (gone == 0), when=kept, first=True)
        rests = Array([self.probe(f"rest_{p}", width) for p in range(beat - 1)] + [Const(0, width)])
        self.lemma(rests[kept_place] == kept_content, when=kept, first=True)
        if dut.offset_bits:
            self.lemma(self.probe("first", 1) == first, when=started, first=True)
            self.lemma((before >= offset) & ((kept_place >= offset) | ~kept), when=first, first=True)


def _waits_for_ready(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += outer.beats.valid.eq(sound.beats.valid & outer.beats.ready)


def _keeps_what_was_before_a_start(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += sound.start.eq(0)


def _takes_at_once(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += outer.groups.ready.eq(1)


def _writes_whole_beats(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += outer.beats.payload.strobe.eq(-1)


def _swaps_units(m: Module, sound: Any, outer: Any) -> None:
    data, width = sound.beats.payload.data, outer.width
    m.d.comb += outer.beats.payload.data.eq(Cat(data[width : 2 * width], data[:width], data[2 * width :]))


def _loses_minus_zero(m: Module, sound: Any, outer: Any) -> None:
    minus_zero = 1 << (outer.width - 1)
    for j in range(outer.size):
        value = outer.groups.payload.word_select(j, outer.width)
        inner = sound.groups.payload.word_select(j, outer.width)
        m.d.comb += inner.eq(Mux(value == minus_zero, 0, value))


def _marks_all_values(m: Module, sound: Any, outer: Any) -> None:
    """The mask that leaves first says that there are all values, though there are not."""
    begun = Signal()
    with m.If(outer.start):
        m.d.sync += begun.eq(0)
    with m.Elif(outer.beats.valid & outer.beats.ready):
        m.d.sync += begun.eq(1)
    with m.If(~begun & ~outer.plain):
        m.d.comb += outer.beats.payload.data[: outer.width].eq(-1)


def _loses_a_unit_in_a_stall(m: Module, sound: Any, outer: Any) -> None:
    with m.If(~outer.beats.ready):
        m.d.comb += outer.beats.payload.data[-outer.width :].eq(0)


def _forgets_what_is_left(m: Module, sound: Any, outer: Any) -> None:
    with m.If(outer.flush):
        m.d.comb += outer.beats.payload.data[: outer.width].eq(0)


def _variant(claim: str, title: str, fault: Fault) -> BrokenVariant:
    return BrokenVariant(claim=claim, title=title, kind=Deflate, fault=fault, depth=8)


BROKEN_VARIANTS = (
    _variant("every_unit_leaves_at_its_place", "the first two units of a beat are swapped", _swaps_units),
    _variant("every_unit_leaves_at_its_place", "the first mask has all bits set", _marks_all_values),
    _variant("every_unit_leaves_at_its_place", "-0 is no value", _loses_minus_zero),
    _variant("every_unit_leaves_at_its_place", "a unit is lost while the bus stalls", _loses_a_unit_in_a_stall),
    _variant("what_is_left_of_a_group_leaves_at_its_place", "the last beat has lost a unit", _forgets_what_is_left),
    _variant("offers_beats_that_are_whole_and_the_last", "valid waits for ready", _waits_for_ready),
    _variant(
        "offers_beats_that_are_whole_and_the_last", "units stay though all begins anew", _keeps_what_was_before_a_start
    ),
    _variant("takes_a_group_with_its_last_whole_beat", "a group is taken at once", _takes_at_once),
    _variant("strobes_are_those_of_units", "whole beats are written", _writes_whole_beats),
)

PROOF = Proof(
    name="deflate_units",
    build=Deflated,
    applies=lambda config: isinstance(config, CoreConfig) and config.compression,
    broken_variants=BROKEN_VARIANTS,
    engine="smtbmc --stbv --nopresat z3 -- --noincr",
    broken_config=load_any_preset("core"),
)
