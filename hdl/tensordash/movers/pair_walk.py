"""Pair walk: the position of a loop nest, and the next position. It advances by two groups."""

from collections.abc import Sequence
from functools import reduce
from operator import or_
from typing import Any

from amaranth.hdl import Module, Mux, Signal, Value, signed
from amaranth.lib.data import ArrayLayout
from amaranth.lib.wiring import In, Out

from ..block import Block
from ..configuration.parameters import require_int
from .walk import COUNT_BITS

__all__ = ["PairWalk"]

PLACES = ("address", "x", "y")


class PairWalk(Block):
    """The state of a walk through the buffer, and the state one group further.

    Timing: the walk is at the first group in the cycle after `start`, and two groups further in the cycle after `step`.
    It can step in every cycle.

    Parameters
    ----------
    loops : int
        Loops, at least 2.

    Members
    -------
    start : In(1)
        Begin, at the first address, x and y.
    step : In(1)
        Advance by two groups.
    first_address, first_x, first_y, address_steps, x_steps, y_steps, counts : In
        As in `Walk`.
    address, next_address : Out(16)
        Addresses of the present group and of the next one.
    x, y, next_x, next_y : Out(signed 16)
        Coordinates of these groups.

    Raises
    ------
    TypeError, ValueError
        For a parameter out of range.

    Source: docs/core.md, "Loops".
    """

    def __init__(self, *, loops: int) -> None:
        self.loops = require_int("loops", loops, 2)
        shapes = {"address": 16, "x": signed(16), "y": signed(16)}
        super().__init__(
            {
                "start": In(1),
                "step": In(1),
                **{f"first_{name}": In(shape) for name, shape in shapes.items()},
                **{f"{name}_steps": In(ArrayLayout(16, loops)) for name in shapes},
                "counts": In(ArrayLayout(COUNT_BITS, loops - 1)),
                **{f"{prefix}{name}": Out(shape) for prefix in ("", "next_") for name, shape in shapes.items()},
            },
            variant=f"{loops}_loops",
        )

    def elaborate(self, platform):
        """Build the state, and the states one and two groups further."""
        m = Module()
        inner = self.loops - 1
        # As in `Walk`: iterations left with the present one, and whether it is the last.
        left = [Signal(COUNT_BITS, name=f"left_{k}", reset_less=True) for k in range(inner)]
        ends = Signal(inner, reset_less=True)
        now = {name: Signal(16, name=f"{name}_now", reset_less=True) for name in PLACES}
        after = self._advanced(m, "next", (left, ends, now))
        left_later, ends_later, later = self._advanced(m, "later", after)
        begins, moves = self.start, self.start | self.step
        with m.If(moves):
            for k, counter in enumerate(left):
                count = self.counts[k]
                m.d.sync += [
                    counter.eq(Mux(begins, count, left_later[k])),
                    ends[k].eq(Mux(begins, count == 1, ends_later[k])),
                ]
            for name, place in now.items():
                m.d.sync += place.eq(Mux(begins, getattr(self, f"first_{name}")[:16], later[name]))
        for name, place in now.items():
            m.d.comb += [getattr(self, name).eq(place), getattr(self, f"next_{name}").eq(after[2][name])]
        return m

    def _advanced(
        self, m: Module, prefix: str, state: tuple[Sequence[Value], Value, dict[str, Any]]
    ) -> tuple[list[Signal], Signal, dict[str, Signal]]:
        """Compute the state one group further."""
        left, ends, now = state
        steps = Signal(self.loops, name=f"{prefix}_steps")  # the loop that steps, one-hot
        m.d.comb += [steps[k].eq(ends[:k].all() & (~ends[k] if k < self.loops - 1 else 1)) for k in range(self.loops)]
        left_after = [Signal(COUNT_BITS, name=f"{prefix}_left_{k}") for k in range(len(left))]
        ends_after = Signal(len(left), name=f"{prefix}_ends")
        for k, counter in enumerate(left):
            begins = ends[: k + 1].all()
            m.d.comb += [
                left_after[k].eq(Mux(begins, self.counts[k], Mux(steps[k], counter - 1, counter))),
                ends_after[k].eq(Mux(begins, self.counts[k] == 1, Mux(steps[k], counter == 2, ends[k]))),
            ]
        places = {name: Signal(16, name=f"{prefix}_{name}_now") for name in PLACES}
        for name, place in places.items():
            added = getattr(self, f"{name}_steps")
            change = reduce(or_, (added[k] & steps[k].replicate(16) for k in range(self.loops)))
            m.d.comb += place.eq((now[name] + change)[:16])
        return left_after, ends_after, places
