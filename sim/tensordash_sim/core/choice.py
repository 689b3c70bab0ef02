"""Which way to cut a contraction takes the fewest cycles."""

from itertools import product
from math import inf, prod

from .blocking import Blocking, Slots, fitting
from .contraction import Contraction
from .operands import size_of
from .program import ProgramError

__all__ = ["best_blocking", "estimate"]

AROUND, LATENCY = 24, 60
"""Cycles between two multiplies, and of a load before its first group."""
CHUNKS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 24, 32, 48, 64, 96, 128)
STREAMS = (1, 2, 3, 4, 6, 8, 12, 16)
TIMES = ((1, 1), (2, 1), (4, 1), (8, 1), (16, 1), (1, 2), (1, 4), (2, 2), (64, 1), (64, 2), (64, 4))
"""In how many chunks, with how many streams of a side, and with how many sets of either side it is tried."""
TRIED = 120
"""Ways to cut it that fit and are compared."""


def best_blocking(work: Contraction) -> Blocking:
    """The way to cut a contraction that is thought to take the fewest cycles.

    Raises
    ------
    ProgramError
        If none fits.
    """
    best, least, tried = None, inf, 0
    for each in _candidates(work):
        found = estimate(work, each)
        tried += found < inf
        if found < least:
            best, least = each, found
        if tried == TRIED:
            break
    if best is None:
        raise ProgramError(f"{work.operation} of {work.layer} does not fit this core, however it is cut")
    return best


def estimate(work: Contraction, blocking: Blocking) -> float:
    """Cycles of a contraction that is cut so, as far as they can be said beforehand; infinite if it does not fit."""
    config = work.config
    region = work.region
    rooms = {"column": config.stream_words("a"), "row": config.stream_words("b")}
    held = {side: Slots(0, region, "a region") for side in rooms}
    laid = {side: Slots(0, room, "a stream buffer") for side, room in rooms.items()}
    cycles = dict.fromkeys(("load", "column", "row", "multiply", "store"), 0.0)
    alone = stored = 0.0  # while the tile waits, as there is room for one only
    first = inf
    speedup = work.speedup if config.tile.sparsity != "none" else 1.0
    beat = config.group_bits / config.axi_bits
    try:
        for each in work.rounds(blocking):
            steps = work.steps(tuple(stop - start for start, stop in each.chunk), each.phase)
            words, passes = -(-steps // config.tile.window_depth), 1
            for side, room in rooms.items():
                moves, count = work.moves(each, side), work.streams(side, each.sets[side])
                groups = sum(move.groups for move in moves)
                passes *= count
                if held[side].place(work.loaded(each, side), groups)[1]:
                    taken = sum(move.groups * beat + move.runs + LATENCY for move in moves)
                    cycles["load"] += taken
                    alone += taken * (2 * groups > region)
                if laid[side].place(each.laid(side), words * count)[1]:
                    taken = steps * size_of(each.sets[side])
                    cycles[side] += taken
                    alone += taken * (2 * words * count > room)
            if not (each.first and each.final) and each.partial + passes > config.partial_sums:
                return inf
            first = min(first, cycles["load"] + max(cycles["column"], cycles["row"]))
            cycles["multiply"] += passes * max(steps / speedup + 1, config.tile.rows + 1) + AROUND
            if each.last:
                made = work.stored(each.tiles)
                if made.groups > region:
                    return inf
                stored = made.move.groups * beat + made.move.runs + LATENCY
                cycles["store"] += stored
                alone += stored * (2 * made.groups > region)
    except ProgramError:
        return inf
    # The first multiply's data come before it, the last one's results leave after it.
    return max(cycles.values()) + alone + first + stored + 0.02 * sum(cycles.values())


def _candidates(work: Contraction) -> list[Blocking]:
    """Ways to cut it, those with the fewest multiplies first."""
    phase = max(range(len(work.phases)), key=lambda number: work.phases[number].taps)
    sizes = {side: work.dimensions(side) for side in ("row", "column")}
    found: dict[Blocking, int] = {}
    for chunk in sorted({fitting(work.reduction, -(-prod(work.reduction) // k)) for k in CHUNKS}):
        room = work.config.streamed_steps // work.steps(chunk, phase)
        for row, column in product(STREAMS, STREAMS):
            if max(row, column) > room:
                continue
            sets = {
                side: fitting(sizes[side], count * work.parts(side), work.parts(side))
                for side, count in (("row", row), ("column", column))
            }
            for times in TIMES:
                tiles = {
                    side: fitting(sizes[side], prod(sets[side]) * count, work.parts(side))
                    for side, count in zip((work.placed, work.other), times, strict=True)
                }
                made = Blocking(tiles=tiles, sets=sets, chunk=chunk)
                cut = [(work.reduction, chunk), *((sizes[side], sets[side]) for side in sizes)]
                found[made] = prod(-(-size // part) for one in cut for size, part in zip(*one, strict=True))
    return sorted(found, key=found.__getitem__)
