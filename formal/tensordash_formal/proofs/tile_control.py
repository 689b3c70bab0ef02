"""Tile control: the tile accepts all input that fits, never idles with work available, and counts correctly.

The proof has the complete tile of a configuration at its full size: control, staging, schedulers, muxes, drain and the
store of C. Arrivals on each port, `last` marks (also wrong ones), stalls of the sink, values, and resets are free in
each cycle. A PE's overflow is free too. The values of `taken`, `idle`, all counters and all flags are exact in every
cycle.

There is no deadlock: the tile waits only for its input or for the sink. It is frozen only while it has results to
send, and it continues after `beats - 1` cycles in which the sink takes a beat.
"""

from functools import reduce
from operator import and_, or_

from amaranth.hdl import Cat, Const, Mux, ResetSignal, Signal, Value

from tensordash import TileConfig
from tensordash.block import Block
from tensordash.configuration.formats import FloatFormat, Format, ScaleFormat
from tensordash.tile.status import counter_names

from ..harness import Fault
from ..proof import Proof
from ..tile_harness import TileHarness
from ..tile_state import count, thermometer
from .tile_control_variants import BROKEN_VARIANTS, SMALL

__all__ = ["PROOF"]

COUNTER_BITS = 32


class TileControlHarness(TileHarness):
    """Claims about a tile from docs/tile.md, "One cycle" and "Counters and flags".

    Every input is free and may violate the rules of its port.
    """

    def __init__(self, config: TileConfig, fault: tuple[type[Block], Fault] | None = None) -> None:
        super().__init__(config, fault)
        self.no_reset = Signal()
        """Reset is inactive in this cycle, so the registers of this cycle determine the next one."""
        self.m.d.comb += self.no_reset.eq(~ResetSignal())
        self._advance()
        self._array()
        self._input()
        self._output_port()
        self._no_deadlock()
        self._status()

    def _advance(self) -> None:
        state, depth = self.state, self.state.depth
        least = reduce(and_, state.row_advances)
        self.claim("advance_is_the_least_of_the_rows", state.advance == least, when=state.scheduled)
        self.claim("at_least_one_step_in_every_schedule", state.steps >= 1, when=state.scheduled)
        self.claim("no_step_leaves_without_a_schedule", state.advance == 0, when=~state.scheduled)
        self.claim("no_step_of_the_next_stream_leaves", state.steps <= state.eligible, when=state.scheduled)
        self.lemma(state.advance == thermometer(state.steps, depth))

    def _array(self) -> None:
        """State the lemma that the proof `accumulator` assumes about a PE's ports."""
        for path in self._pes():
            hold, start, take = (self.probe(f"{path}.sum_{name}", 1) for name in ("hold", "start", "take"))
            self.lemma(~hold | ~(start | take))

    def _pes(self) -> list[str]:
        name = "pe_{}_{}" if self.config.sparsity == "none" else "pe_{}_{}.pe"
        return [name.format(row, column) for row in range(self.config.rows) for column in range(self.config.columns)]

    def _input(self) -> None:
        state = self.state
        ports = [*self.tile.a, *self.tile.b]
        taken = Cat(port.taken == state.entering for port in ports).all()
        self.claim("all_ports_take_what_there_is_and_fits", taken, when=(state.entering != 0) & self.no_reset)
        nothing = Cat(port.taken == 0 for port in ports).all()
        if self.config.initial:
            nothing = nothing & ~self.tile.c.ready
        self.claim("nothing_is_taken_in_reset", nothing, when=ResetSignal())
        if self.config.ring:
            self.claim("entry_line_is_that_of_the_next_step", self.tile.entry_line == state.entry_line)
        self.claim("nothing_is_taken_without_room_or_offer", taken, when=state.entering == 0)

    def _output_port(self) -> None:
        """Claim that a beat stays until it is taken, and that `last` marks a block's final beat."""
        out = self.tile.out
        waits = self.past(out.valid & ~out.ready & self.no_reset)
        same = out.payload.as_value() == self.past(out.payload.as_value())
        self.claim("a_beat_stays_until_it_is_taken", out.valid & same, when=waits)
        self.claim("last_marks_the_final_beat", out.payload.last == (self.beat == self.state.beats - 1), when=out.valid)
        if self.config.initial:
            c = self.tile.c
            self.claim(
                "c_is_ready_while_there_is_room", c.ready, when=(self.state.c_held < self.state.c_slots) & self.no_reset
            )
            self.claim("c_is_not_taken_without_room", ~c.ready, when=self.state.c_held == self.state.c_slots)

    def _no_deadlock(self) -> None:
        """Claim that the tile waits only for its input and the sink, and no longer than necessary."""
        state, beats = self.state, self.state.beats
        out = self.tile.out
        stuck = Signal(range(beats + 2))
        frozen = self.port("control.frozen", 1)
        with self.m.If(frozen & out.ready):
            self.m.d.sync += stuck.eq(stuck + 1)
        with self.m.Elif(~frozen):
            self.m.d.sync += stuck.eq(0)
        # Each cycle in which the sink is ready moves a beat, except for one cycle if the output buffer was full.
        self.claim("frozen_only_while_results_leave", state.left != 0, when=frozen)
        slack = int(state.buffered)
        if beats + slack > 1:
            self.claim("frozen_for_less_than_a_block", stuck < beats - 1 + slack, when=frozen & out.ready)
        self.lemma(stuck + state.left + state.second_full <= beats + slack, when=stuck != 0)
        self.lemma(stuck == 0, when=state.left == 0)
        offered = self.past((state.left != 0) & self.no_reset)
        if state.has_sum:
            self.lemma(state.sum_full, when=offered)
            offered = self.past(offered & self.no_reset)
        if state.buffered:
            self.lemma(state.out_full, when=offered)
            offered = self.past(offered & self.no_reset)
        self.claim("a_finished_block_is_offered", out.valid, when=offered)
        self.claim(
            "work_at_hand_is_scheduled",
            state.advance[0],
            when=(state.held != 0) & (state.may_start | ~state.first) & ~state.frozen & self._complete(),
        )
        if self.config.initial:
            waits = state.first & ~state.may_start & ~self.tile.c.ready & self.no_reset
            self.claim("c_waits_only_while_results_leave", state.pipe_made.any() | (state.left != 0), when=waits)

    def _complete(self) -> Value:
        """Return whether the window has enough steps for a schedule."""
        if not self.config.needs_full_window:
            return Const(1)
        return (self.state.held == self.state.depth) | self.state.ends.any()

    def _status(self) -> None:
        """Claim counters, flags and `idle`."""
        config, state, tile = self.config, self.state, self.tile
        self.claim("idle_when_all_has_left", tile.idle, when=state.idle)
        self.claim("idle_when_all_has_left", ~tile.idle, when=~state.idle)
        if config.counts:
            self._claim_counters()
        entering = Signal(state.depth)
        self.m.d.comb += entering.eq(state.on_lines(thermometer(state.entering, state.depth), state.entry_line))
        special = Cat(
            _special(port.steps[step][lane], fmt) & entering[step]
            for ports, fmt in ((tile.a, config.a_format), (tile.b, config.b_format))
            for port in ports
            for step in range(state.depth)
            for lane in range(config.lanes)
        ).any()
        if (scale := config.numerics.scale) is not None:
            special |= Cat(
                _special_scale(port.scales[step], scale) & entering[step]
                for port in (*tile.a, *tile.b)
                for step in range(state.depth)
            ).any()
        c_last_is_wrong: Value = Const(0)
        if config.initial:
            payload = tile.c.payload
            c_last_is_wrong = state.c_enters & (payload.last != (state.c_beat == state.beats - 1))
            if isinstance(config.a_format, FloatFormat):
                values = [payload.values[i][j] for i in range(config.out_rows) for j in range(config.columns)]
                special = special | state.c_enters & reduce(or_, (value[23:31].all() for value in values))
        self._claim_flag("protocol_error_is_right", tile.protocol_error, state.ends_disagree | c_last_is_wrong)
        floating = isinstance(config.a_format, FloatFormat)
        self._claim_flag("non_finite_is_right", tile.non_finite, special, floating)
        raised = state.out_leaves & self.port("drain.non_finite", 1)  # proven by `drain` and `rounder`
        self._claim_flag("result_non_finite_is_right", tile.result_non_finite, raised, floating)
        self._claim_flag("overflow_is_right", tile.overflow, self._overflows())

    def _overflows(self) -> Value:
        """Return whether a PE's sum overflows or, with int8, a sum with C that leaves the block in this cycle."""
        config, state = self.config, self.state
        causes = [self.port(f"{path}.sum_overflow", 1) for path in self._pes()]
        if state.adds_c and not state.has_sum:
            causes += [
                self.port(f"drain.result_{row}_{column}.overflow", 1) & state.block_advances
                for row in range(config.out_rows)
                for column in range(config.columns)
            ]
        return Cat(causes).any()

    def _claim_counters(self) -> None:
        """Claim every counter and its copy."""
        config, state = self.config, self.state
        counters = {name: self._counter(name) for name in counter_names(config)}
        starved = ~state.scheduled & ~state.frozen
        limited = state.scheduled & (state.steps == state.held) & (state.held < state.depth) & ~state.ends.any()
        grows = {
            "cycles": (counters["cycles"], state.scheduled),
            "steps": (counters["steps"], state.steps),
            "stall_input": (counters["stall_input"], starved),
            "stall_output": (counters["stall_output"], state.frozen),
            "input_limited": (counters["input_limited"], limited),
        }
        for row, advance in enumerate(state.row_advances):
            waits = Mux(state.scheduled, count(advance) - state.steps, 0)
            grows[f"row_wait_{row}"] = (counters["row_wait"][32 * row :][:32], waits)
        for name, (counter, amount) in grows.items():
            claim = "row_wait_is_right" if name.startswith("row_wait") else f"{name}_is_right"
            # A full window is never limited by input. A single row, or a row of the baseline, never waits.
            can_grow = {
                "input_limited": state.depth > 1 and not config.needs_full_window,
                "row_wait": config.rows > 1 and config.sparsity != "none",
            }
            self._claim_counter(claim, counter, self.past(amount), can_grow.get(claim.removesuffix("_is_right"), True))
        self._claim_counter("effectual_is_right", counters["effectual"], self._consumed())

    def _counter(self, name: str) -> Value:
        """Return a counter: its port or, if the port is a copy, the counter itself."""
        shown = Value.cast(getattr(self.tile, name))
        if not self.config.snapshot:
            return shown
        counter = self.port(f"counters.counts_{name}", len(shown))
        copied = self.past(self.tile.snapshot)
        self.claim("copies_are_of_one_cycle", shown == self.past(counter), when=copied)
        self.claim("copies_stay_until_the_next", shown == self.past(shown), when=~copied)
        return counter

    def _consumed(self) -> Value:
        """Return the number of positions consumed in the previous cycle."""
        config = self.config
        if config.sparsity == "none":
            return self.past(self.state.scheduled) * config.rows * config.lanes
        columns = range(config.columns) if config.sparsity == "both" else range(1)
        pes = [(row, column) for row in range(config.rows) for column in columns]
        active = Cat(self.port(f"pe_{row}_{column}.pe.active", config.lanes) for row, column in pes)
        return self.past(Mux(self.state.scheduled, count(active), 0))

    def _claim_counter(self, claim: str, counter: Value, amount: Value, can_grow: bool = True) -> None:
        """Claim that a counter grows by `amount`, a value of the previous cycle, saturates, and is cleared."""
        total = Signal(COUNTER_BITS + 1, name=f"total_{self._statements}")
        self.m.d.comb += total.eq(self.past(counter) + amount)
        expected = Mux(total[-1], (1 << COUNTER_BITS) - 1, total)
        cleared = self.past(self.tile.clear | ResetSignal(), init=1)
        right = counter == Mux(cleared, 0, expected)
        self.claim(claim, right, when=cleared | (amount == 0))
        if can_grow:
            self.claim(claim, right, when=~cleared & (amount != 0))
        else:
            self.lemma(amount == 0)

    def _claim_flag(self, claim: str, flag: Value, raised: Value, can_rise: bool = True) -> None:
        """Claim that a flag is set by its cause and stays until it is cleared."""
        cleared = self.past(self.tile.clear | ResetSignal(), init=1)
        expected = ~cleared & self.past(flag | raised)
        self.claim(claim, flag == expected, when=~expected)
        if can_rise:
            self.claim(claim, flag == expected, when=expected)
        else:
            self.lemma(~expected)


def _special(value: Value, fmt: Format) -> Value:
    """Return whether a value is an infinity or NaN in its format."""
    if not isinstance(fmt, FloatFormat) or not fmt.nan:
        return Const(0)
    exponent = value[fmt.fraction_bits : fmt.fraction_bits + fmt.exponent_bits]
    return exponent.all() if fmt.infinities else value[: fmt.fraction_bits + fmt.exponent_bits].all()


def _special_scale(value: Value, scale: ScaleFormat) -> Value:
    """Return whether a scale is NaN."""
    return value.all() if scale.number is None else _special(value, scale.number)


PROOF = Proof(
    name="tile_control",
    build=TileControlHarness,
    applies=lambda config: True,
    broken_variants=BROKEN_VARIANTS,
    cover_depth=14,
    broken_config=SMALL,
)
