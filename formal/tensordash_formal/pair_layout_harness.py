"""Claims about a pair layout, and the lemmas that map its queue and pipeline stages to iterations of the loop nest."""

from collections.abc import Callable
from typing import Any

from amaranth.hdl import Array, Cat, Const, Mux, Signal, Value

from tensordash.configuration.core_config import CoreConfig
from tensordash.movers.layout_unit import LayoutUnit
from tensordash.movers.pair_layout import GROUPS, PairLayout
from tensordash.movers.pair_queue import PLACES

from .layout_harness import MAX_IDLE_CYCLES, LayoutHarness
from .layout_nest import LOOPS, PairNest

__all__ = ["PairLayoutHarness"]

STAGES = ("requested", "returned", "turned")
"""Pipeline stages after the queue, each with up to two groups."""
POSITIONS = ("address", "x", "y")


class PairLayoutHarness(LayoutHarness):
    """A layout unit of two groups a cycle, with the environment and the watched value of `LayoutHarness`.

    The harness also watches the step at an arbitrary bank of the stream buffer.

    Source: docs/core.md, "Loops", "Layout", "Memories", "Errors".
    """

    unit: Callable[[CoreConfig, str], LayoutUnit] = PairLayout
    reference = PairNest
    queries = 24

    def _watched_place(self) -> tuple[Value, Value]:
        """Return the half of a bank that contains the watched value, and its address in the half."""
        return Cat(self.group.xor(), self.bank), self.group[1:]

    def _claim_writes(self) -> None:
        """Claim that every write has the nest's next iteration, or its next two."""
        nest, write, depth = self.nest, self.dut.write, self.nest.depth
        writes, two = nest.writes, nest.writes_two
        step_bank = self.constant(range(depth), "step_bank")
        word, part = Array(write.word)[step_bank], Array(write.part)[step_bank]
        written = self._written(Array(write.data)[step_bank])
        banks = nest.banks(nest.at) | (nest.banks(nest.next_at) & two.replicate(depth))
        self.claim("every_step_is_written_once_and_in_order", write.bank == banks, when=writes)
        for at, when in ((nest.at, writes), (nest.next_at, two)):
            here = when & nest.banks(at).bit_select(step_bank, 1)
            parts = Cat(at.part == each for each in range(nest.parts))
            self.claim("every_step_is_written_once_and_in_order", (word == nest.place(at)) & (part == parts), when=here)
            self.claim("nothing_is_written_after_the_last_step", nest.active & nest.is_left(at), when=when)
            self.claim("nothing_is_written_beyond_the_stream_buffer", ~nest.is_beyond(at), when=when)
            group = here & (at.bank == step_bank)
            self.claim("a_position_has_its_value", written == self.value, when=group & self._is_watched(at))
            self.claim("zeros_where_no_position_is", written == 0, when=group & ~nest.reads(at, self.watched))
            self.claim("zeros_after_a_run", written == 0, when=here & (at.bank != step_bank))

    def _writes_outside(self) -> Value:
        nest = self.nest
        first, second = (self._outside(at).any() for at in (nest.at, nest.next_at))
        return (nest.writes & first) | (nest.writes_two & second)

    def _add_lemmas(self) -> None:
        """Track the iterations in the queue and in each stage, and state the lemmas about them."""
        nest, read = self.nest, self.dut.read
        self.bits = {name: self.probe(name, 1) for name in ("left", "beyond", "outside", "running")}
        self.valid = {stage: [self.probe(f"{stage}_{k}_valid", 1) for k in range(GROUPS)] for stage in STAGES}
        self.turn, self.collected = self.probe("turn", 2), Signal(2, name="turns_collected")
        self.waits, self.leave = self.probe("queue.valid", PLACES), self.probe("queue.leave", GROUPS)
        self.last_turn = nest.turns() - 1
        # `at` has the iterations of each stage's groups. `after` has their successors in registers, because solvers are
        # slow to prove that sums are equal. The queue's iterations move up as in the hardware.
        self.at: dict[str, list[Any]] = {}
        self.after: dict[str, list[Any]] = {}
        self.outside: dict[str, list[Any]] = {}
        for stage, count in {"queue": PLACES, **dict.fromkeys(STAGES, GROUPS)}.items():
            self.at[stage] = [nest.state(f"{stage}_{k}_at") for k in range(count)]
            self.after[stage] = [nest.state(f"{stage}_{k}_after") for k in range(count)]
            self.outside[stage] = [
                Signal(nest.lanes, name=f"{stage}_{k}_lies_outside", reset_less=True) for k in range(count)
            ]
        self.requested_leaves = self.valid["requested"][0] & (~read.valid | read.ready)
        self._descriptor()
        self._queue()
        self._stages()
        self._order()
        self._steps()
        self._error_flag()
        self._remaining_cycles()

    # The queue

    def _queue(self) -> None:
        """Track the queue's iterations, and state the lemmas about its walk and its places."""
        nest, m, waits = self.nest, self.m, self.waits
        self.front = front = nest.state("front")
        next_front = nest.after(front)
        later_front = nest.after(next_front)
        adds = nest.active & ~waits[PLACES - GROUPS]
        with m.If(nest.starting):
            m.d.sync += front.eq(nest.begin)
        with m.Elif(adds):
            m.d.sync += front.eq(later_front)
        rows = ((self.at, front, next_front), (self.after, next_front, later_front))
        added_outside = [self._outside(each) for each in (front, next_front)]
        for k in range(PLACES):
            for places, first, second in rows:
                m.d.sync += Value.cast(places["queue"][k]).eq(self._moved_up(k, places["queue"], (first, second)))
            m.d.sync += self.outside["queue"][k].eq(self._moved_up(k, self.outside["queue"], added_outside))
        self._walk(front, next_front, later_front)
        full = [(1 << k) - 1 for k in (0, *range(GROUPS, PLACES + 1))]
        self.lemma(Cat(waits == each for each in full).any())
        self.lemma((waits != 0) | (front.as_value() == nest.begin.as_value()), when=nest.active)
        for k in range(PLACES):
            self._place(k)

    def _moved_up(self, k: int, places: list[Any], added: Any) -> Value:
        """Return the next content of a place: its own, that from one or two places further on, or an added one."""
        value: Value = Value.cast(places[k])
        for count in range(GROUPS + 1):
            j = k + count
            if j > PLACES:
                break
            moved: Value = Mux(self.waits[j - 1] if j else 1, Value.cast(added[0]), Value.cast(added[1]))
            if j < PLACES:
                moved = Mux(self.waits[j], Value.cast(places[j]), moved)
            leaves = self.leave[count - 1] if count else ~self.leave[0]
            value = Mux(leaves, moved, value)
        return value

    def _walk(self, front: Any, next_front: Any, later_front: Any) -> None:
        """State the lemmas about the walk, which is at `front`."""
        nest = self.nest
        for name in POSITIONS:
            for path, at in ((name, front), (f"next_{name}_now", next_front), (f"later_{name}_now", later_front)):
                probe = self.probe(f"queue.walk.{path}", 16)
                self.lemma(probe == at[name], when=nest.active)
        for prefix, at in (("", front), ("next_", next_front)):
            ends = self.probe(f"queue.walk.{prefix}ends", LOOPS - 1)
            for k in range(LOOPS - 1):
                count, left = at[f"count_{k}"], self.probe(f"queue.walk.{prefix}left_{k}", 12)
                self.lemma(left == nest[f"count_{k}"] - count, when=nest.active)
                self.lemma(count < nest[f"count_{k}"], when=nest.active)
                self.lemma(ends[k] == (left == 1), when=nest.active)

    def _place(self, k: int) -> None:
        """State the lemmas about a place of the queue."""
        nest, at = self.nest, self.at["queue"][k]
        when = nest.active & self.waits[k]
        low = (nest.lanes - 1).bit_length()
        fields = {"address": 16, "low": low, "first": 5, "limit": 5}
        field = {name: self.probe(f"queue.queue_{k}_{name}", bits) for name, bits in fields.items()}
        self.lemma(field["low"] == at.x[:low], when=when)
        self.lemma(field["address"] == (at.address + (at.x.as_signed() >> low))[:16], when=when)
        for port in range(nest.lanes):
            distance = nest.distance(port)
            is_valid = (distance >= field["first"]) & (distance < field["limit"])
            self.lemma(is_valid == nest.is_valid(at, port), when=when)
            group = (field["address"] + ((field["low"] + distance) >> low))[:16]
            self.lemma((is_valid & (group >= nest.groups)) == self.outside["queue"][k][port], when=when)

    # The stages after the queue

    def _stages(self) -> None:
        """Track the iterations of the stages, and state the lemmas about their groups."""
        m, nest = self.m, self.nest
        moves = self.probe("moves", 1)
        returned = self.valid["returned"][0]
        sources = {
            "requested": ("queue", moves),
            "returned": ("requested", self.requested_leaves),
            "turned": ("returned", returned),
        }
        for stage, (source, when) in sources.items():
            for group in (self.at, self.after, self.outside):
                for one, other in zip(group[stage], group[source], strict=False):
                    with m.If(when):
                        m.d.sync += one.eq(other)
        self.returned_last = self.collected == self.last_turn
        with m.If(returned):
            m.d.sync += self.collected.eq(Mux(self.returned_last, 0, self.collected + 1))
        self.requested_turn = Mux(returned, Mux(self.returned_last, 0, self.collected + 1), self.collected)
        self.requested_last = self.requested_turn == self.last_turn
        turns = {"requested": self.requested_turn, "returned": self.collected, "turned": Const(0, 2)}
        for stage, turn in turns.items():
            first, second = self.valid[stage]
            for k, valid in enumerate((first, second)):
                when = nest.active & valid
                self._step(f"{stage}_{k}", self.at[stage][k], when)
                if stage != "turned":
                    self._turn_of(f"{stage}_{k}", self.at[stage][k], turn, turn == self.last_turn, when)
                    self._read(stage, k, turn, when)
            self.lemma(first & (self.last_turn == 0), when=second)
            self._pair(stage, second)
        for k in range(GROUPS):
            self._collected(k)
        read = self.dut.read
        self.lemma(read.valid == (self.valid["requested"][0] & read.enable.any()))

    def _pair(self, stage: str, second: Any) -> None:
        """State the lemma that the groups of a pair are written to different banks."""
        banks = [self.probe(f"{stage}_{k}_writes", self.nest.depth) for k in range(GROUPS)]
        self.lemma((banks[0] & banks[1]) == 0, when=second)

    def _step(self, name: str, at: Any, when: Any) -> None:
        """State the lemmas about the step that a group is written to."""
        nest = self.nest
        self.lemma(self.probe(f"{name}_bank", nest.depth) == Const(1) << at.bank, when=when)
        self.lemma(self.probe(f"{name}_writes", nest.depth) == nest.banks(at), when=when)
        self.lemma(self.probe(f"{name}_word", (nest.words - 1).bit_length()) == nest.place(at), when=when)
        self.lemma((nest.place(at) < nest.words) & nest.is_left(at), when=when)
        self.lemma(self.probe(f"{name}_part", nest.parts) == Const(1) << at.part, when=when)

    def _read(self, stage: str, k: int, turn: Any, when: Any) -> None:
        """State the lemmas about the watched port's read."""
        nest, port, at, read = self.nest, self.watched, self.at[stage][k], self.dut.read
        bank, group, reads = nest.bank_of(at, port), nest.group(at, port), nest.reads(at, port)
        half = group[: self.dut.address_bits].xor()
        in_turn = when & (nest.turn_of(port) == turn)
        enable, halves = (self.probe(f"{stage}_{k}_{name}", nest.lanes) for name in ("enable", "half"))
        self.lemma(enable.bit_select(bank, 1) == reads, when=in_turn)
        self.lemma(halves.bit_select(bank, 1) == half, when=in_turn & reads)
        if stage == "requested":
            place = Cat(half, bank)
            self.lemma(read.enable.bit_select(place, 1), when=in_turn & reads)
            self.lemma(Array(read.address)[place] == group[1 : self.dut.address_bits], when=in_turn & reads)
        else:
            here = in_turn & reads & (bank == self.bank) & (half == self.group.xor())
            self.lemma(self.watched_read == (group == self.group), when=here)

    def _collected(self, k: int) -> None:
        """State the lemmas about the watched port's value in a collected group."""
        nest, at, valid = self.nest, self.at["turned"][k], self.valid["turned"][k]
        ports = Array(self.probe(f"port_{k}_{port}", self.dut.position_bits) for port in range(nest.lanes))
        value = ports[self.watched].word_select(self.lane, self.dut.config.value_bits)
        if k == 0:  # the first group may be incomplete
            at, valid = nest.at, valid | (nest.turn_of(self.watched) < self.collected)
        has_value = nest.active & valid
        self.lemma(value == self.value, when=has_value & self._is_watched(at))
        self.lemma(value == 0, when=has_value & ~nest.reads(at, self.watched))

    def _last(self, stage: str) -> Any:
        """Return the iteration after a stage's last group."""
        return self._chosen(self.valid[stage][1], self.after[stage][1], self.after[stage][0])

    def _order(self) -> None:
        """State the lemmas that each stage's iterations follow those of the next stage, from the writes to the walk."""
        nest, valid, waits = self.nest, self.valid, self.waits
        follows = [nest.at]
        for stage, leaves in (
            ("turned", Const(1)),
            ("returned", self.returned_last),
            ("requested", self.requested_last),
        ):
            first, second = valid[stage]
            self._same(self.at[stage][0], follows[-1], nest.active & first)
            self._same(self.at[stage][1], self.after[stage][0], nest.active & second)
            for k, each in enumerate((first, second)):
                self._same(self.after[stage][k], nest.after(self.at[stage][k]), nest.active & each)
            follows.append(self._chosen(first & leaves, self._last(stage), follows[-1]))
        self._same(nest.next_at, self.after["turned"][0], nest.active & valid["turned"][0])
        self.waits_at = self._chosen(waits[0], self.at["queue"][0], self.front)
        self._same(self.waits_at, follows[-1], nest.active)
        for k in range(PLACES):
            at, after = self.at["queue"][k], self.after["queue"][k]
            self._same(after, nest.after(at), nest.active & waits[k])
            follower = self.front
            if k + 1 < PLACES:
                follower = self._chosen(waits[k + 1], self.at["queue"][k + 1], self.front)
            self._same(after, follower, nest.active & waits[k])
        turn = Mux(valid["requested"][0], Mux(self.requested_last, 0, self.requested_turn + 1), self.requested_turn)
        self.lemma(self.turn == turn, when=nest.active)
        limits = [each <= self.last_turn for each in (self.collected, self.requested_turn, self.turn)]
        self.lemma(Cat(*limits).all(), when=nest.active)
        self.lemma(waits[0], when=nest.active & (self.turn != 0))
        self.lemma(valid["requested"][0], when=nest.active & (self.requested_turn != 0))
        self.lemma(self.collected == 0, when=nest.active & valid["turned"][0])
        groups = Cat(self.bits["left"], *(valid[stage][0] for stage in STAGES))
        self.lemma(~groups.any() & (self.turn == 0) & (self.collected == 0), when=~nest.active)

    def _steps(self) -> None:
        """State the lemmas about the step counters, which belong to the first waiting group."""
        nest, at, bits = self.nest, self.waits_at, self.bits
        active, within = nest.active, nest.active & ~bits["beyond"]
        self.lemma(self.probe("current_steps", 16) == nest["steps"] - at.step, when=active)
        self.lemma(self.probe("current_streams", 12) == (nest["streams"] - at.stream)[:12], when=active)
        self.lemma(self.probe("current_bank", nest.depth) == Const(1) << at.bank, when=active)
        if "part" in self.dut.step_signals:
            self.lemma(self.probe("current_part", nest.parts) == Const(1) << at.part, when=active)
        word_bits = nest.words.bit_length()
        self.lemma(self.probe("current_word", word_bits) == nest.place(at), when=within)
        if nest.parts > 1:
            self.lemma(self.probe("current_begin", word_bits) == at.begin, when=within)
        self.lemma((nest.place(at) <= nest.words) & (at.begin <= nest.words), when=within)
        self.lemma(bits["left"] == (nest.is_left(at) & ~bits["beyond"]), when=active)
        self.lemma(nest.is_left(at) & nest.is_beyond(at), when=active & bits["beyond"])
        for each in (at, nest.at, self.front):
            self.lemma(each.step < nest["steps"], when=active)
            self.lemma(each.step == each.word * nest.depth + each.bank, when=active)
            self.lemma(each.part < nest.parts, when=active)

    def _error_flag(self) -> None:
        """State the lemmas about the error flag, which rises in the turn that reads a position outside the buffer."""
        nest, outside = self.nest, self.outside
        for stage, groups in outside.items():
            for k, lies_outside in enumerate(groups):
                valid = self.waits[k] if stage == "queue" else self.valid[stage][k]
                self.lemma(lies_outside == self._outside(self.at[stage][k]), when=nest.active & valid)
        known = [self.read_outside, self.waits[0] & (outside["queue"][0] & self._before(self.turn)).any()]
        turns = {"requested": self.requested_turn + 1, "returned": self.collected + 1, "turned": Const(nest.lanes)}
        for stage, turn in turns.items():
            first, second = self.valid[stage]
            known.append(first & (outside[stage][0] & self._before(turn)).any())
            known.append(second & outside[stage][1].any())
        self.lemma(self.bits["outside"] == Cat(*known).any(), when=nest.active)

    def _remaining_cycles(self) -> None:
        """State the lemma about the remaining cycles until the next write or `done`."""
        nest, last = self.nest, self.last_turn
        full = nest.is_beyond(self.waits_at)
        cycles: Value = Mux(self.waits[0], 3 + last - self.turn, 4 + last)
        if_full, if_none_is_left = self._last_cycles()
        cycles = Mux(self.bits["left"], Mux(full, if_full, cycles), if_none_is_left)
        left = {"requested": 2 + last - self.requested_turn, "returned": 1 + last - self.collected, "turned": 0}
        for stage, count in left.items():
            cycles = Mux(self.valid[stage][0], count, cycles)
        self.lemma(self.idle + cycles + 10 < MAX_IDLE_CYCLES, when=nest.active)

    def _last_cycles(self) -> tuple[Any, Any]:
        """Return the remaining cycles until `done` if the next word is beyond the end, and if no group is left."""
        return 1, 0
