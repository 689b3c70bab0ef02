"""Expected cycles and traffic of a core's operations, without running them."""

from math import prod

import numpy as np
from numpy.typing import NDArray

from tensordash.configuration.core_config import CoreConfig
from tensordash_sim.compiler.emission import emit, placeholder_addresses
from tensordash_sim.compiler.images import non_zero_groups
from tensordash_sim.compiler.layer import RESULTS
from tensordash_sim.compiler.masked_passes import MaskedPasses, SkippingPaces
from tensordash_sim.compiler.problem import Problem
from tensordash_sim.compiler.program import Program, program_with_record
from tensordash_sim.compiler.row_streams import Paces, RowStreams
from tensordash_sim.compiler.schedule import schedule_tiling
from tensordash_sim.compiler.timing import timing

from .jobs import ExecutedOperation
from .programs import moved_bytes, schedule_of, space_of, tiling_of

__all__ = ["Expectations"]

SAMPLED_STREAMS = 512
"""Maximum number of an operation's row-side streams that are counted."""
MAX_MASK_BYTES = 1 << 26
"""Memory for non-zero positions of operands whose cycles are not counted yet."""


class Expectations:
    """Expected cycles and traffic of a core, computed on demand and cached.

    Parameters
    ----------
    config : CoreConfig
        The core.

    Examples
    --------
    >>> from tensordash_sim.compiler.layer import Layer
    >>> layer = Layer(samples=1, channels=64, filters=64, size=(1, 64))
    >>> problem = Problem(layer=layer, operation="AxW", rows="A", fp32=False)
    >>> expected = Expectations(CoreConfig())
    >>> expected.cycles(problem, 2.0) < expected.dense_cycles(problem), expected.traffic(problem)
    (True, 24608)
    """

    def __init__(self, config: CoreConfig) -> None:
        self._config = config
        self._programs: dict[Problem, Program] = {}
        self._expected: dict[tuple[Problem, float], int] = {}
        self._observed: dict[tuple[int, Problem], int] = {}
        self._masks: dict[tuple[int, Problem], list[NDArray[np.uint8]]] = {}
        self._mask_bytes = 0
        self._streams: dict[Problem, RowStreams] = {}
        self._masked: dict[Problem, MaskedPasses] = {}
        self._dense: dict[Problem, int] = {}
        self._moved: dict[Problem, int] = {}

    def program(self, problem: Problem) -> Program:
        """Return a problem's program with placeholders for addresses, which do not change its cycles."""
        if problem not in self._programs:
            self._programs[problem] = program_with_record(emit(schedule_of(self._config, problem)), 0)
        return self._programs[problem]

    def cycles(self, problem: Problem, speedup: float) -> int:
        """Return a problem's cycles for a tile `speedup` times as fast as the dense tile."""
        key = problem, speedup
        if key not in self._expected:
            program = self.program(problem)
            self._expected[key] = timing(self._config, program.descriptors, speedup=speedup).cycles
        return self._expected[key]

    @property
    def skips_masked(self) -> bool:
        """Whether the core skips passes whose results a mask makes zero. `cycles` and `dense_cycles` skip none."""
        return self._config.skip_masked

    def observe(
        self, executed: ExecutedOperation, non_zeros: NDArray[np.bool_], mask: NDArray[np.bool_] | None = None
    ) -> None:
        """Store the non-zero positions of an operation's row side and its mask, in the layer's shapes, for `cycles_of`.

        Without `mask`, no pass is skipped.
        """
        packed = [np.packbits(each) for each in (non_zeros, mask) if each is not None]
        self._masks[executed.number, executed.problem] = packed
        self._mask_bytes += sum(each.size for each in packed)
        while self._mask_bytes > MAX_MASK_BYTES:
            self._count(next(iter(self._masks)))

    def cycles_of(self, executed: ExecutedOperation) -> int:
        """Return the expected cycles of an executed operation, from its own zeros if they were observed."""
        key = executed.number, executed.problem
        if key in self._masks:
            self._count(key)
        if key in self._observed:
            return self._observed[key]
        return self.cycles(executed.problem, executed.speedup)

    def _count(self, operation: tuple[int, Problem]) -> None:
        """Count the tile's cycles for the streams of the operation's program."""
        _, problem = operation
        packed = self._masks.pop(operation)
        self._mask_bytes -= sum(each.size for each in packed)
        layer, groups = problem.layer, []
        for name, each in zip((problem.rows, RESULTS[problem.operation]), packed, strict=False):
            non_zeros = np.unpackbits(each, count=prod(layer.whole_shape(name))).astype(np.bool_)
            groups.append(non_zero_groups(self._config, layer, name, non_zeros))
        paces: Paces = self._row_streams(problem).paces(groups[0])
        for mask in groups[1:]:
            paces = SkippingPaces(paces, self._masked_passes(problem).skipped(np.any(mask, axis=1)))
        program = self.program(problem)
        self._observed[operation] = timing(self._config, program.descriptors, speedup=paces).cycles

    def _row_streams(self, problem: Problem) -> RowStreams:
        """Return the row side's streams, which are cached."""
        if problem not in self._streams:
            program, address = self.program(problem), placeholder_addresses(problem)[problem.rows]
            self._streams[problem] = RowStreams(self._config, program.descriptors, address, SAMPLED_STREAMS)
        return self._streams[problem]

    def _masked_passes(self, problem: Problem) -> MaskedPasses:
        """Return the places of a problem's masks, which are cached."""
        if problem not in self._masked:
            program, address = self.program(problem), placeholder_addresses(problem)["mask"]
            self._masked[problem] = MaskedPasses(self._config, program.descriptors, address)
        return self._masked[problem]

    def dense_cycles(self, problem: Problem) -> int:
        """Return the cycles of the core with the dense tile, for the same tiling."""
        if problem not in self._dense:
            baseline = self._config.baseline
            schedule = schedule_tiling(space_of(baseline, problem), tiling_of(space_of(self._config, problem)))
            program = program_with_record(emit(schedule), 0)
            self._dense[problem] = timing(baseline, program.descriptors).cycles
        return self._dense[problem]

    def traffic(self, problem: Problem) -> int:
        """Return the bytes read from memory and written to it, without descriptors."""
        if problem not in self._moved:
            program = self.program(problem)
            self._moved[problem] = moved_bytes(program, self._config)
        return self._moved[problem]
