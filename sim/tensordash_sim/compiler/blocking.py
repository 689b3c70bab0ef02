"""How a contraction is cut: tiles of results, chunks of the reduction, and how many streams a multiply takes."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from .operands import Box, size_of
from .program import ProgramError

__all__ = ["Blocking", "Slots", "begun", "fitting", "growing", "split"]

PIECES = 4
"""Chunks that are loaded together are at most one in so many."""


@dataclass(frozen=True, kw_only=True)
class Blocking:
    """Sizes of everything that is cut.

    Parameters
    ----------
    tiles : dict of str to tuple of int
        Of "row" and "column": streams of a tile of results, in each of the side's dimensions, the innermost first.
    sets : dict of str to tuple of int
        Likewise, streams that a multiply takes.
    chunk : tuple of int
        Steps that are laid out together, in each of the reduction's dimensions.
    begin : int
        Of what is multiplied first, so small a part comes alone, that less has to be loaded and laid out before it.
    """

    tiles: dict[str, tuple[int, ...]]
    sets: dict[str, tuple[int, ...]]
    chunk: tuple[int, ...]
    begin: int = 1

    def __hash__(self) -> int:
        return hash((*self.tiles.values(), *self.sets.values(), self.chunk, self.begin))


class Slots:
    """Places in a row, one behind the other; what has not been asked for the longest makes room for what is new.

    Parameters
    ----------
    first, size : int
        Its first place, and how many there are.
    what : str
        What errors call it.

    Examples
    --------
    >>> slots = Slots(0, 512, "a stream buffer")
    >>> [slots.place(key, size)[0] for key, size in (("p", 216), ("q", 216), ("r", 144), ("s", 216), ("t", 216))]
    [0, 296, 0, 296, 0]
    """

    def __init__(self, first: int, size: int, what: str) -> None:
        self.first, self.size, self.what = first, size, what
        self._next = 0
        self._held: dict[Any, tuple[int, int]] = {}  # the longest not asked for comes first

    def place(self, key: Any, size: int) -> tuple[int, bool]:
        """Where something is, and whether it is new there.

        Raises
        ------
        ProgramError
            If it never fits.
        """
        if key in self._held:
            self._held[key] = self._held.pop(key)
            return self.first + self._held[key][0], False
        if size > self.size:
            raise ProgramError(f"{self.what} has room for {self.size}, not for {size}")
        end = self.size - size
        places = [0, end]
        if self._next <= end:
            # At the end if there would be too little room behind it for another one of its size.
            places = [self._next, 0, end] if self._next + size <= end else [end, self._next, 0]
        at = min(places, key=lambda at: self._youngest(at, size))
        self._next = at + size
        self._held = {other: place for other, place in self._held.items() if not _meets(place, at, size)}
        self._held[key] = at, size
        return self.first + at, True

    def _youngest(self, at: int, size: int) -> int:
        """Of what would have to go, when it was asked for last; -1 if nothing would."""
        return max((k for k, place in enumerate(self._held.values()) if _meets(place, at, size)), default=-1)


def _meets(place: tuple[int, int], at: int, size: int) -> bool:
    return place[0] < at + size and at < sum(place)


def split(box: Box, sizes: tuple[int, ...]) -> Iterator[Box]:
    """Boxes of at most some sizes, the innermost dimension first.

    Examples
    --------
    >>> list(split(((0, 3), (4, 6)), (2, 1)))
    [((0, 2), (4, 5)), ((2, 3), (4, 5)), ((0, 2), (5, 6)), ((2, 3), (5, 6))]
    """
    counts = [max(1, -(-(stop - start) // size)) for (start, stop), size in zip(box, sizes, strict=True)]
    for index in range(prod(counts)):
        part = []
        for (start, stop), size, count in zip(box, sizes, counts, strict=True):
            index, k = divmod(index, count)
            part.append((start + k * size, min(start + (k + 1) * size, stop)))
        yield tuple(part)


def begun(box: Box, parts: int, unit: int = 1) -> list[Box]:
    """A box cut in two across its outermost dimension that is more than 1, one of so many parts first.

    Parameters
    ----------
    box : Box
        What is cut; with 1 part, or nothing to cut, it stays whole.
    parts : int
        The first one's share.
    unit : int
        Of the innermost dimension.

    Examples
    --------
    >>> begun(((0, 2), (0, 6), (3, 4)), 3), begun(((0, 8),), 8, unit=4)
    ([((0, 2), (0, 2), (3, 4)), ((0, 2), (2, 6), (3, 4))], [((0, 4),), ((4, 8),)])
    """
    units = [unit if k == 0 else 1 for k in range(len(box))]
    cut = next((k for k in reversed(range(len(box))) if box[k][1] - box[k][0] > units[k]), None)
    if parts == 1 or cut is None:
        return [box]
    start, stop = box[cut]
    middle = start + -(-(stop - start) // (parts * units[cut])) * units[cut]
    return [(*box[:cut], edges, *box[cut + 1 :]) for edges in ((start, middle), (middle, stop))]


def growing(chunks: Sequence[Box]) -> list[Box]:
    """For each chunk, what is loaded with it: the first one alone, then as many as before them, if they are a box.

    None is more than a quarter of all of them: where loads take as long as multiplies, the last one must not be long.

    Examples
    --------
    >>> growing([((k, k + 1),) for k in range(5)])
    [((0, 1),), ((1, 2),), ((2, 3),), ((3, 4),), ((4, 5),)]
    >>> growing([((k, k + 1),) for k in range(8)])[1:5]
    [((1, 2),), ((2, 4),), ((2, 4),), ((4, 6),)]
    """
    spans: list[Box] = []
    while (at := len(spans)) < len(chunks):
        for stop in range(min(at + max(1, min(at, len(chunks) // PIECES)), len(chunks)), at, -1):
            together = chunks[at:stop]
            hull = tuple(
                (min(start for start, _ in edges), max(stop for _, stop in edges))
                for edges in zip(*together, strict=True)
            )
            if size_of(hull) == sum(map(size_of, together)):
                break
        spans += [hull] * (stop - at)
    return spans


def fitting(dimensions: tuple[int, ...], most: int, unit: int = 1) -> tuple[int, ...]:
    """Sizes of at most so many in all, filling the innermost dimension first; the first one a multiple of `unit`.

    Examples
    --------
    >>> fitting((2, 8, 3), 6), fitting((3, 8, 3), 30), fitting((16, 1, 1), 6, unit=4)
    ((2, 3, 1), (3, 8, 1), (4, 1, 1))
    """
    made: list[int] = []
    for k, size in enumerate(dimensions):
        room = max(1, most // prod(made))
        taken = min(size, room)
        if k == 0 and unit > 1:
            taken = max(unit, taken // unit * unit)
        made.append(taken)
    return tuple(made)
