"""Compare the times of stages' loads, work and stores with cases by hand and a simulation in small time steps."""

from dataclasses import replace

import numpy as np
import pytest

from tensordash_sim.performance.planner import Budget, Stage
from tensordash_sim.performance.planner.overlap import Overlap
from tensordash_sim.performance.planner.timeline import alone, overlapped

BUDGET = Budget(capacity=7000, prefetch=1000, dram_bytes_per_cycle=10, elements_per_cycle=1)


def stage(cycles: int, loads: float, stores: float = 0.0, space: float = 0.0) -> Stage:
    return Stage(
        nodes=("a",),
        axis="",
        parts=1,
        loads={"x": loads},
        stores={"y": stores},
        space=space,
        cycles=cycles,
        element_cycles=0,
    )


def test_cycles_without_overlap() -> None:
    stages = [stage(100, 500), stage(20, 500, 300), stage(0, 15)]
    assert alone(stages, BUDGET) == 100 + 80 + 2
    assert alone([replace(stages[0], element_cycles=130)], BUDGET) == 130


@pytest.mark.parametrize(
    ("stages", "cycles"),
    [
        ([stage(100, 500)], 100),
        ([stage(10, 500)], 50),
        # There is room for everything, so that the second stage loads while the first works.
        ([stage(100, 0), stage(10, 900)], 110),
        ([stage(10, 900), stage(100, 0)], 110),
        # There is room for a quarter of the loads. The other 150 cycles follow, then the last slice's work.
        ([stage(100, 0, space=7000), stage(50, 2000)], 100 + 150 + 50 // 8),
        # Stores overlap the next stage's work if there is room for them.
        ([stage(100, 0, 500), stage(100, 0)], 200),
    ],
)
def test_cycles_of_small_examples(stages: list[Stage], cycles: int) -> None:
    assert overlapped(stages, BUDGET) == cycles


def test_loads_overlap_with_work() -> None:
    """A stage that only loads runs while others only compute."""
    stages = [stage(100, 0, space=6000), stage(0, 3000), stage(100, 0, space=6000), stage(200, 0, space=6000)]
    apart = overlapped(stages, BUDGET)
    together = overlapped(stages, BUDGET, [Overlap(1, ((0, 0.25), (2, 0.25), (3, 0.5)))])
    assert apart > 500
    assert together == pytest.approx(400, rel=0.1)


@pytest.mark.parametrize("seed", range(40))
def test_overlapped_cycles_are_bounded(seed: int) -> None:
    rng = np.random.default_rng(seed)
    stages = []
    for _ in range(rng.integers(1, 9)):
        loads, stores, space = (float(rng.integers(0, limit)) for limit in (4000, 4000, 7001))
        stages.append(stage(int(rng.integers(0, 400)), loads, stores, space))
    found = overlapped(stages, BUDGET)
    work = sum(each.cycles for each in stages)
    moved = sum(each.dram for each in stages) / BUDGET.dram_bytes_per_cycle
    assert max(work, moved) - 1 <= found <= work + moved
    roomy = replace(BUDGET, capacity=BUDGET.capacity + 1e5, prefetch=BUDGET.prefetch + 1e5)
    assert overlapped(stages, roomy) <= found + 0.02 * (work + moved)
