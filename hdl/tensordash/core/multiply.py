"""Multiply: sends every pair of streams of the two sides through the tile."""

from functools import reduce
from operator import or_
from typing import Any, NamedTuple

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib.wiring import In, Out

from ..block import Block
from ..configuration.core_config import CoreConfig
from ..configuration.descriptors import OPERATIONS
from ..configuration.registers import ERRORS
from ..memory.stream_buffer import StreamReadSignature
from ..movers.unit import CommandSignature, DescriptorRegister
from ..tile.control import count_bits

__all__ = ["Multiply", "NextWord"]


class NextWord(NamedTuple):
    """The word after the head's."""

    ready: Any
    """It is the first word of a pass that can start."""
    ends: Any
    """It is the last of its pass."""
    final: Any
    """It is the last word of the last known pass."""
    addresses: dict[str, tuple[Any, Any]]
    """For each side, its address and the address of the word after it."""
    is_last: Any = Const(1, 1)
    """If the head's word is final: no further pass will start."""
    absent: Any = Const(0, 1)
    """No pass is left to start."""


class Multiply(Block):
    """Executes `multiply`: offers the steps of all passes to the tile, from the banks of the stream buffers.

    Only the banks hold steps: a bank shows the word that it read last. When a step is taken, its bank reads the next
    word. A stream has the same number of words in every bank, so each bank reads word after word, from pass to pass.
    The next step is taken from the *head*. Banks before the head are one word ahead of the others.
    A bank that cannot read because it is written is *late*. It reads in one of the next cycles. Until then neither its
    step nor a later one is offered.

    Timing: the first steps are offered 2 cycles after the descriptor's last beat was taken. Then the unit offers in
    every cycle as many steps as the tile holds, or all up to the end of the pass or to a late bank. There is no bubble
    between passes. A bank that was just read is needed last: if it is late for a cycle, it delays a tile that takes `n`
    steps, and `m` in the next cycle, only if `n + m` is more than `depth`. `done` is high in the cycle after the last
    step was taken. `available` and `last` are functions of registers. Which banks read depends on `taken` in the same
    cycle; their addresses do not.

    Parameters
    ----------
    config : CoreConfig
        The core.

    Members
    -------
    command : In(CommandSignature)
        Descriptors.
    a_read, b_read : Out(StreamReadSignature)
        The stream buffers. Their data go to the tile: bank k to line k of all ports of the side.
    available : Out(0..depth)
        To all ports of the tile: number of steps offered.
    last : Out(1)
        To all ports of the tile: the step at ``available - 1`` ends the pass.
    taken : In(0..depth)
        From the tile: number of steps that enter in this cycle, at most `available`.

    Raises
    ------
    TypeError
        If `config` is not a CoreConfig.

    Source: docs/core.md, "Multiply"; docs/tile.md, "Lines".
    """

    def __init__(self, config: CoreConfig) -> None:
        if not isinstance(config, CoreConfig):
            raise TypeError(f"config must be a CoreConfig, not {config!r}")
        self.config = config
        self.depth = config.tile.window_depth
        self.words = {side: config.stream_words(side) for side in "ab"}
        reads = {side: Out(StreamReadSignature(depth=self.depth, words=self.words[side])) for side in "ab"}
        super().__init__(
            {
                "command": In(CommandSignature()),
                "a_read": reads["a"],
                "b_read": reads["b"],
                "available": Out(count_bits(self.depth)),
                "last": Out(1),
                "taken": In(count_bits(self.depth)),
                **self._more_members(),
            },
        )

    def _more_members(self) -> dict[str, Any]:
        return {}

    def elaborate(self, platform):
        """Track the head's word and the next word, and let each bank read one of them."""
        m = Module()
        descriptor = DescriptorRegister(m, self.command, OPERATIONS["multiply"])
        running = Signal()  # steps are offered
        starts = Signal()  # all banks read the first word of the first pass
        finished = Signal()  # the last step was taken in the previous cycle
        ends = Signal(name="word_ends", reset_less=True)  # the head's word is the last of its pass
        final = Signal(name="word_is_final", reset_less=True)  # the head's word is the last of all passes
        after = Signal()  # the next word becomes the head's
        head = Signal(self.depth, init=1)
        takes = Signal(self.depth)  # banks whose step is taken
        passed = takes[-1]  # the head advances to the next word
        next_word = self._next_word(m, descriptor, running, starts, after)
        m.d.comb += [
            starts.eq(next_word.ready & ~running & ~finished),
            after.eq(starts | (passed & ~final)),
            self.command.done.eq(finished),
        ]
        m.d.sync += finished.eq((passed & final & next_word.is_last) | next_word.absent)
        with m.If(starts):
            m.d.sync += running.eq(1)
        with m.Elif(passed & final):
            m.d.sync += running.eq(0)
        # Banks before the head show the next word, or are late. There are none at the start.
        ahead = Signal(self.depth)
        late = {side: Signal(self.depth, name=f"{side}_late") for side in "ab"}
        any_late = Signal(self.depth)
        m.d.comb += [
            ahead.eq(Cat(head[bank + 1 :].any() for bank in range(self.depth))),
            any_late.eq(late["a"] | late["b"]),
        ]
        self._offer(m, running, head, takes, (ends, ahead, any_late))
        with m.If(after):
            m.d.sync += [ends.eq(next_word.ends), final.eq(next_word.final)]
        begins = Signal(self.depth)  # banks that must read another word
        m.d.comb += begins.eq(
            starts.replicate(self.depth) | (takes & ~Mux(next_word.final, ahead, 0) & ~Mux(final, ~ahead, 0))
        )
        for side, (address, behind) in next_word.addresses.items():
            self._read(m, side, late[side], begins, ahead, (address, behind, after))
        return m

    def _read(
        self, m: Module, side: str, late: Signal, begins: Signal, ahead: Signal, words: tuple[Any, Any, Signal]
    ) -> None:
        """Read each bank's next word: the next word, or the one after it for banks before the head."""
        address, behind, after = words
        read, current = getattr(self, f"{side}_read"), Signal.like(address, name=f"{side}_current", reset_less=True)
        with m.If(after):
            m.d.sync += current.eq(address)
        # A late bank reads the word that it should already show: one word earlier.
        far, near = (Signal(self.depth, name=f"{side}_{name}") for name in ("far", "near"))
        m.d.comb += [read.enable.eq(begins | late), far.eq(ahead & ~late), near.eq(~ahead & late)]
        m.d.sync += late.eq(read.enable & ~read.ready)
        for bank in range(self.depth):
            m.d.comb += read.address[bank].eq(Mux(far[bank], behind, Mux(near[bank], current, address)))

    def _offer(
        self, m: Module, running: Signal, head: Signal, takes: Signal, limits: tuple[Signal, Signal, Any]
    ) -> None:
        """Offer steps from the head on, up to the end of the pass or a late bank. Move the head past those taken."""
        depth, taken = self.depth, self.taken
        ends, ahead, late = limits
        shut = Signal(depth)  # banks whose step is not offered
        short = Signal()  # a late bank is before the end of the pass
        m.d.comb += [shut.eq(late | Mux(ends, ahead, 0)), short.eq((late & ~ahead).any())]
        # Bit k: step k from the head on, and all steps before it, are offered.
        open_ = Signal(depth, name="offered")
        for k in range(depth):
            barred = (head[bank] & Cat(shut[(bank + j) % depth] for j in range(k + 1)).any() for bank in range(depth))
            m.d.comb += open_[k].eq(running & ~reduce(or_, barred))
        count = Cat(open_, Const(0, 1))
        m.d.comb += [
            self.available.eq(
                reduce(or_, (Mux(count[k - 1] & ~count[k], Const(k, len(taken)), 0) for k in range(1, depth + 1)))
            ),
            self.last.eq(running & ends & ~short),
        ]
        at_least = [taken > count for count in range(depth)]
        for bank in range(depth):
            m.d.comb += takes[bank].eq(Cat(head[k] & at_least[(bank - k) % depth] for k in range(depth)).any())
        if depth > 1:
            by = [taken == count for count in range(depth)]
            by[0] = by[0] | (taken == depth)  # a full turn
            m.d.sync += head.eq(
                Cat(Cat(head[k] & by[(bank - k) % depth] for k in range(depth)).any() for bank in range(depth))
            )

    def _next_word(
        self, m: Module, descriptor: DescriptorRegister, running: Signal, starts: Signal, after: Signal
    ) -> NextWord:
        """Walk one word ahead of the head."""
        steps = Signal(16, name="steps_left", reset_less=True)  # left in the pass, from the next word on
        column, row = (Signal(12, name=f"{name}_stream", reset_less=True) for name in ("column", "row"))  # from 1 on
        words = {
            name: Signal(range(self.words[side]), name=name, reset_less=True)
            for side, name in (("a", "a_word"), ("b", "b_word"), ("b", "b_begin"))
        }
        next_words = {name: Signal.like(word, name=f"{name}_after") for name, word in words.items()}
        last_word, last_column = Signal(name="last_word"), Signal(name="last_column")
        turns, final = Signal(name="turns"), Signal(name="next_final")  # the next pass has another stream of b
        at_end = {side: words[f"{side}_word"] == self.words[side] - 1 for side in "ab"}
        grown = {side: Mux(at_end[side], 0, (words[f"{side}_word"] + 1)[: len(words[f"{side}_word"])]) for side in "ab"}
        bases = {side: self._base(descriptor, side) for side in "ab"}
        m.d.comb += [
            last_word.eq(steps <= self.depth),
            last_column.eq(column == descriptor["a_streams"]),
            turns.eq(last_word & last_column),
            final.eq(turns & (row == descriptor["b_streams"])),
            next_words["a_word"].eq(Mux(turns, bases["a"][0], grown["a"])),
            next_words["b_word"].eq(Mux(last_word & ~last_column, words["b_begin"], grown["b"])),
            next_words["b_begin"].eq(Mux(turns, grown["b"], words["b_begin"])),
        ]
        with m.If(after):
            m.d.sync += [
                *(word.eq(next_words[name]) for name, word in words.items()),
                steps.eq(Mux(last_word, descriptor["steps"], steps - self.depth)),
            ]
            with m.If(last_word):
                m.d.sync += [column.eq(Mux(last_column, 1, column + 1)), row.eq(row + last_column)]
        with m.Elif(~running):
            # All fields but the numbers of streams arrive before the last beat.
            m.d.sync += [
                words["a_word"].eq(bases["a"][0]),
                words["b_word"].eq(bases["b"][0]),
                words["b_begin"].eq(bases["b"][0]),
                steps.eq(descriptor["steps"]),
                column.eq(1),
                row.eq(1),
            ]
        self._see_range(
            m,
            starts,
            after & ~final,
            {
                "a": (bases["a"][1], at_end["a"] & ~turns),
                "b": (bases["b"][1], at_end["b"] & (~last_word | last_column)),
            },
        )
        return NextWord(
            ready=descriptor.present,
            ends=last_word,
            final=final,
            addresses={side: (words[f"{side}_word"], next_words[f"{side}_word"]) for side in "ab"},
        )

    def _base(self, descriptor: DescriptorRegister, side: str) -> tuple[Any, Any]:
        """Return where a side's first stream begins (0 if beyond the end), and whether that is beyond the end."""
        base, words = descriptor[f"{side}_base"], self.words[side]
        beyond = base >= words
        return Mux(beyond, 0, base[: (words - 1).bit_length()]), beyond

    def _see_range(self, m: Module, starts: Signal, goes_on: Any, sides: dict[str, tuple[Any, Any]]) -> None:
        """Record whether a word beyond the buffer's end is requested. Passes continue with undefined words."""
        beyond = Signal(name="beyond", reset_less=True)
        bases = Cat(base for base, _ in sides.values()).any()
        words = Cat(goes_on & over for _, over in sides.values()).any()
        with m.If(starts):
            m.d.sync += beyond.eq(bases | words)
        with m.Elif(words):
            m.d.sync += beyond.eq(1)
        m.d.comb += self.command.error.eq(Mux(beyond, ERRORS["range"], 0))
