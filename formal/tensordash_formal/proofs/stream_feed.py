"""Stream feed: every step of every pass is offered to the tile once, in order, from its word.

`last` marks the end of a pass. The unit offers all steps that have been read, although banks do not read while layouts
write. From the first word beyond the end of a stream buffer, words are unchecked up to the end of the descriptor.

Assumes: the tile takes no more steps than are offered (`tile_control`). A bank's output is the word that it read last.
"""

from amaranth.hdl import Cat, Module, Mux, Signal

from tensordash.block import Block
from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.preset import load_any_preset
from tensordash.configuration.registers import ERRORS
from tensordash.core.multiply import Multiply

from ..feed_faults import always_an_error, done_at_once, no_error, shared_variants
from ..feed_model import PLACE_BITS, CountedFeedModel, FeedHarness
from ..harness import Fault
from ..proof import BrokenVariant, Proof
from ..reference_descriptor import corrupt_word

__all__ = ["PROOF"]


class PassSequence(CountedFeedModel):
    """Reference model of the passes.

    Attributes
    ----------
    column, row : Signal
        The pass: column q and row p.
    offset : dict of str to Signal
        Words before the pass's streams: q * W and p * W.
    column_ends : Signal
        The word is the last of its row of passes.
    ended : Signal
        All steps were taken.
    beyond : dict of str to Signal
        A word beyond the stream buffer was the next one.
    """

    def __init__(self, m: Module, dut: Multiply) -> None:
        super().__init__(m, dut)
        self.column, self.row = (Signal(12, name=f"pass_{name}", reset_less=True) for name in ("column", "row"))
        self.offset = {side: Signal(PLACE_BITS, name=f"{side}_offset", reset_less=True) for side in "ab"}
        self.ended, self.column_ends = Signal(name="all_passes_ended"), Signal(name="column_ends")
        self.beyond = {side: Signal(name=f"{side}_was_beyond", reset_less=True) for side in "ab"}
        m.d.comb += [
            self.in_passes.eq(self.active & ~self.ended),
            self.column_ends.eq(self.word_ends & (self.column == self["a_streams"] - 1)),
            self.final.eq(self.column_ends & (self.row == self["b_streams"] - 1)),
        ]
        after_offset = {"a": Mux(self.column_ends, 0, self.offset["a"] + self.words)}
        after_offset["b"] = Mux(self.column_ends, self.offset["b"] + self.words, self.offset["b"])
        for side in "ab":
            base, offset = self[f"{side}_base"], self.offset[side]
            after = base + Mux(self.word_ends, after_offset[side], offset)
            m.d.comb += [
                self.place[side].eq(base + offset + self.word),
                self.next_place[side].eq(after + Mux(self.word_ends, 0, self.word + 1)),
                self.is_known[side].eq(~self.beyond[side]),
                self.next_is_known[side].eq(~self.beyond[side]),
            ]
            words = dut.words[side]
            with m.If(self.starting):
                m.d.sync += self.beyond[side].eq(base >= words)
            with m.Elif(self.active & ~self.final & (self.next_place[side] >= words)):
                m.d.sync += self.beyond[side].eq(1)
        with m.If(self.starting):
            m.d.sync += [self.word.eq(0), self.bank.eq(0), self.column.eq(0), self.row.eq(0), self.ended.eq(0)]
            m.d.sync += [offset.eq(0) for offset in self.offset.values()]
        with m.Elif(self.in_passes):
            m.d.sync += self.bank.eq(self.reached)
            with m.If(self.word_done):
                m.d.sync += [self.word.eq(self.word + 1), self.ended.eq(self.final)]
                with m.If(self.word_ends):
                    m.d.sync += [self.word.eq(0), self.column.eq(self.column + 1)]
                    m.d.sync += [self.offset[side].eq(after_offset[side]) for side in "ab"]
                with m.If(self.column_ends):
                    m.d.sync += [self.column.eq(0), self.row.eq(self.row + 1)]


class StreamFeedHarness(FeedHarness):
    """A multiply unit that takes its passes from the descriptor.

    Words beyond a stream buffer are undefined: from the first one to the end of the descriptor, places are unchecked.

    Source: docs/core.md, "Multiply" and "Memories"; the docstring of `Multiply`.
    """

    def __init__(self, config: CoreConfig, fault: tuple[type[Block], Fault] | None = None) -> None:
        dut = Multiply(config)
        super().__init__(dut, fault=fault)
        self.passes = passes = PassSequence(self.m, dut)
        self.assume(passes.is_legal(dut.command.descriptor.payload) | ~dut.command.descriptor.valid)
        self.claim_steps(passes)
        free = passes.in_passes & ~self.late_banks.any() & ~self.past(passes.starting)
        self.claim("all_that_can_be_read_is_offered", dut.available == passes.limit(), when=free)
        done = passes.active & self.past(passes.final & passes.word_done & passes.in_passes)
        self.claim("done_after_the_last_step", dut.command.done == done)
        error = Mux(passes.beyond["a"] | passes.beyond["b"], ERRORS["range"], 0)
        self.claim("the_error_is_the_descriptors", dut.command.error == error, when=dut.command.done)
        self._add_lemmas()

    def _add_lemmas(self) -> None:
        """State the lemmas about the hardware's walk, which is ahead of the tile."""
        dut, passes, depth = self.dut, self.passes, self.dut.depth
        active, in_passes = passes.active, passes.in_passes
        self.add_feed_lemmas(passes, ("steps", "a_streams", "b_streams", "a_base", "b_base"))
        passes.add_count_lemmas(self)
        self.lemma(dut.command.done == (active & passes.ended))
        self.lemma(passes.column < passes["a_streams"], when=in_passes)
        self.lemma(passes.row < passes["b_streams"], when=in_passes)
        final = passes.final
        next_column = Mux(passes.word_ends, Mux(passes.column_ends, 0, passes.column + 1), passes.column)
        next_row = passes.row + passes.column_ends
        next_word = Mux(passes.word_ends, 0, passes.word + 1)
        left = (passes["steps"] - next_word * depth)[:16]
        self.lemma(self.probe("column_stream", 12) == (next_column + 1)[:12], when=in_passes & ~final)
        self.lemma(self.probe("row_stream", 12) == (next_row + 1)[:12], when=in_passes & ~final)
        self.lemma(self.probe("steps_left", 16) == left, when=in_passes & ~final)
        first = {"column_stream": 1, "row_stream": 1, "steps_left": passes["steps"]}
        for name, value in first.items():
            self.lemma(self.probe(name, 16 if name == "steps_left" else 12) == value, when=passes.starting)
        for side in "ab":
            words = self.dut.words[side]
            fits = in_passes & ~passes.beyond[side]
            word, base = self.probe(f"{side}_word", (words - 1).bit_length()), passes[f"{side}_base"]
            self.lemma((word == base) | (base >= words), when=passes.starting)
            self.lemma((passes.place[side] < words) & (passes.offset[side] < words), when=fits)
            self.lemma((word == passes.next_place[side]) | (passes.next_place[side] >= words), when=fits & ~final)
        stream = self.probe("b_begin", (self.dut.words["b"] - 1).bit_length())
        self.lemma((stream == passes["b_base"]) | (passes["b_base"] >= self.dut.words["b"]), when=passes.starting)
        begins = passes["b_base"] + passes.offset["b"] + Mux(passes.column_ends, passes.words, 0)
        self.lemma((stream == begins) | (begins >= self.dut.words["b"]), when=in_passes & ~passes.beyond["b"] & ~final)
        reaches = [in_passes & ~final & (passes.next_place[side] >= self.dut.words[side]) for side in "ab"]
        known = Cat(*reaches, *passes.beyond.values()).any()
        self.lemma(self.probe("beyond", 1) == known, when=active)


DEPTH = 12


def _variant(claim: str, title: str, fault: Fault) -> BrokenVariant:
    return BrokenVariant(claim=claim, title=title, kind=Multiply, fault=fault, depth=DEPTH)


BROKEN_VARIANTS = (
    *shared_variants(Multiply, DEPTH),
    _variant(
        "every_step_is_offered_from_its_word",
        "the sides' base addresses are swapped",
        corrupt_word(11, lambda word: word.rotate_left(16)),
    ),
    _variant("done_after_the_last_step", "`done` rises with the first step", done_at_once),
    _variant("the_error_is_the_descriptors", "no error is reported", no_error),
    _variant("the_error_is_the_descriptors", "an error is always reported", always_an_error),
)

PROOF = Proof(
    name="stream_feed",
    build=StreamFeedHarness,
    applies=lambda config: isinstance(config, CoreConfig) and not config.skip_masked,
    broken_variants=BROKEN_VARIANTS,
    cover_depth=16,
    broken_config=load_any_preset("core"),
)
