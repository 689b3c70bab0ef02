"""A tile's arithmetic and output: steps 1, 2 and 4 of docs/tile.md."""

from dataclasses import dataclass

from tensordash.config import TileConfig

from .control import Pairs
from .dot import ExactAccumulator
from .ports import Beat
from .scheduler import TileSchedule

__all__ = ["Datapath", "Work", "latency_of"]


def latency_of(config: TileConfig) -> int:
    """Cycles from a schedule to its accumulation.

    >>> latency_of(TileConfig(pipeline=2)), latency_of(TileConfig(pipeline=2, sparsity="none"))
    (2, 1)
    """
    return config.stages - (config.sparsity == "none")


@dataclass(frozen=True, slots=True)
class Work:
    """The operands of one schedule on their way to the accumulators, with its marks."""

    pairs: Pairs
    first: bool
    last: bool


class Datapath:
    """Pipeline, accumulators, block of results and output register.

    Parameters
    ----------
    config : TileConfig
        The tile.

    Attributes
    ----------
    pipeline : list of (Work or None)
        `latency` slots; the last one is due for accumulation.
    accumulators : list of list of ExactAccumulator, (rows, columns)
        One for each PE.
    block : list of Beat
        Results of the last stream that ended that are still to be moved.
    output : Beat or None
        The output register.
    """

    def __init__(self, config: TileConfig) -> None:
        self.config = config
        self.accumulators = [[ExactAccumulator(config) for _ in range(config.columns)] for _ in range(config.rows)]
        self.reset()

    def reset(self) -> None:
        """Drop all work and results; accumulators may keep what they hold."""
        self.pipeline: list[Work | None] = [None] * latency_of(self.config)
        self.block: list[Beat] = []
        self.output: Beat | None = None

    def is_frozen(self, decided: TileSchedule | None, out_ready: bool) -> bool:
        """Whether the sum that is due has no block to go to.

        Parameters
        ----------
        decided : TileSchedule or None
            The schedule to be made; without latency it is the one that is due.
        out_ready : bool
            The consumer takes the beat in the output register.
        """
        due = self.pipeline[-1] if self.pipeline else decided
        moving = 1 if self._register_free(out_ready) else 0
        block_free = len(self.block) <= moving
        return due is not None and due.last and not block_free

    def clock(self, work: Work | None, out_ready: bool, frozen: bool) -> bool:
        """The clock edge.

        Parameters
        ----------
        work : Work or None
            What was scheduled in this cycle.
        out_ready, frozen : bool
            As in `is_frozen`, and its answer.

        Returns
        -------
        bool
            Whether an accumulation overflowed.
        """
        if self._register_free(out_ready):
            self.output = self.block.pop(0) if self.block else None
        if frozen:
            return False
        *self.pipeline, due = [work, *self.pipeline]
        if due is None:
            return False
        overflow = False
        for accumulators, row in zip(self.accumulators, due.pairs, strict=True):
            for accumulator, pairs in zip(accumulators, row, strict=True):
                overflow |= accumulator.accumulate(pairs, due.first)
        if due.last:
            self.block = self._beats()
        return overflow

    def _register_free(self, out_ready: bool) -> bool:
        return self.output is None or out_ready

    def _beats(self) -> list[Beat]:
        """The block of results; rounded here, since rounding on the way out gives the same."""
        results = [tuple(accumulator.result_bits() for accumulator in row) for row in self.accumulators]
        height = self.config.out_rows
        starts = range(0, self.config.rows, height)
        return [Beat(tuple(results[row : row + height]), row + height == self.config.rows) for row in starts]
