"""Tiling search: find the blocking of a contraction that takes the fewest cycles."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import islice, product
from math import inf, prod

from .blocking import Blocking, Slots, fitting
from .contraction import Contraction
from .multiply_cycles import layout_loss
from .program import ProgramError
from .tiled_multiplies import SIDES, TiledMultiply
from .timing import timing
from .unit_cycles import LATENCY, block_cycles, load_cycles, store_cycles

__all__ = ["best_blocking", "estimate", "is_long"]

DESCRIPTOR_CYCLES = 18
"""Cycles between two descriptors of a unit."""
FETCH_CYCLES = 31
"""Cycles from one fetch of a descriptor to the next."""
WAIT_SHARE = 0.06
"""Cycles in which units wait for each other, as a share of the work of all units."""
CHUNK_COUNTS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 24, 32, 48, 64, 96, 128)
"""Numbers of chunks of the reduction to try."""
STREAM_COUNTS = (1, 2, 3, 4, 6, 8, 12, 16)
"""Numbers of streams of a side to try, and of elements of a small chunk."""
SET_COUNTS = ((1, 1), (2, 1), (4, 1), (8, 1), (16, 1), (1, 2), (1, 4), (2, 2), (64, 1), (64, 2), (64, 4))
"""Numbers of sets of streams in a tile of results to try: of the side of the positions, and of the other side."""
MAX_FITTING_TILINGS = 120
"""Tilings that fit after which the search stops."""
MAX_TILINGS = 400
"""Tilings after which the search stops if one of them fits."""
MAX_WALKED_MULTIPLIES = 32
"""Multiplies of a tiling that the rough count walks; it extrapolates the others."""
FIRST_PARTS = (3, 2, 6)
"""Numbers of parts of the first tile or chunk to try (`Blocking.begin`); the later ones only if the first one gains."""
MAX_FIRST_PART_TILINGS = 3
"""Best tilings for which a smaller first part is tried."""
MAX_ESTIMATED_TILINGS = 8
"""Best tilings by the rough count that `estimate` compares."""
MAX_ROUGH_RATIO = 1.4
"""Rough cycles over the least rough cycles up to which `estimate` compares a tiling."""
MAX_ESTIMATED_MULTIPLIES = 160
"""Multiplies of a tiling up to which `estimate` is called."""
MIN_GAIN = 1.02
"""Estimated cycles of the roughly best tiling over those of another one that replaces it."""


def best_blocking(work: Contraction) -> Blocking:
    """Find the blocking of a contraction with the fewest estimated cycles.

    Raises
    ------
    ProgramError
        If no tiling fits.
    """
    fits: list[tuple[float, Blocking]] = []
    for count, each in enumerate(_tilings(work)):
        found = _rough_cycles(work, each)
        if found < inf:
            fits.append((found, each))
        if len(fits) == MAX_FITTING_TILINGS or (fits and count >= MAX_TILINGS):
            break
    fits.sort(key=lambda pair: pair[0])
    first = next((k for k, (_, each) in enumerate(fits) if _fits_everywhere(work, each)), None)
    if first is None:
        raise ProgramError(f"{work.operation} of {work.layer} does not fit this core, however it is cut")
    least, best = fits[first]
    if is_long(work, best, MAX_ESTIMATED_MULTIPLIES):
        return best
    others = [
        each for found, each in fits[first + 1 : first + MAX_ESTIMATED_TILINGS] if found <= least * MAX_ROUGH_RATIO
    ]
    few = [
        best,
        *(
            each
            for each in others
            if not is_long(work, each, MAX_ESTIMATED_MULTIPLIES) and _fits_everywhere(work, each)
        ),
    ]
    taken = {each: estimate(work, each) for each in few}

    def weighed(each: Blocking) -> float:
        return taken[each] * (1 if replace(each, begin=1) == best else MIN_GAIN)

    for each in sorted(few, key=weighed)[:MAX_FIRST_PART_TILINGS]:
        finer = replace(each, begin=FIRST_PARTS[0])
        taken[finer] = estimate(work, finer)
    chosen = min(taken, key=weighed)
    if chosen.begin > 1:
        taken |= {finer: estimate(work, finer) for finer in (replace(chosen, begin=begin) for begin in FIRST_PARTS[1:])}
        chosen = min(taken, key=weighed)
    return chosen


def _fits_everywhere(work: Contraction, blocking: Blocking) -> bool:
    """Whether the loads of every tile fit. The first tiles are at an edge and may be smaller than the others."""
    rooms, seen = work.rooms(blocking), set()
    for each in work.multiplies(blocking):
        if each.product:
            break  # All products have the same shapes.
        for side in SIDES:
            wanted = side, each.tiles[side], each.spans[side], each.phase
            if wanted not in seen:
                seen.add(wanted)
                if sum(move.groups for move in work.moves(each, side)) > rooms[side][1]:
                    return False
    return True


def is_long(work: Contraction, blocking: Blocking, most: int) -> bool:
    """Whether a tiling has more than `most` multiplies; walks no more than those."""
    return len(list(islice(work.multiplies(blocking), most + 1))) > most


def estimate(work: Contraction, blocking: Blocking, *, latency: int = LATENCY) -> int:
    """Estimate the cycles of a contraction with a blocking.

    Makes the program and adds up cycles descriptor by descriptor (`timing`). `Contraction.speedup` is the tile's gain.

    Parameters
    ----------
    work, blocking
        The contraction and its blocking.
    latency : int
        Cycles of latency of memory, which transfers a beat a cycle.

    Raises
    ------
    ProgramError
        If the blocking does not fit the core.
    """
    return timing(work.config, work.program(blocking).descriptors, speedup=work.speedup, latency=latency).cycles


@dataclass
class _Sums:
    """Cycles of each unit up to a multiply, and dense steps until then."""

    units: dict[str, float] = field(
        default_factory=lambda: dict.fromkeys(("fetch", "load", "column", "row", "multiply", "output", "store"), 0.0)
    )
    alone: float = 0.0  # While the tile waits, as the memory holds only one of them.
    steps: int = 0

    def ahead(self, before: "_Sums", steps: int) -> "_Sums":
        """Extrapolate the sums since `before` to a number of dense steps."""
        if steps <= self.steps:
            return self
        more = (steps - self.steps) / (self.steps - before.steps)
        units = {name: sum_ + more * (sum_ - before.units[name]) for name, sum_ in self.units.items()}
        return _Sums(units, self.alone + more * (self.alone - before.alone), steps)


class _Walker:
    """Adds up the work of all units, multiply by multiply."""

    def __init__(self, work: Contraction, blocking: Blocking) -> None:
        config = work.config
        self.buffer = {name: size for name, (_, size) in work.rooms(blocking).items()}
        self.work, self.sums = work, _Sums()
        self.rooms = {side: config.stream_words(key) for side, key in SIDES.items()}
        self.held = {side: Slots(0, self.buffer[side], "a part of the buffer") for side in SIDES}
        self.laid = {side: Slots(0, room, "a stream buffer") for side, room in self.rooms.items()}
        self.speedup = work.speedup if config.tile.sparsity != "none" else 1.0
        self.first, self.stored = inf, 0.0  # Cycles until the first multiply, and of the last store.

    def add(self, each: TiledMultiply) -> None:
        """Add the next multiply.

        Raises
        ------
        ProgramError
            If its loads, streams or partial sums do not fit.
        """
        work, sums, units = self.work, self.sums, self.sums.units
        config, phase = work.config, work.phases[each.phase]
        chunk = tuple(stop - start for start, stop in each.chunk)
        steps = work.steps(chunk, each.phase) if phase.taps else 1
        words, passes = -(-steps // config.tile.window_depth), 1
        for side, room in self.rooms.items():
            moves, count = work.moves(each, side), work.streams(side, each.sets[side])
            groups = sum(move.groups for move in moves)
            passes *= count
            if self.held[side].place(work.loaded(each, side), groups)[1]:
                taken = sum(DESCRIPTOR_CYCLES + load_cycles(config, move.groups, move.runs, LATENCY) for move in moves)
                units["load"] += taken
                units["fetch"] += FETCH_CYCLES * len(moves)
                sums.alone += taken * (2 * groups > self.buffer[side])
            if self.laid[side].place(each.laid(side), words * count)[1]:
                taken = DESCRIPTOR_CYCLES + work.laying(each, side)
                units[side] += taken
                units["multiply"] += taken * layout_loss(config, self.speedup, work.write_period(each, side))
                units["fetch"] += FETCH_CYCLES
                sums.alone += taken * (2 * words * count > room)
        if not (each.first and each.final) and each.partial + passes > config.partial_sums:
            raise ProgramError(f"there are {config.partial_sums} partial sums, not {each.partial + passes}")
        self.first = min(self.first, units["load"] + max(units["column"], units["row"]))
        apart = phase.x.apart if work.operation != "AxG" else 1
        flags = {"fp32": work.fp32, "mask": work.masked, "emit": each.final, "add": not each.first, "bias": work.biased}
        flags["transposed"] = work.placed == "column" or work.turned
        block = block_cycles(config, apart, **{name: int(flag) for name, flag in flags.items()})
        taken = max(words, steps / self.speedup) + (config.tile.sparsity != "none")
        units["multiply"] += passes * max(taken, block) + DESCRIPTOR_CYCLES
        units["output"] += passes * block + DESCRIPTOR_CYCLES
        units["fetch"] += FETCH_CYCLES
        sums.steps += passes * steps
        if each.last:
            self._store(each)

    def _store(self, each: TiledMultiply) -> None:
        """Add the store of a tile of results, and the load of its mask."""
        work, units = self.work, self.sums.units
        made = work.stored(each.tiles)
        self.stored = DESCRIPTOR_CYCLES + store_cycles(work.config, made.move.groups, made.move.runs, LATENCY)
        units["store"] += self.stored
        units["fetch"] += FETCH_CYCLES
        taken = self.stored
        for move in work.mask(made) if work.masked else []:
            loaded = DESCRIPTOR_CYCLES + load_cycles(work.config, move.groups, move.runs, LATENCY)
            units["load"] += loaded
            units["fetch"] += FETCH_CYCLES
            taken += loaded
        self.sums.alone += taken * (2 * made.groups > self.buffer["result"])

    def cycles(self, sums: _Sums) -> float:
        """Return all cycles, with the loads before the first multiply and the store after the last one."""
        units = sums.units.values()
        return max(units) + sums.alone + self.first + self.stored + WAIT_SHARE * sum(units)


def _rough_cycles(work: Contraction, blocking: Blocking) -> float:
    """Count the cycles of a tiling roughly, to compare it with others; infinite if it does not fit.

    Walks the first multiplies, and extrapolates the others from the second half of those.
    """
    walker = _Walker(work, blocking)
    half = None
    try:
        for k, each in enumerate(islice(work.multiplies(blocking), MAX_WALKED_MULTIPLIES)):
            if k == 0 and work.stored(each.tiles).groups > walker.buffer["result"]:
                return inf
            walker.add(each)
            if k == MAX_WALKED_MULTIPLIES // 2 - 1:
                sums = walker.sums
                half = _Sums(dict(sums.units), sums.alone, sums.steps)
        if not walker.stored:  # The walk ended within the first tile.
            walker._store(each)
    except ProgramError:
        return inf
    return walker.cycles(walker.sums.ahead(half, _steps(work)) if half else walker.sums)


def _steps(work: Contraction) -> int:
    """Count the dense steps of all passes."""
    total = 0
    for number, phase in enumerate(work.phases[:1] if work.operation == "AxG" else work.phases):
        passes = prod(prod(work.dimensions(side, number)) // work.parts(side) for side in SIDES)
        total += passes * (work.steps(work.reduction, number) if phase.taps else 1)
    return total * work.layer.products


def _tilings(work: Contraction) -> Iterator[Blocking]:
    """Yield tilings, ordered by the number of multiplies, then by the number of tiles."""
    phase = max(range(len(work.phases)), key=lambda number: work.phases[number].taps)
    sizes = {side: work.dimensions(side) for side in SIDES}
    sets = {
        side: {
            fitting(sizes[side], count * work.parts(side), work.parts(side)): count for count in reversed(STREAM_COUNTS)
        }
        for side in SIDES
    }
    tiles = {
        (side, each, count): fitting(sizes[side], prod(each) * count, work.parts(side))
        for side in SIDES
        for each in sets[side]
        for count in {pair[side == work.other] for pair in SET_COUNTS}
    }
    chunks = {fitting(work.reduction, -(-prod(work.reduction) // k)) for k in CHUNK_COUNTS}
    chunks |= {fitting(work.reduction, k) for k in STREAM_COUNTS}
    found: dict[tuple, tuple[int, int]] = {}
    for chunk in chunks:
        room = work.config.streamed_steps // work.steps(chunk, phase)
        cut = _pieces(work.reduction, chunk)
        for row, column in product(sets["row"], sets["column"]):
            if max(sets["row"][row], sets["column"][column]) > room:
                continue
            chosen = {"row": row, "column": column}
            multiplies = cut * _pieces(sizes["row"], row) * _pieces(sizes["column"], column)
            for times in SET_COUNTS:
                placed, other = (
                    tiles[side, chosen[side], count]
                    for side, count in zip((work.placed, work.other), times, strict=True)
                )
                blocks = prod(placed) * prod(other) // (work.parts("row") * work.parts("column"))
                if cut == 1 or blocks <= work.config.partial_sums:
                    pieces = _pieces(sizes[work.placed], placed) * _pieces(sizes[work.other], other)
                    found[chunk, row, column, placed, other] = multiplies, pieces
    for chunk, row, column, placed, other in sorted(found, key=found.__getitem__):
        yield Blocking(tiles={work.placed: placed, work.other: other}, sets={"row": row, "column": column}, chunk=chunk)


def _pieces(sizes: tuple[int, ...], parts: tuple[int, ...]) -> int:
    """Count the parts of a box."""
    return prod(-(-size // part) for size, part in zip(sizes, parts, strict=True))
