"""Test that the chosen tiling fits the core, and that the search estimates few tilings."""

from dataclasses import replace
from itertools import islice
from random import Random

import pytest

from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.preset import load_any_preset
from tensordash_sim.compiler import search
from tensordash_sim.compiler.emission import emit
from tensordash_sim.compiler.estimate import estimate_cycles
from tensordash_sim.compiler.iteration_space import IterationSpace
from tensordash_sim.compiler.layer import Layer
from tensordash_sim.compiler.problem import Problem
from tensordash_sim.compiler.program import ProgramError
from tensordash_sim.compiler.schedule import schedule_tiling
from tensordash_sim.compiler.tiling import Tiling
from tensordash_sim.compiler.tilings import tilings
from tensordash_sim.verify.programs import random_layers

MAX_ESTIMATES = 13
"""Maximum number of tilings per problem whose cycles the search estimates."""
TILINGS = 152
"""Number of tilings that the tests examine."""
LAYERS = {
    "AxW": (4, Layer(samples=1, channels=32, filters=4, size=(22, 28), kernel=(3, 3), padding=2)),
    "WxG": (4, Layer(samples=1, channels=4, filters=8, size=(19, 25), kernel=(5, 5), padding=1)),
}
"""For each operation, the buffer's KiB and a layer whose first tile is at an edge and loads less than others."""


def space_of(operation: str, rows: str, monkeypatch: pytest.MonkeyPatch) -> IterationSpace:
    buffer, layer = LAYERS[operation]
    config = load_any_preset("core", (f"core.buffer={buffer}",))
    assert isinstance(config, CoreConfig)
    monkeypatch.setattr(random_layers, "random_layer", lambda *_: layer)
    for seed in range(1000):
        work = random_layers.random_work(Random(seed), config)
        if (work.operation, work.rows) == (operation, rows):
            return work.space(config)
    raise AssertionError(f"no {operation} with {rows} on rows")


def fits(space: IterationSpace, tiling: Tiling, max_multiplies: int | None = None) -> bool:
    try:
        schedule_tiling(space, tiling, max_multiplies)
    except ProgramError:
        return False
    return True


def locally_fitting_tilings(space: IterationSpace) -> list[Tiling]:
    """Return tilings whose first multiplies fit."""
    return [each for each in islice(tilings(space), TILINGS) if fits(space, each, search.MAX_ROUGH_MULTIPLIES)]


@pytest.fixture(autouse=True)
def _no_cached_schedules():
    """Clear the schedules that the search found with replaced functions."""
    search.fitting_schedules.cache_clear()
    yield
    search.fitting_schedules.cache_clear()


@pytest.mark.parametrize(("operation", "rows"), [("AxW", "W"), ("WxG", "W")])
def test_the_chosen_tiling_fits(operation, rows, monkeypatch):
    """The tiling with the fewest estimated cycles fits only at an edge."""
    space = space_of(operation, rows, monkeypatch)
    fitting = locally_fitting_tilings(space)
    wrong = [each for each in fitting if not fits(space, each)]
    assert wrong, "all fit whose first multiplies do"
    right = next(each for each in fitting if each not in wrong)
    monkeypatch.setattr(search, "tilings", lambda _: iter([*wrong, right]))
    best = search.best_schedule(space)
    assert replace(best.tiling, first_parts=right.first_parts) == right
    emit(best)
    monkeypatch.setattr(search, "tilings", lambda _: iter(wrong))
    search.fitting_schedules.cache_clear()
    with pytest.raises(ProgramError, match="does not fit this core with any tiling"):
        search.best_schedule(space)


def test_search_estimates_few_tilings(monkeypatch):
    """The search walks and estimates each tiling at most once, and estimates few."""
    walks: list[tuple[Tiling, int | None]] = []
    estimates: list[Tiling] = []

    def walk(space, tiling, max_multiplies=None):
        schedule = schedule_tiling(space, tiling, max_multiplies)
        walks.append((tiling, max_multiplies))
        assert len(schedule.multiplies) <= search.MAX_ESTIMATED_MULTIPLIES + 1
        return schedule

    def estimate(schedule):
        estimates.append(schedule.tiling)
        return estimate_cycles(schedule)

    monkeypatch.setattr(search, "schedule_tiling", walk)
    monkeypatch.setattr(search, "estimate_cycles", estimate)
    problem = Problem(layer=Layer(samples=2, channels=64, filters=64, size=(8, 8)), operation="AxW", rows="A")
    result = search.search_tilings(IterationSpace(problem=problem, core=CoreConfig()))
    assert len(set(walks)) == len(walks)
    assert len(set(estimates)) == len(estimates) == result.estimated <= MAX_ESTIMATES
    roughly = [tiling for tiling, multiplies in walks if multiplies == search.MAX_ROUGH_MULTIPLIES]
    assert result.fitting <= len(roughly) <= search.MAX_TILINGS
    assert len(walks) - len(roughly) <= MAX_ESTIMATES
