"""Step walk: each pass has its words once and in order, each with its own indices and its stream's lengths.

A pass has one word more than `more` of its stream's lengths. `ends` marks the last one. Bank k of side A gets the word
that the index in bank k names, unless bank k of side B has no step left. A pass that does not run has one entry without
a word. A word follows in every cycle while there is room: the next word of a pass waits in the cycle after its
predecessor was taken. The queue never overflows.

Assumes: the memory shows the indices that were read last, and keeps the lengths until the next stream begins. A word
that leaves the queue was in it.
"""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value

from tensordash.block import Block
from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.preset import load_any_preset
from tensordash.core.step_walk import QUEUED_WORDS, StepWalk
from tensordash.short_queue import ShortQueue

from ..harness import Fault, Harness
from ..pass_model import QueueModel
from ..proof import Proof, make_variants

__all__ = ["PROOF"]


class WalkModel:
    """Reference model of the words of a pass. It follows the timing of `StepWalk` and reads only its ports.

    Parameters
    ----------
    m : Module
        Module of the ghost registers.
    dut : StepWalk
        The walk.

    Attributes
    ----------
    number : Signal
        Words of the current pass before the one whose indices arrive.
    left : Signal
        Words of the pass that were not requested.
    arrives, is_first : Signal
        A word's indices arrive in this cycle; it is the first word of its pass.
    room, begins, requests : Signal
        A word can be requested; the first word of the next pass is; any word is.
    word : Signal
        The word that is requested.
    words : QueueModel
        Words that wait.
    """

    def __init__(self, m: Module, dut: StepWalk) -> None:
        self.m, self.dut, read = m, dut, dut.read
        depth, bits = dut.depth, {side: len(dut.words.payload.b_word) for side in "ab"}
        bits["a"] = len(dut.words.payload.a_words[0])
        self.fields = {"runs": 1, "last": 1, "a_word": bits["a"], "b_word": bits["b"]}
        self.current = {
            name: Signal(width, name=f"pass_{name}", reset_less=True) for name, width in self.fields.items()
        }
        self.number, self.more = (
            Signal(bits["b"], name=name, reset_less=True) for name in ("word_number", "model_more")
        )
        self.counts = [
            Signal.like(each, name=f"model_count_{k}", reset_less=True) for k, each in enumerate(self._counts())
        ]
        self.arrives, self.is_first = Signal(name="model_arrives"), Signal(name="model_is_first", reset_less=True)
        self.left = Signal(bits["b"], name="model_left")
        self.room, self.begins, self.requests = (
            Signal(name=f"model_{name}") for name in ("room", "begins", "requests")
        )
        self.word = Signal(bits["b"], name="model_word")
        entry = {"runs": 1, "ends": 1, "last": 1, "b_word": bits["b"], "empty": depth}
        entry |= {f"a_word_{k}": bits["a"] for k in range(depth)}
        self.words = QueueModel(m, "words", entry, QUEUED_WORDS)
        self.unrequested = Signal(bits["b"], name="words_unrequested")  # after the last arrival
        more = Mux(self.is_first, Mux(self.current["runs"], read.lengths.last_word, 0), self.more)
        self.ends = more == self.number
        next_word = self.current["b_word"] + self.number + self.arrives
        m.d.comb += [
            self.left.eq(Mux(self.arrives, more - self.number, self.unrequested)),
            self.room.eq(self.words.count + self.arrives < QUEUED_WORDS),
            self.begins.eq(self.room & (self.left == 0) & dut.passes.valid),
            self.requests.eq(self.begins | (self.room & (self.left != 0))),
            self.word.eq(Mux(self.begins, dut.passes.payload.b_word, next_word)),
        ]
        m.d.sync += [self.arrives.eq(self.requests), self.unrequested.eq(self.left)]
        with m.If(self.arrives):
            m.d.sync += [self.number.eq(self.number + 1), self.more.eq(more)]
            m.d.sync += [own.eq(count) for own, count in zip(self.counts, self.lengths(), strict=True)]
        with m.If(self.requests):
            m.d.sync += self.is_first.eq(self.begins)
        with m.Elif(self.arrives):
            m.d.sync += self.is_first.eq(0)
        with m.If(self.begins):
            m.d.sync += [self.number.eq(0), *(own.eq(dut.passes.payload[name]) for name, own in self.current.items())]
        self.words.connect(
            self._entry(),
            adds=self.arrives,
            leaves=(self.words.count != 0) & dut.words.ready,
        )

    def _counts(self) -> list[Value]:
        counts = self.dut.read.lengths.counts
        return [Value.cast(counts[k]) for k in range(self.dut.depth)]

    def lengths(self) -> list[Value]:
        """Return the number of steps in each bank of the stream of the word that arrives."""
        return [Mux(self.is_first, new, own) for new, own in zip(self._counts(), self.counts, strict=True)]

    def _entry(self) -> dict[str, Value]:
        """Return the word that arrives."""
        current = self.current
        empty = [self.number >= count for count in self.lengths()]
        words = [
            Mux(each, current["a_word"], current["a_word"] + self.dut.read.index[k])[: self.fields["a_word"]]
            for k, each in enumerate(empty)
        ]
        return {
            "runs": current["runs"],
            "ends": self.ends,
            "last": self.ends & current["last"],
            "b_word": (current["b_word"] + self.number)[: self.fields["b_word"]],
            "empty": Cat(*empty),
            **{f"a_word_{k}": word for k, word in enumerate(words)},
        }


class StepWalkHarness(Harness):
    """A step walk with free passes, free contents of the memory, and a reader that stalls in any cycle.

    Source: docs/core.md, "Multiply"; the docstrings of `StepWalk`, `word_layout` and `StepIndexReadSignature`.
    """

    def __init__(self, config: CoreConfig, fault: tuple[type[Block], Fault] | None = None) -> None:
        self.dut = dut = StepWalk(config)
        super().__init__(dut, fault=fault)
        self.model = model = WalkModel(self.m, dut)
        read = dut.read
        lengths = Value.cast(read.lengths)
        self.assume(self.past(model.begins) | (lengths == self.past(lengths)))
        self.claim("a_word_is_requested_while_there_is_room", read.enable, when=model.requests)
        self.claim("nothing_else_is_requested", model.requests, when=read.enable)
        self.claim("words_are_requested_in_order", read.word == model.word, when=read.enable)
        self.claim("lengths_are_read_with_the_first_word", read.begins == model.begins, when=read.enable)
        self.claim("a_pass_is_taken_with_its_first_word", dut.passes.ready == model.begins, when=dut.passes.valid)
        adds, full = self.port("queue.adds", 1), self.port("queue.full", 1)
        self.claim("the_queue_never_overflows", ~full, when=adds)
        self._claim_words()
        self._add_lemmas()

    def _claim_words(self) -> None:
        words, queue = self.dut.words, self.model.words
        shown, first = words.payload, queue.entries[0]
        self.claim("every_word_is_queued", words.valid, when=queue.count != 0)
        self.claim("nothing_else_is_queued", queue.count != 0, when=words.valid)
        self.claim("an_entry_has_a_word_if_its_pass_runs", shown.runs == first["runs"], when=words.valid)
        self.claim("ends_marks_the_last_word_of_a_pass", shown.ends == first["ends"], when=words.valid)
        self.claim("last_marks_the_end", shown.last == first["last"], when=words.valid)
        runs = words.valid & first["runs"]
        self.claim("side_b_reads_word_after_word", shown.b_word == first["b_word"], when=runs)
        for k in range(self.dut.depth):
            self.claim("a_bank_is_empty_after_its_last_step", shown.empty[k] == first["empty"][k], when=runs)
            self.claim("side_a_reads_the_words_of_the_indices", shown.a_words[k] == first[f"a_word_{k}"], when=runs)
        stays = words.valid & (Value.cast(shown) == self.past(Value.cast(shown)))
        self.claim("a_word_stays_until_it_is_taken", stays, when=self.past(words.valid & ~words.ready))
        follows = self.past(words.valid & words.ready & ~shown.ends)
        self.claim("the_next_word_of_a_pass_waits", words.valid & shown.runs, when=follows)

    def _add_lemmas(self) -> None:
        dut, model = self.dut, self.model
        queue, arrives = model.words, model.arrives
        self.lemma(queue.count + arrives <= QUEUED_WORDS)
        self.lemma(self.probe("free_places", 2) == QUEUED_WORDS - queue.count - arrives)
        self.lemma(self.probe("arrives", 1) == arrives)
        self.lemma(self.probe("has_words", 1) == (model.left != 0))
        self.lemma(self.probe("had_words", 1) == (model.unrequested != 0))
        bits = len(model.word)
        begun = arrives | (model.unrequested != 0)  # a pass has words that did not arrive
        self.lemma(self.probe("arriving_first", 1) == model.is_first, when=arrives)
        arriving = model.current["b_word"] + model.number - ~arrives
        self.lemma(self.probe("arriving_word", bits) == arriving[:bits], when=begun)
        self.lemma(self.probe("words_left", bits) == (model.more - model.number)[:bits], when=begun & ~model.is_first)
        self.lemma(~model.is_first, when=begun & ~arrives)
        self.lemma(model.number == 0, when=begun & model.is_first)
        self.lemma(model.current["runs"], when=begun & ~model.is_first)
        self.lemma(model.unrequested == (model.more - model.number + 1)[:bits], when=begun & ~arrives)
        for k, entry in enumerate(queue.entries):
            is_last = queue.count == k + 1
            self.lemma(entry["ends"] == Mux(arrives, model.is_first, model.unrequested == 0), when=is_last)
            if k:
                self.lemma(queue.entries[k - 1]["ends"] | entry["runs"], when=queue.count > k)
        self.lemma(queue.entries[0]["ends"] | arrives, when=queue.count == 1)
        for name, own in model.current.items():
            self.lemma(self._now(name) == own, when=begun)
        lengths = [Value.cast(dut.read.lengths.counts[k]) for k in range(dut.depth)]
        for shown, count in zip(lengths, model.counts, strict=True):
            self.lemma(shown == count, when=begun & ~model.is_first)
        self._add_queue_lemmas()

    def _now(self, name: str) -> Value:
        """Return a field of the pass that the walk stores."""
        payload = self.dut.passes.payload
        field = payload.shape()[name]
        stored = self.probe("current_pass", len(Value.cast(payload)))
        return stored[field.offset : field.offset + field.width]

    def _add_queue_lemmas(self) -> None:
        model, layout = self.model.words, self.dut.words.payload.shape()
        for k, entry in enumerate(model.entries):
            words = Cat(entry[f"a_word_{bank}"] for bank in range(self.dut.depth))
            fields = {name: words if name == "a_words" else entry[name] for name, _ in layout}
            undefined = dict.fromkeys(("empty", "b_word", "a_words"), ~entry["runs"])
            bits = [(bit, undefined.get(name, 0)) for name, value in fields.items() for bit in value]
            model.add_lemmas(self, "queue", k, bits)


def _requests_every_second_cycle(m: Module, sound: Any, outer: Any) -> None:
    turn = Signal()
    m.d.sync += turn.eq(~turn)
    m.d.comb += outer.read.enable.eq(sound.read.enable & turn)


def _begins_in_the_word_of_side_a(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += sound.passes.payload.b_word.eq(outer.passes.payload.a_word)


def _reads_the_first_word_again(m: Module, sound: Any, outer: Any) -> None:
    first = Signal.like(outer.read.word)
    with m.If(sound.read.begins):
        m.d.sync += first.eq(sound.read.word)
    m.d.comb += outer.read.word.eq(Mux(sound.read.begins, sound.read.word, first))


def _hides_words_without_steps(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += outer.words.valid.eq(sound.words.valid & ~sound.words.payload.empty.all())


def _loses_the_last_word(m: Module, sound: Any, outer: Any) -> None:
    more = outer.read.lengths.last_word
    m.d.comb += sound.read.lengths.last_word.eq(more - more.any())


def _last_with_every_word(m: Module, sound: Any, outer: Any) -> None:
    """Set `last` in all words of the last pass."""
    is_last = Signal()
    with m.If(sound.read.begins & sound.read.enable):
        m.d.sync += is_last.eq(outer.passes.payload.last)
    m.d.comb += outer.words.payload.last.eq(is_last)


def _has_one_step_more(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += sound.read.lengths.counts[0].eq(outer.read.lengths.counts[0] + 1)


def _has_the_lengths_of_bank_0(m: Module, sound: Any, outer: Any) -> None:
    counts = outer.read.lengths.counts
    m.d.comb += [sound.read.lengths.counts[k].eq(counts[0]) for k in range(outer.depth)]


def _has_the_indices_of_bank_0(m: Module, sound: Any, outer: Any) -> None:
    m.d.comb += [each.eq(outer.read.index[0]) for each in sound.read.index]


def _indices_are_late(m: Module, sound: Any, outer: Any) -> None:
    indices = Value.cast(outer.read.index)
    late = Signal.like(indices)
    m.d.sync += late.eq(indices)
    m.d.comb += Value.cast(sound.read.index).eq(late)


def _shows_words_every_second_cycle(m: Module, sound: Any, outer: Any) -> None:
    turn = Signal()
    m.d.sync += turn.eq(~turn)
    m.d.comb += [outer.words.valid.eq(sound.words.valid & turn), sound.words.ready.eq(outer.words.ready & turn)]


ORDER, LAST, EMPTY = "words_are_requested_in_order", "last_marks_the_end", "a_bank_is_empty_after_its_last_step"
INDICES, TURNS = "side_a_reads_the_words_of_the_indices", "words show in every second cycle"
BROKEN_VARIANTS = (
    *make_variants(
        StepWalk,
        {
            "a_word_is_requested_while_there_is_room": {
                "indices are read in every second cycle": _requests_every_second_cycle
            },
            "nothing_else_is_requested": {
                "indices are read in every cycle": lambda m, sound, outer: outer.read.enable.eq(1)
            },
            ORDER: {
                "a pass begins in the word of side A": _begins_in_the_word_of_side_a,
                "every word of a pass is its first": _reads_the_first_word_again,
            },
            "lengths_are_read_with_the_first_word": {
                "lengths are read with every word": lambda m, sound, outer: outer.read.begins.eq(1)
            },
            "a_pass_is_taken_with_its_first_word": {
                "passes are taken in every cycle": lambda m, sound, outer: outer.passes.ready.eq(1)
            },
            "every_word_is_queued": {"words without steps are lost": _hides_words_without_steps},
            "nothing_else_is_queued": {
                "`valid` of the words is always high": lambda m, sound, outer: outer.words.valid.eq(1)
            },
            "an_entry_has_a_word_if_its_pass_runs": {
                "every entry has a word": lambda m, sound, outer: outer.words.payload.runs.eq(1)
            },
            "ends_marks_the_last_word_of_a_pass": {"the last word of a pass is lost": _loses_the_last_word},
            LAST: {
                "`last` is low": lambda m, sound, outer: outer.words.payload.last.eq(0),
                "`last` is set in all words of the last pass": _last_with_every_word,
            },
            "side_b_reads_word_after_word": {"a pass begins in the word of side A": _begins_in_the_word_of_side_a},
            EMPTY: {
                "bank 0 has one step more": _has_one_step_more,
                "all banks have the steps of bank 0": _has_the_lengths_of_bank_0,
            },
            INDICES: {
                "all banks have the index of bank 0": _has_the_indices_of_bank_0,
                "indices arrive a cycle late": _indices_are_late,
                "streams of side A begin in word 0": lambda m, sound, outer: sound.passes.payload.a_word.eq(0),
            },
            "a_word_stays_until_it_is_taken": {TURNS: _shows_words_every_second_cycle},
            "the_next_word_of_a_pass_waits": {TURNS: _shows_words_every_second_cycle},
        },
        depth=10,
    ),
    *make_variants(
        ShortQueue,
        {
            "the_queue_never_overflows": {"words do not leave the queue": lambda m, sound, outer: sound.leaves.eq(0)},
        },
        depth=10,
    ),
)

PROOF = Proof(
    name="step_walk",
    build=StepWalkHarness,
    applies=lambda config: isinstance(config, CoreConfig) and config.drop_steps,
    broken_variants=BROKEN_VARIANTS,
    cover_depth=12,
    broken_config=load_any_preset("core-drop"),
)
