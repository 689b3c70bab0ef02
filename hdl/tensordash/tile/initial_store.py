"""Initial store: holds C from its arrival until it is added."""

from functools import reduce
from operator import or_

from amaranth.hdl import Cat, Const, Module, ResetSignal, Signal
from amaranth.lib import stream
from amaranth.lib.data import ArrayLayout
from amaranth.lib.wiring import In, Out

from ..block import Block
from ..configuration.parameters import require_bool, require_int
from ..layouts import RESULT_BITS, beat_layout

__all__ = ["InitialStore"]


class InitialStore(Block):
    """Holds beats of C, in blocks of ``rows / out_rows``: two that leave beat by beat, or one that leaves at once.

    Timing: a beat that enters can be read in the next cycle. `c.ready` is a function of registers, and low in reset.

    Parameters
    ----------
    rows, columns, out_rows : int
        Shape of a block, and rows of a beat.
    pops_blocks : bool
        Sums start from C. Otherwise C is added to sums as they leave.
    floating : bool
        C is FP32, not INT32.

    Members
    -------
    c : In(stream of beat_layout)
        Beats of C, row 0 of a block first.
    starts : In(1)
        A stream starts, and claims the oldest complete block that is not claimed yet. Only while `available`.
    available : Out(1)
        There is a complete block that no stream has claimed.
    pop : In(1)
        The oldest beat leaves (`pops_blocks`: the block). Only if a stream has claimed its block.
    values : Out(32, columns, out_rows or, `pops_blocks`, rows)
        The oldest beat, or the block.
    empty : Out(1)
        The store holds no C.
    wrong_last, non_finite : Out(1)
        The beat that enters in this cycle has a wrong `last`, an infinity or a NaN.

    Raises
    ------
    ValueError
        If `out_rows` does not divide `rows`.

    Source: docs/tile.md, "One cycle", step 6.
    """

    def __init__(self, *, rows: int, columns: int, out_rows: int, pops_blocks: bool, floating: bool) -> None:
        self.rows = require_int("rows", rows, 1)
        self.columns = require_int("columns", columns, 1)
        self.out_rows = require_int("out_rows", out_rows, 1, rows)
        self.pops_blocks = require_bool("pops_blocks", pops_blocks)
        self.floating = require_bool("floating", floating)
        if rows % out_rows:
            raise ValueError(f"out_rows must divide rows = {rows}, not {out_rows}")
        self.beats = rows // out_rows
        self.slots = self.beats * (1 if pops_blocks else 2)
        super().__init__(
            {
                "c": In(stream.Signature(beat_layout(out_rows, columns))),
                "starts": In(1),
                "available": Out(1),
                "pop": In(1),
                "values": Out(ArrayLayout(ArrayLayout(RESULT_BITS, columns), rows if pops_blocks else out_rows)),
                "empty": Out(1),
                "wrong_last": Out(1),
                "non_finite": Out(1),
            },
        )

    def elaborate(self, platform):
        """Build a ring of slots with one-hot pointers."""
        m = Module()
        slots, beats = self.slots, self.beats
        payload = self.c.payload
        held = Signal(range(slots + 1))
        blocks = Signal(range(slots // beats + 1))
        writing = Signal(slots, init=1)
        entering = Signal()
        complete = Signal()
        m.d.comb += [
            self.c.ready.eq((held != slots) & ~ResetSignal()),
            self.empty.eq(held == 0),
            entering.eq(self.c.valid & self.c.ready),
            complete.eq(Cat(writing[end - 1] for end in range(beats, slots + 1, beats)).any()),
            self.available.eq(blocks != 0),
            self.wrong_last.eq(entering & (payload.last ^ complete)),
        ]
        leaving = Const(slots) if self.pops_blocks else Const(1)
        with m.If(self.pop):
            m.d.sync += held.eq(held + entering - leaving)
        with m.Else():
            m.d.sync += held.eq(held + entering)
        m.d.sync += blocks.eq(blocks + (entering & complete) - self.starts)

        values = [payload.values[row][column] for row in range(self.out_rows) for column in range(self.columns)]
        if self.floating:
            special = reduce(or_, (value[23:31].all() for value in values))
            m.d.comb += self.non_finite.eq(entering & special)
        stored = [Signal(payload.values.shape(), reset_less=True, name=f"beat_{slot}") for slot in range(slots)]
        with m.If(entering):
            m.d.sync += writing.eq(writing.rotate_left(1))
            for slot in range(slots):
                with m.If(writing[slot]):
                    m.d.sync += stored[slot].eq(payload.values)
        if self.pops_blocks:
            m.d.comb += self.values.as_value().eq(Cat(beat.as_value() for beat in stored))
        else:
            reading = Signal(slots, init=1)
            with m.If(self.pop):
                m.d.sync += reading.eq(reading.rotate_left(1))
            chosen = (
                beat.as_value() & reading[slot].replicate(len(beat.as_value())) for slot, beat in enumerate(stored)
            )
            m.d.comb += self.values.as_value().eq(reduce(or_, chosen))
        return m
