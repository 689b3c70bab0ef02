"""Tile: every effectual pair, and every value of C, is added to its stream's sum exactly once.

The proof has the complete tile of a configuration at its full size, with the free inputs of `tile_control`. Arithmetic
is abstracted: a sum is two bits, "the watched pair, once" and "something wrong". Row, column and lane of the watched
pair are free constants, and the pair enters in a free cycle. The sign bit tags its two values. This is sound because
nothing between the ports and the multipliers reads the sign bit, except int8's zero test. With int8, only the watched
value is negative.

With scales, a pair whose scale is zero (NVFP4) is not effectual. Only tests cover which scale a PE applies.
"""

from typing import Any

from amaranth.hdl import Cat, Const, Mux, Signal, Value

from tensordash import TileConfig
from tensordash.block import Block
from tensordash.configuration.formats import FloatFormat

from ..harness import Fault
from ..proof import Proof
from ..stubs import TAG_BITS
from ..tile_harness import TileHarness, element
from ..tile_state import count, thermometer
from .tile_variants import BROKEN_VARIANTS

__all__ = ["PROOF"]


class WatchedTile(TileHarness):
    """A tile with one watched pair of values and one watched value of C.

    The pair is arbitrary. Row, column and lane are free constants. The pair is picked once, in any cycle, from any
    offered step. Only its values carry tags.
    """

    def __init__(self, config: TileConfig, fault: tuple[type[Block], Fault] | None = None) -> None:
        super().__init__(config, fault)
        self.row = self.constant(range(config.rows), "row")
        self.column = self.constant(range(config.columns), "column")
        self.lane = self.constant(range(config.lanes), "lane")
        self.assume((self.row < config.rows) & (self.column < config.columns) & (self.lane < config.lanes))
        self.place = Signal(range(config.rows * config.columns))
        self.row_beat = Signal(range(self.state.beats))
        self.result = Signal(TAG_BITS)
        values = self.tile.out.payload.values
        self.m.d.comb += [
            self.place.eq(self.row * config.columns + self.column),
            self.row_beat.eq(self.row // config.out_rows),
            self.result.eq(self._of_pe(lambda row, column: values[row % config.out_rows][column][:TAG_BITS])),
        ]
        self._claim_pair()
        places = self._places()
        self._conservation(places)
        if config.initial:
            self._claim_c()

    def _of_pe(self, make: Any) -> Any:
        """Select a value of the watched pair's PE."""
        rows, columns = range(self.config.rows), range(self.config.columns)
        return element([make(row, column) for row in rows for column in columns], self.place)

    def _claim_pair(self) -> None:
        """Pick a pair, track its step through the window, and claim the result."""
        m, state, config, depth = self.m, self.state, self.config, self.state.depth
        counter_range = range(depth + state.latency + 4)
        self.picked, self.effectual, self.delivered = Signal(), Signal(), Signal()
        self.slot = Signal(depth)
        """The watched step's position in the window by age, one-hot; zero if it is not in the window."""
        self.line, self.entered_on = Signal(depth), Signal(depth)
        """The line of the step to pick, and the line of the picked step. In a ring, the line is the slot."""
        self.inflight = Signal(counter_range)
        """Number of streams whose end has entered and whose final beat has not left."""
        self.ahead = Signal(counter_range)
        """Number of streams that leave before the watched pair's stream."""
        pick, index = self.free(1, "pick"), self.free(range(depth), "index")
        effectual = self._tags(pick, index)
        m.d.sync += self.inflight.eq(self.inflight + state.end_enters - self.final_leaves)
        with m.If(pick & ~self.picked & (index < state.entering)):
            m.d.sync += [
                self.picked.eq(1),
                self.effectual.eq(effectual),
                self.slot.eq(Const(1) << (state.stays + index)),
                self.entered_on.eq(self.line),
                self.ahead.eq(self.inflight - self.final_leaves),
            ]
        with m.Else():
            m.d.sync += self.slot.eq(self.slot >> state.steps)
            with m.If(self.final_leaves & (self.ahead != 0)):
                m.d.sync += self.ahead.eq(self.ahead - 1)
        shows = state.shown_full & (self.beat == self.row_beat)
        pending = self.picked & ~self.delivered & (self.ahead == 0)
        with m.If(shows & pending & self.beat_leaves):
            m.d.sync += self.delivered.eq(1)
        pair = self.result[:2]
        pending_here = shows & pending
        self.claim("every_effectual_pair_is_consumed_once", pair == 1, when=pending_here & self.effectual)
        if config.sparsity != "none" and isinstance(config.b_format, FloatFormat):  # a tagged int8 is never zero
            self.claim("no_other_pair_is_consumed", pair == 0, when=pending_here & ~self.effectual)
        self.claim("no_pair_meets_another_stream", pair == 0, when=shows & self.picked & ~pending)
        self.claim("nothing_is_consumed_before_it_enters", pair == 0, when=shows & ~self.picked)

    def _tags(self, pick: Signal, index: Signal) -> Value:
        """Drive ports with free values, tag only the watched pair, and return whether it is effectual."""
        config, depth = self.config, self.state.depth
        scale = config.numerics.scale
        scale_can_be_zero = scale is not None and scale.number is not None
        nonzero: dict[str, Value] = {}
        self.m.d.comb += self.line.eq(self.state.on_lines(Const(1, depth) << index, self.state.entry_line))
        for side, ports, place, fmt in (
            ("a", self.tile.a, self.column, config.a_format),
            ("b", self.tile.b, self.row, config.b_format),
        ):
            watched: Value = Const(0)
            for number, port in enumerate(ports):
                free = self.free(port.steps.shape(), f"{side}_{number}_values")
                tagged = Signal.like(port.steps, name=f"{side}_{number}_tagged")
                for step in range(depth):
                    scaled = port.scales[step][:-1].any() if scale_can_be_zero else Const(1)
                    for lane in range(config.lanes):
                        tag = pick & ~self.picked & self.line[step] & (place == number) & (self.lane == lane)
                        magnitude = free[step][lane][:-1]
                        self.m.d.comb += tagged[step][lane].eq(Cat(magnitude, tag))
                        nonzero_value = magnitude.any() if isinstance(fmt, FloatFormat) else Const(1)
                        watched = watched | tag & nonzero_value & scaled
                self.drive(port.steps, tagged)
            nonzero[side] = watched
        return {"none": Const(1), "rows": nonzero["b"], "both": nonzero["a"] & nonzero["b"]}[config.sparsity]

    def _places(self) -> list[tuple[Value, Value, Value]]:
        """List the pair's possible places.

        An entry has: the pair is there; a wrong sum is there; the number of blocks before the pair's block.
        """
        config, state, depth = self.config, self.state, self.state.depth
        older = self.slot - 1
        self.window_ahead = count(self.ended) + count(state.ends & older[:depth])
        places: list[tuple[Value, Value, Value]] = [(self._waiting(), Const(0), self.window_ahead)]
        pe = "pe_{}_{}" if config.sparsity == "none" else "pe_{}_{}.pe"

        def at(path: str) -> Value:
            value = Signal(TAG_BITS, name=f"here_{path}")
            self.m.d.comb += value.eq(
                self._of_pe(lambda row, column: self.probe(f"{pe.format(row, column)}.{path}", TAG_BITS))
            )
            return value

        stages = [at(f"stage_{stage}") for stage in range(config.stages - 1)]
        for stage, tags in enumerate(stages):
            made = state.pipe_made[stage]
            # Tags from before a reset leave the pipeline before the first stream and reach no sum.
            self.lemma(made | ~(state.open | state.pipe_made[stage + 1 :].any()), when=tags[:2].any())
            self.lemma(~tags[2], when=made)
            places.append((tags[0] & made, tags[1] & made, count(self.ended) - count(state.pipe_last[: stage + 1])))
        self.in_sum = state.sum_full & (self.row_beat == self.sum_beat)
        in_block = (state.left != 0) & (self.row_beat >= state.beats - state.left)
        block = self.in_block
        self.finished = [(state.open, at("sums"), block + 1), (in_block, at("block_tags"), block)]
        if state.has_sum:
            total = self._of_pe(
                lambda row, column: self.probe(f"drain.initial_adder_{row % config.out_rows}_{column}.total", TAG_BITS)
            )
            self.finished.append((self.in_sum, total, block - 1))
        for ahead, (full, beat, path) in enumerate(self.registers):
            tags = self._of_beat(path) if path else self.result
            self.finished.append((full & (self.row_beat == beat), tags, ahead))
        places += [(here & tags[0], here & tags[1], count(self.ended[:ahead])) for here, tags, ahead in self.finished]
        return places

    def _of_beat(self, path: str) -> Value:
        """Return the tags of the watched pair's PE in a beat."""
        config = self.config
        beat = self.probe(path, len(Value.cast(self.tile.out.payload)))
        tags = Signal(TAG_BITS, name=f"here_{path}")
        places = self._of_pe(
            lambda row, column: beat[32 * (row % config.out_rows * config.columns + column) :][:TAG_BITS]
        )
        self.m.d.comb += tags.eq(places)
        return tags

    def _waiting(self) -> Value:
        """Return whether the pair waits in the window, and state the lemma that its tags are only there."""
        config, state, depth, lanes = self.config, self.state, self.state.depth, self.config.lanes
        watched, filled = Signal(depth, name="watched_slot"), Signal(depth, name="filled_slots")
        self.m.d.comb += [
            watched.eq(Mux(self.slot.any(), self.entered_on, 0) if config.ring else self.slot),
            filled.eq(state.on_lines(thermometer(state.held, depth), state.oldest)),
        ]
        if config.ring:
            self.lemma(self.entered_on == state.on_lines(self.slot, state.oldest), when=self.slot.any())
        for side, ports, place, fmt in (
            ("a", config.columns, self.column, config.a_format),
            ("b", config.rows, self.row, config.b_format),
        ):
            bits = depth * lanes * fmt.width
            window = Signal(bits, name=f"{side}_window")
            self.m.d.comb += window.eq(
                element([self.probe(f"{side}_staging_{number}.window", bits) for number in range(ports)], place)
            )
            for slot in range(depth):
                for lane in range(lanes):
                    tag = window[(slot * lanes + lane + 1) * fmt.width - 1]
                    self.lemma(tag == (watched[slot] & (self.lane == lane)), when=filled[slot])
        if config.sparsity == "none":
            return self.slot.any()
        remaining = Signal(depth * lanes, name="remaining")
        place = self.row if config.sparsity == "rows" else self.place
        self.m.d.comb += remaining.eq(element(self.windows, place))
        return Cat(
            remaining[step * lanes + lane] & self.slot[step] & (self.lane == lane)
            for step in range(depth)
            for lane in range(lanes)
        ).any()

    def _conservation(self, places: list[tuple[Value, Value, Value]]) -> None:
        """State the lemmas: an undelivered effectual pair is in exactly one place, after the right number of blocks."""
        state, depth = self.state, self.state.depth
        self.lemma((self.slot & (self.slot - 1)[:depth]) == 0)
        self.lemma(self.slot & ~thermometer(state.held, depth) == 0)
        self.lemma((self.slot == 0) & ~self.delivered & ~self.effectual, when=~self.picked)
        self.lemma(self.inflight == count(self.ended) + count(state.ends))
        self.lemma(self.ahead == self.window_ahead, when=self.slot.any())
        self.lemma(self.ahead <= self.inflight)
        copies = count(here for here, _, _ in places)
        self.lemma(copies == (self.effectual & ~self.delivered))
        for here, wrong, ahead in places:
            self.lemma(~wrong)
            self.lemma(self.ahead == ahead, when=here)

    def _claim_c(self) -> None:
        """Claim that a value of C is added once, to the stream that starts with its block."""
        m, state, config = self.m, self.state, self.config
        counter_range = range(state.depth + state.latency + 6)
        picked, delivered, inflight, ahead = Signal(), Signal(), Signal(counter_range), Signal(counter_range)
        pick = self.free(1, "pick_c")
        tagged = pick & ~picked & (state.c_beat == self.row_beat)
        payload = self.free(self.tile.c.payload.shape(), "c_values")
        driven = Signal.like(payload)
        m.d.comb += driven.last.eq(payload.last)
        for row in range(config.out_rows):
            for column in range(config.columns):
                here = tagged & (self.column == column)
                if config.out_rows > 1:
                    here = here & (self.row % config.out_rows == row)
                m.d.comb += driven.values[row][column].eq(Cat(payload.values[row][column][:-1], here))
        self.drive(self.tile.c.payload, driven)
        m.d.sync += inflight.eq(inflight + state.c_completes - self.final_leaves)
        with m.If(tagged & state.c_enters):
            m.d.sync += [picked.eq(1), ahead.eq(inflight - self.final_leaves)]
        with m.Elif(self.final_leaves & (ahead != 0)):
            m.d.sync += ahead.eq(ahead - 1)
        shows = state.shown_full & (self.beat == self.row_beat)
        pending = picked & ~delivered & (ahead == 0)
        with m.If(shows & pending & self.beat_leaves):
            m.d.sync += delivered.eq(1)
        self.claim("every_c_is_added_once", self.result[2], when=shows & pending)
        self.claim("no_c_is_added_to_another_stream", ~self.result[2], when=shows & ~pending)

        self.lemma(~delivered, when=~picked)
        self.lemma(inflight == state.c_blocks + ~state.first + count(self.ended))
        self.lemma(ahead <= inflight)
        places = self._c_places()
        self.lemma(count(here for here, _ in places) == (picked & ~delivered))
        for here, blocks in places:
            self.lemma(ahead == blocks, when=here)

    def _c_places(self) -> list[tuple[Value, Value]]:
        """List the possible places of the watched C: whether it is there, and the number of blocks before its block."""
        state, config, beats = self.state, self.config, self.state.beats
        places: list[tuple[Value, Value]] = []
        bits = 32 * config.columns * config.out_rows
        for slot in range(state.c_slots):
            stored = self.probe(f"initial_store.beat_{slot}", bits)
            tags = [stored[32 * index + 31] for index in range(config.columns * config.out_rows)]
            index = self.row % config.out_rows * config.columns + self.column
            if state.adds_c:
                queued = self._modulo(slot + state.c_slots - self.c_read, state.c_slots)
                distance = Signal(range(3 * beats), name=f"distance_{slot}")
                self.m.d.comb += distance.eq(queued + Mux(state.left == 0, 0, beats - state.left))
                block = (distance >= beats) + (distance >= 2 * beats)
                here = element(tags, index) & (queued < state.c_held)
                self.lemma(self.row_beat == distance - block * beats, when=here)
                places.append((here, block + count(self.ended[: self.in_block])))
            else:
                here = element(tags, index) & (state.c_held > slot)
                self.lemma(self.row_beat == slot, when=here)
                places.append((here, count(self.ended[: self.in_block + 1]) + state.open))
        holders = self.finished if state.starts_from_c else self.finished[2:]
        if not state.starts_from_c:
            for here, tags, _ in self.finished[:2]:
                self.lemma(~tags[2], when=here)
        places += [(here & tags[2], count(self.ended[:number])) for here, tags, number in holders]
        return places


PROOF = Proof(
    name="tile", build=WatchedTile, applies=lambda config: True, broken_variants=BROKEN_VARIANTS, cover_depth=14
)
