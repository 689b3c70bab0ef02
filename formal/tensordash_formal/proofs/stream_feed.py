"""Stream feed: every step of every pass is offered to the tile once, in order, from its word.

`last` marks the end of a pass. The unit offers all steps that have been read, although banks do not read while layouts
write. From the first word beyond the end of a stream buffer, words are unchecked up to the end of the descriptor.

Assumes: the tile takes no more steps than are offered (`tile_control`). A bank's output is the word that it read last.
"""

from typing import Any

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal, Value

from tensordash.block import Block
from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.descriptors import OPERATIONS
from tensordash.configuration.preset import load_any_preset
from tensordash.configuration.registers import ERRORS
from tensordash.core.multiply import Multiply
from tensordash.movers.unit import COMMAND_BITS

from ..harness import Fault, Harness
from ..proof import BrokenVariant, Proof
from ..reference_descriptor import ReferenceDescriptor, corrupt_word

__all__ = ["PROOF"]

PLACE_BITS = 30
"""Bits of a word's place, including places beyond the stream buffer."""


class PassSequence(ReferenceDescriptor):
    """Reference model of the passes: tracks the next step of the current pass (docs/core.md, "Multiply").

    Attributes
    ----------
    word, bank : Signal
        The next step in its pass: step t is in bank t mod D and word floor(t / D).
    column, row : Signal
        The pass: column q and row p.
    offset : dict of str to Signal
        Words before the pass's streams: q * W and p * W.
    """

    def __init__(self, m: Module, dut: Multiply) -> None:
        super().__init__(m, dut.command, OPERATIONS["multiply"])
        self.depth, shift = dut.depth, (dut.depth - 1).bit_length()
        assert self.depth == 1 << shift
        self.word, self.bank = Signal(16, name="pass_word", reset_less=True), Signal(range(dut.depth), name="pass_bank")
        self.column, self.row = (Signal(12, name=f"pass_{name}", reset_less=True) for name in ("column", "row"))
        self.offset = {side: Signal(PLACE_BITS, name=f"{side}_offset", reset_less=True) for side in "ab"}
        self.words = Signal(16, name="pass_words")
        m.d.comb += self.words.eq((self["steps"] + dut.depth - 1) >> shift)
        self.ended = Signal(name="all_passes_ended")
        self.ends = {name: Signal(name=f"{name}_ends") for name in ("word", "column", "row")}
        m.d.comb += [
            self.ends["word"].eq(self.word == self.words - 1),
            self.ends["column"].eq(self.ends["word"] & (self.column == self["a_streams"] - 1)),
            self.ends["row"].eq(self.ends["column"] & (self.row == self["b_streams"] - 1)),
        ]
        # The places of the word and of the next one.
        self.place = {side: Signal(PLACE_BITS, name=f"{side}_place") for side in "ab"}
        self.next_place = {side: Signal(PLACE_BITS, name=f"{side}_next_place") for side in "ab"}
        after_offset = {"a": Mux(self.ends["column"], 0, self.offset["a"] + self.words)}
        after_offset["b"] = Mux(self.ends["column"], self.offset["b"] + self.words, self.offset["b"])
        for side in "ab":
            base, offset = self[f"{side}_base"], self.offset[side]
            ended = self.ends["word"]
            m.d.comb += [
                self.place[side].eq(base + offset + self.word),
                self.next_place[side].eq(base + Mux(ended, after_offset[side], offset) + Mux(ended, 0, self.word + 1)),
            ]
        reached = self.bank + dut.taken
        self.word_done = Signal(name="word_is_done")
        m.d.comb += self.word_done.eq(reached >= dut.depth)
        with m.If(self.starting):
            m.d.sync += [self.word.eq(0), self.bank.eq(0), self.column.eq(0), self.row.eq(0), self.ended.eq(0)]
            m.d.sync += [offset.eq(0) for offset in self.offset.values()]
        with m.Elif(self.active & ~self.ended):
            m.d.sync += self.bank.eq(reached)
            with m.If(self.word_done):
                m.d.sync += [self.word.eq(self.word + 1), self.ended.eq(self.ends["row"])]
                with m.If(self.ends["word"]):
                    m.d.sync += [self.word.eq(0), self.column.eq(self.column + 1)]
                    m.d.sync += [self.offset[side].eq(after_offset[side]) for side in "ab"]
                with m.If(self.ends["column"]):
                    m.d.sync += [self.column.eq(0), self.row.eq(self.row + 1)]

    def left(self) -> Value:
        """Return the remaining steps of the word. In the last word of a pass, these are the pass's remaining steps."""
        return self.depth - self.bank


class StreamFeedHarness(Harness):
    """A multiply unit between a tile and stream buffers whose banks may be written, and so not read, in any cycle.

    A bank's output is the word that it read last (`StreamReadSignature`). The harness tracks the word's place. Words
    beyond a stream buffer are undefined: from the first one to the end of the descriptor, places are unchecked.

    Source: docs/core.md, "Multiply" and "Memories"; the docstring of `Multiply`.
    """

    def __init__(self, config: CoreConfig, fault: tuple[type[Block], Fault] | None = None) -> None:
        self.dut = dut = Multiply(config)
        super().__init__(dut, fault=fault)
        self.passes = passes = PassSequence(self.m, dut)
        self.assume(passes.is_legal(dut.command.descriptor.payload) | ~dut.command.descriptor.valid)
        self.assume(dut.taken <= dut.available)
        self.shown = {side: self._shown(side) for side in "ab"}
        self.late_banks = self.past(Cat(self._late_banks(side) for side in "ab"), init=0)
        self.beyond = {side: Signal(name=f"{side}_was_beyond", reset_less=True) for side in "ab"}
        self._claims()
        self._add_lemmas()

    def _shown(self, side: str) -> list[Signal]:
        """Track the word that each bank read last."""
        read = getattr(self.dut, f"{side}_read")
        shown = [
            Signal.like(Value.cast(each), name=f"{side}_shown_{k}", reset_less=True)
            for k, each in enumerate(read.address)
        ]
        for k, word in enumerate(shown):
            with self.m.If(read.enable[k] & read.ready[k]):
                self.m.d.sync += word.eq(read.address[k])
        return shown

    def _late_banks(self, side: str) -> Value:
        """Return the banks whose read was delayed by a write."""
        read = getattr(self.dut, f"{side}_read")
        return read.enable & ~read.ready

    def _claims(self) -> None:
        dut, passes, depth = self.dut, self.passes, self.dut.depth
        in_passes = passes.active & ~passes.ended
        available = dut.available
        offered = available != 0
        self.claim("only_steps_of_passes_are_offered", in_passes, when=offered)
        of_word = passes.left()
        limit = Mux(passes.ends["word"], of_word, depth)
        self.claim("no_step_of_the_next_pass_is_offered", available <= limit, when=offered)
        last = passes.ends["word"] & (available == of_word)
        self.claim("last_marks_the_end_of_a_pass", dut.last == last, when=offered)
        for side in "ab":
            beyond = self.beyond[side]
            words = self.dut.words[side]
            with self.m.If(passes.starting):
                self.m.d.sync += beyond.eq(passes[f"{side}_base"] >= words)
            with self.m.Elif(passes.active & ~passes.ends["row"] & (passes.next_place[side] >= words)):
                self.m.d.sync += beyond.eq(1)
            for k in range(depth):
                at = passes.bank + k
                place = Mux(at >= depth, passes.next_place[side], passes.place[side])
                shows = Array(self.shown[side])[at[: (depth - 1).bit_length()]]
                here = in_passes & (available > k) & (place < words) & ~beyond
                self.claim("every_step_is_offered_from_its_word", shows == place, when=here)
        free = in_passes & ~self.late_banks.any() & ~self.past(passes.starting)
        self.claim("all_that_can_be_read_is_offered", available == limit, when=free)
        done = passes.active & self.past(passes.ends["row"] & passes.word_done & in_passes)
        self.claim("done_after_the_last_step", dut.command.done == done)
        error = Mux(self.beyond["a"] | self.beyond["b"], ERRORS["range"], 0)
        self.claim("the_error_is_the_descriptors", dut.command.error == error, when=dut.command.done)

    def _add_lemmas(self) -> None:
        """State the lemmas about the hardware's walk, which is ahead of the tile, and about each bank."""
        dut, passes, depth = self.dut, self.passes, self.dut.depth
        active, in_passes = passes.active, passes.active & ~passes.ended
        passes.add_lemmas(self)
        names = ("steps", "a_streams", "b_streams", "a_base", "b_base")
        for name in names:
            field = passes._fields[name]
            beat, low = divmod(field.low, COMMAND_BITS)
            bits = self.probe(f"descriptor_{beat}", COMMAND_BITS)[low : low + field.width]
            self.lemma(bits == passes[name], when=passes.beat_count > beat)
            if field.least:
                self.lemma(passes[name] >= field.least, when=passes.beat_count > beat)
        self.lemma(self.probe("running", 1) == in_passes)
        self.lemma(dut.command.done == (active & passes.ended))
        self.lemma(passes.column < passes["a_streams"], when=in_passes)
        self.lemma(passes.row < passes["b_streams"], when=in_passes)
        self.lemma(passes.word < passes.words, when=in_passes)
        if depth > 1:
            self.lemma(self.probe("head", depth) == Const(1) << passes.bank)
            self.lemma(passes.bank == 0, when=~in_passes)
        self.lemma(self.probe("word_ends", 1) == passes.ends["word"], when=in_passes)
        self.lemma(self.probe("word_is_final", 1) == passes.ends["row"], when=in_passes)
        final = passes.ends["row"]
        next_column = Mux(passes.ends["word"], Mux(passes.ends["column"], 0, passes.column + 1), passes.column)
        next_row = passes.row + passes.ends["column"]
        next_word = Mux(passes.ends["word"], 0, passes.word + 1)
        left = (passes["steps"] - next_word * depth)[:16]
        self.lemma(self.probe("column_stream", 12) == (next_column + 1)[:12], when=in_passes & ~final)
        self.lemma(self.probe("row_stream", 12) == (next_row + 1)[:12], when=in_passes & ~final)
        self.lemma(self.probe("steps_left", 16) == left, when=in_passes & ~final)
        first = {"column_stream": 1, "row_stream": 1, "steps_left": passes["steps"]}
        for name, value in first.items():
            self.lemma(self.probe(name, 16 if name == "steps_left" else 12) == value, when=passes.starting)
        late = {side: self.probe(f"{side}_late", depth) for side in "ab"}
        for side in "ab":
            words = self.dut.words[side]
            bits = (words - 1).bit_length()
            fits = in_passes & ~self.beyond[side]
            word, base = self.probe(f"{side}_word", bits), passes[f"{side}_base"]
            self.lemma((word == base) | (base >= words), when=passes.starting)
            self.lemma((passes.place[side] < words) & (passes.offset[side] < words), when=fits)
            self.lemma((word == passes.next_place[side]) | (passes.next_place[side] >= words), when=fits & ~final)
            self.lemma(self.probe(f"{side}_current", bits) == passes.place[side], when=fits)
            number = 0 if side == "a" else depth
            self.lemma(late[side] == self.late_banks[number : number + depth])
            for k in range(depth):
                ahead = k < passes.bank
                place = Mux(ahead, passes.next_place[side], passes.place[side])
                known = fits & ~late[side][k] & (place < words) & ~(ahead & final)
                self.lemma(self.shown[side][k] == place, when=known)
                self.lemma(~late[side][k], when=in_passes & ahead & final)
        self.lemma(~Cat(*late.values()).any(), when=~in_passes)
        stream = self.probe("b_begin", (self.dut.words["b"] - 1).bit_length())
        self.lemma((stream == passes["b_base"]) | (passes["b_base"] >= self.dut.words["b"]), when=passes.starting)
        begins = passes["b_base"] + passes.offset["b"] + Mux(passes.ends["column"], passes.words, 0)
        self.lemma((stream == begins) | (begins >= self.dut.words["b"]), when=in_passes & ~self.beyond["b"] & ~final)
        reaches = [in_passes & ~final & (passes.next_place[side] >= self.dut.words[side]) for side in "ab"]
        known = Cat(*reaches, self.beyond["a"], self.beyond["b"]).any()
        self.lemma(self.probe("beyond", 1) == known, when=active)


def _no_streams_of_rows(m: Module, sound: Any, outer: Any) -> None:
    """Read the first stream of side B in every pass."""
    read = outer.b_read
    first = Signal.like(Value.cast(read.address[0]), name="first_word")
    active = Signal()
    with m.If(outer.command.done):
        m.d.sync += active.eq(0)
    with m.Elif(sound.b_read.enable[0] & ~active):
        m.d.sync += [active.eq(1), first.eq(sound.b_read.address[0])]
    m.d.comb += read.address[0].eq(Mux(active, first, sound.b_read.address[0]))


def _ignores_late_banks(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += sound.a_read.ready.eq(-1)


def _offers_one_more(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += outer.available.eq(sound.available + ((sound.available != 0) & (sound.available != outer.depth)))


def _always_offers(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += outer.available.eq(Mux(sound.available == 0, 1, sound.available))


def _never_last(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += outer.last.eq(0)


def _last_too_early(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += outer.last.eq(sound.available == outer.depth)


def _offers_one_step(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += outer.available.eq(Mux(sound.available > 1, 1, sound.available))


def _done_at_once(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += outer.command.done.eq(sound.command.done | (outer.taken != 0))


def _no_error(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += outer.command.error.eq(0)


def _always_an_error(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += outer.command.error.eq(ERRORS["range"])


def _variant(claim: str, title: str, fault: Fault, depth: int = 12) -> BrokenVariant:
    return BrokenVariant(claim=claim, title=title, kind=Multiply, fault=fault, depth=depth)


BROKEN_VARIANTS = (
    _variant("only_steps_of_passes_are_offered", "a step is offered in every cycle", _always_offers),
    _variant("no_step_of_the_next_pass_is_offered", "one more step is offered", _offers_one_more),
    _variant("last_marks_the_end_of_a_pass", "`last` is dropped", _never_last),
    _variant("last_marks_the_end_of_a_pass", "`last` rises with every full offer", _last_too_early),
    _variant("every_step_is_offered_from_its_word", "reads delayed by a write are not repeated", _ignores_late_banks),
    _variant("every_step_is_offered_from_its_word", "bank 0 of side B shows its first word only", _no_streams_of_rows),
    _variant(
        "every_step_is_offered_from_its_word",
        "the sides' base addresses are swapped",
        corrupt_word(11, lambda word: word.rotate_left(16)),
    ),
    _variant("all_that_can_be_read_is_offered", "at most one step is offered", _offers_one_step),
    _variant("done_after_the_last_step", "`done` rises with the first step", _done_at_once),
    _variant("the_error_is_the_descriptors", "no error is reported", _no_error),
    _variant("the_error_is_the_descriptors", "an error is always reported", _always_an_error),
)

PROOF = Proof(
    name="stream_feed",
    build=StreamFeedHarness,
    applies=lambda config: isinstance(config, CoreConfig) and not config.skip_masked,
    broken_variants=BROKEN_VARIANTS,
    cover_depth=16,
    broken_config=load_any_preset("core"),
)
