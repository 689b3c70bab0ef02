"""A queue of a checker's outstanding transfers."""

from typing import Any

from amaranth.hdl import Module, Signal

__all__ = ["Queue"]


class Queue:
    """A shift queue whose oldest entry is at place 0.

    Parameters
    ----------
    shape : ShapeLike
        Shape of an entry.
    depth : int
        Number of places.
    name : str
        Prefix of the signals' names.

    Attributes
    ----------
    count : Signal
        Number of entries.
    entries : list of Signal
        All places, the oldest entry first. Places from `count` on are undefined.
    """

    def __init__(self, shape: Any, depth: int, name: str) -> None:
        self.depth = depth
        self.count = Signal(range(depth + 1), name=f"{name}_count")
        self.entries = [Signal(shape, name=f"{name}_{place}", reset_less=True) for place in range(depth)]
        self.name = name

    @property
    def first(self) -> Any:
        return self.entries[0]

    def fits(self, pop: Any) -> Any:
        """Return whether the queue has room for another entry, given whether it pops one in this cycle."""
        return (self.count != self.depth) | pop

    def update(self, m: Module, *, push: Any, entry: Any, pop: Any) -> None:
        """Push and pop in the same cycle. A push to a full queue and a pop from an empty queue have no effect."""
        enters, leaves = (Signal(name=f"{self.name}_{what}") for what in ("enters", "leaves"))
        place = Signal(range(self.depth + 1), name=f"{self.name}_place")
        m.d.comb += [leaves.eq(pop & (self.count != 0)), enters.eq(push & self.fits(leaves))]
        m.d.comb += place.eq(self.count - leaves)
        m.d.sync += self.count.eq(place + enters)
        with m.If(leaves):
            m.d.sync += [here.eq(older) for here, older in zip(self.entries, self.entries[1:], strict=False)]
        for index, here in enumerate(self.entries):
            with m.If(enters & (place == index)):
                m.d.sync += here.eq(entry)
