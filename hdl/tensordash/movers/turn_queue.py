"""Turn queue: the cores of the bursts that are on their way, in order."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib.wiring import In, Out

from ..block import Block
from ..configuration.parameters import require_int

__all__ = ["TurnQueue"]


class TurnQueue(Block):
    """Queues sets of cores, a bit for each core.

    Timing: a set that is added to an empty queue is the first one from the next cycle on.

    Parameters
    ----------
    cores : int
        Bits of a set, at least 1.
    places : int
        Maximum number of queued sets, at least 2.

    Members
    -------
    added : In(cores), adds : In(1)
        A set that enters in this cycle. Not while `full`.
    leaves : In(1)
        The first set leaves. Not while the queue is empty.
    first : Out(cores)
        The first set; 0 if the queue is empty.
    full : Out(1)
        All places are taken.

    Raises
    ------
    TypeError, ValueError
        For a parameter out of range.
    """

    def __init__(self, *, cores: int, places: int) -> None:
        self.places = require_int("places", places, 2)
        super().__init__(
            {
                "added": In(require_int("cores", cores, 1)),
                "adds": In(1),
                "leaves": In(1),
                "first": Out(cores),
                "full": Out(1),
            },
            variant=f"{places}_places",
        )

    def elaborate(self, platform):
        """Build a shift register for each core. Empty places are zeros."""
        m = Module()
        places = self.places
        taken = Signal(places)  # places with a set
        remains = Signal(places)  # places with a set, without one that leaves
        fills = Signal(places)  # the place of the added set
        m.d.comb += [
            remains.eq(Mux(self.leaves, taken >> 1, taken)),
            fills.eq(Cat(Const(1, 1), remains[:-1]) & ~remains & self.adds.replicate(places)),
            self.full.eq(taken[-1]),
        ]
        m.d.sync += taken.eq(remains | fills)
        for k, bit in enumerate(self.added):
            queue = Signal(places, name=f"core_{k}")
            m.d.comb += self.first[k].eq(queue[0])
            m.d.sync += queue.eq(Mux(self.leaves, queue >> 1, queue) | (fills & bit.replicate(places)))
        return m
