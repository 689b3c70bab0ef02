"""Claims about a layout that drops steps without a value, and the lemmas that they need.

The steps that are dropped are invisible at the ports. The claims follow the groups that leave the queue to the cycle in
which the layout writes or drops them.
"""

from types import SimpleNamespace
from typing import Any

from amaranth.hdl import Array, Cat, Const, Mux, Signal, Value

from tensordash.configuration.core_config import CoreConfig
from tensordash.movers.dropping_layout import DroppingLayout
from tensordash.movers.pair_layout import GROUPS

from .layout_nest import DroppingNest
from .pair_layout_harness import STAGES, PairLayoutHarness

__all__ = ["DroppingLayoutHarness"]


def _side_b(config: CoreConfig, side: str) -> DroppingLayout:
    return DroppingLayout(config)


class DroppingLayoutHarness(PairLayoutHarness):
    """A layout unit of side B that drops steps, with the environment and the watched values of `PairLayoutHarness`.

    Source: docs/core.md, "Loops", "Layout", "Memories", "Errors"; the docstrings of `DroppingLayout` and `StepIndex`.
    """

    unit = staticmethod(_side_b)
    reference = DroppingNest

    def _claim_writes(self) -> None:
        """Claim that every step with a value, and no other, is written after its bank's earlier steps."""
        nest, write, index, depth = self.nest, self.dut.write, self.dut.index, self.nest.depth
        assert nest.parts == 1
        self._follow_groups()
        self._count_steps()
        self._claim_lengths()
        bank = self.constant(range(depth), "step_bank")
        is_written, word = write.bank.bit_select(bank, 1), Array(write.word)[bank]
        data, own_index = Array(write.data)[bank], Array(index.index)[bank]
        written, place = self._written(data), nest.at.begin + Array(self.counts)[bank]
        reached = (nest.banks(nest.at) & nest.writes.replicate(depth)) | (
            nest.banks(nest.next_at) & nest.writes_two.replicate(depth)
        )
        order, has_index = "every_step_is_written_once_and_in_order", "every_step_has_its_index"
        self.claim(order, reached.bit_select(bank, 1), when=is_written)
        self.claim(order, (word == place) & Array(write.part)[bank], when=is_written)
        self.claim("a_step_without_a_value_is_dropped", self._is_effectual(data), when=is_written)
        self.claim(has_index, index.bank == write.bank)
        self.claim(has_index, Array(index.word)[bank] == place, when=is_written)
        self.claim("nothing_is_written_after_the_last_step", nest.active & nest.is_left(nest.at), when=is_written)
        for at, when in ((nest.at, nest.writes), (nest.next_at, nest.writes_two)):
            here, is_watched = when & (at.bank == bank), self._is_watched(at)
            has_value, remains = self._is_effectual(self.value), here & is_written
            self.claim("a_step_with_a_value_is_written", is_written, when=here & is_watched & has_value)
            self.claim("nothing_is_written_after_the_last_step", nest.active & nest.is_left(at), when=remains)
            self.claim("nothing_is_written_beyond_the_stream_buffer", ~nest.is_beyond(at), when=remains)
            self.claim(has_index, own_index == at.word, when=remains)
            self.claim("a_position_has_its_value", written == self.value, when=remains & is_watched)
            self.claim("zeros_where_no_position_is", written == 0, when=remains & ~nest.reads(at, self.watched))

    def _is_effectual(self, values: Value) -> Value:
        """Return whether some values have one that is no zero of either sign."""
        config = self.dut.config
        width = config.value_bits
        zeros = (0,) if config.tile.numerics.result == "int32" else (0, 1 << (width - 1))
        each = [values.word_select(k, width) for k in range(len(values) // width)]
        return Cat(~Cat(value == zero for zero in zeros).any() for value in each).any()

    def _follow_groups(self) -> None:
        """Follow the groups that leave the queue, up to the cycle in which each is written or dropped."""
        m, read, leave = self.m, self.dut.read, self.port("queue.leave", GROUPS)
        self.followed = {stage: Signal(GROUPS, name=f"{stage}_groups") for stage in STAGES}
        requested, returned, turned = self.followed.values()
        waits = read.valid & ~read.ready
        with m.If(leave[0]):
            m.d.sync += requested.eq(leave)
        with m.Elif(~waits):
            m.d.sync += requested.eq(0)
        m.d.sync += [returned.eq(Mux(waits, 0, requested)), turned.eq(returned)]
        m.d.comb += self.nest.reached.eq(turned)

    def _count_steps(self) -> None:
        """Count the steps of the stream that each bank has."""
        m, nest, write = self.m, self.nest, self.dut.write
        self.counts = [Signal(range(nest.words + 1), name=f"count_of_bank_{k}") for k in range(nest.depth)]
        self.counted = [Signal(range(nest.words + 1), name=f"count_of_bank_{k}_after") for k in range(nest.depth)]
        self.ends = Signal(name="a_stream_ends")
        ends = [nest.writes & nest.ends(nest.at), nest.writes_two & nest.ends(nest.next_at)]
        m.d.comb += [
            self.ends.eq(Cat(*ends).any()),
            *(
                after.eq(count + write.bank[k])
                for k, (count, after) in enumerate(zip(self.counts, self.counted, strict=True))
            ),
        ]
        with m.If(nest.starting | self.ends):
            m.d.sync += [count.eq(0) for count in self.counts]
        with m.Else():
            m.d.sync += [count.eq(after) for count, after in zip(self.counts, self.counted, strict=True)]

    def _claim_lengths(self) -> None:
        """Claim that a stream's lengths are written once, two cycles after its last step."""
        m, nest, index = self.m, self.nest, self.dut.index
        self.pending = [
            SimpleNamespace(
                valid=Signal(name=f"lengths_{k}"),
                begin=Signal.like(nest.at.begin, name=f"lengths_{k}_begin", reset_less=True),
                counts=[
                    Signal.like(count, name=f"lengths_{k}_of_bank_{bank}", reset_less=True)
                    for bank, count in enumerate(self.counts)
                ],
            )
            for k in range(2)
        ]
        new = SimpleNamespace(valid=self.ends, begin=nest.at.begin, counts=self.counted)
        for lengths, before in zip(self.pending, (new, self.pending[0]), strict=True):
            m.d.sync += [lengths.valid.eq(before.valid), lengths.begin.eq(before.begin)]
            m.d.sync += [count.eq(each) for count, each in zip(lengths.counts, before.counts, strict=True)]
        last = self.pending[-1]
        self.claim("a_streams_lengths_are_written_once", index.ends == last.valid)
        self.claim("lengths_are_written_to_the_streams_first_word", index.begin == last.begin, when=last.valid)
        most = last.counts[0]
        for bank, count in enumerate(last.counts):
            shown = index.lengths.counts[bank]
            self.claim("lengths_have_the_steps_of_each_bank", shown == count, when=last.valid)
            most = Mux(count > most, count, most)
        more = index.lengths.last_word + (most != 0)
        self.claim("lengths_have_the_words_after_the_first", more == most, when=last.valid)

    def _claim_end(self) -> None:
        super()._claim_end()
        is_pending = Cat(each.valid for each in self.pending).any()
        self.claim("done_when_all_lengths_are_written", ~is_pending, when=self.dut.command.done)

    # Lemmas

    def _add_lemmas(self) -> None:
        super()._add_lemmas()
        nest, valid = self.nest, self.valid
        last = {"requested": self.requested_last, "returned": self.returned_last, "turned": 1}
        for stage, groups in self.followed.items():
            self.lemma(groups == Cat(valid[stage][0] & last[stage], valid[stage][1]))
        within = nest.active & ~nest.is_beyond(nest.at)
        bits = nest.words.bit_length()
        self.lemma(self.probe("stream_begin", bits) == nest.at.begin, when=within)
        for k, count in enumerate(self.counts):
            self.lemma(self.probe(f"place_{k}", bits) == nest.at.begin + count, when=within)
            self.lemma(count <= nest.at.word + (nest.at.bank > k), when=within)
        for lengths in self.pending:
            self.lemma(~lengths.valid, when=~nest.active)
            self.lemma(lengths.begin < nest.words, when=lengths.valid)
            for count in lengths.counts:
                self.lemma(lengths.begin + count <= nest.words, when=lengths.valid)
        ended = self.pending[0]
        self.lemma(self.probe("ended_valid", 1) == ended.valid)
        self.lemma(self.probe("ended_begin", bits) == ended.begin, when=ended.valid)
        for k, count in enumerate(ended.counts):
            self.lemma(self.probe(f"ended_count_{k}", bits) == ended.begin + count, when=ended.valid)

    def _pair(self, stage: str, second: Any) -> None:
        """State the lemma that the groups of a pair are steps of one stream."""
        self.lemma(~self.nest.ends(self.at[stage][0]), when=self.nest.active & second)

    def _step(self, name: str, at: Any, when: Any) -> None:
        """State the lemmas about the step that a group becomes."""
        nest = self.nest
        self.lemma(self.probe(f"{name}_bank", nest.depth) == Const(1) << at.bank, when=when)
        self.lemma(self.probe(f"{name}_word", (nest.words - 1).bit_length()) == nest.place(at), when=when)
        self.lemma((nest.place(at) < nest.words) & nest.is_left(at), when=when)
        self.lemma(self.probe(f"{name}_ends", 1) == nest.ends(at), when=when)

    def _last_cycles(self) -> tuple[Any, Any]:
        """Return the remaining cycles as in `PairLayoutHarness`. The last lengths are written before `done`."""
        ended, counted = (each.valid for each in self.pending)
        return Mux(ended, 2, 1), Mux(ended, 2, counted)
