"""Pair layout that drops steps whose values are all zeros."""

from types import SimpleNamespace
from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib.wiring import Out

from ..configuration.core_config import CoreConfig
from ..memory.step_index import StepIndexWriteSignature
from .pair_layout import PairLayout
from .unit import DescriptorRegister

__all__ = ["DroppingLayout"]


class DroppingLayout(PairLayout):
    """Executes `layout_b` like `PairLayout`, but drops steps whose values are all zeros of either sign.

    Each bank closes its gaps: its steps follow each other from its stream's first word on. A stream keeps its place
    even if it has fewer words. The zeros that pad a stream's last word are not written either. For each step that is
    kept, its index is written: the word of the stream that it would have if no step were dropped. Two cycles after a
    stream's last step, its lengths are written.

    Timing: as in `PairLayout`, but a stream's last step and the first step of the next stream never make a pair, and
    the descriptor is done two cycles later.

    Parameters
    ----------
    config : CoreConfig
        The core, with `drop_steps`.

    Members
    -------
    index : Out(StepIndexWriteSignature)
        Indices and lengths.
    command, read, write
        As in `PairLayout`.

    Raises
    ------
    TypeError, ValueError
        If `config` is not a CoreConfig with `drop_steps`.

    Source: docs/core.md, "Layout".
    """

    step_signals = ("bank", "ends", "word")

    def __init__(self, config: CoreConfig) -> None:
        super().__init__(config, "b")
        if not config.drop_steps:
            raise ValueError("core.drop_steps must be true, not false")

    def _more_members(self) -> dict[str, Any]:
        return {"index": Out(StepIndexWriteSignature(depth=self.depth, words=self.words))}

    def _add_writes(self, m: Module, name: str, step: Any) -> None:
        """Add `ends` to a step: it is the last of its stream."""
        step.ends = Signal(name=f"{name}_ends")
        m.d.comb += step.ends.eq(step.steps == 1)

    def _collide(self, steps: list[Any]) -> Value:
        """Return whether the second step is of another stream."""
        ends: Value = steps[0].ends
        return ends

    def _write(self, m: Module, descriptor: DescriptorRegister, turned: list[Any]) -> None:
        """Write the steps that are kept, each at its bank's next word, and their indices."""
        write, index, bits = self.write, self.index, (self.words - 1).bit_length()
        first, second = turned
        data = self._data(m, descriptor, turned)
        keeps, ends = Signal(len(turned), name="keeps"), Signal(name="ends")
        begin = Signal(range(self.words + 1), name="stream_begin", reset_less=True)
        after = Signal.like(begin, name="next_begin", reset_less=False)
        indices = []
        for k, token in enumerate(turned):
            m.d.comb += keeps[k].eq(token.valid & self._is_effectual(token.ports))
            indices.append(Signal(bits, name=f"step_index_{k}"))
            m.d.comb += indices[k].eq(token.word - begin)
        m.d.comb += [
            ends.eq((first.valid & first.ends) | (second.valid & second.ends)),
            after.eq(Mux(second.valid, second.word, first.word) + 1),
        ]
        places = [Signal(range(self.words + 1), name=f"place_{bank}", reset_less=True) for bank in range(self.depth)]
        places_after = [Signal.like(place, name=f"place_{bank}_after") for bank, place in enumerate(places)]
        for bank, place in enumerate(places):
            is_first, is_second = (keeps[k] & token.bank[bank] for k, token in enumerate(turned))
            m.d.comb += [
                write.bank[bank].eq(is_first | is_second),
                write.word[bank].eq(place),
                write.part[bank].eq(1),
                write.data[bank].eq(Mux(second.bank[bank] & second.valid, data[1], data[0])),
                index.bank[bank].eq(write.bank[bank]),
                index.word[bank].eq(place),
                index.index[bank].eq(Mux(second.bank[bank] & second.valid, indices[1], indices[0])),
                places_after[bank].eq(Mux(write.bank[bank], place + 1, place)),
            ]
        with m.If(self._starts):
            m.d.sync += [begin.eq(descriptor["base"]), *(place.eq(descriptor["base"]) for place in places)]
        with m.Elif(ends):
            m.d.sync += [begin.eq(after), *(place.eq(after) for place in places)]
        with m.Else():
            m.d.sync += [place.eq(later) for place, later in zip(places, places_after, strict=True)]
        self._end_stream(m, ends, begin, places_after)

    def _is_effectual(self, ports: list[Signal]) -> Value:
        """Return whether a group has a value other than zero."""
        width = self.config.value_bits
        has_sign = self.config.tile.numerics.result != "int32"
        values = (port[lane * width : (lane + 1) * width - has_sign] for port in ports for lane in range(self.lanes))
        return Cat(values).any()

    def _end_stream(self, m: Module, ends: Signal, begin: Signal, places: list[Signal]) -> None:
        """Compute a stream's lengths in two cycles after its last step, and write them."""
        index = self.index
        ended, counted = (
            SimpleNamespace(
                valid=Signal(name=f"{name}_valid"),
                begin=Signal.like(begin, name=f"{name}_begin"),
                counts=[
                    Signal(range(self.words + 1), name=f"{name}_count_{bank}", reset_less=True)
                    for bank in range(self.depth)
                ],
            )
            for name in ("ended", "counted")
        )
        m.d.sync += [
            ended.valid.eq(ends),
            ended.begin.eq(begin),
            *(count.eq(place) for count, place in zip(ended.counts, places, strict=True)),
            counted.valid.eq(ended.valid),
            counted.begin.eq(ended.begin),
            *(count.eq(place - ended.begin) for count, place in zip(counted.counts, ended.counts, strict=True)),
        ]
        most = counted.counts[0]
        for bank, count in enumerate(counted.counts[1:], start=1):
            larger = Signal.like(most, name=f"most_of_{bank + 1}", reset_less=False)
            m.d.comb += larger.eq(Mux(count > most, count, most))
            most = larger
        m.d.comb += [
            index.ends.eq(counted.valid),
            index.begin.eq(counted.begin),
            *(index.lengths.counts[bank].eq(count) for bank, count in enumerate(counted.counts)),
            index.lengths.last_word.eq(Mux(most == 0, 0, most - 1)),
        ]
        self._ending = ended.valid, counted.valid

    def _finish(self, m: Module, stages: tuple[Any, ...]) -> None:
        """Report the descriptor's end when the last stream's lengths are written."""
        super()._finish(m, (*stages, *self._ending))
