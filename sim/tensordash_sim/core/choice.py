"""Which way to cut a contraction takes the fewest cycles."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import islice, product
from math import inf, prod

from .blocking import Blocking, Slots, fitting
from .contraction import Contraction
from .multiply_cycles import layout_loss
from .program import ProgramError
from .rounds import SIDES, Round
from .timing import timing
from .unit_cycles import LATENCY, block_cycles, load_cycles, store_cycles

__all__ = ["best_blocking", "estimate", "is_long"]

BETWEEN, FETCH = 18, 31
"""Cycles between two descriptors of a unit, and from one fetch to the next."""
WAITS = 0.06
"""Of the work of all units, what they wait for each other."""
CHUNKS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 24, 32, 48, 64, 96, 128)
STREAMS = (1, 2, 3, 4, 6, 8, 12, 16)
TIMES = ((1, 1), (2, 1), (4, 1), (8, 1), (16, 1), (1, 2), (1, 4), (2, 2), (64, 1), (64, 2), (64, 4))
"""In how many chunks (or of how few steps), with how many streams of a side, and with how many sets of either side it
is tried."""
TRIED, LOOKED, WALKED = 120, 400, 32
"""Ways to cut it that fit and are compared, those that are looked at, and multiplies of each."""
BEGINS, BEGUN = (3, 2, 6), 3
"""Parts of what comes first of which one may come alone: with so many of the best it is tried, the other numbers if the
first one is worth it."""
CLOSE, ALIKE, FEW, SURE = 8, 1.4, 160, 1.02
"""So many of the best that differ by less are told apart by `estimate`, if they have no more multiplies than that; the
first one stays unless another is better by more."""


def best_blocking(work: Contraction) -> Blocking:
    """The way to cut a contraction that is thought to take the fewest cycles.

    Raises
    ------
    ProgramError
        If none fits.
    """
    fits: list[tuple[float, Blocking]] = []
    for looked, each in enumerate(_candidates(work)):
        found = _rough(work, each)
        if found < inf:
            fits.append((found, each))
        if len(fits) == TRIED or (fits and looked >= LOOKED):
            break
    fits.sort(key=lambda pair: pair[0])
    first = next((k for k, (_, each) in enumerate(fits) if _all_fits(work, each)), None)
    if first is None:
        raise ProgramError(f"{work.operation} of {work.layer} does not fit this core, however it is cut")
    least, best = fits[first]
    if is_long(work, best, FEW):
        return best
    others = [each for found, each in fits[first + 1 : first + CLOSE] if found <= least * ALIKE]
    few = [best, *(each for each in others if not is_long(work, each, FEW) and _all_fits(work, each))]
    taken = {each: estimate(work, each) for each in few}

    def weighed(each: Blocking) -> float:
        return taken[each] * (1 if replace(each, begin=1) == best else SURE)

    for each in sorted(few, key=weighed)[:BEGUN]:
        finer = replace(each, begin=BEGINS[0])
        taken[finer] = estimate(work, finer)
    chosen = min(taken, key=weighed)
    if chosen.begin > 1:
        taken |= {finer: estimate(work, finer) for finer in (replace(chosen, begin=begin) for begin in BEGINS[1:])}
        chosen = min(taken, key=weighed)
    return chosen


def _all_fits(work: Contraction, blocking: Blocking) -> bool:
    """Whether everything that is loaded fits: tiles at an edge, which are looked at first, may be the smaller ones."""
    rooms, seen = work.rooms(blocking), set()
    for each in work.rounds(blocking):
        if each.product:
            break  # all products are alike
        for side in SIDES:
            wanted = side, each.tiles[side], each.spans[side], each.phase
            if wanted not in seen:
                seen.add(wanted)
                if sum(move.groups for move in work.moves(each, side)) > rooms[side][1]:
                    return False
    return True


def is_long(work: Contraction, blocking: Blocking, most: int) -> bool:
    """Whether there are more multiplies than `most`; no more than those are looked at."""
    return len(list(islice(work.rounds(blocking), most + 1))) > most


def estimate(work: Contraction, blocking: Blocking, *, latency: int = LATENCY) -> int:
    """Cycles of a contraction that is cut so, as far as they can be said beforehand.

    The program is made, and gone through descriptor by descriptor (`timing`); `Contraction.speedup` says what the tile
    gains.

    Parameters
    ----------
    work, blocking
        What is done, and how it is cut.
    latency : int
        Of memory, which gives and takes a beat a cycle.

    Raises
    ------
    ProgramError
        If it does not fit.
    """
    return timing(work.config, work.program(blocking).descriptors, speedup=work.speedup, latency=latency).cycles


@dataclass
class _Sums:
    """Cycles of each unit up to a multiply, and dense steps until then."""

    units: dict[str, float] = field(
        default_factory=lambda: dict.fromkeys(("fetch", "load", "column", "row", "multiply", "output", "store"), 0.0)
    )
    alone: float = 0.0  # while the tile waits, as there is room for one only
    steps: int = 0

    def ahead(self, before: "_Sums", steps: int) -> "_Sums":
        """After so many dense steps, if it goes on as it has since `before`."""
        if steps <= self.steps:
            return self
        more = (steps - self.steps) / (self.steps - before.steps)
        units = {name: sum_ + more * (sum_ - before.units[name]) for name, sum_ in self.units.items()}
        return _Sums(units, self.alone + more * (self.alone - before.alone), steps)


class _Walker:
    """What the units have to do for one multiply after the other."""

    def __init__(self, work: Contraction, blocking: Blocking) -> None:
        config = work.config
        self.buffer = {name: size for name, (_, size) in work.rooms(blocking).items()}
        self.work, self.sums = work, _Sums()
        self.rooms = {side: config.stream_words(key) for side, key in SIDES.items()}
        self.held = {side: Slots(0, self.buffer[side], "a part of the buffer") for side in SIDES}
        self.laid = {side: Slots(0, room, "a stream buffer") for side, room in self.rooms.items()}
        self.speedup = work.speedup if config.tile.sparsity != "none" else 1.0
        self.first, self.stored = inf, 0.0  # until the first multiply, and of the last store

    def add(self, each: Round) -> None:
        """The next multiply.

        Raises
        ------
        ProgramError
            If something does not fit.
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
                taken = sum(BETWEEN + load_cycles(config, move.groups, move.runs, LATENCY) for move in moves)
                units["load"] += taken
                units["fetch"] += FETCH * len(moves)
                sums.alone += taken * (2 * groups > self.buffer[side])
            if self.laid[side].place(each.laid(side), words * count)[1]:
                taken = BETWEEN + work.laying(each, side)
                units[side] += taken
                units["multiply"] += taken * layout_loss(config, self.speedup, work.write_period(each, side))
                units["fetch"] += FETCH
                sums.alone += taken * (2 * words * count > room)
        if not (each.first and each.final) and each.partial + passes > config.partial_sums:
            raise ProgramError(f"there are {config.partial_sums} partial sums, not {each.partial + passes}")
        self.first = min(self.first, units["load"] + max(units["column"], units["row"]))
        apart = phase.x.apart if work.operation != "AxG" else 1
        flags = {"fp32": work.fp32, "mask": work.masked, "emit": each.final, "add": not each.first, "bias": work.biased}
        flags["transposed"] = work.placed == "column" or work.turned
        block = block_cycles(config, apart, **{name: int(flag) for name, flag in flags.items()})
        taken = max(words, steps / self.speedup) + (config.tile.sparsity != "none")
        units["multiply"] += passes * max(taken, block) + BETWEEN
        units["output"] += passes * block + BETWEEN
        units["fetch"] += FETCH
        sums.steps += passes * steps
        if each.last:
            self._store(each)

    def _store(self, each: Round) -> None:
        """A tile of results, and the mask that has come before it."""
        work, units = self.work, self.sums.units
        made = work.stored(each.tiles)
        self.stored = BETWEEN + store_cycles(work.config, made.move.groups, made.move.runs, LATENCY)
        units["store"] += self.stored
        units["fetch"] += FETCH
        taken = self.stored
        for move in work.mask(made) if work.masked else []:
            loaded = BETWEEN + load_cycles(work.config, move.groups, move.runs, LATENCY)
            units["load"] += loaded
            units["fetch"] += FETCH
            taken += loaded
        self.sums.alone += taken * (2 * made.groups > self.buffer["result"])

    def cycles(self, sums: _Sums) -> float:
        """Of all of it: the first multiply's data come before it, the last one's results leave after it."""
        units = sums.units.values()
        return max(units) + sums.alone + self.first + self.stored + WAITS * sum(units)


def _rough(work: Contraction, blocking: Blocking) -> float:
    """Cycles of a contraction that is cut so, to compare it with others; infinite if it does not fit.

    Of many multiplies the first ones are looked at; the others are thought to go on as the second half of them.
    """
    walker = _Walker(work, blocking)
    half = None
    try:
        for k, each in enumerate(islice(work.rounds(blocking), WALKED)):
            if k == 0 and work.stored(each.tiles).groups > walker.buffer["result"]:
                return inf
            walker.add(each)
            if k == WALKED // 2 - 1:
                sums = walker.sums
                half = _Sums(dict(sums.units), sums.alone, sums.steps)
        if not walker.stored:  # the first tile was not finished
            walker._store(each)
    except ProgramError:
        return inf
    return walker.cycles(walker.sums.ahead(half, _steps(work)) if half else walker.sums)


def _steps(work: Contraction) -> int:
    """Dense steps of all passes."""
    total = 0
    for number, phase in enumerate(work.phases[:1] if work.operation == "AxG" else work.phases):
        passes = prod(prod(work.dimensions(side, number)) // work.parts(side) for side in SIDES)
        total += passes * (work.steps(work.reduction, number) if phase.taps else 1)
    return total * work.layer.products


def _candidates(work: Contraction) -> Iterator[Blocking]:
    """Ways to cut it, those with the fewest multiplies first, and of those with the fewest tiles."""
    phase = max(range(len(work.phases)), key=lambda number: work.phases[number].taps)
    sizes = {side: work.dimensions(side) for side in SIDES}
    sets = {
        side: {fitting(sizes[side], count * work.parts(side), work.parts(side)): count for count in reversed(STREAMS)}
        for side in SIDES
    }
    tiles = {
        (side, each, count): fitting(sizes[side], prod(each) * count, work.parts(side))
        for side in SIDES
        for each in sets[side]
        for count in {pair[side == work.other] for pair in TIMES}
    }
    chunks = {fitting(work.reduction, -(-prod(work.reduction) // k)) for k in CHUNKS}
    chunks |= {fitting(work.reduction, k) for k in STREAMS}
    found: dict[tuple, tuple[int, int]] = {}
    for chunk in chunks:
        room = work.config.streamed_steps // work.steps(chunk, phase)
        cut = _pieces(work.reduction, chunk)
        for row, column in product(sets["row"], sets["column"]):
            if max(sets["row"][row], sets["column"][column]) > room:
                continue
            chosen = {"row": row, "column": column}
            multiplies = cut * _pieces(sizes["row"], row) * _pieces(sizes["column"], column)
            for times in TIMES:
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
    """Into how many something is cut."""
    return prod(-(-size // part) for size, part in zip(sizes, parts, strict=True))
