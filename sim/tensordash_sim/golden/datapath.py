"""A tile's arithmetic and output: steps 1, 2 and 4 of docs/tile.md."""

from dataclasses import dataclass

from tensordash.configuration.config import TileConfig
from tensordash.configuration.formats import FP32

from .accumulators import Accumulator, make_accumulator, starts_from_c
from .control import Pairs
from .initial import InitialStore, Rows
from .numbers import is_finite
from .ports import Beat
from .scheduler import TileSchedule

__all__ = ["Datapath", "Work", "latency_of"]


BUFFER_BEATS = 2
"""Capacity of the output buffer, in beats."""


def latency_of(config: TileConfig) -> int:
    """Return the cycles from a schedule to its accumulation.

    >>> latency_of(TileConfig(pipeline=2))
    1
    """
    return config.stages - 1


@dataclass(frozen=True, slots=True)
class Work:
    """The operands of one schedule in the pipeline; `first` and `last` mark its place in the stream."""

    pairs: Pairs
    first: bool
    last: bool


class Datapath:
    """Pipeline, accumulators, block of results, sum register and output register, and the store of C.

    Parameters
    ----------
    config : TileConfig
        The tile.

    Attributes
    ----------
    pipeline : list of (Work or None)
        `latency` slots; the last one is accumulated next.
    accumulators : list of list of Accumulator, (rows, columns)
        One for each PE.
    block : list of list of list of Accumulator, (beats, out_rows, columns)
        Sums of the last stream that ended, as far as they have not moved on.
    sum, output : Beat or None
        The sum register (None if the tile has none) and the output register. The model rounds results before both;
        the hardware rounds at the output, with the same result.
    buffer : list of Beat
        The output buffer, oldest first; empty if the tile has none.
    initial : InitialStore or None
        The C store, if the tile has a C input.
    """

    def __init__(self, config: TileConfig) -> None:
        self.config = config
        self.initial = InitialStore(config) if config.initial else None
        self._starts_from_c = starts_from_c(config)
        self._buffered = config.registered_ready
        self._has_sum_register = config.initial and not self._starts_from_c and config.numerics.result == "fp32"
        self.reset()

    def reset(self) -> None:
        """Drop all work, results and C."""
        self.pipeline: list[Work | None] = [None] * latency_of(self.config)
        self._renew_accumulators()
        self.block: list[list[list[Accumulator]]] = []
        self.sum: Beat | None = None
        self.output: Beat | None = None
        self.buffer: list[Beat] = []
        if self.initial is not None:
            self.initial.reset()

    @property
    def shown(self) -> Beat | None:
        """The beat at the output."""
        if self._buffered:
            return self.buffer[0] if self.buffer else None
        return self.output

    @property
    def empty(self) -> bool:
        """Whether the pipeline holds no stream's last schedule and the datapath holds no result and no C."""
        ending = any(work is not None and work.last for work in self.pipeline)
        results = self.block or self.sum or self.output or self.buffer
        return not ending and not results and (self.initial is None or not self.initial.beats)

    def is_frozen(self, decided: TileSchedule | None, out_ready: bool) -> bool:
        """Return whether a stream's last schedule is due for accumulation while the block is still occupied.

        Parameters
        ----------
        decided : TileSchedule or None
            The schedule to be made; with a latency of 0 it is the one that is due.
        out_ready : bool
            The consumer takes the beat in the output register.
        """
        work_due = self.pipeline[-1] if self.pipeline else decided
        moving = 1 if self._block_moves(out_ready) else 0
        block_free = len(self.block) <= moving
        return work_due is not None and work_due.last and not block_free

    def clock(self, work: Work | None, out_ready: bool, frozen: bool) -> tuple[bool, bool]:
        """Apply a clock edge.

        Parameters
        ----------
        work : Work or None
            The operands that were scheduled in this cycle.
        out_ready, frozen : bool
            As for `is_frozen`, and its result.

        Returns
        -------
        overflow, result_non_finite : bool
            An accumulation, or adding C, overflowed; a beat with an infinity or NaN left the output register.
        """
        leaving = self.output if self._output_leaves(out_ready) else None
        overflow = self._move_out(out_ready)
        if self._buffered:
            self._move_buffer(leaving, out_ready)
        non_finite = leaving is not None and self._is_special(leaving)
        if frozen:
            return overflow, non_finite
        *self.pipeline, work_due = [work, *self.pipeline]
        if work_due is not None:
            overflow |= self._accumulate(work_due)
        return overflow, non_finite

    def _output_leaves(self, out_ready: bool) -> bool:
        """Return whether a beat in the output register leaves it."""
        return len(self.buffer) < BUFFER_BEATS if self._buffered else out_ready

    def _move_buffer(self, entering: Beat | None, out_ready: bool) -> None:
        if out_ready:
            self.buffer = self.buffer[1:]
        if entering is not None:
            self.buffer = [*self.buffer, entering]

    def _is_special(self, beat: Beat) -> bool:
        """Return whether a beat of results holds an infinity or NaN."""
        if self.config.numerics.result == "int32":
            return False
        return not all(is_finite(bits, FP32) for row in beat.values for bits in row)

    def _output_free(self, out_ready: bool) -> bool:
        return self.output is None or self._output_leaves(out_ready)

    def _block_moves(self, out_ready: bool) -> bool:
        """Return whether a beat can leave the block."""
        return self._output_free(out_ready) or (self._has_sum_register and self.sum is None)

    def _move_out(self, out_ready: bool) -> bool:
        """Move beats towards the output; return whether adding C to one of them overflowed."""
        if not self._block_moves(out_ready):
            return False
        beat, overflow = self._leave_block() if self.block else (None, False)
        if self._has_sum_register:
            beat, self.sum = self.sum, beat
        if self._output_free(out_ready):
            self.output = beat
        return overflow

    def _leave_block(self) -> tuple[Beat, bool]:
        """Return the block's next beat with C added, and whether adding C overflowed."""
        sums = self.block.pop(0)
        no_c = ((0,) * self.config.columns,) * self.config.out_rows
        c = no_c if self.initial is None or self._starts_from_c else self.initial.pop_beat()
        paired = [list(zip(*rows, strict=True)) for rows in zip(sums, c, strict=True)]
        values = tuple(tuple(one.result_bits(bits) for one, bits in row) for row in paired)
        overflow = any(one.result_overflow(bits) for row in paired for one, bits in row)
        return Beat(values, last=not self.block), overflow

    def _accumulate(self, work_due: Work) -> bool:
        """Add one schedule's products; return whether a sum overflowed."""
        c: Rows = ((0,) * self.config.columns,) * self.config.rows
        if work_due.first and self._starts_from_c and self.initial is not None:
            c = self.initial.pop_block()
        overflow = False
        for accumulators, row, c_row in zip(self.accumulators, work_due.pairs, c, strict=True):
            for accumulator, pairs, bits in zip(accumulators, row, c_row, strict=True):
                overflow |= accumulator.accumulate(pairs, work_due.first, bits)
        if work_due.last:
            height = self.config.out_rows
            self.block = [self.accumulators[row : row + height] for row in range(0, self.config.rows, height)]
            self._renew_accumulators()  # the next schedule is the first of its stream
        return overflow

    def _renew_accumulators(self) -> None:
        rows, columns = self.config.rows, self.config.columns
        self.accumulators = [[make_accumulator(self.config) for _ in range(columns)] for _ in range(rows)]
