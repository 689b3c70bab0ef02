"""Places in a memory of the core, of which the least recently used make room for what is new."""

from typing import Any

from .program import ProgramError

__all__ = ["Slots"]


class Slots:
    """A range of places that holds data by key. The least recently used data make room for new data.

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
        """Return the first place of some data, and whether they are new there.

        Raises
        ------
        ProgramError
            If the data are larger than the range.
        """
        if key in self._held:
            self._held[key] = self._held.pop(key)
            return self.first + self._held[key][0], False
        if size > self.size:
            raise ProgramError(f"{self.name} has room for {self.size}, not for {size}")
        end = self.size - size
        places = [0, end]
        if self._next <= end:
            # At the end, if another one of the same size would not fit after this one.
            places = [self._next, 0, end] if self._next + size <= end else [end, self._next, 0]
        at = self._choose(places, size)
        self._next = stop = at + size
        evicted = [other for other, (begin, count) in self._held.items() if begin < stop and at < begin + count]
        for other in evicted:
            del self._held[other]
        self._held[key] = at, size
        return self.first + at, True

    def _choose(self, places: list[int], size: int) -> int:
        """Return the place whose most recent data have been used the longest ago; the first one of several."""
        best, rank = places[0], len(self._held)
        for at in places:
            evicted = self._latest_evicted(at, size)
            if evicted < 0:
                return at
            if evicted < rank:
                best, rank = at, evicted
        return best

    def _latest_evicted(self, at: int, size: int) -> int:
        """Return the rank in use of the most recent data that a range of places would evict, or -1."""
        stop = at + size
        for k, (begin, count) in enumerate(reversed(self._held.values())):
            if begin < stop and at < begin + count:
                return len(self._held) - 1 - k
        return -1
