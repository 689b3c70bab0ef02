"""Compile problems for a core: their best tilings, schedules, and programs with a record of counts."""

from dataclasses import replace
from functools import cache

from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.descriptors import decode
from tensordash_sim.compiler.iteration_space import IterationSpace
from tensordash_sim.compiler.problem import Problem
from tensordash_sim.compiler.program import RECORD_BYTES, Program, ProgramError
from tensordash_sim.compiler.schedule import Schedule, schedule_tiling
from tensordash_sim.compiler.search import best_schedule
from tensordash_sim.compiler.tiling import Tiling

__all__ = ["has_tiling", "moved_bytes", "schedule_of", "space_of", "tiling_of"]

SIZES = frozenset(("count_0", "count_1", "count_2", "count_3", "nvfp4"))
"""Fields of a load or store that determine its bytes."""


def space_of(config: CoreConfig, problem: Problem) -> IterationSpace:
    """Return the loops of a problem on a core. FP32 results are transposed where that saves cycles."""
    return IterationSpace(problem=problem, core=config).with_turned_results()


@cache
def tiling_of(space: IterationSpace) -> Tiling:
    """Return the best tiling of a problem, and cache it."""
    # The search caches loads in its space. It runs on a copy, so that they are freed.
    return best_schedule(replace(space)).tiling


def has_tiling(space: IterationSpace) -> bool:
    """Return whether a problem has a tiling that fits."""
    try:
        tiling_of(space)
    except ProgramError:
        return False
    return True


def schedule_of(config: CoreConfig, problem: Problem) -> Schedule:
    """Return the best schedule of a problem."""
    space = space_of(config, problem)
    return schedule_tiling(space, tiling_of(space))


def moved_bytes(program: Program, config: CoreConfig) -> int:
    """Count the bytes that a program's uncompressed loads and stores and its records move."""
    moved = 0
    for bits in program.descriptors:
        operation, fields = decode(bits, SIZES)
        if operation is not None and operation.name in ("load", "store"):
            groups = fields["count_0"] * fields["count_1"] * fields["count_2"] * fields["count_3"]
            moved += groups * (config.group_bytes >> fields.get("nvfp4", 0))
        elif operation is not None and operation.name == "record":
            moved += RECORD_BYTES
    return moved
