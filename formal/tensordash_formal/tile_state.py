"""Reference model of a tile's state and of the steps of a cycle (docs/tile.md), as ghost registers.

The model reads the hardware's ports, and the advance that control and schedulers compute.
"""

from functools import reduce
from operator import add, and_, or_

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value

from tensordash import Tile, TileConfig
from tensordash.arithmetic.sum_ports import starts_from_c
from tensordash.configuration.formats import FloatFormat

from .harness import Harness

__all__ = ["TileState", "count", "thermometer"]


def count(bits):
    """Count the set bits in a balanced adder tree, which solvers compare with the hardware's faster than a chain."""
    counts = list(bits) or [Const(0)]
    while len(counts) > 1:
        counts = [reduce(add, counts[i : i + 2]) for i in range(0, len(counts), 2)]
    return counts[0]


def thermometer(number, width: int):
    """Return `width` bits whose lowest `number` bits are set."""
    return Cat(number > bit for bit in range(width))


class TileState:
    """Model the state of docs/tile.md, "State", and the steps of "One cycle".

    Parameters
    ----------
    harness : Harness
        The harness of the tile.
    tile : Tile
        The tile.
    """

    def __init__(self, harness: Harness, tile: Tile) -> None:
        self.m = harness.m
        self.tile = tile
        self.config: TileConfig = tile.config
        config = self.config
        self.depth = config.window_depth
        self.beats = config.rows // config.out_rows
        self.latency = config.stages - 1
        self.starts_from_c = starts_from_c(config.numerics)
        self.adds_c = config.initial and not self.starts_from_c
        self.has_sum = self.adds_c and isinstance(config.a_format, FloatFormat)
        self.c_slots = self.beats * (1 if self.starts_from_c else 2) if config.initial else 0

        self.advance = harness.port("control.advance", self.depth)
        """The tile's advance, as a thermometer."""
        schedulers = {
            "none": [],
            "rows": [f"scheduler_{row}" for row in range(config.rows)],
            "both": [f"pe_{row}_{column}.scheduler" for row in range(config.rows) for column in range(config.columns)],
        }[config.sparsity]
        self.schedulers = {path: harness.port(f"{path}.advance", self.depth) for path in schedulers}
        """Each scheduler's AS, as a thermometer, in cycles with a schedule."""
        advances, each = list(self.schedulers.values()), len(schedulers) // config.rows
        self.row_advances: list[Value] = [
            reduce(and_, advances[row * each : (row + 1) * each]) if each else Const(1) for row in range(config.rows)
        ]
        """Each row's AS. With `sparsity = "both"`, it is the minimum over the row's PEs."""
        self.held = Signal(range(self.depth + 1))
        self.oldest, self.entry_line = Signal(self.depth, init=1), Signal(self.depth)
        """The lines of the oldest step and of the next step to enter, one-hot. Only rings use them."""
        self.ends = Signal(self.depth)
        self.first = Signal(init=1)
        # Each register has one bit per slot; bit 0 is the youngest.
        self.pipe_made = Signal(self.latency)
        self.pipe_first = Signal(self.latency)
        self.pipe_last = Signal(self.latency)
        self.open = Signal()
        """Whether the accumulators hold a stream that has not ended."""
        self.left = Signal(range(self.beats + 1))
        self.sum_full, self.sum_last = Signal(), Signal()
        self.out_full, self.out_last = Signal(), Signal()
        self.buffered = config.registered_ready
        self.shown_full, self.shown_last = (Signal(), Signal()) if self.buffered else (self.out_full, self.out_last)
        """The beat at the output: the oldest beat of the output buffer or, without a buffer, of the output register."""
        self.second_full, self.second_last = Signal(), Signal()
        """The output buffer's second beat."""
        self.out_leaves = Signal()
        self.c_held = Signal(range(self.c_slots + 1))
        self.c_blocks = Signal(range(3))
        """Complete blocks of C whose stream has not started."""
        self.c_beat = Signal(range(self.beats))
        """Index of the next beat of C in its block."""
        self._output(self.m)
        self._schedule(self.m)
        self._accumulate(self.m)
        self._refill(self.m)
        self.c_enters, self.c_completes = Signal(), Signal()
        if config.initial:
            self._c(self.m)

    def _output(self, m: Module) -> None:
        """Model step 1, and the test of step 2 whether the block is free."""
        out_free, sum_advances = Signal(), Signal()
        self.block_advances, self.block_free = Signal(), Signal()
        m.d.comb += [
            self.out_leaves.eq(self.out_full & (~self.second_full if self.buffered else self.tile.out.ready)),
            out_free.eq(~self.out_full | self.out_leaves),
            sum_advances.eq(self.sum_full & out_free),
            self.block_advances.eq((self.left != 0) & (~self.sum_full | sum_advances if self.has_sum else out_free)),
            self.block_free.eq((self.left == 0) | (self.left == 1) & self.block_advances),
        ]
        enters_out = sum_advances if self.has_sum else self.block_advances
        enters_last = self.sum_last if self.has_sum else self.left == 1
        with m.If(out_free):
            m.d.sync += [self.out_full.eq(enters_out), self.out_last.eq(enters_last)]
        if self.has_sum:
            with m.If(self.block_advances | sum_advances):
                m.d.sync += [self.sum_full.eq(self.block_advances), self.sum_last.eq(self.left == 1)]

        if self.buffered:
            with m.If(~self.shown_full | self.tile.out.ready):
                m.d.sync += [
                    self.shown_full.eq(self.second_full | self.out_leaves),
                    self.shown_last.eq(Mux(self.second_full, self.second_last, self.out_last)),
                    self.second_full.eq(0),
                ]
            with m.Elif(self.out_leaves):
                m.d.sync += [self.second_full.eq(1), self.second_last.eq(self.out_last)]

    @property
    def idle(self) -> Value:
        """Whether all steps, blocks and beats that entered the tile have left it."""
        full = Cat(self.sum_full, self.out_full, self.shown_full, self.second_full, self.pipe_last).any()
        return self.first & (self.held == 0) & ~full & (self.left == 0) & (self.c_held == 0)

    def _schedule(self, m: Module) -> None:
        """Model steps 2 and 3."""
        self.may_start = Signal()
        self.possible, self.frozen, self.scheduled = Signal(), Signal(), Signal()
        self.steps = Signal(range(self.depth + 1))
        """The tile's AS."""
        self.last = Signal()
        """Whether the schedule of this cycle is the last of its stream."""
        would_end = (self.ends & reduce(and_, self.row_advances)).any()
        complete = (self.held == self.depth) | self.ends.any() if self.config.needs_full_window else Const(1)
        completes_last = self.pipe_last[-1] if self.latency else self.possible & would_end
        m.d.comb += [
            self.possible.eq((self.held != 0) & complete & (self.may_start | ~self.first)),
            self.frozen.eq(completes_last & ~self.block_free),
            self.scheduled.eq(self.possible & ~self.frozen),
            self.steps.eq(count(self.advance)),
            self.last.eq((self.ends & thermometer(self.steps, self.depth)).any()),
        ]
        with m.If(self.scheduled):
            m.d.sync += self.first.eq(self.last)
        m.d.comb += self.may_start.eq((self.c_blocks != 0) if self.config.initial else 1)
        self.stream_steps, self.eligible = Signal(range(self.depth + 1)), Signal(range(self.depth + 1))
        """Number of steps of the current stream in the window, and number of steps that are eligible in this cycle."""
        eligible: Value = self.held
        for step in reversed(range(self.depth)):
            eligible = Mux(self.ends[step], step + 1, eligible)
        m.d.comb += [self.stream_steps.eq(eligible), self.eligible.eq(Mux(self.scheduled, eligible, 0))]

    def _accumulate(self, m: Module) -> None:
        made = Cat(self.scheduled, self.pipe_made)
        first = Cat(self.scheduled & self.first, self.pipe_first)
        last = Cat(self.scheduled & self.last, self.pipe_last)
        self.completes, self.completes_first, self.take = Signal(), Signal(), Signal()
        m.d.comb += [
            self.completes.eq(made[-1] & ~self.frozen),
            self.completes_first.eq(first[-1] & ~self.frozen),
            self.take.eq(last[-1] & ~self.frozen),
        ]
        if self.latency:
            with m.If(~self.frozen):
                m.d.sync += [self.pipe_made.eq(made), self.pipe_first.eq(first), self.pipe_last.eq(last)]
        with m.If(self.completes):
            m.d.sync += self.open.eq(~self.take)
        with m.If(self.take):
            m.d.sync += self.left.eq(self.beats)
        with m.Elif(self.block_advances):
            m.d.sync += self.left.eq(self.left - 1)

    def _refill(self, m: Module) -> None:
        ports = [*self.tile.a, *self.tile.b]
        self.entering = Signal(range(self.depth + 1))
        self.stays = Signal(range(self.depth + 1))
        self.end_enters, self.ends_disagree = Signal(), Signal()
        least: Value = Value.cast(self.depth - self.stays)
        for port in ports:
            least = Mux(port.available < least, port.available, least)
        offered = [Mux(port.available > self.depth, self.depth, port.available) for port in ports]
        ending = Cat(
            port.last & (number == self.entering) & (self.entering != 0)
            for port, number in zip(ports, offered, strict=True)
        )
        held_next = Signal(range(self.depth + 1))
        m.d.comb += [
            self.stays.eq(self.held - self.steps),
            self.entering.eq(least),
            self.end_enters.eq(ending.any()),
            self.ends_disagree.eq(ending.any() & ~ending.all()),
            held_next.eq(self.stays + self.entering),
        ]
        m.d.sync += self.held.eq(held_next)
        if self.config.ring:
            m.d.sync += self.oldest.eq(self._rotate(self.oldest, self.steps))
            m.d.comb += self.entry_line.eq(self._rotate(self.oldest, self.held))
        remaining_ends = self.ends >> self.steps
        for step in range(self.depth):
            m.d.sync += self.ends[step].eq(remaining_ends[step] | (self.end_enters & (held_next == step + 1)))

    def _rotate(self, line: Value, number: Value) -> Value:
        """Rotate a one-hot line by `number` lines."""
        return reduce(
            or_, (line.rotate_left(lines) & (number == lines).replicate(self.depth) for lines in range(self.depth + 1))
        )

    def on_lines(self, bits: Value, first: Value) -> Value:
        """Reorder bits from age to line (docs/tile.md): bit 0 belongs to the oldest step, which is on line `first`."""
        if not self.config.ring:
            return bits
        lines = range(self.depth)
        return reduce(or_, (bits[: self.depth].rotate_left(line) & first[line].replicate(self.depth) for line in lines))

    def _c(self, m: Module) -> None:
        """Model step 6, and the beats of C that leave the store in steps 1 and 4."""
        started = self.scheduled & self.first
        final = self.c_beat == self.beats - 1
        m.d.comb += [
            self.c_enters.eq(self.tile.c.valid & (self.c_held < self.c_slots)),
            self.c_completes.eq(self.c_enters & final),
        ]
        if self.adds_c:
            m.d.sync += self.c_held.eq(self.c_held + self.c_enters - self.block_advances)
        else:
            m.d.sync += self.c_held.eq(Mux(self.completes_first, 0, self.c_held) + self.c_enters)
        m.d.sync += self.c_blocks.eq(self.c_blocks + self.c_completes - started)
        with m.If(self.c_enters):
            m.d.sync += self.c_beat.eq(Mux(final, 0, self.c_beat + 1))
