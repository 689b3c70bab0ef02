"""Harness of a tile: the reference model of docs/tile.md, and lemmas that map the tile's registers to the model."""

from typing import Any

from amaranth.hdl import Array, Cat, Const, Mux, Signal, Value

from tensordash import Tile, TileConfig
from tensordash.block import Block
from tensordash.configuration.connectivity import Connectivity
from tensordash.schedule.scheduler import Scheduler
from tensordash.streams.axi_stream import AxiStreamTile

from .harness import Fault, Harness
from .stubs import ARITHMETIC_STUBS
from .tile_state import TileState, count, thermometer

__all__ = ["TileHarness", "element"]


def element(signals: list, index: Any) -> Any:
    """Select one of the signals. Return a single signal as is, because Yosys cannot select with a zero-width index."""
    return Array(signals)[index] if len(signals) > 1 else signals[0]


class TileHarness(Harness):
    """A tile with tags instead of sums, and lemmas about its registers.

    Only this class and its subclasses refer to names inside a tile. After a redesign, change the names here.

    Parameters
    ----------
    config : TileConfig
        The tile.
    fault : tuple of (type of Block, Fault), optional
        As in `Harness`.
    """

    def __init__(self, config: TileConfig, fault: tuple[type[Block], Fault] | None = None) -> None:
        self.tile = Tile(config)
        super().__init__(self.tile, enclosing=AxiStreamTile(config), stubs=ARITHMETIC_STUBS, fault=fault)
        self.config = config
        self.state = TileState(self, self.tile)
        self.beat = Signal(range(self.state.beats))
        """Index of the next beat to leave the tile, within its block."""
        self.beat_leaves, self.final_leaves = Signal(), Signal()
        self.m.d.comb += [
            self.beat_leaves.eq(self.state.shown_full & self.tile.out.ready),
            self.final_leaves.eq(self.beat_leaves & (self.beat == self.state.beats - 1)),
        ]
        with self.m.If(self.beat_leaves):
            self.m.d.sync += self.beat.eq(Mux(self.final_leaves, 0, self.beat + 1))
        self._window()
        self._schedulers()
        self._pipeline()
        self._output()
        if config.initial:
            self._store()

    def _window(self) -> None:
        state, depth = self.state, self.state.depth
        self.lemma(state.held <= depth)
        self.lemma(self.probe("control.present", depth) == thermometer(state.held, depth))
        self.lemma(self.probe("control.ending", depth) == state.ends)
        self.lemma(state.ends & ~thermometer(state.held, depth) == 0)
        self.lemma(self.probe("control.first", 1) == state.first)
        if self.config.ring:
            self.lemma(count(state.oldest) == 1)
            self.lemma(self.probe("control.motion_oldest", depth) == state.oldest)

    def _schedulers(self) -> None:
        """State the lemmas: a scheduler's registers hold the schedule of its window.

        A second scheduler computes the schedule from ghost registers, which hold the inputs of the previous cycle.
        """
        state, depth, lanes = self.state, self.state.depth, self.config.lanes
        connectivity = Connectivity(self.config.options, lanes=lanes, depth=depth)
        self.windows: list[Value] = []
        """Each scheduler's window: the effectual positions that are not consumed."""
        held = state.held != 0
        for path, advance in state.schedulers.items():
            scheduler = Scheduler(connectivity)
            self.m.submodules[f"expected_{len(self.windows)}"] = scheduler
            window, eligible = Signal(depth * lanes, reset_less=True), Signal(depth, reset_less=True)
            self.m.d.sync += [
                window.eq(self.port(f"{path}.scheduler.effectual", depth * lanes)),
                eligible.eq(self.port(f"{path}.scheduler.eligible", depth)),
            ]
            self.m.d.comb += [Value.cast(scheduler.effectual).eq(window), scheduler.eligible.eq(eligible)]
            self.lemma(eligible == thermometer(state.stream_steps, depth), when=held)
            name = "select_by_age" if self.config.ring else "select"
            select = self.probe(f"{path}.{name}", len(self.config.options) * lanes)
            remaining = self.probe(f"{path}.remaining_after_first", (depth - 1) * lanes)
            self.lemma(select == Value.cast(scheduler.select), when=held)
            self.lemma(advance == scheduler.advance, when=held)
            self.lemma(remaining == Value.cast(scheduler.remaining)[lanes:], when=held)
            self.windows.append(window)

    def _pipeline(self) -> None:
        """State the lemmas about the marks: a schedule is the first of its stream if and only if no stream is open."""
        state = self.state
        opened = state.open
        for stage in reversed(range(state.latency)):
            made, first, last = state.pipe_made[stage], state.pipe_first[stage], state.pipe_last[stage]
            self.lemma(self.probe(f"marks_{stage}", 2) == Cat(first, last))
            self.lemma(Mux(made, first == ~opened, ~first & ~last))
            opened = Mux(made, ~last, opened)
        self.lemma(state.first == ~opened)

    def _output(self) -> None:
        """State the lemmas about beats in the block, the sum register, the output register and the output buffer."""
        state, beats = self.state, self.state.beats
        self.lemma(state.left <= beats)
        self.lemma(self.beat < beats)
        self.lemma(self.probe("drain.beat", beats) == Mux(state.left == 0, 0, Const(1 << beats) >> state.left))
        self.lemma(self.tile.out.valid == state.shown_full)
        self.lemma(self.tile.out.payload.last == state.shown_last, when=state.shown_full)
        self.registers = [(state.shown_full, self.beat, "")]
        """Registers of beats, from the output backwards: full, index of the beat in its block, path of the values."""
        self.ended = [state.shown_full & state.shown_last]
        """Whether each register holds the end of a stream, from the output back to the schedule."""
        self.lemma(state.shown_last == (self.beat == beats - 1), when=state.shown_full)
        out_beat = self.beat
        if state.buffered:
            bits = len(Value.cast(self.tile.out.payload))
            self.lemma(self.probe("output_buffer.second_valid", 1) == state.second_full)
            self.lemma(self.probe("output_buffer.second", bits)[-1] == state.second_last, when=state.second_full)
            self.lemma(state.shown_full, when=state.second_full)
            second_beat = self._modulo(self.beat + state.shown_full, beats)
            out_beat = self._modulo(second_beat + state.second_full, beats)
            self.lemma(state.second_last == (second_beat == beats - 1), when=state.second_full)
            self.lemma(self.probe("drain.out_valid", 1) == state.out_full)
            self.lemma(self.probe("drain.out_payload", bits)[-1] == state.out_last, when=state.out_full)
            self.lemma(state.out_last == (out_beat == beats - 1), when=state.out_full)
            self.registers += [
                (state.second_full, second_beat, "output_buffer.second"),
                (state.out_full, out_beat, "drain.out_payload"),
            ]
            self.ended += [state.second_full & state.second_last, state.out_full & state.out_last]
        self.sum_beat = self._modulo(out_beat + state.out_full, beats)
        if state.has_sum:
            self.lemma(self.probe("drain.sum_valid", 1) == state.sum_full)
            self.lemma(self.probe("drain.sum_final", 1) == state.sum_last, when=state.sum_full)
            self.lemma(state.sum_last == (self.sum_beat == beats - 1), when=state.sum_full)
        else:
            self.lemma(~state.sum_full)
        next_beat = self._modulo(self.sum_beat + state.sum_full, beats)
        self.lemma(next_beat == Mux(state.left == 0, 0, beats - state.left))
        self.ended += [
            state.sum_full & state.sum_last,
            state.left != 0,
            *reversed([state.pipe_last[stage] for stage in range(state.latency)]),
        ]
        self.in_block = len(self.registers) + 1
        """Number of entries of `ended` before the block's."""

    def _store(self) -> None:
        """State the lemmas about the store of C. It is a ring or, if streams start from C, a shift register."""
        state, slots, beats = self.state, self.state.c_slots, self.state.beats
        self.lemma(self.probe("initial_store.held", slots.bit_length()) == state.c_held)
        blocks = self.probe("initial_store.blocks", 2) if state.adds_c else self.probe("initial_store.available", 1)
        self.lemma(blocks == state.c_blocks)
        self.c_read = Signal(range(slots))
        """Slot of the oldest beat."""
        if state.adds_c:
            with self.m.If(state.block_advances):
                self.m.d.sync += self.c_read.eq(self._modulo(self.c_read + 1, slots))
            self.lemma(self.c_read < slots)
            self.lemma(self.probe("initial_store.reading", slots) == Const(1) << self.c_read)
        writing = self._modulo(self.c_read + state.c_held, slots)
        self.lemma(self.probe("initial_store.writing", slots) == Const(1) << writing)
        self.lemma(state.c_beat == self._modulo(writing, beats))
        self.lemma(state.c_held <= slots)
        self.lemma(state.c_beat < beats)
        waiting_blocks = (
            count(state.pipe_last) + ~state.first + state.c_blocks
            if state.adds_c
            else state.c_blocks + count(state.pipe_first)
        )
        left = state.left if state.adds_c else 0
        self.lemma(state.c_held == state.c_beat + beats * waiting_blocks + left)

    def _modulo(self, value: Any, modulus: int) -> Signal:
        """Reduce a value below twice the modulus by the modulus."""
        result = Signal(range(modulus), name=f"modulo_{self._statements}")
        self._statements += 1
        self.m.d.comb += result.eq(Mux(value >= modulus, value - modulus, value))
        return result
