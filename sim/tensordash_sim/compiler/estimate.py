"""Two estimates of a schedule's cycles: a rough one from each unit's work, and one that times every descriptor."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from .emission import emit
from .iteration_space import SIDES
from .multiply_cycles import layout_loss, pass_cycles
from .operands import Move
from .schedule import Schedule, ScheduledMultiply
from .timing import timing
from .unit_cycles import LATENCY, block_cycles, layout_cycles, load_cycles, store_cycles

__all__ = ["estimate_cycles", "rough_cycles"]

DESCRIPTOR_CYCLES = 18
"""Cycles between two descriptors of a unit."""
FETCH_CYCLES = 31
"""Cycles from one fetch of a descriptor to the next."""
WAIT_SHARE = 0.06
"""Cycles in which units wait for each other, as a share of all units' work."""


def estimate_cycles(schedule: Schedule, *, latency: int = LATENCY) -> int:
    """Estimate the cycles of a schedule from the time of each descriptor and its tokens (`timing`).

    The tile's speedup is `Problem.speedup`. No pass is skipped: what a mask makes zero is unknown here.

    Parameters
    ----------
    schedule : Schedule
        All multiplies of a problem.
    latency : int
        Latency of memory in cycles. Memory transfers one beat per cycle.

    Raises
    ------
    ProgramError
        If the schedule has no program.
    """
    core, speedup = schedule.space.core, schedule.space.problem.speedup
    return timing(core, emit(schedule).descriptors, speedup=speedup, latency=latency).cycles


def rough_cycles(schedule: Schedule) -> float:
    """Estimate the cycles of a schedule roughly, to compare it with others. No pass is skipped.

    If the schedule has only the first multiplies of a problem, the function extrapolates from their second half.
    """
    work = UnitWork(schedule)
    middle = work.sums
    for k, each in enumerate(schedule.multiplies):
        if k == len(schedule.multiplies) // 2:
            middle = work.sums.copy()
        work.add(each)
    if not work.store_cycles:  # The first tile of results has more multiplies.
        work.add_store(schedule.multiplies[-1])
    return work.cycles(work.sums.extrapolate(middle, schedule.space.total_steps))


@dataclass
class UnitSums:
    """Cycles of each unit and dense steps, up to a multiply."""

    units: dict[str, float] = field(
        default_factory=lambda: dict.fromkeys(("fetch", "load", "column", "row", "multiply", "output", "store"), 0.0)
    )
    exposed: float = 0.0
    """Cycles of loads, layouts and stores in which the tile waits, because their memory cannot be double-buffered."""
    steps: int = 0

    def copy(self) -> "UnitSums":
        """Return a copy of the sums."""
        return UnitSums(dict(self.units), self.exposed, self.steps)

    def extrapolate(self, before: "UnitSums", steps: int) -> "UnitSums":
        """Extrapolate the sums since `before` to a number of dense steps."""
        if steps <= self.steps:
            return self
        more = (steps - self.steps) / (self.steps - before.steps)
        units = {name: cycles + more * (cycles - before.units[name]) for name, cycles in self.units.items()}
        return UnitSums(units, self.exposed + more * (self.exposed - before.exposed), steps)


class UnitWork:
    """Adds up the work of all units, multiply by multiply.

    Parameters
    ----------
    schedule : Schedule
        The multiplies.
    """

    def __init__(self, schedule: Schedule) -> None:
        self.space, self.core, self.sums = schedule.space, schedule.space.core, UnitSums()
        self.buffer = {name: size for name, (_, size) in schedule.regions.items()}
        self.stream_words = {side: self.core.stream_words(key) for side, key in SIDES.items()}
        self.speedup = self.space.problem.speedup if self.core.tile.sparsity != "none" else 1.0
        self.cycles_before, self.store_cycles = 0.0, 0.0  # Before the first multiply; of the last store.
        self._layouts: dict[tuple[str, int, int, int], tuple[float, float, float]] = {}
        self._passes: dict[tuple[int, int, bool, bool], tuple[float, float]] = {}

    def add(self, each: ScheduledMultiply) -> None:
        """Add a multiply and the store after it."""
        sums, units = self.sums, self.sums.units
        passes = 1
        for side, use in each.sides.items():
            passes *= use.streams
            if use.is_loaded or use.is_laid_out:
                self._add_side(each, side)
        if not sums.steps:
            self.cycles_before = units["load"] + max(units["column"], units["row"])
        cycles, block = self._pass_cycles(each)
        units["multiply"] += passes * cycles + DESCRIPTOR_CYCLES
        units["output"] += passes * block + DESCRIPTOR_CYCLES
        units["fetch"] += FETCH_CYCLES
        sums.steps += passes * each.steps
        if each.is_stored:
            self.add_store(each)

    def _add_side(self, each: ScheduledMultiply, side: str) -> None:
        """Add the loads and the layout of a side."""
        sums, units, use = self.sums, self.sums.units, each.sides[side]
        if use.is_loaded:
            cycles = self._load_cycles(use.moves)
            units["load"] += cycles
            units["fetch"] += FETCH_CYCLES * len(use.moves)
            sums.exposed += cycles * (2 * sum(move.groups for move in use.moves) > self.buffer[side])
        if use.is_laid_out:
            cycles, lost, exposed = self._layout_cycles(side, each.multiply.phase, use.streams, each.steps)
            units[side] += cycles
            units["multiply"] += lost
            units["fetch"] += FETCH_CYCLES
            sums.exposed += exposed

    def _layout_cycles(self, side: str, phase: int, streams: int, steps: int) -> tuple[float, float, float]:
        """Return the cycles of a layout, those that a multiply loses by it, and those in which the tile waits."""
        key = side, phase, streams, steps
        if key not in self._layouts:
            core, space = self.core, self.space
            runs, stride = streams * space.parts(side), space.stride(side, phase)
            cycles = DESCRIPTOR_CYCLES + layout_cycles(core, runs, steps, stride)
            loss = layout_loss(core, self.speedup, space.write_period(side, phase))
            is_exposed = 2 * -(-steps // core.tile.window_depth) * streams > self.stream_words[side]
            self._layouts[key] = cycles, cycles * loss, cycles * is_exposed
        return self._layouts[key]

    def add_store(self, each: ScheduledMultiply) -> None:
        """Add the store of a tile of results and the load of its mask."""
        space, units, move = self.space, self.sums.units, each.tile.move
        self.store_cycles = DESCRIPTOR_CYCLES + store_cycles(self.core, move.groups, move.runs, LATENCY)
        units["store"] += self.store_cycles
        units["fetch"] += FETCH_CYCLES
        cycles = self.store_cycles
        is_resident = "result" in space.resident
        for mask in space.plan_mask_loads(each.tile) if space.problem.mask and not is_resident else []:
            loaded = self._load_cycles([mask])
            units["load"] += loaded
            units["fetch"] += FETCH_CYCLES
            cycles += loaded
        self.sums.exposed += cycles * (not is_resident and 2 * each.tile.groups > self.buffer["result"])

    def _load_cycles(self, moves: Iterable[Move]) -> float:
        return sum(
            DESCRIPTOR_CYCLES + load_cycles(self.core, move.groups, move.runs, LATENCY, is_nvfp4=move.is_nvfp4)
            for move in moves
        )

    def _pass_cycles(self, each: ScheduledMultiply) -> tuple[float, float]:
        """Return the cycles of a pass, and the output unit's cycles for its block."""
        space, problem, multiply = self.space, self.space.problem, each.multiply
        kind = each.steps, multiply.phase, multiply.is_first_chunk, multiply.is_last_chunk
        if kind in self._passes:
            return self._passes[kind]
        block = block_cycles(
            self.core,
            space.phases[multiply.phase].x.apart if problem.operation != "AxG" else 1,
            fp32=int(problem.fp32),
            transposed=int(space.position_side == "column" or problem.turned),
            mask=int(problem.mask),
            emit=int(multiply.is_last_chunk),
            add=int(not multiply.is_first_chunk),
            bias=int(problem.bias),
        )
        cycles = pass_cycles(self.core, each.steps, self.speedup) + (self.core.tile.sparsity != "none")
        self._passes[kind] = max(cycles, block), block
        return self._passes[kind]

    def cycles(self, sums: UnitSums) -> float:
        """Return the total cycles, including the loads before the first multiply and the store after the last one."""
        units = sums.units.values()
        return max(units) + sums.exposed + self.cycles_before + self.store_cycles + WAIT_SHARE * sum(units)
