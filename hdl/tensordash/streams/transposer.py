"""Transposer: outputs a group of blocks unchanged or transposed."""

from functools import reduce
from operator import or_

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream
from amaranth.lib.data import ArrayLayout, StructLayout
from amaranth.lib.wiring import In, Out

from ..block import Block
from ..configuration.parameters import require_int

__all__ = ["Transposer", "group_layout"]


def group_layout(width: int, lanes: int) -> StructLayout:
    """Return the layout of a block that enters: its values, and whether to transpose its group (first block only)."""
    return StructLayout({"values": ArrayLayout(width, lanes), "transpose": 1})


class Transposer(Block):
    """Transposes groups of `lanes` blocks of `lanes` values in a `lanes` x `lanes` array.

    The array is written in place. As a group leaves block by block, the next group takes its room in the same
    orientation (rows or columns). That is then the next group's orientation. Values move once, and an output never
    waits for an input.

    Timing: a group's first block is valid in the cycle after its last block entered. Then one block enters and one
    leaves in every cycle, without a bubble between groups.

    Parameters
    ----------
    width : int
        Bits of a value.
    lanes : int
        Values of a block and blocks of a group, at least 2.

    Members
    -------
    blocks : In(stream of group_layout)
    out : Out(stream of width x lanes)

    Raises
    ------
    ValueError
        For a parameter out of range.

    Source: paper, section III-A, "Tensor Layout and Transposing".
    """

    def __init__(self, *, width: int, lanes: int) -> None:
        self.width = require_int("width", width, 1)
        self.lanes = require_int("lanes", lanes, 2)
        super().__init__(
            {
                "blocks": In(stream.Signature(group_layout(width, lanes))),
                "out": Out(stream.Signature(ArrayLayout(width, lanes))),
            },
        )

    def elaborate(self, platform):
        """Build an array with one-hot read and write pointers, and the orientation of each."""
        m = Module()
        lanes = self.lanes
        cells = [
            [Signal(self.width, name=f"cell_{row}_{column}", reset_less=True) for column in range(lanes)]
            for row in range(lanes)
        ]
        write = Signal(lanes, init=1)
        read = Signal(lanes, init=1)
        by_column = Signal()  # the orientation of the group in the array
        resident = Signal()  # a complete group is there
        turned = Signal(reset_less=True)  # the resident group leaves transposed
        turning = Signal(reset_less=True)  # the group being written will leave transposed
        reads_columns = Signal()
        moves_in = Signal()
        moves_out = Signal()
        ahead = Signal(lanes - 1)  # its slots that have left; zero when the last one leaves
        m.d.comb += [
            reads_columns.eq(by_column ^ turned),
            self.out.valid.eq(resident),
            moves_out.eq(resident & self.out.ready),
            self.blocks.ready.eq(~resident | (write & (ahead | (read & moves_out.replicate(lanes)))).any()),
            moves_in.eq(self.blocks.valid & self.blocks.ready),
        ]
        writes_columns = Mux(resident, reads_columns, by_column)
        for lane in range(lanes):
            chosen = [
                Mux(reads_columns, cells[lane][slot], cells[slot][lane]) & read[slot].replicate(self.width)
                for slot in range(lanes)
            ]
            m.d.comb += self.out.payload[lane].eq(reduce(or_, chosen))
        for row in range(lanes):
            for column in range(lanes):
                with m.If(moves_in & Mux(writes_columns, write[column], write[row])):
                    values = self.blocks.payload.values
                    m.d.sync += cells[row][column].eq(Mux(writes_columns, values[row], values[column]))

        last_in, last_out = moves_in & write[-1], moves_out & read[-1]
        transpose = Signal()
        m.d.comb += transpose.eq(Mux(write[0], self.blocks.payload.transpose, turning))
        with m.If(moves_in):
            m.d.sync += [write.eq(write.rotate_left(1)), turning.eq(transpose)]
        with m.If(moves_out):
            m.d.sync += [read.eq(read.rotate_left(1)), ahead.eq(ahead | read)]
        with m.If(last_out):
            m.d.sync += [ahead.eq(0), by_column.eq(reads_columns), resident.eq(0)]
        with m.If(last_in):
            m.d.sync += [resident.eq(1), turned.eq(transpose)]
        return m
