"""Inflate: the groups that it gives are those whose units it was given, each once and in order."""

from typing import Any

from amaranth.hdl import Array, Cat, Module, Mux, Signal, Value

from tensordash.block import Block
from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.preset import load_any_preset
from tensordash.movers.compaction import unit_bits
from tensordash.movers.inflate import Inflate

from ..group_units import GroupUnits, proven_shape
from ..harness import Fault, Harness
from ..proof import BrokenVariant, Proof

__all__ = ["PROOF"]

PARTITIONS = 7
"""Number of queries: more of them are each easier."""


class Inflated(Harness):
    """An inflate between beats that come as they like and a buffer that takes what it likes.

    Beats are kept beside it, as a queue, from the one on that has the next unit of a group. Every value of a group is
    looked at: `which` is any of them.

    Source: docs/core.md, "Tensors" and "Errors" (`compressed`); the docstring of `Inflate`.
    """

    def __init__(self, config: CoreConfig, fault: tuple[type[Block], Fault] | None = None) -> None:
        shape = proven_shape(config)
        self.width = shape["width"]
        self.dut = dut = Inflate(**shape, count_bits=unit_bits(shape["lanes"], self.width))
        super().__init__(dut, fault=fault, partitions=PARTITIONS)
        self.assume(dut.start | ~dut.plain | self.past(dut.plain))
        self.assume((dut.groups != 0) | dut.plain | ~dut.start)
        self._state()
        self._next()
        self._claims()
        self._cut_ends()
        self._follow()

    def _state(self) -> None:
        """What is known of the sequence, and of the group that is next in it."""
        m, dut, beat, number = self.m, self.dut, self.dut.beat, self.dut.number
        depth = dut.slots + 1  # one more than there is room for
        self.queue = [Signal(beat * self.width, name=f"queue_{k}") for k in range(depth)]
        self.count = Signal(range(depth + 1), name="beats_in_queue")
        self.at = Signal(dut.shift, name="next_unit")
        self.part = Signal(range(number), name="next_part")
        self.comes, self.wrong = Signal(name="groups_come"), Signal(name="units_are_wrong")
        self.left = Signal(16, name="left_to_come")
        self.limit = Signal(len(dut.limit), name="units_end")  # counted from the queue's first beat on, as all places
        self.kept_mask = Signal(dut.size, name="mask_of_begun")
        self.goes = self.comes | dut.plain

        masks = Cat(self._unit(self.at + k) for k in range(dut.masks))
        begun = self.part != 0
        self.known = Signal(name="mask_is_known")
        self.mask = Signal(dut.size, name="mask_of_group")
        m.d.comb += [
            self.known.eq(begun | dut.plain | (self.at + dut.masks <= self.count * beat)),
            self.mask.eq(Mux(begun, self.kept_mask, masks)),
        ]
        sent = Cat((self.part > k).replicate(dut.part) for k in range(number))
        self.units = units = GroupUnits(
            m, begin=self.at, mask=self.mask, plain=dut.plain, width=self.width, places=beat + dut.most, sent=sent
        )
        self.ends = [units.place[(k + 1) * dut.part] for k in range(number)]
        self.short = Signal(name="units_are_short")
        behind = Mux(self.known, units.place[-1], self.at + dut.masks)
        m.d.comb += self.short.eq(self.comes & (self.limit < behind))

    def _unit(self, place: Value) -> Value:
        """The unit at a place: of the beat that is offered if it is behind those in the queue."""
        shift = self.dut.shift
        row = place >> shift
        chosen = Mux(row == self.count, self.dut.beats.payload, Array(self.queue)[row])
        return chosen.word_select(place[:shift], self.width)

    def _next(self) -> None:
        """What becomes of it in a cycle."""
        m, dut, shift = self.m, self.dut, self.dut.shift
        beats, out = dut.beats, dut.out
        gives, takes = out.valid & out.ready, beats.valid & beats.ready
        end = Signal(len(self.ends[-1]), name="end_of_given")
        freed = Signal(range(dut.slots + 3), name="beats_freed")
        part = Signal.like(self.part, name="part_after")
        for k, each in enumerate(self.ends):
            with m.If(dut.parts[k]):
                m.d.comb += [end.eq(each), part.eq((k + 1) % dut.number)]
        m.d.comb += freed.eq(Mux(gives, end >> shift, 0))
        filled = [Mux(self.count == k, beats.payload, each) for k, each in enumerate(self.queue)]
        for k, each in enumerate(self.queue):
            m.d.sync += each.eq(Array([*filled[k:], *filled[:k]])[freed])
        self.after = Signal(range(2 * dut.slots + 3), name="beats_after")
        m.d.comb += self.after.eq(self.count + takes - freed)
        m.d.sync += [self.count.eq(self.after), self.limit.eq(self.limit - (freed << shift))]
        with m.If(gives):
            m.d.sync += [self.at.eq(end), self.part.eq(part), self.kept_mask.eq(self.mask)]
            with m.If(dut.last):
                m.d.sync += self.left.eq(self.left - 1)
                with m.If(self.comes & (self.left == 1)):
                    m.d.sync += [self.comes.eq(0), self.wrong.eq(self.limit != end)]
        with m.If(self.short):
            m.d.sync += [self.comes.eq(0), self.wrong.eq(1)]
        with m.If(~self.goes):
            m.d.sync += self.count.eq(0)
        with m.If(dut.start):
            m.d.sync += [self.comes.eq(~dut.plain), self.wrong.eq(0), self.count.eq(0), self.at.eq(dut.offset)]
            m.d.sync += [self.part.eq(0), self.limit.eq(dut.limit), self.left.eq(dut.groups)]

    def _claims(self) -> None:
        dut, beat, part = self.dut, self.dut.beat, self.dut.part
        beats, out = dut.beats, dut.out
        given = out.valid & ~dut.start
        self.claim("gives_nothing_but_groups_that_come", self.goes & ~self.short, when=out.valid)
        for k in range(dut.number):
            before = dut.parts[k - 1] if k else 0
            self.claim("parts_are_given_in_order", dut.parts[k] | (self.part != k), when=given)
            self.claim(
                "parts_are_given_in_order", (self.part == k) | ((self.part < k) & before), when=given & dut.parts[k]
            )
            there = self.known & (self.ends[k] <= (self.count + beats.valid) * beat)
            self.claim("a_part_is_given_when_all_of_it_has_come", there, when=out.valid & dut.parts[k])
        self.claim("last_marks_the_end_of_a_group", dut.last == dut.parts[-1], when=given)

        for j, (there, place) in enumerate(zip(self.units.has_unit, self.units.place[:-1], strict=True)):
            value = out.payload.word_select(j, self.width)
            self.claim(
                "every_value_is_its_unit", value == Mux(there, self._unit(place), 0), when=given & dut.parts[j // part]
            )

        # With all the beats kept that there is room for, it may wait for the next one, to give more parts at once.
        full = self.count == dut.slots
        some = (Array(self.ends)[self.part] <= (self.count + full) * beat) & (~full | beats.valid)
        come = self.known & (some | (self.ends[-1] <= self.count * beat))
        self.claim("gives_what_has_come", out.valid, when=self.goes & ~self.short & come & ~dut.start)
        self.claim("takes_a_beat_while_there_is_room", beats.ready, when=~self.goes | ~full)
        self.claim("takes_no_beat_without_room", self.after <= dut.slots, when=self.goes & ~dut.start & beats.valid)
        self.claim("is_active_while_groups_come", dut.active == (self.comes | (dut.plain & (self.count != 0))))
        self.claim("tells_units_that_are_not_those_of_so_many_groups", dut.wrong == self.wrong)

    def _cut_ends(self) -> None:
        """Let the ends of parts be counted one value after the other, as they are here."""
        dut = self.dut
        mask = self.probe("mask", dut.size)
        place: Value = self.probe("after_mask", (dut.beat + dut.masks - 1).bit_length())
        for k in range(dut.number):
            end = place
            for j in range(k * dut.part, (k + 1) * dut.part):
                total = Signal.like(self.units.place[0], name=f"counted_{j}")
                self.m.d.comb += total.eq(end + mask[j])
                end = total
            self.cut(f"end_{k}", end)
            if k + 1 < dut.number:
                place = self.probe(f"end_{k}", len(end))

    def _follow(self) -> None:
        """What makes it inductive: its registers are those beside it."""
        dut, goes = self.dut, self.goes
        self.lemma(self.probe("counts", 1) == self.comes, first=True)
        self.lemma(~(self.comes & self.past(dut.plain)), first=True)
        self.lemma(self.count <= dut.slots, first=True)
        self.lemma(self.probe("held", dut.slots.bit_length()) == self.count, first=True)
        self.lemma(self.probe("head", dut.shift) == self.at, when=goes & ~dut.start, first=True)
        self.lemma(self.probe("limit_left", len(dut.limit)) == self.limit, when=self.comes, first=True)
        self.lemma(self.probe("groups_left", 16) == self.left, when=self.comes, first=True)
        for k in range(dut.slots):
            self.lemma(self.probe(f"kept_{k}", dut.beat * self.width) == self.queue[k], when=k < self.count, first=True)
        self.lemma(self.probe("done", dut.number) == Cat(k < self.part for k in range(dut.number)), first=True)
        if dut.number > 1:
            earlier = self.probe("earlier", dut.size)
            self.lemma(earlier == self.kept_mask, when=self.comes & (self.part != 0), first=True)
        if dut.slots > 1:
            waits, earlier = self.probe("waits", 1), self.probe("reach_before", (dut.slots + 1).bit_length())
            most = Mux(self.count == dut.slots, dut.slots + 1, self.count)
            there = self.known & (Array(self.ends)[self.part] <= earlier * dut.beat)
            self.lemma((earlier <= most) & there & ~self.short, when=waits & goes & ~dut.start, first=True)


def _a_group_more(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += [sound.groups.eq(outer.groups + 1), sound.limit.eq(-1)]


def _tells_no_first_part(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += outer.parts[0].eq(0)


def _uses_what_has_not_come(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += sound.beats.valid.eq(1)


def _never_last(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += outer.last.eq(0)


def _swaps_units(m: Module, sound: Any, outer: Any) -> None:
    data, width = outer.beats.payload, outer.width
    m.d.comb += sound.beats.payload.eq(Cat(data[width : 2 * width], data[:width], data[2 * width :]))


def _swaps_values(m: Module, sound: Any, outer: Any) -> None:
    data, width = sound.out.payload, outer.width
    m.d.comb += outer.out.payload.eq(Cat(data[width : 2 * width], data[:width], data[2 * width :]))


def _has_no_mask(m: Module, sound: Any, outer: Any) -> None:
    """All values are where those of a plain group are."""
    m.d.comb += outer.out.payload.eq(Cat(outer.beats.payload, outer.beats.payload)[: len(outer.out.payload)])


def _begins_with_a_whole_beat(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += sound.offset.eq(0)


def _keeps_beats_from_before_a_start(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += sound.start.eq(outer.start & ~sound.active)


def _loses_a_beat_in_a_stall(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += outer.beats.ready.eq(sound.beats.ready | (sound.out.valid & ~outer.out.ready))


def _waits_for_ready(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += outer.out.valid.eq(sound.out.valid & outer.out.ready)


def _waits_for_groups(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += outer.beats.ready.eq(sound.beats.ready & (sound.out.valid | ~sound.active))


def _is_always_active(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += outer.active.eq(1)


def _tells_nothing(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += outer.wrong.eq(0)


def _variant(claim: str, title: str, fault: Fault) -> BrokenVariant:
    return BrokenVariant(claim=claim, title=title, kind=Inflate, fault=fault, depth=8)


BROKEN_VARIANTS = (
    _variant("every_value_is_its_unit", "the first two units of a beat are swapped", _swaps_units),
    _variant("every_value_is_its_unit", "the first two values are swapped", _swaps_values),
    _variant("every_value_is_its_unit", "nothing is looked for behind a mask", _has_no_mask),
    _variant("every_value_is_its_unit", "units before the first are not passed over", _begins_with_a_whole_beat),
    _variant("every_value_is_its_unit", "a start is not seen while groups come", _keeps_beats_from_before_a_start),
    _variant("takes_no_beat_without_room", "a beat is lost in a stall", _loses_a_beat_in_a_stall),
    _variant("gives_nothing_but_groups_that_come", "there is a group more", _a_group_more),
    _variant("parts_are_given_in_order", "the first part is not told", _tells_no_first_part),
    _variant("a_part_is_given_when_all_of_it_has_come", "the bus is not waited for", _uses_what_has_not_come),
    _variant("last_marks_the_end_of_a_group", "no part is the last", _never_last),
    _variant("gives_what_has_come", "valid waits for ready", _waits_for_ready),
    _variant("takes_a_beat_while_there_is_room", "none is taken while there is no group", _waits_for_groups),
    _variant("is_active_while_groups_come", "it is always active", _is_always_active),
    _variant("tells_units_that_are_not_those_of_so_many_groups", "nothing is told", _tells_nothing),
)

PROOF = Proof(
    name="inflate_units",
    build=Inflated,
    applies=lambda config: isinstance(config, CoreConfig) and config.compression,
    broken_variants=BROKEN_VARIANTS,
    engine="smtbmc --stbv --nopresat z3 -- --noincr",
    broken_config=load_any_preset("core"),
)
