"""Inflate: it sends the groups whose items it receives, each once and in order.

A value is its item if its mask bit is set, and +0 otherwise. Each part leaves once its items have arrived. No more
groups leave than the descriptor requests. `wrong` rises if and only if the items do not form this number of groups.

Assumes: there is at least one group. `plain` rises only with `start`. Sizes are limited as in `deflate_units`.
"""

from typing import Any

from amaranth.hdl import Array, Cat, Module, Mux, Signal, Value

from tensordash.block import Block
from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.preset import load_any_preset
from tensordash.movers.compaction import unit_bits
from tensordash.movers.inflate import Inflate

from ..group_units import GroupUnits, proven_shape
from ..harness import Fault, Harness
from ..proof import Proof, make_variants

__all__ = ["PROOF"]


class InflateHarness(Harness):
    """An inflate component with free handshakes on both sides.

    A ghost queue holds the beats from the next item of a group on. The claims cover every value of a group.

    Source: docs/core.md, "Tensors" and "Errors" (`compressed`); the docstring of `Inflate`.
    """

    def __init__(self, config: CoreConfig, fault: tuple[type[Block], Fault] | None = None) -> None:
        shape = proven_shape(config)
        self.width = shape["width"]
        self.dut = dut = Inflate(**shape, count_bits=unit_bits(shape["lanes"], self.width))
        super().__init__(dut, fault=fault)
        self.assume(dut.start | ~dut.plain | self.past(dut.plain))
        self.assume((dut.groups != 0) | dut.plain | ~dut.start)
        self._state()
        self._advance()
        self._claims()
        self._cut_ends()
        self._add_lemmas()

    def _state(self) -> None:
        """Create the ghost registers: the queue of beats, and the next group."""
        m, dut, beat, number = self.m, self.dut, self.dut.beat, self.dut.number
        depth = dut.slots + 1  # one beat more than the hardware holds
        self.queue = [Signal(beat * self.width, name=f"queue_{k}") for k in range(depth)]
        self.count = Signal(range(depth + 1), name="beats_in_queue")
        self.at = Signal(dut.shift, name="next_unit")
        self.part = Signal(range(number), name="next_part")
        self.running, self.wrong = Signal(name="groups_running"), Signal(name="units_are_wrong")
        self.left = Signal(16, name="groups_left")
        self.limit = Signal(len(dut.limit), name="units_end")  # counted from the queue's first beat, like all places
        self.stored_mask = Signal(dut.size, name="mask_of_begun_group")
        self.expects_group = self.running | dut.plain

        masks = Cat(self._unit(self.at + k) for k in range(dut.masks))
        begun = self.part != 0
        self.known = Signal(name="mask_is_known")
        self.mask = Signal(dut.size, name="mask_of_group")
        m.d.comb += [
            self.known.eq(begun | dut.plain | (self.at + dut.masks <= self.count * beat)),
            self.mask.eq(Mux(begun, self.stored_mask, masks)),
        ]
        sent = Cat((self.part > k).replicate(dut.part) for k in range(number))
        self.units = units = GroupUnits(
            m, begin=self.at, mask=self.mask, plain=dut.plain, width=self.width, places=beat + dut.most, sent=sent
        )
        self.ends = [units.place[(k + 1) * dut.part] for k in range(number)]
        self.short = Signal(name="units_are_short")
        end = Mux(self.known, units.place[-1], self.at + dut.masks)
        m.d.comb += self.short.eq(self.running & (self.limit < end))

    def _unit(self, place: Value) -> Value:
        """Return the item at a place. A place after the queue is in the offered beat."""
        shift = self.dut.shift
        row = place >> shift
        chosen = Mux(row == self.count, self.dut.beats.payload, Array(self.queue)[row])
        return chosen.word_select(place[:shift], self.width)

    def _advance(self) -> None:
        """Update the ghost registers."""
        m, dut, shift = self.m, self.dut, self.dut.shift
        beats, out = dut.beats, dut.out
        sends, accepts = out.valid & out.ready, beats.valid & beats.ready
        end = Signal(len(self.ends[-1]), name="end_of_sent")
        freed = Signal(range(dut.slots + 3), name="beats_freed")
        part = Signal.like(self.part, name="part_after")
        for k, each in enumerate(self.ends):
            with m.If(dut.parts[k]):
                m.d.comb += [end.eq(each), part.eq((k + 1) % dut.number)]
        m.d.comb += freed.eq(Mux(sends, end >> shift, 0))
        filled = [Mux(self.count == k, beats.payload, each) for k, each in enumerate(self.queue)]
        for k, each in enumerate(self.queue):
            m.d.sync += each.eq(Array([*filled[k:], *filled[:k]])[freed])
        self.after = Signal(range(2 * dut.slots + 3), name="beats_after")
        m.d.comb += self.after.eq(self.count + accepts - freed)
        m.d.sync += [self.count.eq(self.after), self.limit.eq(self.limit - (freed << shift))]
        with m.If(sends):
            m.d.sync += [self.at.eq(end), self.part.eq(part), self.stored_mask.eq(self.mask)]
            with m.If(dut.last):
                m.d.sync += self.left.eq(self.left - 1)
                with m.If(self.running & (self.left == 1)):
                    m.d.sync += [self.running.eq(0), self.wrong.eq(self.limit != end)]
        with m.If(self.short):
            m.d.sync += [self.running.eq(0), self.wrong.eq(1)]
        with m.If(~self.expects_group):
            m.d.sync += self.count.eq(0)
        with m.If(dut.start):
            m.d.sync += [self.running.eq(~dut.plain), self.wrong.eq(0), self.count.eq(0), self.at.eq(dut.offset)]
            m.d.sync += [self.part.eq(0), self.limit.eq(dut.limit), self.left.eq(dut.groups)]

    def _claims(self) -> None:
        dut, beat, part = self.dut, self.dut.beat, self.dut.part
        beats, out = dut.beats, dut.out
        sent = out.valid & ~dut.start
        self.claim("sends_only_expected_groups", self.expects_group & ~self.short, when=out.valid)
        for k in range(dut.number):
            before = dut.parts[k - 1] if k else 0
            self.claim("parts_are_sent_in_order", dut.parts[k] | (self.part != k), when=sent)
            self.claim(
                "parts_are_sent_in_order", (self.part == k) | ((self.part < k) & before), when=sent & dut.parts[k]
            )
            complete = self.known & (self.ends[k] <= (self.count + beats.valid) * beat)
            self.claim("a_part_is_sent_after_its_units", complete, when=out.valid & dut.parts[k])
        self.claim("last_marks_the_end_of_a_group", dut.last == dut.parts[-1], when=sent)

        for j, (has_unit, place) in enumerate(zip(self.units.has_unit, self.units.place[:-1], strict=True)):
            value = out.payload.word_select(j, self.width)
            self.claim(
                "every_value_is_its_unit",
                value == Mux(has_unit, self._unit(place), 0),
                when=sent & dut.parts[j // part],
            )

        # With a full store, inflate may wait for the next beat in order to send more parts at once.
        full = self.count == dut.slots
        some = (Array(self.ends)[self.part] <= (self.count + full) * beat) & (~full | beats.valid)
        complete = self.known & (some | (self.ends[-1] <= self.count * beat))
        self.claim("sends_what_is_complete", out.valid, when=self.expects_group & ~self.short & complete & ~dut.start)
        self.claim("takes_a_beat_while_there_is_room", beats.ready, when=~self.expects_group | ~full)
        self.claim(
            "takes_no_beat_without_room", self.after <= dut.slots, when=self.expects_group & ~dut.start & beats.valid
        )
        self.claim(
            "is_active_while_groups_are_expected", dut.active == (self.running | (dut.plain & (self.count != 0)))
        )
        self.claim("wrong_marks_units_of_another_number_of_groups", dut.wrong == self.wrong)

    def _cut_ends(self) -> None:
        """Cut the ends of parts, and count them value by value, as in the model."""
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

    def _add_lemmas(self) -> None:
        """State the lemmas: the hardware's registers equal the ghost registers."""
        dut, expecting = self.dut, self.expects_group
        self.lemma(self.probe("counts", 1) == self.running)
        self.lemma(~(self.running & self.past(dut.plain)))
        self.lemma(self.count <= dut.slots)
        self.lemma(self.probe("held", dut.slots.bit_length()) == self.count)
        self.lemma(self.probe("head", dut.shift) == self.at, when=expecting & ~dut.start)
        self.lemma(self.probe("limit_left", len(dut.limit)) == self.limit, when=self.running)
        self.lemma(self.probe("groups_left", 16) == self.left, when=self.running)
        for k in range(dut.slots):
            self.lemma(self.probe(f"buffered_{k}", dut.beat * self.width) == self.queue[k], when=k < self.count)
        self.lemma(self.probe("done", dut.number) == Cat(k < self.part for k in range(dut.number)))
        if dut.number > 1:
            earlier = self.probe("earlier", dut.size)
            self.lemma(earlier == self.stored_mask, when=self.running & (self.part != 0))
        if dut.slots > 1:
            waits, earlier_reach = self.probe("waits", 1), self.probe("reach_before", (dut.slots + 1).bit_length())
            max_reach = Mux(self.count == dut.slots, dut.slots + 1, self.count)
            complete = self.known & (Array(self.ends)[self.part] <= earlier_reach * dut.beat)
            self.lemma((earlier_reach <= max_reach) & complete & ~self.short, when=waits & expecting & ~dut.start)


def _a_group_more(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += [sound.groups.eq(outer.groups + 1), sound.limit.eq(-1)]


def _swaps_units(m: Module, sound: Any, outer: Any) -> None:
    data, width = outer.beats.payload, outer.width
    m.d.comb += sound.beats.payload.eq(Cat(data[width : 2 * width], data[:width], data[2 * width :]))


def _swaps_values(m: Module, sound: Any, outer: Any) -> None:
    data, width = sound.out.payload, outer.width
    m.d.comb += outer.out.payload.eq(Cat(data[width : 2 * width], data[:width], data[2 * width :]))


def _has_no_mask(m: Module, sound: Any, outer: Any) -> None:
    """Place all values as in a plain group."""
    m.d.comb += outer.out.payload.eq(Cat(outer.beats.payload, outer.beats.payload)[: len(outer.out.payload)])


def _ignores_a_start(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += sound.start.eq(outer.start & ~sound.active)


def _loses_a_beat_in_a_stall(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += outer.beats.ready.eq(sound.beats.ready | (sound.out.valid & ~outer.out.ready))


def _waits_for_groups(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += outer.beats.ready.eq(sound.beats.ready & (sound.out.valid | ~sound.active))


BROKEN_VARIANTS = make_variants(
    Inflate,
    {
        "every_value_is_its_unit": {
            "the first two units of a beat are swapped": _swaps_units,
            "the first two values are swapped": _swaps_values,
            "masks are ignored": _has_no_mask,
            "the offset is ignored": lambda m, sound, outer: sound.offset.eq(0),
            "a start is ignored while groups are expected": _ignores_a_start,
        },
        "takes_no_beat_without_room": {"a beat is lost in a stall": _loses_a_beat_in_a_stall},
        "sends_only_expected_groups": {"one more group is expected": _a_group_more},
        "parts_are_sent_in_order": {"the first part is never marked": lambda m, sound, outer: outer.parts[0].eq(0)},
        "a_part_is_sent_after_its_units": {
            "parts are sent before their beats": lambda m, sound, outer: sound.beats.valid.eq(1)
        },
        "last_marks_the_end_of_a_group": {"`last` is never high": lambda m, sound, outer: outer.last.eq(0)},
        "sends_what_is_complete": {
            "`valid` waits for `ready`": lambda m, sound, outer: outer.out.valid.eq(sound.out.valid & outer.out.ready)
        },
        "takes_a_beat_while_there_is_room": {"no beat is taken without a group": _waits_for_groups},
        "is_active_while_groups_are_expected": {"`active` is always high": lambda m, sound, outer: outer.active.eq(1)},
        "wrong_marks_units_of_another_number_of_groups": {
            "`wrong` is never high": lambda m, sound, outer: outer.wrong.eq(0)
        },
    },
)

PROOF = Proof(
    name="inflate_units",
    build=InflateHarness,
    applies=lambda config: isinstance(config, CoreConfig) and config.compression,
    broken_variants=BROKEN_VARIANTS,
    broken_config=load_any_preset("core"),
)
