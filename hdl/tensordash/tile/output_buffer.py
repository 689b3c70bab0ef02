"""Output buffer: two beats between a tile and its sink, so that the sink's ready drives registers only."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream
from amaranth.lib.wiring import In, Out

from ..block import Block
from ..configuration.parameters import require_int
from ..layouts import beat_layout

__all__ = ["OutputBuffer"]


class OutputBuffer(Block):
    """Queues up to two beats. All outputs are registers.

    Timing: a beat that enters is at `out` in the next cycle, or when the beat before it has been taken. One beat leaves
    in each cycle in which `out` is ready. `beats.ready` depends on no input of the same cycle.

    Parameters
    ----------
    out_rows, columns : int
        Shape of a beat.

    Members
    -------
    beats : In(stream of beat_layout)
        Beats that enter. Ready while the queue holds fewer than two.
    out : Out(stream of beat_layout)
        The oldest beat.
    empty : Out(1)
        The queue holds no beat.

    Raises
    ------
    ValueError
        For a parameter below 1.

    Source: docs/tile.md, "One cycle", step 1.
    """

    def __init__(self, *, out_rows: int, columns: int) -> None:
        self.out_rows = require_int("out_rows", out_rows, 1)
        self.columns = require_int("columns", columns, 1)
        layout = beat_layout(out_rows, columns)
        super().__init__(
            {"beats": In(stream.Signature(layout)), "out": Out(stream.Signature(layout)), "empty": Out(1)},
        )

    def elaborate(self, platform):
        """Hold the oldest beat in the register of `out`, and a beat that has to wait for it in a second one."""
        m = Module()
        first_valid, second_valid = Signal(name="first_valid"), Signal(name="second_valid")
        first = Signal.like(self.beats.payload, name="first", reset_less=True)
        second = Signal.like(self.beats.payload, name="second", reset_less=True)
        m.d.comb += [
            self.beats.ready.eq(~second_valid),
            self.out.valid.eq(first_valid),
            self.out.payload.eq(first),
            self.empty.eq(~first_valid),
        ]
        with m.If(~first_valid | self.out.ready):
            m.d.sync += [
                first_valid.eq(second_valid | self.beats.valid),
                second_valid.eq(0),
                first.eq(Mux(second_valid, second, self.beats.payload)),
            ]
        with m.Else():
            m.d.sync += second_valid.eq(second_valid | self.beats.valid)
        with m.If(self.beats.valid & ~second_valid):
            m.d.sync += second.eq(self.beats.payload)
        return m
