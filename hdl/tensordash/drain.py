"""Drain: moves a finished block out, row by row, rounding it on the way."""

from functools import reduce
from operator import or_

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import stream
from amaranth.lib.data import ArrayLayout, StructLayout
from amaranth.lib.wiring import In, Out

from .block import Block
from .formats import FloatFormat
from .layouts import FixedPoint, RawBlockLayout
from .parameters import require_int
from .rounder import Rounder

__all__ = ["Drain", "beat_layout"]


def beat_layout(out_rows: int, columns: int) -> StructLayout:
    """A beat of results: FP32 values of `out_rows` rows of the block, and whether it is the block's final one."""
    return StructLayout({"values": ArrayLayout(ArrayLayout(32, columns), out_rows), "last": 1})


class Drain(Block):
    """Sends the block that the PEs hold as ``rows / out_rows`` beats; one rounder per result of a beat.

    Timing: the first beat is valid two cycles after `take`, then one beat per cycle that `out` allows.

    Parameters
    ----------
    rows, columns, out_rows : int
        Shape of a block, and rows of a beat.
    a_format, b_format, headroom_bits
        As in `PE`.

    Members
    -------
    blocks : In(RawBlockLayout, columns, rows)
        The PEs' finished sums.
    take : In(1)
        The PEs take a new block in this cycle. Only while `free`.
    free : Out(1)
        The block has moved out, or the rest of it does in this cycle.
    out : Out(stream of beat_layout)
        Results.

    Raises
    ------
    ValueError
        If `out_rows` does not divide `rows`.
    """

    def __init__(
        self,
        *,
        rows: int,
        columns: int,
        out_rows: int,
        a_format: FloatFormat,
        b_format: FloatFormat,
        headroom_bits: int,
    ) -> None:
        self.rows = require_int("rows", rows, 1)
        self.columns = require_int("columns", columns, 1)
        self.out_rows = require_int("out_rows", out_rows, 1, rows)
        if rows % out_rows:
            raise ValueError(f"out_rows must divide rows = {rows}, not {out_rows}")
        self.numbers = {"a_format": a_format, "b_format": b_format, "headroom_bits": headroom_bits}
        self.layout = RawBlockLayout(FixedPoint(a_format, b_format, headroom_bits).width)
        super().__init__(
            {
                "blocks": In(ArrayLayout(ArrayLayout(self.layout, columns), rows)),
                "take": In(1),
                "free": Out(1),
                "out": Out(stream.Signature(beat_layout(out_rows, columns))),
            },
            identity=(rows, columns, out_rows, a_format, b_format, headroom_bits),
        )

    def elaborate(self, platform):
        """A one-hot beat counter, a row mux, rounders."""
        m = Module()
        beats = self.rows // self.out_rows
        beat = Signal(beats)  # the one that moves next; none when the block has left
        moves = Signal()
        final = Signal()
        m.d.comb += [
            moves.eq(beat.any() & (~self.out.valid | self.out.ready)),
            self.free.eq(~beat.any() | (beat[-1] & moves)),
            self.out.payload.last.eq(final),
        ]
        with m.If(self.take):
            m.d.sync += beat.eq(1)
        with m.Elif(moves):
            m.d.sync += beat.eq(beat << 1)
        with m.If(moves):
            m.d.sync += [self.out.valid.eq(1), final.eq(beat[-1])]
        with m.Elif(self.out.ready):
            m.d.sync += self.out.valid.eq(0)

        for row in range(self.out_rows):
            for column in range(self.columns):
                rounder = Rounder(**self.numbers)
                m.submodules[f"rounder_{row}_{column}"] = rounder.place(platform)
                choices = [self.blocks[i * self.out_rows + row][column].as_value() for i in range(beats)]
                chosen = reduce(or_, (choice & beat[i].replicate(len(choice)) for i, choice in enumerate(choices)))
                m.d.comb += [
                    Cat(rounder.block).eq(chosen),
                    rounder.load.eq(moves),
                    self.out.payload.values[row][column].eq(rounder.value),
                ]
        return m
