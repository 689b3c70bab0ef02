"""Short queue: a queue in flip-flops, for words of a few bits."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib.wiring import In, Out

from .block import Block
from .configuration.parameters import require_int

__all__ = ["ShortQueue"]


class ShortQueue(Block):
    """Queues words.

    Timing: a word that is added to an empty queue is the first one from the next cycle on.

    Parameters
    ----------
    bits : int
        Bits of a word, at least 1.
    places : int
        Maximum number of queued words, at least 2.

    Members
    -------
    added : In(bits), adds : In(1)
        A word that enters in this cycle. Not while `full`.
    leaves : In(1)
        The first word leaves. Not while the queue is empty.
    first : Out(bits)
        The first word; 0 if the queue is empty.
    present : Out(1)
        The queue is not empty.
    full : Out(1)
        All places are taken.

    Raises
    ------
    TypeError, ValueError
        For a parameter out of range.

    Source: docs/core.md, "Multiply" (skipped passes and dropped steps).
    """

    def __init__(self, *, bits: int, places: int) -> None:
        self.places = require_int("places", places, 2)
        super().__init__(
            {
                "added": In(require_int("bits", bits, 1)),
                "adds": In(1),
                "leaves": In(1),
                "first": Out(bits),
                "present": Out(1),
                "full": Out(1),
            },
            variant=f"{places}x{bits}",
        )

    def elaborate(self, platform):
        """Build a shift register for each bit. Empty places are zeros."""
        m = Module()
        places = self.places
        taken = Signal(places)  # places with a word
        remains = Signal(places)  # places with a word, without one that leaves
        fills = Signal(places)  # the place of the added word
        m.d.comb += [
            remains.eq(Mux(self.leaves, taken >> 1, taken)),
            fills.eq(Cat(Const(1, 1), remains[:-1]) & ~remains & self.adds.replicate(places)),
            self.present.eq(taken[0]),
            self.full.eq(taken[-1]),
        ]
        m.d.sync += taken.eq(remains | fills)
        for k, bit in enumerate(self.added):
            queue = Signal(places, name=f"bit_{k}")
            m.d.comb += self.first[k].eq(queue[0])
            m.d.sync += queue.eq(Mux(self.leaves, queue >> 1, queue) | (fills & bit.replicate(places)))
        return m
