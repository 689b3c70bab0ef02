"""Cycles and traffic of a core's operations, as far as they can be said without running them."""

from dataclasses import replace
from math import prod

import numpy as np
from numpy.typing import NDArray

from tensordash.configuration.core_config import CoreConfig
from tensordash_sim.compiler.blocking import Blocking
from tensordash_sim.compiler.contraction import Contraction
from tensordash_sim.compiler.images import non_zero_groups
from tensordash_sim.compiler.program import Program
from tensordash_sim.compiler.row_streams import RowStreams
from tensordash_sim.compiler.timing import Timing, timing

from .jobs import Executed, Work
from .programs import contraction_of, cut_of, moved_bytes, recorded

__all__ = ["Expectations"]

SAMPLED_STREAMS = 512
"""Streams of the row side of an operation that are counted at most."""
MAX_MASK_BYTES = 1 << 26
"""Memory for where operands are not zero, until the cycles of their operations are asked for."""


class Expectations:
    """What is expected of a core; computed when somebody asks, and kept.

    Parameters
    ----------
    config : CoreConfig
        The core.

    Examples
    --------
    >>> from tensordash_sim.compiler.layer import Layer
    >>> layer = Layer(samples=1, channels=64, filters=64, size=(1, 64))
    >>> work = Work(layer=layer, operation="AxW", rows="A", fp32=False)
    >>> expected = Expectations(CoreConfig())
    >>> expected.cycles(work, 2.0) < expected.dense_cycles(work), expected.traffic(work)
    (True, 24608)
    """

    def __init__(self, config: CoreConfig) -> None:
        self._config = config
        self._made: dict[Work, tuple[Contraction, Blocking, Program]] = {}
        self._times: dict[tuple[Work, float], Timing] = {}
        self._cycles: dict[tuple[int, Work], int] = {}
        self._masks: dict[tuple[int, Work], NDArray[np.uint8]] = {}
        self._mask_bytes = 0
        self._streams: dict[Work, RowStreams] = {}
        self._dense: dict[Work, int] = {}
        self._moved: dict[Work, int] = {}

    def compile(self, work: Work) -> tuple[Contraction, Blocking, Program]:
        """The contraction, how it is cut, and its program, but for addresses in memory, which do not matter here."""
        if work not in self._made:
            contraction, blocking = contraction_of(self._config, work), cut_of(self._config, work)
            self._made[work] = contraction, blocking, recorded(contraction.program(blocking), 0)
        return self._made[work]

    def times(self, work: Work, speedup: float) -> Timing:
        """Return the program's cycles, in total and by unit, for a tile `speedup` times as fast as the dense one."""
        key = work, speedup
        if key not in self._times:
            *_, program = self.compile(work)
            self._times[key] = timing(self._config, program.descriptors, speedup=speedup)
        return self._times[key]

    def cycles(self, work: Work, speedup: float) -> int:
        """With a tile that is so much faster than the dense one."""
        return self.times(work, speedup).cycles

    def observe(self, executed: Executed, non_zeros: NDArray[np.bool_]) -> None:
        """Keep where the row side of an operation is not zero, until its cycles are asked for.

        Parameters
        ----------
        executed : Executed
            The operation.
        non_zeros : array of bool
            Where the operand is not zero, as its layer has it.
        """
        packed = np.packbits(non_zeros)
        self._masks[executed.number, executed.work] = packed
        self._mask_bytes += packed.size
        while self._mask_bytes > MAX_MASK_BYTES:
            self._count(next(iter(self._masks)))

    def cycles_of(self, executed: Executed) -> int:
        """Return what an operation that was executed should take; its own zeros are counted if they were observed."""
        key = executed.number, executed.work
        if key in self._masks:
            self._count(key)
        if key in self._cycles:
            return self._cycles[key]
        return self.cycles(executed.work, executed.speedup)

    def _count(self, operation: tuple[int, Work]) -> None:
        """Count the tile's cycles for the streams of the operation's program."""
        _, work = operation
        packed = self._masks.pop(operation)
        self._mask_bytes -= packed.size
        layer = work.layer
        non_zeros = np.unpackbits(packed, count=prod(layer.whole_shape(work.rows))).astype(np.bool_)
        paces = self._row_streams(work).paces(non_zero_groups(self._config, layer, work.rows, non_zeros))
        *_, program = self.compile(work)
        self._cycles[operation] = timing(self._config, program.descriptors, speedup=paces).cycles

    def _row_streams(self, work: Work) -> RowStreams:
        """Return the row side's streams. They are smaller than the program, so they stay cached as long as it does."""
        if work not in self._streams:
            contraction, _, program = self.compile(work)
            address = contraction.tensors[work.rows]
            self._streams[work] = RowStreams(self._config, program.descriptors, address, SAMPLED_STREAMS)
        return self._streams[work]

    def dense_cycles(self, work: Work) -> int:
        """Of the core around the dense tile, with the same program but for where streams begin."""
        if work not in self._dense:
            contraction, blocking, _ = self.compile(work)
            baseline = self._config.baseline
            program = recorded(replace(contraction, config=baseline).program(blocking), 0)
            self._dense[work] = timing(baseline, program.descriptors).cycles
        return self._dense[work]

    def traffic(self, work: Work) -> int:
        """Return bytes read from memory and written to it, descriptors left out."""
        if work not in self._moved:
            *_, program = self.compile(work)
            self._moved[work] = moved_bytes(program, self._config)
        return self._moved[work]
