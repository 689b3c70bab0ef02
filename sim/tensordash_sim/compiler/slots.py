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
        self._next = 0
        self._held: dict[Any, tuple[int, int]] = {}  # The least recently used comes first.

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
        at = self._choose(places, size)
        self._next = stop = at + size
        evicted = [other for other, (begin, count) in self._held.items() if begin < stop and at < begin + count]
        for other in evicted:
            del self._held[other]
        self._held[key] = at, size
        return self.first + at, True

    def _choose(self, places: list[int], size: int) -> int:
        """Return the first place whose most recently used data are the oldest."""
        best, rank = places[0], len(self._held)
        for at in places:
            evicted = self._latest_evicted(at, size)
            if evicted < 0:
                return at
            if evicted < rank:
                best, rank = at, evicted
        return best

    def _latest_evicted(self, at: int, size: int) -> int:
        """Return the LRU rank of the most recently used data that a range would evict, or -1 if it evicts none."""
        stop = at + size
        for k, (begin, count) in enumerate(reversed(self._held.values())):
            if begin < stop and at < begin + count:
                return len(self._held) - 1 - k
        return -1
