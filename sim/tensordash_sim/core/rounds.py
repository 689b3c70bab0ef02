"""The multiplies of a contraction, one after the other, and what has to be there for each."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .blocking import Blocking, begun, growing, split
from .operands import Box, Move, size_of
from .unit_cycles import LATENCY, load_cycles

__all__ = ["SIDES", "Round", "rounds"]

SIDES = {"column": "a", "row": "b"}
APART = 1.1
"""Chunks may be loaded one by one if that takes less than so many times the cycles of loading all of them at once."""


@dataclass(frozen=True, kw_only=True)
class Round:
    """One multiply, and what has to be there for it; all by side, "row" and "column".

    Parameters
    ----------
    product : int
        Number of its product.
    tiles, sets : mapping of str to Box
        The tile of results that it is of, and its streams.
    spans : mapping of str to Box
        What of the reduction is loaded together.
    chunk : Box
        What of it is multiplied.
    phase : int
        Number of its phase.
    first, final : bool
        Of the reduction's chunks: partial sums begin, results are made.
    partial : int
        The first block's place among the partial sums.
    last : bool
        The tile of results is done.
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
        """What of two rounds is the same if they want the same streams."""
        return self.product, self.tiles[side], self.phase, self.chunk, self.sets[side]


def rounds(work: Any, blocking: Blocking) -> Iterator[Round]:
    """All multiplies in order: products, tiles of results, phases, chunks of the reduction, sets of streams.

    What comes first is smaller (`Blocking.begin`): the first tile of results, if its reduction is not cut; else the
    first chunk, if there is only one tile.

    Parameters
    ----------
    work : Contraction
        What is done.
    blocking : Blocking
        How it is cut.
    """
    cut = _Cut(work, blocking)
    first = True
    for product in range(work.layer.products):
        for placed in split(cut.boxes[work.placed], blocking.tiles[work.placed]):
            parts = [placed]
            if first and len(cut.chunks) == 1:
                parts = begun(placed, blocking.begin, work.parts(work.placed))
            for other in split(cut.boxes[work.other], blocking.tiles[work.other]):
                for part in parts:
                    todo = cut.tile({work.placed: part, work.other: other})
                    each = next(todo)
                    for after in todo:
                        yield Round(**each, product=product, last=False)
                        each = after
                    yield Round(**each, product=product, last=True)
                first, parts = False, [placed]


class _Cut:
    """A contraction that is cut in some way, tile after tile of results."""

    def __init__(self, work: Any, blocking: Blocking) -> None:
        self.work, self.blocking = work, blocking
        self.rooms = {side: size for side, (_, size) in work.rooms(blocking).items()}
        self.boxes: dict[str, Box] = {side: tuple((0, size) for size in work.dimensions(side)) for side in SIDES}
        self.chunks = list(split(work.whole, blocking.chunk))
        one = all(next(split(box, blocking.tiles[side])) == box for side, box in self.boxes.items())
        if one and work.layer.products == 1 and len(self.chunks) > 1:
            self.chunks[:1] = begun(self.chunks[0], blocking.begin)
        self.grown = growing(self.chunks) if blocking.begin > 1 else []

    def tile(self, tiles: dict[str, Box]) -> Iterator[dict[str, Any]]:
        """What `Round` has of each multiply of a tile of results."""
        work = self.work
        for number, phase in enumerate(work.phases[:1] if work.operation == "AxG" else work.phases):
            # What there is of a tile in this phase.
            here = {
                side: tuple(
                    (start, min(stop, size))
                    for (start, stop), size in zip(tiles[side], work.dimensions(side, number), strict=True)
                )
                for side in tiles
            }
            if any(start >= stop for box in here.values() for start, stop in box):
                continue
            chunks = self.chunks if phase.taps else [tuple((0, 1) for _ in work.whole)]
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
        """For each chunk, what of the reduction is loaded with it: all of it if it fits, or nothing else.

        All chunks one by one are better than all of it at once, if they fit as well: multiplying begins earlier. If
        that takes too long, some may come together.
        """
        room, count = self.rooms[side], len(chunks)
        whole, one = (
            self.work.moved(side, tile, span, phase) for span in (self.work.whole, max(chunks[:2], key=size_of))
        )
        if _groups(whole) > room:
            return chunks
        if count * _groups(one) <= room and count * self._cycles(one) < APART * self._cycles(whole):
            return chunks
        if self.grown and count == len(self.grown):
            pieces = (self.work.moved(side, tile, span, phase) for span in dict.fromkeys(self.grown))
            if sum(map(_groups, pieces)) <= room:
                return self.grown
        return [self.work.whole] * count

    def _cycles(self, moves: list[Move]) -> float:
        """Of loads."""
        return sum(load_cycles(self.work.config, move.groups, move.runs, LATENCY) for move in moves)


def _groups(moves: list[Move]) -> int:
    return sum(move.groups for move in moves)
