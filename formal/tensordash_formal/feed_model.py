"""Reference model and claims that the proofs of both kinds of multiply units share (docs/core.md, "Multiply")."""

from typing import Any

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal, Value

from tensordash.block import Block
from tensordash.configuration.descriptors import OPERATIONS
from tensordash.core.multiply import Multiply
from tensordash.movers.unit import COMMAND_BITS

from .harness import Fault, Harness, Stub
from .reference_descriptor import ReferenceDescriptor

__all__ = ["PLACE_BITS", "CountedFeedModel", "FeedHarness", "FeedModel"]

PLACE_BITS = 30
"""Bits of a word's place, including places beyond the stream buffer."""


class FeedModel(ReferenceDescriptor):
    """Reference model of the steps: tracks the next step of the current word. Subclasses track words and passes.

    Parameters
    ----------
    m : Module
        Module of the ghost registers.
    dut : Multiply
        The unit.

    Attributes
    ----------
    in_passes : Signal
        A word has steps left, and the unit may offer them.
    bank : Signal
        The bank of the next step.
    words : Signal
        Words of a stream in each bank, if no step is dropped.
    word_ends : Signal
        The word is the last of its pass.
    final : Signal
        The word is the last one that is known.
    word_done : Signal
        The last step of the word is taken in this cycle.
    """

    def __init__(self, m: Module, dut: Multiply) -> None:
        super().__init__(m, dut.command, OPERATIONS["multiply"])
        self.dut, self.depth, self.shift = dut, dut.depth, (dut.depth - 1).bit_length()
        assert self.depth == 1 << self.shift
        self.in_passes, self.bank = Signal(name="in_passes"), Signal(range(dut.depth), name="pass_bank")
        self.words = Signal(16, name="pass_words")
        self.word_ends, self.final = Signal(name="word_ends"), Signal(name="word_is_final")
        self.reached = self.bank + dut.taken
        self.word_done = Signal(name="word_is_done")
        m.d.comb += [
            self.words.eq((self["steps"] + dut.depth - 1) >> self.shift),
            self.word_done.eq(self.reached >= dut.depth),
        ]

    def left(self) -> Value:
        """Return the remaining steps of the word. In the last word of a pass, these are the pass's remaining steps."""
        return self.depth - self.bank

    def limit(self) -> Value:
        """Return the steps that can be offered if no bank is late: a window, up to the end of the pass."""
        return Mux(self.word_ends, self.left(), self.depth)

    def at(self, side: str, bank: Any, is_next: Any) -> tuple[Value, Value]:
        """Return the place that a bank reads for the word or the next one, and whether it is defined if it exists."""
        raise NotImplementedError


class CountedFeedModel(FeedModel):
    """A feed model whose passes have as many words as a stream. All banks read the same word.

    Attributes
    ----------
    word : Signal
        The word of the next step: step t of a pass is in bank t mod D and word floor(t / D).
    place, next_place : dict of str to Signal
        For each side, the places of the word and of the next one.
    is_known, next_is_known : dict of str to Signal
        For each side, whether the word is defined, and the next one if there is one: within the stream buffer.
    """

    def __init__(self, m: Module, dut: Multiply) -> None:
        super().__init__(m, dut)
        self.word = Signal(16, name="pass_word", reset_less=True)
        self.place = {side: Signal(PLACE_BITS, name=f"{side}_place") for side in "ab"}
        self.next_place = {side: Signal(PLACE_BITS, name=f"{side}_next_place") for side in "ab"}
        self.is_known = {side: Signal(name=f"{side}_is_known") for side in "ab"}
        self.next_is_known = {side: Signal(name=f"{side}_next_is_known") for side in "ab"}
        m.d.comb += self.word_ends.eq(self.word == self.words - 1)

    def at(self, side: str, bank: Any, is_next: Any) -> tuple[Value, Value]:
        """Return the place of the word or of the next one, for any bank."""
        place = Mux(is_next, self.next_place[side], self.place[side])
        return place, Mux(is_next, self.next_is_known[side], self.is_known[side])

    def add_count_lemmas(self, harness: "FeedHarness") -> None:
        """State the lemmas about the words of the pass, and about the head's word, which the unit stores."""
        harness.lemma(self.word < self.words, when=self.in_passes)
        for side in "ab":
            bits = (self.dut.words[side] - 1).bit_length()
            fits = self.in_passes & self.is_known[side]
            harness.lemma(harness.probe(f"{side}_current", bits) == self.place[side], when=fits)


class FeedHarness(Harness):
    """A multiply unit between a tile and stream buffers whose banks may be written, and so not read, in any cycle.

    A bank's output is the word that it read last (`StreamReadSignature`). The harness tracks the word's place.

    Parameters
    ----------
    dut : Multiply
        The unit.
    stubs, fault
        As in `Harness`.
    """

    def __init__(
        self, dut: Multiply, *, stubs: tuple[Stub, ...] = (), fault: tuple[type[Block], Fault] | None = None
    ) -> None:
        self.dut = dut
        super().__init__(dut, stubs=stubs, fault=fault)
        self.assume(dut.taken <= dut.available)
        self.shown = {side: self._shown(side) for side in "ab"}
        self.late_banks = self.past(Cat(self._late_banks(side) for side in "ab"), init=0)

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

    def claim_steps(self, passes: FeedModel) -> None:
        """Claim that the offered steps are those of the pass, from their words."""
        dut, depth, available = self.dut, self.dut.depth, self.dut.available
        offered = available != 0
        self.claim("only_steps_of_passes_are_offered", passes.in_passes, when=offered)
        self.claim("no_step_of_the_next_pass_is_offered", available <= passes.limit(), when=offered)
        last = passes.word_ends & (available == passes.left())
        self.claim("last_marks_the_end_of_a_pass", dut.last == last, when=offered)
        for side in "ab":
            words = dut.words[side]
            for k in range(depth):
                at = passes.bank + k
                bank = at[: (depth - 1).bit_length()]
                place, is_known = passes.at(side, bank, at >= depth)
                shows = Array(self.shown[side])[bank]
                known = passes.in_passes & (available > k) & (place < words) & is_known
                self.claim("every_step_is_offered_from_its_word", shows == place, when=known)

    def add_feed_lemmas(self, passes: FeedModel, names: tuple[str, ...]) -> None:
        """State the lemmas about the stored fields in `names`, the head, and each bank."""
        dut, depth, in_passes = self.dut, self.dut.depth, passes.in_passes
        passes.add_lemmas(self)
        for name in names:
            field = passes._fields[name]
            beat, low = divmod(field.low, COMMAND_BITS)
            bits = self.probe(f"descriptor_{beat}", COMMAND_BITS)[low : low + field.width]
            self.lemma(bits == passes[name].as_unsigned(), when=passes.beat_count > beat)
            if field.least:
                self.lemma(passes[name] >= field.least, when=passes.beat_count > beat)
        self.lemma(self.probe("running", 1) == in_passes)
        if depth > 1:
            self.lemma(self.probe("head", depth) == Const(1) << passes.bank)
            self.lemma(passes.bank == 0, when=~in_passes)
        self.lemma(self.probe("word_ends", 1) == passes.word_ends, when=in_passes)
        self.lemma(self.probe("word_is_final", 1) == passes.final, when=in_passes)
        late = {side: self.probe(f"{side}_late", depth) for side in "ab"}
        for side in "ab":
            words = dut.words[side]
            number = 0 if side == "a" else depth
            self.lemma(late[side] == self.late_banks[number : number + depth])
            for k in range(depth):
                ahead = k < passes.bank
                place, is_known = passes.at(side, k, ahead)
                known = in_passes & is_known & ~late[side][k] & (place < words) & ~(ahead & passes.final)
                self.lemma(self.shown[side][k] == place, when=known)
                self.lemma(~late[side][k], when=in_passes & ahead & passes.final)
        self.lemma(~Cat(*late.values()).any(), when=~in_passes)
