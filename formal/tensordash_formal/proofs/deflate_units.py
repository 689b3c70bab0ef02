"""Deflate: it sends the items of the groups that it takes, each once, in order and at its place.

From place `offset` of the first beat on, the items follow in the order of docs/core.md. A beat is offered as soon as it
is complete, and the last beat at the end. A group leaves with its last complete beat. `start` may rise in any cycle.

Assumes: the assumptions of `deflate`; deflate is not mute. Tiles have at most 4 lanes, and beats at most 8 items.
Wider cores are proven at this size.
"""

from typing import Any

from amaranth.hdl import Array, Cat, Const, Module, Mux, ResetSignal, Signal, Value

from tensordash.block import Block
from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.preset import load_any_preset
from tensordash.movers.deflate import Deflate

from ..group_units import GroupUnits, proven_shape
from ..harness import Fault, Harness
from ..proof import Proof, make_variants
from .deflate import assume_store_behaviour

__all__ = ["PROOF"]


class DeflateHarness(Harness):
    """A deflate component with free handshakes on both sides.

    Each item has a place in a beat. The first item after a start is at place `offset` of the first beat, and each
    further item at the next place. `which` is an arbitrary item of a group. The harness stores one arbitrary taken item
    until its beat leaves.

    Source: docs/core.md, "Tensors"; the docstring of `Deflate`.
    """

    def __init__(self, config: CoreConfig, fault: tuple[type[Block], Fault] | None = None) -> None:
        self.dut = dut = Deflate(**proven_shape(config))
        width = dut.width
        super().__init__(dut, fault=fault)
        started = assume_store_behaviour(self, dut)
        m, beat, shift = self.m, dut.beat, dut.shift
        groups, beats = dut.groups, dut.beats
        values = [groups.payload.word_select(j, width) for j in range(dut.size)]
        mask = Signal(dut.size, name="mask_of_group")
        m.d.comb += mask.eq(Cat(value != 0 for value in values))
        self.cut("mask", mask)
        # Number of items in the beat before the next group, and number of sent beats of the offered group.
        before = Signal(shift)
        sent = Signal(range(dut.max_beats + 1))
        first = Signal()  # no beat has left since a start
        offset = Const(0, shift)
        if dut.offset_bits:
            offset = Cat(Const(0, shift - dut.offset_bits), dut.offset)
        units = GroupUnits(m, begin=before, mask=mask, plain=dut.plain, width=width, places=beat + dut.most)
        end = units.place[-1]
        whole_beats = Signal(range(dut.max_beats + 1))
        leaves, taken = beats.valid & beats.ready, groups.valid & groups.ready
        m.d.comb += whole_beats.eq(end >> shift)
        with m.If(leaves):
            m.d.sync += [sent.eq(sent + 1), first.eq(0)]
        with m.If(taken):
            m.d.sync += [before.eq(end), sent.eq(0)]
        with m.If(leaves & ~groups.valid):
            m.d.sync += [before.eq(0), sent.eq(0)]
        with m.If(dut.start):
            m.d.sync += [before.eq(offset), sent.eq(0), first.eq(1)]

        more = groups.valid & (sent < whole_beats)
        rest = ~groups.valid & dut.flush & (before != 0)
        self.claim("offers_beats_that_are_whole_and_the_last", beats.valid == (more | rest))
        self.claim(
            "takes_a_group_with_its_last_whole_beat", groups.ready == (sent + leaves == whole_beats), when=groups.valid
        )
        for p in range(beat):
            has_unit = (groups.valid | (p < before)) & ~(first & (p < offset))
            strobes = beats.payload.strobe.word_select(p, width // 8)
            self.claim("strobes_are_those_of_units", strobes == has_unit.replicate(len(strobes)), when=beats.valid)

        def at(place: Any) -> Any:
            return Array(beats.payload.data.word_select(p, width) for p in range(beat))[place]

        content, place, has_unit = self._pick_unit(mask, values, before, units)
        here = beats.valid & ~dut.mute
        of_group = groups.valid & has_unit & (place >> shift == sent)
        self.claim("every_unit_leaves_at_its_place", at(place[:shift]) == content, when=here & of_group)

        pick = self.free(1, "pick")
        stored, stored_place, stored_content = Signal(), Signal(shift), Signal(width)
        with m.If(leaves):
            m.d.sync += stored.eq(0)
        with m.If(taken & has_unit & (place >> shift == whole_beats) & (pick | ~stored | leaves)):
            m.d.sync += [stored.eq(1), stored_place.eq(place), stored_content.eq(content)]
        with m.If(dut.start):
            m.d.sync += stored.eq(0)
        self.claim(
            "the_rest_of_a_group_leaves_at_its_place",
            at(stored_place) == stored_content,
            when=here & stored & (sent == 0),
        )

        self.lemma(self.probe("filled", shift) == before, when=started)
        self.lemma(self.probe("sent", (dut.max_beats - 1).bit_length()) == sent, when=started)
        self.lemma((sent == 0) | (groups.valid & (sent < whole_beats)), when=~ResetSignal())
        self.lemma((stored_place < before) & (sent == 0), when=stored)
        rests = Array([self.probe(f"rest_{p}", width) for p in range(beat - 1)] + [Const(0, width)])
        self.lemma(rests[stored_place] == stored_content, when=stored)
        if dut.offset_bits:
            self.lemma(self.probe("first", 1) == first, when=started)
            self.lemma((before >= offset) & ((stored_place >= offset) | ~stored), when=first)

    def _pick_unit(self, mask: Value, values: list[Value], before: Value, units: GroupUnits) -> tuple[Signal, ...]:
        """Pick an arbitrary item of the offered group; return its content, its place, and whether the group has it."""
        dut = self.dut
        which = self.constant(range(dut.most), "which")
        self.assume(which < dut.most)
        contents = [mask.word_select(k, dut.width) for k in range(dut.masks)] + values
        places = [before + k for k in range(dut.masks)] + units.place[:-1]
        present_units = [~dut.plain] * dut.masks + units.has_unit
        content, place, has_unit = Signal(dut.width), Signal(range(dut.beat + dut.most)), Signal()
        self.m.d.comb += [
            content.eq(Array(contents)[which]),
            place.eq(Array(places)[which]),
            has_unit.eq(Array(present_units)[which]),
        ]
        return content, place, has_unit


def _waits_for_ready(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += outer.beats.valid.eq(sound.beats.valid & outer.beats.ready)


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
    """Set all bits of the first mask."""
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


def _loses_a_unit_of_the_rest(m: Module, sound: Any, outer: Any) -> None:
    with m.If(outer.flush):
        m.d.comb += outer.beats.payload.data[: outer.width].eq(0)


BROKEN_VARIANTS = make_variants(
    Deflate,
    {
        "every_unit_leaves_at_its_place": {
            "the first two units of a beat are swapped": _swaps_units,
            "the first mask has all bits set": _marks_all_values,
            "-0 counts as zero": _loses_minus_zero,
            "a unit is lost while the bus stalls": _loses_a_unit_in_a_stall,
        },
        "the_rest_of_a_group_leaves_at_its_place": {"the last beat loses a unit": _loses_a_unit_of_the_rest},
        "offers_beats_that_are_whole_and_the_last": {
            "`valid` waits for `ready`": _waits_for_ready,
            "a start is ignored": lambda m, sound, outer: sound.start.eq(0),
        },
        "takes_a_group_with_its_last_whole_beat": {
            "a group is taken with its first beat": lambda m, sound, outer: outer.groups.ready.eq(1)
        },
        "strobes_are_those_of_units": {
            "all strobes are high": lambda m, sound, outer: outer.beats.payload.strobe.eq(-1)
        },
    },
)

PROOF = Proof(
    name="deflate_units",
    build=DeflateHarness,
    applies=lambda config: isinstance(config, CoreConfig) and config.compression,
    broken_variants=BROKEN_VARIANTS,
    broken_config=load_any_preset("core"),
)
