"""Cycles and traffic of a core's operations, as far as they can be said without running them."""

from dataclasses import replace

from tensordash.configuration.core_config import CoreConfig
from tensordash_sim.core.blocking import Blocking
from tensordash_sim.core.contraction import Contraction
from tensordash_sim.core.program import Program
from tensordash_sim.core.timing import Timing, timing

from .jobs import Work
from .programs import contraction_of, cut_of, moved_bytes, recorded

__all__ = ["Expectations"]

DIGITS = 1
"""Of a speedup: operations that differ by less take as long, and are estimated once."""


class Expectations:
    """What is expected of a core; computed when somebody asks, and kept.

    Parameters
    ----------
    config : CoreConfig
        The core.

    Examples
    --------
    >>> from tensordash_sim.core.layer import Layer
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
        self._dense: dict[Work, int] = {}
        self._moved: dict[Work, int] = {}

    def made(self, work: Work) -> tuple[Contraction, Blocking, Program]:
        """The contraction, how it is cut, and its program, but for addresses in memory, which do not matter here."""
        if work not in self._made:
            contraction, blocking = contraction_of(self._config, work), cut_of(self._config, work)
            self._made[work] = contraction, blocking, recorded(contraction.program(blocking), 0)
        return self._made[work]

    def times(self, work: Work, speedup: float) -> Timing:
        """Of the program, with a tile that is so much faster than the dense one: all of it, and by unit."""
        key = work, round(speedup, DIGITS)
        if key not in self._times:
            *_, program = self.made(work)
            self._times[key] = timing(self._config, program.descriptors, speedup=key[1])
        return self._times[key]

    def cycles(self, work: Work, speedup: float) -> int:
        """With a tile that is so much faster than the dense one."""
        return self.times(work, speedup).cycles

    def dense_cycles(self, work: Work) -> int:
        """Of the core around the dense tile, with the same program but for where streams begin."""
        if work not in self._dense:
            contraction, blocking, _ = self.made(work)
            baseline = self._config.baseline
            program = recorded(replace(contraction, config=baseline).program(blocking), 0)
            self._dense[work] = timing(baseline, program.descriptors).cycles
        return self._dense[work]

    def traffic(self, work: Work) -> int:
        """Bytes read from memory and written to it, descriptors left out."""
        if work not in self._moved:
            *_, program = self.made(work)
            self._moved[work] = moved_bytes(program, self._config)
        return self._moved[work]
