"""Tiling search: finds the schedule of a problem with the fewest cycles."""

from dataclasses import dataclass, replace
from functools import lru_cache

from .estimate import estimate_cycles, rough_cycles
from .iteration_space import IterationSpace
from .program import ProgramError
from .schedule import Schedule, schedule_tiling
from .tiling import Tiling
from .tilings import tilings

__all__ = ["SearchResult", "best_schedule", "search_tilings"]

MAX_FITTING_TILINGS = 120
"""Number of fitting tilings after which the search stops."""
MAX_TILINGS = 400
"""Number of tilings after which the search stops if one of them fits."""
MAX_ROUGH_MULTIPLIES = 32
"""Number of a tiling's first multiplies that the rough estimate counts; it extrapolates the others."""
FIRST_PARTS = (3, 2, 6)
"""Values of `Tiling.first_parts` to try; the later ones only if the first one reduces cycles."""
MAX_FIRST_PART_TILINGS = 3
"""Number of best tilings for which the search tries a smaller first part."""
MAX_ESTIMATED_TILINGS = 8
"""Number of best tilings by rough cycles for which the search estimates cycles."""
MAX_ROUGH_RATIO = 1.4
"""Ratio to the least rough cycles up to which the search estimates a tiling's cycles."""
MAX_ESTIMATED_MULTIPLIES = 160
"""Number of multiplies up to which the search estimates a tiling's cycles."""
MIN_GAIN = 1.02
"""Factor by which a tiling's estimated cycles must beat the tiling with the least rough cycles to replace it."""


@dataclass(frozen=True)
class SearchResult:
    """The outcome of a search.

    Parameters
    ----------
    schedule : Schedule
        The best schedule.
    tried, fitting, estimated : int
        Numbers of tilings tried, of tilings whose first multiplies fit, and of tilings whose cycles were estimated.
    """

    schedule: Schedule
    tried: int
    fitting: int
    estimated: int


def best_schedule(space: IterationSpace) -> Schedule:
    """Return the schedule of a problem with the fewest estimated cycles; raises the errors of `search_tilings`."""
    return search_tilings(space).schedule


def search_tilings(space: IterationSpace) -> SearchResult:
    """Search the tilings of a problem for the one with the fewest estimated cycles.

    Raises
    ------
    ProgramError
        If no tiling fits.
    """
    ranked, tried = _rank_tilings(space)
    fitting = ((k, fit) for k, (_, tiling) in enumerate(ranked) if (fit := _schedule_if_fitting(space, tiling)))
    first, best = next(fitting, (0, None))
    if best is None:
        problem = space.problem
        raise ProgramError(f"{problem.operation} of {problem.layer} does not fit this core with any tiling")
    if len(best.multiplies) > MAX_ESTIMATED_MULTIPLIES:
        return SearchResult(best, tried, len(ranked), 0)
    limit = ranked[first][0] * MAX_ROUGH_RATIO
    candidates = [best]
    for cycles, tiling in ranked[first + 1 : first + MAX_ESTIMATED_TILINGS]:
        other = _schedule_if_fitting(space, tiling, MAX_ESTIMATED_MULTIPLIES + 1) if cycles <= limit else None
        if other is not None and len(other.multiplies) <= MAX_ESTIMATED_MULTIPLIES:
            candidates.append(other)
    return _choose(candidates, tried, len(ranked))


def _rank_tilings(space: IterationSpace) -> tuple[list[tuple[float, Tiling]], int]:
    """Return tilings whose first multiplies fit, by rough cycles, and the number of tilings tried."""
    # Layers of a network often differ in nothing but their speedup, which affects cycles only.
    schedules, tried = fitting_schedules(replace(space, problem=replace(space.problem, speedup=1.0)))
    ranked = [(rough_cycles(replace(each, space=space)), each.tiling) for each in schedules]
    return sorted(ranked, key=lambda pair: pair[0]), tried


@lru_cache(maxsize=3)
def fitting_schedules(space: IterationSpace) -> tuple[list[Schedule], int]:
    """Return the schedules of first multiplies that fit, and the number of tilings tried."""
    schedules: list[Schedule] = []
    tried = 0
    for tiling in tilings(space):
        tried += 1
        schedule = _schedule_if_fitting(space, tiling, MAX_ROUGH_MULTIPLIES)
        if schedule is not None:
            schedules.append(schedule)
        if len(schedules) == MAX_FITTING_TILINGS or (schedules and tried > MAX_TILINGS):
            break
    return schedules, tried


def _schedule_if_fitting(space: IterationSpace, tiling: Tiling, max_multiplies: int | None = None) -> Schedule | None:
    try:
        return schedule_tiling(space, tiling, max_multiplies)
    except ProgramError:
        return None


def _choose(candidates: list[Schedule], tried: int, fitting: int) -> SearchResult:
    """Choose the schedule with the fewest estimated cycles, after trying smaller first parts for the best ones."""
    best = candidates[0].tiling
    schedules: dict[Tiling, Schedule] = {}
    estimates: dict[Tiling, int] = {}
    cycles: dict[Tiling, float] = {}

    def estimate(schedule: Schedule) -> None:
        """Estimate the cycles of a schedule, weighted by `MIN_GAIN` unless its tiling has the least rough cycles."""
        tiling = schedule.tiling
        # A tiling whose first part cannot be split has the same program as the tiling with one part.
        same = next((each for each, other in schedules.items() if other.multiplies == schedule.multiplies), None)
        estimates[tiling] = estimate_cycles(schedule) if same is None else estimates[same]
        schedules[tiling] = schedule
        cycles[tiling] = estimates[tiling] * (1 if replace(tiling, first_parts=1) == best else MIN_GAIN)

    for each in candidates:
        estimate(each)
    for tiling in sorted(schedules, key=cycles.__getitem__)[:MAX_FIRST_PART_TILINGS]:
        estimate(schedule_tiling(schedules[tiling].space, replace(tiling, first_parts=FIRST_PARTS[0])))
    chosen = min(cycles, key=cycles.__getitem__)
    if chosen.first_parts > 1:
        for first_parts in FIRST_PARTS[1:]:
            estimate(schedule_tiling(schedules[chosen].space, replace(chosen, first_parts=first_parts)))
        chosen = min(cycles, key=cycles.__getitem__)
    return SearchResult(schedules[chosen], tried, fitting, len(cycles))
