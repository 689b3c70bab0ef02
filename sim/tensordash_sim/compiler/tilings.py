"""Candidate tilings, selected by size."""

from collections.abc import Iterator
from itertools import product
from math import prod

from .iteration_space import SIDES, IterationSpace
from .tiling import Tiling, fit_sizes

__all__ = ["tilings"]

CHUNK_COUNTS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 24, 32, 48, 64, 96, 128)
"""Numbers of chunks of the reduction to try."""
STREAM_COUNTS = (1, 2, 3, 4, 6, 8, 12, 16)
"""Numbers of streams of a side to try, and of elements of a small chunk."""
SET_COUNTS = ((1, 1), (2, 1), (4, 1), (8, 1), (16, 1), (1, 2), (1, 4), (2, 2), (64, 1), (64, 2), (64, 4))
"""Numbers of sets of streams in a tile of results to try: of the position side, and of the channel side."""


def tilings(space: IterationSpace) -> Iterator[Tiling]:
    """Yield tilings whose streams and partial sums fit, ordered by the number of multiplies, then of tiles.

    Operands and results may not fit; `schedule_tiling` checks that.
    """
    core, positions, channels = space.core, space.position_side, space.channel_side
    phase = max(range(len(space.phases)), key=lambda number: space.phases[number].taps)
    sizes = {side: space.dimensions(side) for side in SIDES}
    sets = {
        side: {
            fit_sizes(sizes[side], count * space.parts(side), space.parts(side)): count
            for count in reversed(STREAM_COUNTS)
        }
        for side in SIDES
    }
    tiles = {
        (side, each, count): fit_sizes(sizes[side], prod(each) * count, space.parts(side))
        for side in SIDES
        for each in sets[side]
        for count in {pair[side == channels] for pair in SET_COUNTS}
    }
    chunks = {fit_sizes(space.reduction, -(-prod(space.reduction) // k)) for k in CHUNK_COUNTS}
    chunks |= {fit_sizes(space.reduction, k) for k in STREAM_COUNTS}
    found: dict[tuple, tuple[int, int]] = {}
    for chunk in chunks:
        room = core.streamed_steps // space.steps(chunk, phase)
        chunk_count = _count_parts(space.reduction, chunk)
        for row, column in product(sets["row"], sets["column"]):
            if max(sets["row"][row], sets["column"][column]) > room:
                continue
            chosen = {"row": row, "column": column}
            multiplies = chunk_count * _count_parts(sizes["row"], row) * _count_parts(sizes["column"], column)
            for counts in SET_COUNTS:
                pair = positions, channels
                tile, other = (tiles[side, chosen[side], count] for side, count in zip(pair, counts, strict=True))
                blocks = prod(tile) * prod(other) // (space.parts("row") * space.parts("column"))
                if chunk_count == 1 or blocks <= core.partial_sums:
                    tile_count = _count_parts(sizes[positions], tile) * _count_parts(sizes[channels], other)
                    found[chunk, row, column, tile, other] = multiplies, tile_count
    for chunk, row, column, tile, other in sorted(found, key=found.__getitem__):
        yield Tiling(tiles={positions: tile, channels: other}, sets={"row": row, "column": column}, chunk=chunk)


def _count_parts(sizes: tuple[int, ...], parts: tuple[int, ...]) -> int:
    return prod(-(-size // part) for size, part in zip(sizes, parts, strict=True))
