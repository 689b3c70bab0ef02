"""Places in a memory of the core, with least-recently-used replacement."""

from typing import Any

from .program import ProgramError

__all__ = ["Slots"]


class Slots:
    """A range of places that holds data by key. New data replace the least recently used data.

    Parameters
    ----------
    first, size : int
        The first place, and the number of places.
    name : str
        The name of the range in errors.

    Examples
    --------
    >>> slots = Slots(0, 512, "a stream buffer")
    >>> [slots.place(key, size)[0] for key, size in (("p", 216), ("q", 216), ("r", 144), ("s", 216), ("t", 216))]
    [0, 296, 0, 296, 0]
    """

    def __init__(self, first: int, size: int, name: str) -> None:
        self.first, self.size, self.name = first, size, name
        self._next = self._top = 0  # Nothing was placed at the top or above it.
        self._held: dict[Any, tuple[int, int]] = {}  # Begin and end. The least recently used comes first.

    def place(self, key: Any, size: int) -> tuple[int, bool]:
        """Return the first place of the data with a key, and whether they were placed now.

        Raises
        ------
        ProgramError
            If the data are larger than the range.
        """
        if (held := self._held.pop(key, None)) is not None:
            self._held[key] = held  # Now it is the most recently used.
            return self.first + held[0], False
        if size > self.size:
            raise ProgramError(f"{self.name} has room for {self.size}, not for {size}")
        end = self.size - size
        places = [0, end]
        if self._next <= end:
            # Place data at the end if further data of the same size would not fit after them.
            places = [self._next, 0, end] if self._next + size <= end else [end, self._next, 0]
        if (at := places[0]) < self._top:
            at = self._choose(places, size)
        self._next = stop = at + size
        if at < self._top:
            for other in [other for other, (begin, end) in self._held.items() if begin < stop and at < end]:
                del self._held[other]
        self._top = max(self._top, stop)
        self._held[key] = at, stop
        return self.first + at, True

    def _choose(self, places: list[int], size: int) -> int:
        """Return the first place whose most recently used data are the oldest."""
        best, oldest = places[0], len(self._held)
        for at in places:
            stop, rank = at + size, len(self._held)
            for begin, end in reversed(self._held.values()):
                rank -= 1
                if begin < stop and at < end:
                    break
            else:
                return at
            if rank < oldest:
                best, oldest = at, rank
        return best
