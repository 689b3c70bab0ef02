"""Cycles and traffic of a core's operations, as far as they can be said without running them."""

from dataclasses import replace

from tensordash.configuration.core_config import CoreConfig
from tensordash_sim.core.blocking import Blocking
from tensordash_sim.core.choice import best_blocking, estimate
from tensordash_sim.core.contraction import Contraction
from tensordash_sim.core.layer import OPERANDS

from .backends import moved_bytes
from .jobs import Work

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
    >>> expected.cycles(work, 2.0) < expected.cycles(work, 1.0), expected.traffic(work)
    (True, 24576)
    """

    def __init__(self, config: CoreConfig) -> None:
        self._config = config
        self._cut: dict[Work, tuple[Contraction, Blocking]] = {}
        self._cycles: dict[tuple[Work, float], int] = {}
        self._traffic: dict[Work, int] = {}

    def cut(self, work: Work) -> tuple[Contraction, Blocking]:
        """The program's contraction, and how it is cut; addresses in memory do not matter for it."""
        if work not in self._cut:
            names = (*OPERANDS[work.operation], "result")
            contraction = Contraction(
                config=self._config,
                layer=work.layer,
                operation=work.operation,
                tensors={name: (k + 1) << 28 for k, name in enumerate(names)},
                rows=work.rows,
                fp32=work.fp32,
            )
            self._cut[work] = contraction, best_blocking(contraction)
        return self._cut[work]

    def cycles(self, work: Work, speedup: float) -> int:
        """With a tile that is so much faster than the dense one."""
        key = work, round(speedup, DIGITS)
        if key not in self._cycles:
            contraction, blocking = self.cut(work)
            self._cycles[key] = round(estimate(replace(contraction, speedup=key[1]), blocking))
        return self._cycles[key]

    def traffic(self, work: Work) -> int:
        """Bytes read from memory and written to it, descriptors left out."""
        if work not in self._traffic:
            contraction, blocking = self.cut(work)
            self._traffic[work] = moved_bytes(contraction.program(blocking), self._config)
        return self._traffic[work]
