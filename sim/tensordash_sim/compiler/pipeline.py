"""The compiler's stages in order.

A `Problem` on a core has an `IterationSpace`. `tilings` yields candidate tilings. `schedule_tiling` walks the loops of
one candidate and returns a `Schedule`. `rough_cycles`, `estimate_cycles` and `emit` read the schedule. `search_tilings`
compares the candidates.
"""

from collections.abc import Mapping

from tensordash.configuration.core_config import CoreConfig

from .emission import emit
from .iteration_space import IterationSpace
from .problem import Problem
from .program import Program
from .search import best_schedule

__all__ = ["compile_problem"]


def compile_problem(problem: Problem, core: CoreConfig, tensors: Mapping[str, int] | None = None) -> Program:
    """Compile a problem with the tiling that has the fewest estimated cycles.

    Parameters
    ----------
    problem : Problem
        The problem.
    core : CoreConfig
        The core.
    tensors : mapping of str to int, optional
        The address of each of `Problem.tensors`, as for `emit`.

    Raises
    ------
    ProgramError
        If the core cannot compute the problem, or no tiling fits.

    Source: docs/compiler.md, "Stages"; paper, section III-A.

    Examples
    --------
    >>> from .layer import Layer
    >>> layer = Layer(samples=1, channels=8, filters=8, size=(6, 6), kernel=(3, 3))
    >>> problem = Problem(layer=layer, operation="AxW", rows="A")
    >>> program = compile_problem(problem, CoreConfig(), {"A": 0x10000, "W": 0x20000, "result": 0x30000})
    >>> sorted({line.split()[1] for line in program.listing().splitlines()})
    ['end', 'layout_a', 'layout_b', 'load', 'multiply', 'store']
    """
    return emit(best_schedule(IterationSpace(problem=problem, core=core)), tensors)
