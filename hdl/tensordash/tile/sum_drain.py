"""Sum drain: offers a finished block row by row, without rounding. The consumer adds and rounds."""

from functools import reduce
from operator import or_

from amaranth.hdl import Module, Signal, Value
from amaranth.lib import stream
from amaranth.lib.data import ArrayLayout
from amaranth.lib.wiring import In, Out

from ..block import Block
from ..configuration.numerics import Binned, Exact, Numerics
from ..configuration.parameters import require_int
from ..layouts import sum_beat_layout, sum_shape

__all__ = ["SumDrain"]


class SumDrain(Block):
    """Offers the rows of the block that the PEs hold, one after the other, before rounding.

    Timing: the first beat is valid in the cycle after `take`. Then one beat leaves in each cycle in which `out` is
    ready. No register follows the row mux, because the consumer of a beat has one.

    Parameters
    ----------
    rows, columns : int
        Shape of a block.
    numerics : Numerics
        As in `PE`, with an exact or binned accumulator.

    Members
    -------
    sums, take, free, moves, empty, non_finite
        Equal to those of `Drain`. `non_finite` is always 0, because nothing is rounded here.
    out : Out(stream of sum_beat_layout)
        Rows of sums.

    Raises
    ------
    ValueError
        If the accumulator is neither exact nor binned, or adds C.

    Source: docs/core.md, "Multiply".
    """

    adds_c = False

    def __init__(self, *, rows: int, columns: int, numerics: Numerics) -> None:
        self.rows = require_int("rows", rows, 1)
        self.columns = require_int("columns", columns, 1)
        if not isinstance(numerics.accumulator, Exact | Binned) or numerics.initial:
            raise ValueError(f"numerics must be exact or binned and without C, not {numerics}")
        super().__init__(
            {
                "sums": In(ArrayLayout(ArrayLayout(sum_shape(numerics), columns), rows)),
                "take": In(1),
                "free": Out(1),
                "moves": Out(1),
                "empty": Out(1),
                "non_finite": Out(1),
                "out": Out(stream.Signature(sum_beat_layout(numerics, columns))),
            }
        )

    def elaborate(self, platform):
        """Build a one-hot beat counter and a row mux."""
        m = Module()
        beat = Signal(self.rows)  # the row that is offered, one-hot; zero without a block
        m.d.comb += [
            self.out.valid.eq(beat.any()),
            self.moves.eq(beat.any() & self.out.ready),
            self.free.eq(~beat.any() | (beat[-1] & self.out.ready)),
            self.empty.eq(~beat.any()),
            self.out.payload.last.eq(beat[-1]),
        ]
        with m.If(self.take):
            m.d.sync += beat.eq(1)
        with m.Elif(self.moves):
            m.d.sync += beat.eq(beat << 1)
        for column in range(self.columns):
            rows = [Value.cast(self.sums[row][column]) for row in range(self.rows)]
            selected = reduce(or_, (each & beat[row].replicate(len(each)) for row, each in enumerate(rows)))
            m.d.comb += Value.cast(self.out.payload.values[column]).eq(selected)
        return m
