"""The multiplies of a tiled contraction in order, with the tiles, streams and loads that each needs."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .blocking import Blocking, begun, growing, split
from .operands import Box, Move, size_of
from .unit_cycles import LATENCY, load_cycles

__all__ = ["SIDES", "TiledMultiply", "tiled_multiplies"]

SIDES = {"column": "a", "row": "b"}
APART = 1.1
"""Cycles of loading chunks one by one, over those of one load of all, below which they are loaded one by one."""


@dataclass(frozen=True, kw_only=True)
class TiledMultiply:
    """One multiply and its operands; the mappings are by side, "row" and "column".

    Parameters
    ----------
    product : int
        Number of the product.
    tiles, sets : mapping of str to Box
        The tile of results, and the streams of this multiply.
    spans : mapping of str to Box
        The part of the reduction that one load brings.
    chunk : Box
        The part of the reduction that this multiply adds up.
    phase : int
        Number of the phase.
    first, final : bool
        Whether it is the first chunk of the reduction, and the last one, which makes results.
    partial : int
        Index of the first block among the partial sums.
    last : bool
        Whether it is the last multiply of its tile of results.
    """

    product: int
    tiles: Mapping[str, Box]
    sets: Mapping[str, Box]
    spans: Mapping[str, Box]
    chunk: Box
    phase: int
    first: bool
    final: bool
    partial: int
    last: bool

    def laid(self, side: str) -> tuple:
        """Return a key: equal for two multiplies that need the same streams."""
        return self.product, self.tiles[side], self.phase, self.chunk, self.sets[side]


def tiled_multiplies(work: Any, blocking: Blocking) -> Iterator[TiledMultiply]:
    """Yield all multiplies in order: products, tiles of results, phases, chunks of the reduction, sets of streams.

    The first tile of results is smaller (`Blocking.begin`) if the reduction has one chunk. The first chunk is smaller
    if there is one tile.

    Parameters
    ----------
    work : Contraction
        The contraction.
    blocking : Blocking
        Its tiling.
    """
    tiled = _TiledContraction(work, blocking)
    first = True
    for product in range(work.layer.products):
        for placed in split(tiled.boxes[work.placed], blocking.tiles[work.placed]):
            parts = [placed]
            if first and len(tiled.chunks) == 1:
                parts = begun(placed, blocking.begin, work.parts(work.placed))
            for other in split(tiled.boxes[work.other], blocking.tiles[work.other]):
                for part in parts:
                    todo = tiled.tile({work.placed: part, work.other: other})
                    each = next(todo)
                    for after in todo:
                        yield TiledMultiply(**each, product=product, last=False)
                        each = after
                    yield TiledMultiply(**each, product=product, last=True)
                first, parts = False, [placed]


class _TiledContraction:
    """A contraction with a tiling, tile after tile of results."""

    def __init__(self, work: Any, blocking: Blocking) -> None:
        self.work, self.blocking = work, blocking
        self.rooms = {side: size for side, (_, size) in work.rooms(blocking).items()}
        self.boxes: dict[str, Box] = {side: tuple((0, size) for size in work.dimensions(side)) for side in SIDES}
        self.chunks = list(split(work.full_reduction, blocking.chunk))
        one = all(next(split(box, blocking.tiles[side])) == box for side, box in self.boxes.items())
        if one and work.layer.products == 1 and len(self.chunks) > 1:
            self.chunks[:1] = begun(self.chunks[0], blocking.begin)
        self.grown = growing(self.chunks) if blocking.begin > 1 else []

    def tile(self, tiles: dict[str, Box]) -> Iterator[dict[str, Any]]:
        """Yield the fields of `TiledMultiply` for each multiply of a tile of results, but for the product."""
        work = self.work
        for number, phase in enumerate(work.phases[:1] if work.operation == "AxG" else work.phases):
            # The part of the tile that this phase has.
            here = {
                side: tuple(
                    (start, min(stop, size))
                    for (start, stop), size in zip(tiles[side], work.dimensions(side, number), strict=True)
                )
                for side in tiles
            }
            if any(start >= stop for box in here.values() for start, stop in box):
                continue
            chunks = self.chunks if phase.taps else [tuple((0, 1) for _ in work.full_reduction)]
            spans = {side: self._spans(side, tiles[side], number, chunks) for side in tiles}
            for c, chunk in enumerate(chunks):
                partial = 0
                for column in split(here["column"], self.blocking.sets["column"]):
                    for row in split(here["row"], self.blocking.sets["row"]):
                        yield {
                            "tiles": tiles,
                            "sets": {"column": column, "row": row},
                            "spans": {side: span[c] for side, span in spans.items()},
                            "chunk": chunk,
                            "phase": number,
                            "first": c == 0,
                            "final": c == len(chunks) - 1,
                            "partial": partial,
                        }
                        partial += work.streams("row", row) * work.streams("column", column)

    def _spans(self, side: str, tile: Box, phase: int, chunks: Sequence[Box]) -> Sequence[Box]:
        """Return the part of the reduction to load for each chunk: all of it if it fits, else the chunk.

        If all chunks fit one by one, they are loaded one by one: multiplying begins earlier. If that takes too many
        cycles, some chunks are loaded together.
        """
        room, count = self.rooms[side], len(chunks)
        whole, one = (
            self.work.moved(side, tile, span, phase)
            for span in (self.work.full_reduction, max(chunks[:2], key=size_of))
        )
        if _groups(whole) > room:
            return chunks
        if count * _groups(one) <= room and count * self._cycles(one) < APART * self._cycles(whole):
            return chunks
        if self.grown and count == len(self.grown):
            pieces = (self.work.moved(side, tile, span, phase) for span in dict.fromkeys(self.grown))
            if sum(map(_groups, pieces)) <= room:
                return self.grown
        return [self.work.full_reduction] * count

    def _cycles(self, moves: list[Move]) -> float:
        """Add up the cycles of loads."""
        return sum(load_cycles(self.work.config, move.groups, move.runs, LATENCY) for move in moves)


def _groups(moves: list[Move]) -> int:
    return sum(move.groups for move in moves)
