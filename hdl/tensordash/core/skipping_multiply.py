"""Multiply that skips passes whose masks are all zeros."""

from typing import Any

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring

from ..block import placed
from ..configuration.core_config import CoreConfig
from ..configuration.registers import ERRORS
from ..movers.unit import DescriptorRegister
from .multiply import Multiply, NextWord
from .pass_filter import LOOPS, PassFilter

__all__ = ["SkippingMultiply"]

FILTER_FIELDS = ("skip_masked", "a_base", "b_base", "a_streams", "b_streams", "fp32", "x", "x_size", "mask_address")


class SkippingMultiply(Multiply):
    """Executes `multiply` like `Multiply`, but takes its passes from a `PassFilter`.

    Timing: the first steps are offered 6 cycles after the descriptor's last beat was taken, or later if the filter
    still reads masks. There is no bubble between passes if the next pass is known when the last word of a pass becomes
    the head's. Otherwise the pass ends first, and the next one starts 3 cycles later or when it is known: the filter
    may wait until the output unit has the pass's block. If the last passes are skipped, `done` is high in the cycle
    after the filter's last entry was taken.

    Parameters
    ----------
    config : CoreConfig
        The core, with `skip_masked`.

    Members
    -------
    mask_read : Out(BufferReadSignature)
        Reads of masks.
    marks : Out(stream of 1 bit)
        As in `PassFilter`.
    command, a_read, b_read, available, last, taken
        As in `Multiply`.

    Raises
    ------
    TypeError, ValueError
        If `config` is not a CoreConfig with `skip_masked`.

    Source: docs/core.md, "Multiply".
    """

    def __init__(self, config: CoreConfig) -> None:
        self.filter = PassFilter(config)
        super().__init__(config)

    def _more_members(self) -> dict[str, Any]:
        members = self.filter.signature.members
        return {"mask_read": members["read"], "marks": members["marks"]}

    def elaborate(self, platform):
        """Build the unit and its filter."""
        m = super().elaborate(platform)
        m.submodules.filter = placed(self.filter, platform)
        wiring.connect(m, self.filter.read, wiring.flipped(self.mask_read))
        wiring.connect(m, self.filter.marks, wiring.flipped(self.marks))
        return m

    def _next_word(
        self, m: Module, descriptor: DescriptorRegister, running: Signal, starts: Signal, after: Signal
    ) -> NextWord:
        """Walk one word ahead of the head, through the passes that the filter queues."""
        self._filter(m, descriptor)
        passes = self.filter.passes
        words = {side: Signal(range(count), name=f"{side}_word", reset_less=True) for side, count in self.words.items()}
        steps = Signal(16, name="steps_left", reset_less=True)  # left in the pass, from the next word on
        is_last = Signal(name="pass_is_last", reset_less=True)  # no pass follows the next word's, or a final head's
        loaded, loads = Signal(name="loaded"), Signal(name="loads")  # the next word is the first one to start
        ends, final, absent = Signal(name="ends"), Signal(name="next_final"), Signal(name="absent")
        turns = Signal(name="turns")  # the next word becomes the first of another pass
        idle = ~running & ~loaded & ~self.command.done
        m.d.comb += [
            ends.eq(steps <= self.depth),
            final.eq(ends & (is_last | ~passes.payload.runs)),
            loads.eq(idle & passes.payload.runs),
            absent.eq(idle & passes.valid & ~passes.payload.runs),
            turns.eq(after & ends & ~final),
            passes.ready.eq(loads | absent | turns),
        ]
        with m.If(loads):
            m.d.sync += loaded.eq(1)
        with m.Elif(starts):
            m.d.sync += loaded.eq(0)
        with m.If(loads | turns):
            m.d.sync += [is_last.eq(passes.payload.last), steps.eq(descriptor["steps"])]
        with m.Elif(after):
            m.d.sync += steps.eq(steps - self.depth)
        addresses = {}
        for side, word in words.items():
            begin, address_after = passes.payload[f"{side}_word"], Signal.like(word, name=f"{side}_word_after")
            next_in_pass = Mux(word == self.words[side] - 1, 0, (word + 1)[: len(word)])
            m.d.comb += address_after.eq(Mux(ends, begin, next_in_pass))
            with m.If(loads):
                m.d.sync += word.eq(begin)
            with m.Elif(after):
                m.d.sync += word.eq(address_after)
            addresses[side] = word, address_after
        return NextWord(ready=loaded, ends=ends, final=final, addresses=addresses, is_last=is_last, absent=absent)

    def _filter(self, m: Module, descriptor: DescriptorRegister) -> None:
        """Connect the filter to the descriptor."""
        pass_filter = self.filter
        filter_runs = Signal(name="filter_runs")  # the filter has the descriptor
        with m.If(self.command.done):
            m.d.sync += filter_runs.eq(0)
        with m.Elif(descriptor.present):
            m.d.sync += filter_runs.eq(1)
        m.d.comb += [
            pass_filter.start.eq(descriptor.present & ~filter_runs),
            pass_filter.pass_words.eq((descriptor["steps"] + (self.depth - 1)) >> (self.depth - 1).bit_length()),
            *(getattr(pass_filter, name).eq(descriptor[name]) for name in FILTER_FIELDS),
            *(
                getattr(pass_filter, f"{name}_steps")[k].eq(descriptor[f"{name}_{k}"])
                for name in ("address", "x")
                for k in range(LOOPS)
            ),
            *(pass_filter.counts[k].eq(descriptor[f"count_{k}"]) for k in range(LOOPS - 1)),
            self.command.error.eq(Mux(pass_filter.beyond, ERRORS["range"], 0)),
        ]
