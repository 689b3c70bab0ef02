"""Claims about a layout unit, and the lemmas that map its pipeline stages to iterations of the loop nest."""

from collections.abc import Callable
from typing import Any

from amaranth.hdl import Array, Cat, Const, Mux, Signal, Value

from tensordash.block import Block
from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.descriptors import MAX_STRIDE
from tensordash.configuration.registers import ERRORS
from tensordash.movers.layout import Layout
from tensordash.movers.layout_unit import LayoutUnit

from .harness import Fault, Harness
from .layout_nest import LOOPS, LayoutNest

__all__ = ["LayoutHarness"]

PARTITIONS = 12
"""Number of queries. With more queries, each is easier."""
MAX_IDLE_CYCLES = 20
"""Bound on the cycles without a write or `done`. Cycles in which the unit waits for the buffer do not count."""


class LayoutHarness(Harness):
    """A layout unit between a sequencer, a buffer with free `ready`, and a stream buffer.

    Descriptors are arbitrary but legal, and follow each other. The harness watches one value in the buffer, at an
    arbitrary lane, bank and group; every read returns the same value there. It checks one value of each write, at an
    arbitrary port and lane. Since these places are free constants, the claims cover every value.

    Source: docs/core.md, "Loops", "Layout", "Errors".
    """

    unit: Callable[[CoreConfig, str], LayoutUnit] = Layout
    reference: type[LayoutNest] = LayoutNest
    queries = PARTITIONS

    def __init__(self, config: CoreConfig, fault: tuple[type[Block], Fault] | None = None) -> None:
        self.dut: Any = (dut := self.unit(config, "a"))
        super().__init__(dut, fault=fault, partitions=self.queries)
        self.nest: Any = self.reference(self.m, dut)
        self.assume(self.nest.is_legal(dut.command.descriptor.payload) | ~dut.command.descriptor.valid)
        lanes, width = dut.lanes, config.value_bits
        self.watched, self.lane = (self.constant(range(lanes), name) for name in ("port", "lane"))
        self.bank = self.constant(range(lanes), "bank")
        self.group = self.constant(dut.address_bits, "group")
        self.value = self.constant(width, "value")
        read = dut.read
        place, group = self._watched_place()
        hit = read.enable.bit_select(place, 1) & (Array(read.address)[place] == group)
        self.watched_read = self.past(read.valid & read.ready & hit)
        data = Array(dut.read.data)[place].word_select(self.lane, width)
        self.assume(~self.watched_read | (data == self.value))
        self.read_outside = Signal()
        self._claim_writes()
        self._claim_end()
        self._add_lemmas()

    def _watched_place(self) -> tuple[Value, Value]:
        """Return the bank that contains the watched value, and its address in the bank."""
        return self.bank, self.group

    def _claim_writes(self) -> None:
        """Claim that every write is the nest's next iteration."""
        nest, write, at = self.nest, self.dut.write, self.nest.at
        writes = nest.writes
        self.claim("every_step_is_written_once_and_in_order", write.bank == nest.banks(at), when=writes)
        self.claim("every_step_is_written_once_and_in_order", write.word == nest.place(at), when=writes)
        parts = Cat(at.part == part for part in range(nest.parts))
        self.claim("every_step_is_written_once_and_in_order", write.part == parts, when=writes)
        self.claim("nothing_is_written_after_the_last_step", nest.active & nest.is_left(at), when=writes)
        self.claim("nothing_is_written_beyond_the_stream_buffer", ~nest.is_beyond(at), when=writes)
        written = self._written(write.data)
        self.claim("a_position_has_its_value", written == self.value, when=writes & self._is_watched(at))
        self.claim("zeros_where_no_position_is", written == 0, when=writes & ~nest.reads(at, self.watched))

    def _written(self, data: Value) -> Signal:
        """Return the value that a written group has at the watched port and lane."""
        nest, lanes, width = self.nest, self.nest.lanes, self.dut.config.value_bits
        # If transposed, ports are channels (lanes of the read values), and lanes are positions.
        first, second = (
            Mux(nest["transposed"], self.lane, self.watched),
            Mux(nest["transposed"], self.watched, self.lane),
        )
        written = Signal(width, name="written")
        values = Array(data.word_select(k, width) for k in range(lanes * lanes))
        self.m.d.comb += written.eq(values[(first * lanes + second)[: 2 * len(self.watched)]])
        return written

    def _is_watched(self, at: Any) -> Value:
        """Return whether the watched port's position is the watched position of the buffer."""
        nest, port = self.nest, self.watched
        return nest.reads(at, port) & (nest.bank_of(at, port) == self.bank) & (nest.group(at, port) == self.group)

    def _claim_end(self) -> None:
        """Claim the cycle of `done`, its error code, and progress."""
        nest, command, at, read = self.nest, self.dut.command, self.nest.at, self.dut.read
        writes_outside = self._writes_outside()
        self.stuck = Signal()
        self.m.d.comb += self.stuck.eq(nest.is_left(at) & nest.is_beyond(at))
        with self.m.If(nest.starting):
            self.m.d.sync += self.read_outside.eq(0)
        with self.m.Elif(writes_outside):
            self.m.d.sync += self.read_outside.eq(1)
        done = command.done
        self.claim("done_when_all_is_written", nest.active & (~nest.is_left(at) | self.stuck), when=done)
        error = Mux(self.stuck, ERRORS["range"], Mux(self.read_outside, ERRORS["address"], 0))
        self.claim("the_error_is_the_descriptors", command.error == error, when=done)
        waits = read.valid & ~read.ready
        idle = Signal(range(MAX_IDLE_CYCLES + 2))
        with self.m.If(nest.writes | done | ~nest.active):
            self.m.d.sync += idle.eq(0)
        with self.m.Elif(~waits):
            self.m.d.sync += idle.eq(idle + 1)
        self.idle = idle
        self.claim("advances_unless_the_buffer_stalls", idle < MAX_IDLE_CYCLES, when=nest.active)
        waited = self.past(waits)
        payload = Cat(read.enable, *(Value.cast(each) for each in read.address))
        self.claim("a_read_stays_until_it_is_taken", read.valid & (payload == self.past(payload)), when=waited)
        beat = command.descriptor
        self.claim("takes_a_descriptor_while_it_has_none", beat.ready == ~nest.complete)

    def _writes_outside(self) -> Value:
        """Return whether a position of this cycle's write is valid and lies outside the buffer."""
        return self.nest.writes & self._outside(self.nest.at).any()

    def _outside(self, at: Any) -> Value:
        """Return the ports whose positions are valid and outside the buffer."""
        return Cat(self.nest.lies_outside(at, port) for port in range(self.nest.lanes))

    def _before(self, turn: Any) -> Value:
        """Return the ports of earlier turns."""
        return Cat(self.nest.turn_of(port) < turn for port in range(self.nest.lanes))

    def _add_lemmas(self) -> None:
        """Track the iteration in each pipeline stage, and state the lemmas about the stages."""
        nest, m, read = self.nest, self.m, self.dut.read
        bits = {name: self.probe(name, 1) for name in ("walking", "walked_valid", "requested_valid", "returned_valid")}
        bits |= {name: self.probe(name, 1) for name in ("turned_valid", "beyond", "outside", "running")}
        self.bits = bits
        turn = self.probe("turn", 2)
        last_turn = nest.turns() - 1
        requested_leaves = bits["requested_valid"] & (~read.valid | read.ready)
        moves = bits["walked_valid"] & (~bits["requested_valid"] | requested_leaves)
        advances = bits["walking"] & (~bits["walked_valid"] | (moves & (turn == last_turn)))
        front, walked, requested, returned = (
            nest.state(name) for name in ("front", "walked_at", "requested_at", "returned_at")
        )
        # Each iteration's successor is a register because solvers are slow to prove that sums are equal.
        successors = {name: nest.state(f"{name}_successor") for name in ("walked", "requested", "returned", "turned")}
        # Registers also hold the ports whose positions lie outside the buffer.
        self.outside = {
            name: Signal(nest.lanes, name=f"{name}_lies_outside", reset_less=True)
            for name in ("walked", "requested", "returned")
        }
        after_front = nest.after(front)
        with m.If(nest.starting):
            m.d.sync += front.eq(nest.begin)
        with m.Elif(advances):
            m.d.sync += [walked.eq(front), successors["walked"].eq(after_front), front.eq(after_front)]
            m.d.sync += self.outside["walked"].eq(self._outside(front))
        with m.If(moves):
            m.d.sync += [requested.eq(walked), successors["requested"].eq(successors["walked"])]
            m.d.sync += [self.outside["requested"].eq(self.outside["walked"])]
        with m.If(requested_leaves):
            m.d.sync += [returned.eq(requested), successors["returned"].eq(successors["requested"])]
            m.d.sync += [self.outside["returned"].eq(self.outside["requested"])]
        # Number of turns that have been collected of the next group to write.
        collected = Signal(2, name="turns_collected")
        with m.If(bits["returned_valid"]):
            m.d.sync += successors["turned"].eq(successors["returned"])
            m.d.sync += collected.eq(Mux(collected == last_turn, 0, collected + 1))
        self._descriptor()
        self._front(front)
        valid = nest.active & ~bits["beyond"]
        at_returned = self._chosen(bits["turned_valid"], successors["turned"], nest.at)
        returned_last = collected == last_turn
        at_requested = self._chosen(bits["returned_valid"] & returned_last, successors["returned"], at_returned)
        requested_turn = Mux(bits["returned_valid"], Mux(returned_last, 0, collected + 1), collected)
        requested_last = requested_turn == last_turn
        at_walked = self._chosen(bits["requested_valid"] & requested_last, successors["requested"], at_requested)
        walked_turn = Mux(bits["requested_valid"], Mux(requested_last, 0, requested_turn + 1), requested_turn)
        at_front = self._chosen(bits["walked_valid"], successors["walked"], at_walked)
        self._same(front, at_front, valid)
        self._same(walked, at_walked, valid & bits["walked_valid"])
        self._same(requested, at_requested, valid & bits["requested_valid"])
        self._same(returned, at_returned, valid & bits["returned_valid"])
        stages = {"walked": walked, "requested": requested, "returned": returned, "turned": nest.at}
        for stage, at in stages.items():
            self.lemma(nest.is_left(at), when=valid & bits[f"{stage}_valid"])
            after = nest.next_at if stage == "turned" else nest.after(at)
            self._same(successors[stage], after, valid & bits[f"{stage}_valid"])
        self.lemma(turn == walked_turn, when=nest.active)
        self.lemma((collected <= last_turn) & (requested_turn <= last_turn) & (turn <= last_turn), when=nest.active)
        self.lemma(bits["walked_valid"], when=nest.active & (turn != 0))
        self.lemma(bits["requested_valid"], when=nest.active & (requested_turn != 0))
        self.lemma(collected == 0, when=nest.active & bits["turned_valid"])
        self.lemma(
            ~Cat(bits[f"{each}_valid"] for each in ("walked", "requested", "returned", "turned")).any()
            & (turn == 0)
            & (collected == 0),
            when=~nest.active,
        )
        self._walked(walked)
        self._requested(requested, requested_turn, requested_last)
        self._returned(returned, collected, returned_last)
        self._turned(collected)
        self._errors(walked, requested, returned, (turn, requested_turn, collected))
        self._distance(turn, requested_turn, collected, last_turn)

    def _chosen(self, which: Any, one: Any, other: Any) -> Any:
        chosen = Signal(self.nest.layout, name=f"chosen_{self._statements}")
        self._statements += 1
        self.m.d.comb += Value.cast(chosen).eq(Mux(which, Value.cast(one), Value.cast(other)))
        return chosen

    def _same(self, one: Any, other: Any, when: Any) -> None:
        for name in self.nest.layout.members:
            if len(Value.cast(one[name])):
                self.lemma(one[name] == other[name], when=when)

    def _descriptor(self) -> None:
        """State the lemmas about the descriptor."""
        nest, bits = self.nest, self.bits
        nest.add_lemmas(self)
        self.lemma(bits["running"] == nest.active)
        nest.add_field_lemmas(self)
        self.lemma(nest["stride"] <= MAX_STRIDE, when=nest.beat_count > 0)

    def _front(self, front: Any) -> None:
        """State the lemmas about the walk."""
        nest, bits = self.nest, self.bits
        begun = nest.active
        for name in ("address", "x", "y"):
            self.lemma(self.probe(f"walk.{name}", 16) == front[name], when=begun)
        ends = self.probe("walk.ends", LOOPS - 1)
        for k in range(LOOPS - 1):
            left = self.probe(f"walk.left_{k}", 12)
            self.lemma(left == nest[f"count_{k}"] - front[f"count_{k}"], when=begun)
            self.lemma(front[f"count_{k}"] < nest[f"count_{k}"], when=begun)
            self.lemma(ends[k] == (left == 1), when=begun)
        self.lemma(self.probe("steps_left", 16) == nest["steps"] - front.step, when=begun)
        self.lemma(self.probe("streams_left", 12) == nest["streams"] - front.stream, when=begun)
        self.lemma(front.stream <= nest["streams"], when=begun)
        self.lemma(front.step <= nest["steps"], when=begun)
        self.lemma(front.step == front.word * nest.depth + front.bank, when=begun)
        self.lemma(front.part < nest.parts, when=begun)
        self.lemma(bits["walking"] == nest.is_left(front), when=begun & ~bits["beyond"])
        self.lemma(nest.is_left(front), when=begun & bits["walking"])
        self.lemma(~bits["walking"], when=~begun)
        self.lemma(self.probe("filling", 1) == ~nest.is_group(front), when=begun)
        self.lemma(self.probe("walked_bank", nest.depth) == Const(1) << front.bank, when=begun)
        self.lemma((front.bank != 0) | nest.is_group(front), when=begun)
        if nest.parts > 1:
            self.lemma(self.probe("walked_part", nest.parts) == Const(1) << front.part, when=begun)

    def _stage(self, name: str, at: Any, when: Any) -> None:
        """State the lemmas about the fields that every stage has."""
        nest = self.nest
        self.lemma(self.probe(f"{name}_banks", nest.depth) == nest.banks(at), when=when)
        if nest.parts > 1:
            self.lemma(self.probe(f"{name}_ends", 1) == nest.ends(at), when=when)

    def _walked(self, at: Any) -> None:
        nest = self.nest
        when = nest.active & self.bits["walked_valid"]
        self._stage("walked", at, when)
        low = (nest.lanes - 1).bit_length()
        place, address = self.probe("walked_low", low), self.probe("walked_address", 16)
        self.lemma(place == at.x[:low], when=when)
        self.lemma(address == (at.address + (at.x.as_signed() >> low))[:16], when=when)
        first, limit = self.probe("walked_first", 5), self.probe("walked_limit", 5)
        for port in range(nest.lanes):
            distance = nest.distance(port)
            self.lemma(((distance >= first) & (distance < limit)) == nest.is_valid(at, port), when=when)
            group = (address + ((place + distance) >> low))[:16]
            lies_outside = (distance >= first) & (distance < limit) & (group >= nest.groups)
            self.lemma(lies_outside == self.outside["walked"][port], when=when)

    def _requested(self, at: Any, turn: Any, last: Any) -> None:
        nest, read, port = self.nest, self.dut.read, self.watched
        valid = self.bits["requested_valid"]
        when = nest.active & valid
        self._stage("requested", at, when)
        self._turn_of("requested", at, turn, last, when)
        self.lemma(read.valid == (valid & read.enable.any()))
        in_turn = when & (nest.turn_of(port) == turn)
        bank = nest.bank_of(at, port)
        self.lemma(read.enable.bit_select(bank, 1) == nest.reads(at, port), when=in_turn)
        self.lemma(Array(read.address)[bank] == nest.group(at, port), when=in_turn & nest.reads(at, port))

    def _turn_of(self, name: str, at: Any, turn: Any, last: Any, when: Any) -> None:
        nest = self.nest
        low = (nest.lanes - 1).bit_length()
        self.lemma(self.probe(f"{name}_low", low) == at.x[:low], when=when)
        self.lemma(self.probe(f"{name}_last", 1) == last, when=when)
        ports = self.probe(f"{name}_ports", nest.lanes)
        self.lemma(ports.bit_select(self.watched, 1) == (nest.turn_of(self.watched) == turn), when=when)

    def _returned(self, at: Any, turn: Any, last: Any) -> None:
        nest, port = self.nest, self.watched
        when = nest.active & self.bits["returned_valid"]
        self._stage("returned", at, when)
        self._turn_of("returned", at, turn, last, when)
        in_turn = when & (nest.turn_of(port) == turn)
        bank = nest.bank_of(at, port)
        reads = nest.reads(at, port)
        self.lemma(self.probe("returned_enable", nest.lanes).bit_select(bank, 1) == reads, when=in_turn)
        here = in_turn & reads & (bank == self.bank)
        self.lemma(self.watched_read == (nest.group(at, port) == self.group), when=here)

    def _turned(self, collected: Any) -> None:
        """State the lemmas about the watched port's value in the collected group, and about its place."""
        nest, bits, at = self.nest, self.bits, self.nest.at
        valid = nest.active & ~bits["beyond"]
        self._stage("turned", at, valid & bits["turned_valid"])
        ports = Array(self.probe(f"port_{k}", self.dut.position_bits) for k in range(nest.lanes))
        value = ports[self.watched].word_select(self.lane, self.dut.config.value_bits)
        has_value = valid & (bits["turned_valid"] | (nest.turn_of(self.watched) < collected))
        self.lemma(value == self.value, when=has_value & self._is_watched(at))
        self.lemma(value == 0, when=has_value & ~nest.reads(at, self.watched))
        word_bits = nest.words.bit_length()
        self.lemma(self.probe("word", word_bits) == nest.place(at), when=valid)
        self.lemma(nest.place(at) <= nest.words, when=valid)
        self.lemma(at.begin <= nest.words, when=valid)
        self.lemma(self.stuck, when=nest.active & bits["beyond"])
        self.lemma(at.step <= nest["steps"], when=nest.active)
        self.lemma(at.step == at.word * nest.depth + at.bank, when=nest.active)
        self.lemma((at.bank != 0) | nest.is_group(at), when=nest.active)
        self.lemma(at.stream <= nest["streams"], when=nest.active)
        self.lemma(at.part < nest.parts, when=nest.active)
        if nest.parts > 1:
            self.lemma(self.dut.write.part == Const(1) << at.part, when=valid)
            self.lemma(self.probe("stream_begin", word_bits) == at.begin, when=valid)

    def _errors(self, walked: Any, requested: Any, returned: Any, turns: tuple[Any, Any, Any]) -> None:
        """State the lemmas about the error flag, which rises in the turn that reads a position outside the buffer."""
        nest, bits = self.nest, self.bits
        turn, requested_turn, collected = turns
        outside = self.outside
        for stage, at in {"walked": walked, "requested": requested, "returned": returned}.items():
            for port in range(nest.lanes):
                here = nest.active & bits[f"{stage}_valid"]
                self.lemma(outside[stage][port] == nest.lies_outside(at, port), when=here)
        known_by_stage = [
            bits["turned_valid"] & self._outside(nest.at).any(),
            bits["returned_valid"] & (outside["returned"] & self._before(collected + 1)).any(),
            bits["requested_valid"] & (outside["requested"] & self._before(requested_turn + 1)).any(),
            bits["walked_valid"] & (outside["walked"] & self._before(turn)).any(),
        ]
        known = self.read_outside | Cat(*known_by_stage).any()
        self.lemma(bits["outside"] == known, when=nest.active & ~bits["beyond"])

    def _distance(self, turn: Any, requested_turn: Any, collected: Any, last_turn: Any) -> None:
        """State the lemmas about the remaining cycles until the next write or `done`."""
        nest, bits = self.nest, self.bits
        left = {
            "walked": 3 + last_turn - turn,
            "requested": 2 + last_turn - requested_turn,
            "returned": 1 + last_turn - collected,
        }
        oldest: Value = Mux(bits["walking"], 4 + last_turn, 0)
        youngest: Value = bits["turned_valid"] | bits["walking"]
        for stage, cycles in left.items():
            oldest = Mux(bits[f"{stage}_valid"], cycles, oldest)
        oldest = Mux(bits["turned_valid"], 0, oldest)
        for stage, cycles in reversed(left.items()):
            youngest = Mux(bits[f"{stage}_valid"], cycles + 1, youngest)
        self.lemma(self.idle + oldest + 10 < MAX_IDLE_CYCLES, when=nest.active & ~bits["beyond"])
        self.lemma(self.idle + youngest < MAX_IDLE_CYCLES, when=nest.active & bits["beyond"])
