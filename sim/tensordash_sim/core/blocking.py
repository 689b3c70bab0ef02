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
    """A ring of places; what does not fit any more is forgotten, the oldest first.

    Parameters
    ----------
    first, size : int
        Its first place, and how many there are.
    what : str
        What errors call it.
    """

    def __init__(self, first: int, size: int, what: str) -> None:
        self.first, self.size, self.what = first, size, what
        self._next = 0
        self._held: dict[Any, tuple[int, int]] = {}

    def place(self, key: Any, size: int) -> tuple[int, bool]:
        """Where something is, and whether it is new there.

        Raises
        ------
        ProgramError
            If it never fits.
        """
        if key in self._held:
            return self.first + self._held[key][0], False
        if size > self.size:
            raise ProgramError(f"{self.what} has room for {self.size}, not for {size}")
        if self._next + size > self.size:
            self._next = 0
        at, self._next = self._next, self._next + size
        self._held = {
            other: place for other, place in self._held.items() if place[0] + place[1] <= at or place[0] >= at + size
        }
        self._held[key] = at, size
        return self.first + at, True


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
