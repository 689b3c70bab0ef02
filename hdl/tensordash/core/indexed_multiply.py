"""Multiply that reads the remaining steps of side B, and the steps of side A that belong to them."""

from typing import Any

from amaranth.hdl import Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import Out

from ..block import placed
from ..configuration.core_config import CoreConfig
from ..memory.step_index import StepIndexReadSignature
from ..movers.unit import DescriptorRegister
from .multiply import NextWord
from .skipping_multiply import SkippingMultiply
from .step_walk import StepWalk, word_layout

__all__ = ["IndexedMultiply"]


class IndexedMultiply(SkippingMultiply):
    """Executes `multiply` like `SkippingMultiply`, with row streams that a `DroppingLayout` wrote.

    A pass has as many words as the longest bank of its row stream, and at least one. Each bank of side A reads the word
    that the index of its step names.

    Timing: the first steps are offered 8 cycles after the descriptor's last beat was taken, or later if the filter
    still reads masks. There is no bubble between words or passes while the next word is known when a word becomes the
    head's. Otherwise the next word starts 2 cycles after it is known and that word has ended. `done` is high in the
    cycle after the last step was taken or, if the last passes are skipped, 4 cycles after the filter's last entry.

    Parameters
    ----------
    config : CoreConfig
        The core, with `drop_steps`.

    Members
    -------
    index : Out(StepIndexReadSignature)
        The indices and lengths of side B's streams.
    empty : Out(depth)
        Banks of side B that show no step. Their values must count as zeros.
    command, a_read, b_read, available, last, taken, mask_read, marks
        As in `SkippingMultiply`.

    Raises
    ------
    TypeError, ValueError
        If `config` is not a CoreConfig with `drop_steps`.

    Source: docs/core.md, "Multiply".
    """

    def __init__(self, config: CoreConfig) -> None:
        super().__init__(config)
        self.walk = StepWalk(config)

    def _more_members(self) -> dict[str, Any]:
        reads = StepIndexReadSignature(depth=self.depth, words=self.words["b"])
        return {**super()._more_members(), "index": Out(reads), "empty": Out(self.depth)}

    def elaborate(self, platform):
        """Build the unit, its filter and its walk."""
        m = super().elaborate(platform)
        m.submodules.walk = placed(self.walk, platform)
        wiring.connect(m, self.filter.passes, self.walk.passes)
        wiring.connect(m, self.walk.read, wiring.flipped(self.index))
        return m

    def _next_word(
        self, m: Module, descriptor: DescriptorRegister, running: Signal, starts: Signal, after: Signal
    ) -> NextWord:
        """Hold the next word. The word after it is the first one that the walk queues."""
        self._filter(m, descriptor)
        words = self.walk.words
        layout = word_layout(self.config)
        self._head, held = (Signal(layout, name=name, reset_less=True) for name in ("head_word", "next_word"))
        valid, absent, leaves = Signal(name="next_valid"), Signal(name="absent"), Signal(name="next_leaves")
        m.d.comb += [
            absent.eq(valid & ~held.runs & ~running & ~self.command.done),
            leaves.eq(after | absent),
            words.ready.eq(~valid | leaves),
        ]
        with m.If(words.ready):
            m.d.sync += [valid.eq(words.valid), held.eq(words.payload)]
        with m.If(after):
            m.d.sync += self._head.eq(held)
        return NextWord(
            ready=valid & held.runs,
            ends=held.ends,
            final=~words.valid | ~words.payload.runs,
            addresses=dict.fromkeys("ab", (held, words.payload)),
            is_last=self._head.last,
            absent=absent,
        )

    def _read(
        self, m: Module, side: str, late: Signal, begins: Signal, ahead: Signal, words: tuple[Any, Any, Signal]
    ) -> None:
        """Read each bank's next word, as in `Multiply`, and remember which banks of side B show no step."""
        next_word, later, _ = words
        read = getattr(self, f"{side}_read")
        m.d.comb += read.enable.eq(begins | late)
        m.d.sync += late.eq(read.enable & ~read.ready)
        for bank in range(self.depth):
            far, near = Signal(name=f"{side}_far_{bank}"), Signal(name=f"{side}_near_{bank}")
            m.d.comb += [far.eq(ahead[bank] & ~late[bank]), near.eq(~ahead[bank] & late[bank])]

            def chosen(field: str, far: Signal = far, near: Signal = near, bank: int = bank) -> Value:
                far_value, near_value, value = (
                    getattr(each, field)[bank] if field != "b_word" else each.b_word
                    for each in (later, self._head, next_word)
                )
                return Mux(far, far_value, Mux(near, near_value, value))

            m.d.comb += read.address[bank].eq(chosen("a_words" if side == "a" else "b_word"))
            if side == "b":
                with m.If(read.enable[bank] & read.ready[bank]):
                    m.d.sync += self.empty[bank].eq(chosen("empty"))
