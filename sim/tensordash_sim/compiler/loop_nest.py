"""The loop nest of a tiled problem: its multiplies in order, with the tiles, streams and loads of each."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from .iteration_space import SIDES, IterationSpace
from .operands import Box, Move, size_of
from .tiling import Tiling, growing_spans, split, split_first
from .unit_cycles import LATENCY, load_cycles

__all__ = ["TiledMultiply", "tiled_multiplies"]

MAX_SPLIT_LOAD_RATIO = 1.1
"""Chunks are loaded one by one if that takes less than this many times the cycles of one load of all chunks."""


class TiledMultiply(NamedTuple):
    """One multiply and its operands; the mappings are by side, "row" and "column".

    Attributes
    ----------
    product : int
        Number of the product.
    tiles, sets : mapping of str to Box
        The tile of results, and the streams of this multiply.
    streams : mapping of str to int
        Number of these streams.
    spans : mapping of str to Box
        The part of the reduction that is loaded together.
    chunk : Box
        The part of the reduction that this multiply adds up.
    phase : int
        Number of the phase.
    is_first_chunk, is_last_chunk : bool
        Whether it is the first chunk of the reduction, and the last chunk, which completes the results.
    partial : int
        Index of the first block among the partial sums.
    is_last : bool
        Whether it is the last multiply of its tile of results.
    """

    product: int
    tiles: Mapping[str, Box]
    sets: Mapping[str, Box]
    streams: Mapping[str, int]
    spans: Mapping[str, Box]
    chunk: Box
    phase: int
    is_first_chunk: bool
    is_last_chunk: bool
    partial: int
    is_last: bool

    def streams_key(self, side: str) -> tuple:
        """Return a key that is equal for multiplies with the same streams."""
        return self.product, self.tiles[side], self.phase, self.chunk, self.sets[side]


def tiled_multiplies(space: IterationSpace, tiling: Tiling, regions: Mapping[str, int]) -> Iterator[TiledMultiply]:
    """Yield all multiplies in order: products, tiles of results, phases, chunks of the reduction, sets of streams.

    The first tile of results is smaller (`Tiling.first_parts`) if the reduction has one chunk. The first chunk is
    smaller if there is one tile.

    Parameters
    ----------
    space : IterationSpace
        The problem.
    tiling : Tiling
        Its tiling.
    regions : mapping of str to int
        Groups of the buffer for the operand of each side.
    """
    nest = _LoopNest(space, tiling, regions)
    positions, channels = space.position_side, space.channel_side
    is_first = True
    for product in range(space.problem.layer.products):
        for box in split(nest.boxes[positions], tiling.tiles[positions]):
            parts = [box]
            if is_first and len(nest.chunks) == 1:
                parts = split_first(box, tiling.first_parts, space.parts(positions))
            for other in split(nest.boxes[channels], tiling.tiles[channels]):
                for part in parts:
                    yield from nest.walk_tile(product, {positions: part, channels: other})
                is_first, parts = False, [box]


class _LoopNest:
    """Loops of a problem with a tiling, over tiles of results."""

    def __init__(self, space: IterationSpace, tiling: Tiling, regions: Mapping[str, int]) -> None:
        self.space, self.tiling, self.regions = space, tiling, regions
        self.sizes = [{side: space.dimensions(side, phase) for side in SIDES} for phase in range(len(space.phases))]
        self.boxes: dict[str, Box] = {side: tuple((0, size) for size in self.sizes[0][side]) for side in SIDES}
        self.chunks = list(split(space.full_reduction, tiling.chunk))
        one = all(next(split(box, tiling.tiles[side])) == box for side, box in self.boxes.items())
        if one and space.problem.layer.products == 1 and len(self.chunks) > 1:
            self.chunks[:1] = split_first(self.chunks[0], tiling.first_parts)
        self.growing = growing_spans(self.chunks) if tiling.first_parts > 1 else []
        self._sides: dict[tuple[str, Box, int], tuple[Sequence[Box], list[tuple[Box, int]]]] = {}

    def walk_tile(self, product: int, tiles: dict[str, Box]) -> Iterator[TiledMultiply]:
        """Yield the multiplies of a tile of results."""
        parts = [(number, part) for number in range(len(self.space.phases)) if (part := self._part(tiles, number))]
        for number, part in parts:
            yield from self._walk_phase(product, tiles, part, number, is_last_phase=number == parts[-1][0])

    def _part(self, tiles: dict[str, Box], phase: int) -> dict[str, Box]:
        """Return a phase's part of a tile; empty if the phase has none."""
        if len(self.sizes) == 1:
            return tiles
        boxes = {
            side: tuple(
                (start, min(stop, size))
                for (start, stop), size in zip(tiles[side], self.sizes[phase][side], strict=True)
            )
            for side in SIDES
        }
        return {} if any(start >= stop for box in boxes.values() for start, stop in box) else boxes

    def _walk_phase(
        self, product: int, tiles: dict[str, Box], part: dict[str, Box], number: int, *, is_last_phase: bool
    ) -> Iterator[TiledMultiply]:
        chunks = self._chunks(number)
        (column_spans, columns), (row_spans, rows) = (
            self._side(side, tiles[side], part[side], number) for side in ("column", "row")
        )
        for c, chunk in enumerate(chunks):
            loaded = {"column": column_spans[c], "row": row_spans[c]}
            is_first, is_last = c == 0, c == len(chunks) - 1
            partial = 0
            for column, column_streams in columns:
                for row, row_streams in rows:
                    sets = {"column": column, "row": row}
                    streams = {"column": column_streams, "row": row_streams}
                    end = is_last_phase and is_last and column is columns[-1][0] and row is rows[-1][0]
                    yield TiledMultiply(
                        product, tiles, sets, streams, loaded, chunk, number, is_first, is_last, partial, end
                    )
                    partial += row_streams * column_streams

    def _chunks(self, phase: int) -> list[Box]:
        return self.chunks if self.space.phases[phase].taps else [tuple((0, 1) for _ in self.space.full_reduction)]

    def _side(self, side: str, tile: Box, part: Box, phase: int) -> tuple[Sequence[Box], list[tuple[Box, int]]]:
        """Return `_spans` of a side's tile, and the sets of a part, each with its number of streams."""
        key = side, tile, phase
        if key not in self._sides:
            sets = [(box, self.space.streams(side, box)) for box in split(part, self.tiling.sets[side])]
            self._sides[key] = self._spans(side, tile, phase, self._chunks(phase)), sets
        return self._sides[key]

    def _spans(self, side: str, tile: Box, phase: int, chunks: Sequence[Box]) -> Sequence[Box]:
        """Return the part of the reduction to load for each chunk: the full reduction if it fits, else the chunk.

        If all chunks fit separately, they are loaded one by one, so that multiplying begins earlier. If that takes too
        many cycles, some chunks are loaded together.
        """
        room, count = self.regions[side], len(chunks)
        if chunks == [self.space.full_reduction]:
            return chunks
        full, one = (
            self.space.plan_loads(side, tile, span, phase)
            for span in (self.space.full_reduction, max(chunks[:2], key=size_of))
        )
        if _groups(full) > room:
            return chunks
        if count * _groups(one) <= room and count * self._cycles(one) < MAX_SPLIT_LOAD_RATIO * self._cycles(full):
            return chunks
        if self.growing and count == len(self.growing):
            pieces = (self.space.plan_loads(side, tile, span, phase) for span in dict.fromkeys(self.growing))
            if sum(map(_groups, pieces)) <= room:
                return self.growing
        return [self.space.full_reduction] * count

    def _cycles(self, moves: list[Move]) -> float:
        """Add up the cycles of loads."""
        core = self.space.core
        return sum(load_cycles(core, move.groups, move.runs, LATENCY, is_nvfp4=move.is_nvfp4) for move in moves)


def _groups(moves: list[Move]) -> int:
    return sum(move.groups for move in moves)
