"""Pass filter: it queues each pass with a nonzero mask, in order, and reads each mask once, where the loops place it.

A pass is queued if and only if a value of its masks is not a zero of either sign, or `skip_masked` is 0. An entry
without a pass follows if the last pass is skipped. The marks list all passes. Neither queue overflows. Requests and
queued passes follow without a bubble, and a request stays until it is taken.

Assumes: descriptors have legal fields, which stay until the last entry is taken. Then the next descriptor may begin.
Words are unchecked in a pass that has words beyond a stream buffer.
"""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value

from tensordash.block import Block
from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.preset import load_any_preset
from tensordash.core.pass_filter import QUEUED_MARKS, QUEUED_PASSES, PassFilter
from tensordash.movers.walk import Walk
from tensordash.short_queue import ShortQueue

from ..harness import Fault, Harness
from ..loop_nest import counts_one_turn_more, stands_still_in_loop_2
from ..pass_model import PassModel
from ..proof import BrokenVariant, Proof

__all__ = ["PROOF", "SEVERAL_GROUPS"]

SEVERAL_GROUPS = load_any_preset("core-skip", ("tile.rows=8", "tile.columns=8"))
"""A core whose blocks have several groups. No preset with `skip_masked` has such blocks."""
FIELDS = (
    *("skip_masked", "a_base", "b_base", "a_streams", "b_streams", "pass_words", "fp32"),
    *("x", "x_size", "mask_address", "address_steps", "x_steps", "counts"),
)


class PassFilterHarness(Harness):
    """A pass filter with free descriptors, a free buffer, and readers of both queues that stall in any cycle.

    Source: docs/core.md, "Multiply" and "Loops"; the docstring of `PassFilter`.
    """

    def __init__(self, config: CoreConfig, fault: tuple[type[Block], Fault] | None = None) -> None:
        self.dut = dut = PassFilter(config)
        super().__init__(dut, fault=fault)
        self.model = model = PassModel(self.m, dut, places=QUEUED_PASSES, marks=QUEUED_MARKS)
        fields = Cat(Value.cast(getattr(dut, name)) for name in FIELDS)
        self.assume(model.is_legal() | ~(dut.start | model.busy))
        self.assume(~dut.start | ~model.busy)
        self.assume((fields == self.past(fields)) | ~model.busy)
        self._claim_reads()
        self._claim_passes()
        self._claim_marks()
        self.claim("beyond_if_a_pass_has_words_beyond", dut.beyond == model.beyond, when=model.begun)
        for name in ("pass_queue", "mark_queue"):
            adds, full = self.port(f"{name}.adds", 1), self.port(f"{name}.full", 1)
            self.claim("no_queue_overflows", ~full, when=adds)
        self._add_lemmas()

    def _claim_reads(self) -> None:
        read, model = self.dut.read, self.model
        address, enable = Cat(*read.address), read.enable
        self.claim("masks_are_read_in_all_banks", enable.all(), when=read.valid)
        for each in read.address:
            self.claim("masks_are_read_at_the_loops_position", each == model.address(), when=read.valid)
        self.claim("no_mask_is_read_outside_of_the_tensor", model.inside, when=read.valid)
        self.claim("only_masks_of_passes_are_read", model.requests & self.dut.skip_masked, when=read.valid)
        self.claim("masks_are_read_without_a_bubble", read.valid, when=model.reads)
        request = Cat(read.valid, enable, address)
        waits = self.past(read.valid & ~read.ready)
        self.claim("a_request_stays_until_it_is_taken", request == self.past(request), when=waits)

    def _claim_passes(self) -> None:
        passes, queue = self.dut.passes, self.model.passes
        first = queue.entries[0]
        payload = passes.payload
        self.claim("passes_with_a_mask_and_the_end_are_queued", passes.valid, when=queue.count != 0)
        self.claim("nothing_else_is_queued", queue.count != 0, when=passes.valid)
        self.claim("an_empty_queue_shows_zeros", Value.cast(payload) == 0, when=~passes.valid)
        self.claim("an_entry_has_a_pass_unless_it_is_skipped", payload.runs == first["runs"], when=passes.valid)
        self.claim("last_marks_the_end", payload.last == first["last"], when=passes.valid)
        for side in "ab":
            checked = passes.valid & first["runs"] & ~first[f"{side}_over"]
            self.claim("a_pass_has_its_first_words", payload[f"{side}_word"] == first[f"{side}_word"], when=checked)

    def _claim_marks(self) -> None:
        marks, queue = self.dut.marks, self.model.marks
        self.claim("every_pass_has_a_mark", marks.valid, when=queue.count != 0)
        self.claim("no_pass_has_two_marks", queue.count != 0, when=marks.valid)
        skipped = queue.entries[0]["skipped"]
        self.claim("a_mark_is_set_if_the_pass_is_skipped", marks.payload == skipped, when=marks.valid)

    def _add_lemmas(self) -> None:
        """State the lemmas about the filter's counters, its decision, and both queues."""
        dut, model = self.dut, self.model
        self.lemma(model.busy, when=model.left | model.decides)
        self.lemma(model.begun, when=model.busy)
        self.lemma(self.probe("running", 1) == model.left)
        self.lemma(model.group == 0, when=~model.left | ~dut.skip_masked)
        self.lemma(model.group < model.groups)
        if model.groups > 1:
            self.lemma(self.probe("group", model.groups) == Value.cast(1) << model.group)
        self.lemma((model.column < dut.a_streams) & (model.row < dut.b_streams), when=model.left)
        self.lemma(self.probe("column_stream", 12) == (model.column + 1)[:12], when=model.left)
        self.lemma(self.probe("row_stream", 12) == (model.row + 1)[:12], when=model.left)
        for side, count in (("a", model.column), ("b", model.row)):
            words, place = dut.words[side], model.place[side]
            # This bound excludes that a place wraps around.
            self.lemma(model.offset[side] <= count << len(dut.pass_words), when=model.left)
            first = self.probe(f"{side}_first", words.bit_length())
            self.lemma(first == Mux(place < words, place, words), when=model.left)
        model.nest.add_lemmas(self, "walk", ("address", "x"), when=model.busy)
        self._add_decision_lemmas()
        self._add_queue_lemmas()

    def _add_decision_lemmas(self) -> None:
        dut, model = self.dut, self.model
        self.lemma(self.probe("mask_valid", 1) == model.arrives)
        self.lemma(self.probe("decides", 1) == model.decides)
        self.lemma(self.probe("has_mask", 1) == model.found)
        self.lemma(~model.found & ~model.arrives, when=~model.busy | ~dut.skip_masked)
        self.lemma((model.group != 0) | model.decides, when=model.found | model.arrives)
        widths = {side: (dut.words[side] - 1).bit_length() for side in "ab"}
        held = self.probe("pending", 1 + sum(widths.values()))
        self.lemma(held[0] == model.held["last"], when=model.decides)
        low = 1
        for side, width in widths.items():
            word = held[low : low + width]
            known = model.decides & ~model.held[f"{side}_over"]
            self.lemma(word == model.held[f"{side}_word"], when=known)
            low += width
        # The last entry is on its way as long as the descriptor is busy, and nothing follows it.
        lasts = [entry["last"] & (model.passes.count > k) for k, entry in enumerate(model.passes.entries)]
        for k, is_last in enumerate(lasts):
            self.lemma((model.passes.count == k + 1) & ~model.left & ~model.decides & model.busy, when=is_last)
        waits = Cat(*lasts, model.decides & model.held["last"], model.left)
        self.lemma(waits.any() == model.busy)
        self.lemma(model.held["last"] == ~model.left, when=model.decides)
        self.lemma(model.passes.count == 0, when=~model.busy)

    def _add_queue_lemmas(self) -> None:
        dut, model = self.dut, self.model
        self.lemma(model.passes.count + model.decides <= model.passes.places)
        self.lemma(model.marks.count + (model.decides & dut.skip_masked) <= model.marks.places)
        free = model.passes.places - model.passes.count - model.decides
        self.lemma(self.probe("pass_places", 2) == free)
        free = model.marks.places - model.marks.count - (model.decides & dut.skip_masked)
        self.lemma(self.probe("mark_places", 5) == free)
        widths = {side: (dut.words[side] - 1).bit_length() for side in "ab"}
        for k, entry in enumerate(model.passes.entries):
            bits = [(entry["runs"], 0), (entry["last"], 0)]
            for side, width in widths.items():
                bits += [(entry[f"{side}_word"][bit], entry[f"{side}_over"]) for bit in range(width)]
            model.passes.add_lemmas(self, "pass_queue", k, bits)
            for side in "ab":
                inside = entry[f"{side}_over"] | (entry[f"{side}_word"] < dut.words[side])
                self.lemma(inside, when=model.passes.count > k)
        for side in "ab":
            inside = model.held[f"{side}_over"] | (model.held[f"{side}_word"] < dut.words[side])
            self.lemma(inside, when=model.decides)
        for k, entry in enumerate(model.marks.entries):
            model.marks.add_lemmas(self, "mark_queue", k, [(entry["skipped"], 0)])


def _leaves_a_bank_out(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += outer.read.enable.eq(sound.read.enable & ~2)


def _reads_one_position_more(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += sound.x_size.eq(outer.x_size + 1)


def _always_reads(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += outer.read.valid.eq(1)


def _reads_every_second_cycle(m: Module, sound: Any, outer: Any) -> None:
    turn = Signal()
    m.d.sync += turn.eq(~turn)
    m.d.comb += [outer.read.valid.eq(sound.read.valid & turn), sound.read.ready.eq(outer.read.ready & turn)]


def _loses_the_end(m: Module, sound: Any, outer: Any) -> None:
    hidden = sound.passes.valid & ~sound.passes.payload.runs
    m.d.comb += [
        outer.passes.valid.eq(sound.passes.valid & ~hidden),
        sound.passes.ready.eq(outer.passes.ready | hidden),
    ]


def _counts_signs(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += sound.read.data[0].eq(Mux(outer.read.data[0][15], -1, outer.read.data[0]))


def _loses_the_lowest_bit(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += sound.read.data[0].eq(outer.read.data[0] & ~1)


def _all_entries_run(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += outer.passes.payload.runs.eq(1)


def _finds_nothing_in_even_groups(m: Module, sound: Any, outer: Any) -> None:
    odd = Signal()
    m.d.sync += odd.eq(odd ^ (outer.read.valid & outer.read.ready))
    m.d.comb += [data.eq(Mux(odd, 0, outer.read.data[k])) for k, data in enumerate(sound.read.data)]


def _shows_the_last_words(m: Module, sound: Any, outer: Any) -> None:
    payload = Value.cast(sound.passes.payload)
    words = Signal.like(payload)
    with m.If(sound.passes.valid):
        m.d.sync += words.eq(payload)
    m.d.comb += Value.cast(outer.passes.payload).eq(Mux(sound.passes.valid, payload, words))


def _swaps_the_bases(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += [sound.a_base.eq(outer.b_base), sound.b_base.eq(outer.a_base)]


def _streams_are_a_word_longer(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += sound.pass_words.eq(outer.pass_words + 1)


def _hides_marks(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += outer.marks.valid.eq(sound.marks.valid & sound.passes.valid)


def _marks_passes_that_run(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += outer.marks.payload.eq(~sound.marks.payload)


def _beyond_with_the_last_word(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += outer.beyond.eq(sound.beyond | (outer.a_base == outer.words["a"] - 1))


def _variant(claim: str, title: str, fault: Fault, kind: type[Block] = PassFilter, depth: int = 10) -> BrokenVariant:
    return BrokenVariant(claim=claim, title=title, kind=kind, fault=fault, depth=depth)


PLACE, QUEUED = "masks_are_read_at_the_loops_position", "passes_with_a_mask_and_the_end_are_queued"
BEYOND = "beyond_if_a_pass_has_words_beyond"
BROKEN_VARIANTS = (
    _variant(PLACE, "loop 1 runs once more", counts_one_turn_more, Walk),
    _variant(PLACE, "loop 2 does not change x", stands_still_in_loop_2, Walk),
    _variant(PLACE, "the first mask is group 0", lambda m, sound, outer: sound.mask_address.eq(0)),
    _variant(PLACE, "masks of FP32 results are adjacent", lambda m, sound, outer: sound.fp32.eq(0)),
    _variant("masks_are_read_in_all_banks", "bank 1 is not read", _leaves_a_bank_out),
    _variant("no_mask_is_read_outside_of_the_tensor", "`x_size` is one larger", _reads_one_position_more),
    _variant("only_masks_of_passes_are_read", "`valid` of the read is always high", _always_reads),
    _variant("masks_are_read_without_a_bubble", "masks are read in every second cycle", _reads_every_second_cycle),
    _variant("a_request_stays_until_it_is_taken", "a read waits for one cycle only", _reads_every_second_cycle),
    _variant(QUEUED, "all masks are zeros", lambda m, sound, outer: sound.read.data.eq(0)),
    _variant(QUEUED, "the lowest bit of a mask is ignored", _loses_the_lowest_bit),
    BrokenVariant(
        claim=QUEUED,
        title="every second group of masks is ignored",
        kind=PassFilter,
        fault=_finds_nothing_in_even_groups,
        depth=10,
        config=SEVERAL_GROUPS,
    ),
    _variant(QUEUED, "no entry follows if the last pass is skipped", _loses_the_end),
    _variant("nothing_else_is_queued", "a negative zero counts as a mask", _counts_signs),
    _variant("an_empty_queue_shows_zeros", "an empty queue shows the last entry", _shows_the_last_words),
    _variant("an_entry_has_a_pass_unless_it_is_skipped", "every entry has a pass", _all_entries_run),
    _variant("last_marks_the_end", "`last` is low", lambda m, sound, outer: outer.passes.payload.last.eq(0)),
    _variant("a_pass_has_its_first_words", "the sides' bases are swapped", _swaps_the_bases),
    _variant("a_pass_has_its_first_words", "streams are one word longer", _streams_are_a_word_longer),
    _variant("every_pass_has_a_mark", "marks wait for passes", _hides_marks),
    _variant(
        "no_pass_has_two_marks", "`valid` of the marks is always high", lambda m, sound, outer: outer.marks.valid.eq(1)
    ),
    _variant("a_mark_is_set_if_the_pass_is_skipped", "passes that run are marked", _marks_passes_that_run),
    _variant(
        "no_queue_overflows", "words do not leave the queues", lambda m, sound, outer: sound.leaves.eq(0), ShortQueue
    ),
    _variant(BEYOND, "`beyond` is low", lambda m, sound, outer: outer.beyond.eq(0)),
    _variant(BEYOND, "a pass in the last word is beyond", _beyond_with_the_last_word),
)

PROOF = Proof(
    name="pass_filter",
    build=PassFilterHarness,
    applies=lambda config: isinstance(config, CoreConfig) and config.skip_masked,
    broken_variants=BROKEN_VARIANTS,
    cover_depth=12,
    broken_config=load_any_preset("core-skip"),
)
