"""A queue that a checker keeps of what is on its way, the oldest in front."""

from typing import Any

from amaranth.hdl import Module, Signal

__all__ = ["Queue"]


class Queue:
    """Entries from place 0 on.

    Parameters
    ----------
    shape : ShapeLike
        Of an entry.
    depth : int
        Places.
    name : str
        What its signals begin with.

    Attributes
    ----------
    count : Signal
        Entries.
    entries : list of Signal
        By age, the oldest first; those from `count` on say nothing.
    """

    def __init__(self, shape: Any, depth: int, name: str) -> None:
        self.depth = depth
        self.count = Signal(range(depth + 1), name=f"{name}_count")
        self.entries = [Signal(shape, name=f"{name}_{place}", reset_less=True) for place in range(depth)]
        self.name = name

    @property
    def first(self) -> Any:
        """The oldest entry."""
        return self.entries[0]

    def fits(self, pop: Any) -> Any:
        """There is a place for one more."""
        return (self.count != self.depth) | pop

    def move(self, m: Module, *, push: Any, entry: Any, pop: Any) -> None:
        """What happens in a cycle. What does not fit, or is not there, is as if it were not offered."""
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
