"""How a contraction is cut: tiles of results, chunks of the reduction, and how many streams a multiply takes."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Any

from .operands import Box
from .program import ProgramError

__all__ = ["Blocking", "Slots", "fitting", "split"]


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
    """

    tiles: dict[str, tuple[int, ...]]
    sets: dict[str, tuple[int, ...]]
    chunk: tuple[int, ...]

    def __hash__(self) -> int:
        return hash((*self.tiles.values(), *self.sets.values(), self.chunk))


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
