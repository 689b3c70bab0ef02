"""Step walk: finds the words that each pass reads, ahead of the tile."""

from typing import Any

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream
from amaranth.lib.data import ArrayLayout, StructLayout, View
from amaranth.lib.wiring import In, Out

from ..block import Block, placed
from ..configuration.core_config import CoreConfig
from ..memory.step_index import StepIndexReadSignature
from ..short_queue import ShortQueue
from .pass_filter import pass_layout

__all__ = ["StepWalk", "word_layout"]

QUEUED_WORDS = 3
"""A place is reserved for at least 3 cycles, so 3 places allow a word in every cycle."""


def word_layout(config: CoreConfig) -> StructLayout:
    """Return the layout of a word of a pass.

    `runs` is 0 in an entry without a word, which ends a descriptor whose last passes are skipped. `ends` is set in the
    last word of a pass, `last` in the last word of all. `a_words` and `b_word` are the words to read from each bank,
    and `empty` are the banks of side B without a step in this word.
    """
    depth, bits = config.tile.window_depth, {side: (config.stream_words(side) - 1).bit_length() for side in "ab"}
    return StructLayout(
        {"runs": 1, "ends": 1, "last": 1, "empty": depth, "b_word": bits["b"], "a_words": ArrayLayout(bits["a"], depth)}
    )


class StepWalk(Block):
    """Reads the indices of each pass's words, and locates the words of side A that belong to the steps.

    Timing: a pass's first word is in the queue 2 cycles after the pass is offered. Then a word follows in every cycle,
    also from one pass to the next.

    Parameters
    ----------
    config : CoreConfig
        The core, with `drop_steps`.

    Members
    -------
    passes : In(stream of pass_layout)
        Passes from a `PassFilter`, with the entry that ends a descriptor.
    read : Out(StepIndexReadSignature)
        The indices and lengths of side B's streams.
    words : Out(stream of word_layout)
        Their words, in order.

    Raises
    ------
    TypeError, ValueError
        If `config` is not a CoreConfig with `drop_steps`.

    Source: docs/core.md, "Multiply".
    """

    def __init__(self, config: CoreConfig) -> None:
        if not isinstance(config, CoreConfig):
            raise TypeError(f"config must be a CoreConfig, not {config!r}")
        if not config.drop_steps:
            raise ValueError("core.drop_steps must be true, not false")
        self.config = config
        self.depth = config.tile.window_depth
        reads = StepIndexReadSignature(depth=self.depth, words=config.stream_words("b"))
        super().__init__(
            {
                "passes": In(stream.Signature(pass_layout(config))),
                "read": Out(reads),
                "words": Out(stream.Signature(word_layout(config))),
            }
        )
        self.queue = ShortQueue(bits=word_layout(config).size, places=QUEUED_WORDS)

    def elaborate(self, platform):
        """Request a word's indices in each cycle while there is room, and queue the word in the next cycle."""
        m = Module()
        m.submodules.queue = placed(self.queue, platform)
        read, offered = self.read, self.passes.payload
        arrives = Signal(name="arrives")  # the indices of a word arrive in this cycle
        arriving_first = Signal(name="arriving_first", reset_less=True)  # it is the first word of its pass
        arriving_word = Signal.like(read.word, name="arriving_word", reset_less=True)
        current = Signal(pass_layout(self.config), name="current_pass", reset_less=True)  # its pass
        left = Signal.like(read.lengths.last_word, name="words_left", reset_less=True)
        words_left_next = Signal.like(left, name="words_left_next")  # words of the pass after the one that arrives
        ends, had_words, has_words = Signal(name="ends"), Signal(name="had_words"), Signal(name="has_words")
        begins, follows, requests = Signal(name="begins"), Signal(name="follows"), Signal(name="requests")
        free_places = Signal(range(QUEUED_WORDS + 1), init=QUEUED_WORDS, name="free_places")
        m.d.comb += [
            words_left_next.eq(Mux(arriving_first, read.lengths.last_word, left)),
            ends.eq(~current.runs | ~words_left_next.any()),
            has_words.eq(Mux(arrives, ~ends, had_words)),  # the pass has words left to request
            begins.eq(self.passes.valid & ~has_words & free_places.any()),
            follows.eq(has_words & free_places.any()),
            requests.eq(begins | follows),
            self.passes.ready.eq(begins),
            read.enable.eq(requests),
            read.begins.eq(begins),
            read.word.eq(Mux(has_words, arriving_word + 1, offered.b_word)),
        ]
        m.d.sync += [
            arrives.eq(requests),
            had_words.eq(has_words),
            free_places.eq(free_places - requests + self.queue.leaves),
        ]
        with m.If(arrives):
            m.d.sync += left.eq(words_left_next - 1)
        with m.If(requests):
            m.d.sync += [arriving_first.eq(begins), arriving_word.eq(read.word)]
        with m.If(begins):
            m.d.sync += current.eq(offered)
        self._queue(m, arrives, current, ends, arriving_word)
        return m

    def _queue(self, m: Module, arrives: Signal, current: Any, ends: Signal, word: Signal) -> None:
        """Queue the word whose indices arrive."""
        read, queue = self.read, self.queue
        new_word = Signal(word_layout(self.config), name="new_word")
        position = Signal.like(read.word, name="position")  # the word's number in its stream
        m.d.comb += [
            position.eq(word - current.b_word),
            new_word.runs.eq(current.runs),
            new_word.ends.eq(ends),
            new_word.last.eq(ends & current.last),
            new_word.b_word.eq(word),
        ]
        for bank in range(self.depth):
            place = Signal.like(current.a_word, name=f"place_{bank}")
            m.d.comb += [
                place.eq(current.a_word + read.index[bank]),
                new_word.empty[bank].eq(position >= read.lengths.counts[bank]),
                # An empty step needs no word of side A, and its index is undefined: read the stream's first word.
                new_word.a_words[bank].eq(Mux(new_word.empty[bank], current.a_word, place)),
            ]
        m.d.comb += [
            queue.adds.eq(arrives),
            queue.added.eq(new_word),
            queue.leaves.eq(self.words.valid & self.words.ready),
            self.words.valid.eq(queue.present),
            self.words.payload.eq(View(word_layout(self.config), queue.first)),
        ]
