"""Counters of a tile."""

from operator import add

from amaranth.hdl import Module, Signal
from amaranth.lib.data import ArrayLayout
from amaranth.lib.wiring import In, Out, Signature

from ..block import Block
from ..configuration.parameters import require_int
from .balanced import reduce_balanced

__all__ = ["COUNTERS", "COUNTER_BITS", "CounterSignature", "Counters"]

COUNTER_BITS = 32
COUNTERS = ("cycles", "steps", "effectual", "stall_input", "stall_output", "input_limited")


class CounterSignature(Signature):
    """All counters of a tile.

    Parameters
    ----------
    rows : int
        Rows of the tile.

    Members
    -------
    cycles, steps, effectual, stall_input, stall_output, input_limited : Out(COUNTER_BITS)
    row_wait : Out(COUNTER_BITS, rows)
        As docs/tile.md, "Counters and flags".
    """

    def __init__(self, rows: int) -> None:
        super().__init__(
            {
                **{name: Out(COUNTER_BITS) for name in COUNTERS},
                "row_wait": Out(ArrayLayout(COUNTER_BITS, rows)),
            }
        )


class Counters(Block):
    """Counts a tile's events; counters saturate.

    Timing: a counter shows an event in the cycle after it.

    Parameters
    ----------
    rows, depth : int
        Rows of the tile and steps of its window.
    selections : int
        Bits of `selected`.
    weight : int
        Positions that each bit of `selected` stands for.

    Members
    -------
    advance : In(depth)
        The tile's AS, as a thermometer; zero without a schedule.
    row_advance : In(depth, rows)
        Each row's AS.
    selected : In(selections)
        One bit for every `weight` positions that can be consumed in a cycle.
    frozen, starved, limited : In(1)
        Causes of stalls and waits, as in `Control`.
    clear : In(1)
        All counters are zero in the next cycle.
    counts : Out(CounterSignature)
        The counters.

    Source: docs/tile.md, "Counters and flags".
    """

    def __init__(self, *, rows: int, depth: int, selections: int, weight: int = 1) -> None:
        self.rows = require_int("rows", rows, 1)
        self.depth = require_int("depth", depth, 1)
        self.weight = require_int("weight", weight, 1)
        super().__init__(
            {
                "advance": In(depth),
                "row_advance": In(ArrayLayout(depth, rows)),
                "selected": In(require_int("selections", selections, 1)),
                "frozen": In(1),
                "starved": In(1),
                "limited": In(1),
                "clear": In(1),
                "counts": Out(CounterSignature(rows)),
            },
        )

    def elaborate(self, platform):
        """Build saturating adders of small numbers."""
        m = Module()
        grows = {
            "cycles": self.advance[0],
            "steps": reduce_balanced(add, self.advance),
            "effectual": reduce_balanced(add, self.selected) * self.weight,
            "stall_input": self.starved,
            "stall_output": self.frozen,
            "input_limited": self.limited,
        }
        pairs = [(getattr(self.counts, name), amount, name) for name, amount in grows.items()]
        for row in range(self.rows):
            # A row's AS is never below the tile's, so counting bits gives their difference.
            waits = reduce_balanced(add, self.row_advance[row] & ~self.advance)
            pairs.append((self.counts.row_wait[row], waits, f"row_wait_{row}"))
        for counter, amount, name in pairs:
            grown = Signal(COUNTER_BITS + 1, name=f"{name}_grown")
            m.d.comb += grown.eq(counter + amount)
            m.d.sync += counter.eq(grown[:-1] | grown[-1].replicate(COUNTER_BITS))
        with m.If(self.clear):
            m.d.sync += [counter.eq(0) for counter, _, _ in pairs]
        return m
