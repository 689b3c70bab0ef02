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
        asked = Signal(name="asked")  # the indices of a word arrive in this cycle
        asked_first = Signal(name="asked_first", reset_less=True)  # it is the first word of its pass
        asked_word = Signal.like(read.word, name="asked_word", reset_less=True)
        now = Signal(pass_layout(self.config), name="pass_now", reset_less=True)  # its pass
        left = Signal.like(read.lengths.more, name="words_left", reset_less=True)
        left_now = Signal.like(left, name="words_left_now")  # words of the pass after the one that arrives
        ends, had_words, has_words = Signal(name="ends"), Signal(name="had_words"), Signal(name="has_words")
        begins, follows, asks = Signal(name="begins"), Signal(name="follows"), Signal(name="asks")
        rooms = Signal(range(QUEUED_WORDS + 1), init=QUEUED_WORDS, name="rooms")
        m.d.comb += [
            left_now.eq(Mux(asked_first, read.lengths.more, left)),
            ends.eq(~now.runs | ~left_now.any()),
            has_words.eq(Mux(asked, ~ends, had_words)),  # the pass has words left to request
            begins.eq(self.passes.valid & ~has_words & rooms.any()),
            follows.eq(has_words & rooms.any()),
            asks.eq(begins | follows),
            self.passes.ready.eq(begins),
            read.enable.eq(asks),
            read.begins.eq(begins),
            read.word.eq(Mux(has_words, asked_word + 1, offered.b_word)),
        ]
        m.d.sync += [asked.eq(asks), had_words.eq(has_words), rooms.eq(rooms - asks + self.queue.leaves)]
        with m.If(asked):
            m.d.sync += left.eq(left_now - 1)
        with m.If(asks):
            m.d.sync += [asked_first.eq(begins), asked_word.eq(read.word)]
        with m.If(begins):
            m.d.sync += now.eq(offered)
        self._queue(m, asked, now, ends, asked_word)
        return m

    def _queue(self, m: Module, asked: Signal, now: Any, ends: Signal, word: Signal) -> None:
        """Queue the word whose indices arrive."""
        read, queue = self.read, self.queue
        made = Signal(word_layout(self.config), name="made")
        position = Signal.like(read.word, name="position")  # the word's number in its stream
        m.d.comb += [
            position.eq(word - now.b_word),
            made.runs.eq(now.runs),
            made.ends.eq(ends),
            made.last.eq(ends & now.last),
            made.b_word.eq(word),
        ]
        for bank in range(self.depth):
            place = Signal.like(now.a_word, name=f"place_{bank}")
            m.d.comb += [
                place.eq(now.a_word + read.index[bank]),
                made.empty[bank].eq(position >= read.lengths.kept[bank]),
                # An empty step needs no word of side A, and its index is undefined: read the stream's first word.
                made.a_words[bank].eq(Mux(made.empty[bank], now.a_word, place)),
            ]
        m.d.comb += [
            queue.adds.eq(asked),
            queue.added.eq(made),
            queue.leaves.eq(self.words.valid & self.words.ready),
            self.words.valid.eq(queue.present),
            self.words.payload.eq(View(word_layout(self.config), queue.first)),
        ]
