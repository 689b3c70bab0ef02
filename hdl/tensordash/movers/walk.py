"""Walk: the position of a loop nest."""

from functools import reduce
from operator import or_

from amaranth.hdl import Module, Mux, Signal, signed
from amaranth.lib.data import ArrayLayout
from amaranth.lib.wiring import In, Out

from ..block import Block
from ..configuration.parameters import require_int

__all__ = ["Walk"]

COUNT_BITS = 12
PLACES = ("address", "x", "y")


class Walk(Block):
    """The state of a walk through the buffer: an address, x and y, and a counter for each loop but the outermost.

    Timing: the walk is at the first group in the cycle after `start`, and one group further in the cycle after `step`.
    It can step in every cycle.

    Parameters
    ----------
    loops : int
        Number of loops, at least 2.
    places : tuple of str
        What the walk has, of `PLACES`. Members of others do not exist.

    Members
    -------
    start : In(1)
        Begin at the first address, x and y.
    step : In(1)
        Advance to the next group.
    first_address, first_x, first_y : In
        First address, x and y.
    address_steps, x_steps, y_steps : In(16, loops)
        Increments of each loop's step, the innermost first. They must not change between `start` and the last `step`.
    counts : In(12, loops - 1)
        Iterations of each loop, the innermost first, at least 1.
    address : Out(16)
    x, y : Out(signed 16)
        Address and position of the present group.

    Raises
    ------
    TypeError, ValueError
        For a parameter out of range.

    Source: docs/core.md, "Loops".
    """

    def __init__(self, *, loops: int, places: tuple[str, ...] = PLACES) -> None:
        self.loops = require_int("loops", loops, 2)
        if not isinstance(places, tuple) or not places or not set(places) <= set(PLACES):
            raise ValueError(f"places must be a tuple of some of {', '.join(PLACES)}, not {places!r}")
        shapes = {name: 16 if name == "address" else signed(16) for name in places}
        self.places = places
        super().__init__(
            {
                "start": In(1),
                "step": In(1),
                **{f"first_{name}": In(shape) for name, shape in shapes.items()},
                **{f"{name}_steps": In(ArrayLayout(16, loops)) for name in shapes},
                "counts": In(ArrayLayout(COUNT_BITS, loops - 1)),
                **{name: Out(shape) for name, shape in shapes.items()},
            },
            variant=f"{loops}_loops" + ("_of_" + "_".join(places) if places != PLACES else ""),
        )

    def elaborate(self, platform):
        """Count each loop's iterations, find the loop that steps, and add its increments."""
        m = Module()
        inner = self.loops - 1
        left = [Signal(COUNT_BITS, name=f"left_{k}", reset_less=True) for k in range(inner)]  # with the present one
        # Loops in their last iteration. These are registers, because the sums are late enough without a comparison.
        ends = Signal(inner, reset_less=True)
        steps = Signal(self.loops)  # the loop that would step, one-hot
        m.d.comb += [steps[k].eq(ends[:k].all() & (~ends[k] if k < inner else 1)) for k in range(self.loops)]
        for k, iterations in enumerate(left):
            with m.If(self.start | (self.step & ends[: k + 1].all())):
                m.d.sync += [iterations.eq(self.counts[k]), ends[k].eq(self.counts[k] == 1)]
            with m.Elif(self.step & steps[k]):
                m.d.sync += [iterations.eq(iterations - 1), ends[k].eq(iterations == 2)]
        for name in self.places:
            place = Signal(16, name=f"{name}_now", reset_less=True)
            first, increments = getattr(self, f"first_{name}")[:16], getattr(self, f"{name}_steps")
            change = reduce(or_, (increments[k] & steps[k].replicate(16) for k in range(self.loops)))
            with m.If(self.start | self.step):
                m.d.sync += place.eq(Mux(self.start, first, (place + change)[:16]))
            m.d.comb += getattr(self, name).eq(place)
        return m
