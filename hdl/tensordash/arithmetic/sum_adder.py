"""Sum adder: partial sums join a pass's."""

from amaranth.hdl import Module, Signal, signed
from amaranth.lib.wiring import In, Out

from ..block import Block
from ..configuration.parameters import require_int
from ..layouts import RawSumLayout

__all__ = ["SumAdder"]


class SumAdder(Block):
    """Adds two exact sums, or passes the first on, into a register.

    Timing: one cycle, one sum per cycle.

    Parameters
    ----------
    width : int
        Bits of a sum, sign included.

    Members
    -------
    sum, partial : In(RawSumLayout)
        What is added.
    add : In(1)
        `partial` counts.
    load : In(1)
        Take both; otherwise the outputs stay.
    total : Out(RawSumLayout)
        The sum, modulo 2^width.
    overflow : Out(1)
        It has left the range of `width` bits.

    Source: docs/core.md, "Multiply".
    """

    def __init__(self, *, width: int) -> None:
        self.width = require_int("width", width, 2)
        super().__init__(
            {
                "sum": In(RawSumLayout(width)),
                "partial": In(RawSumLayout(width)),
                "add": In(1),
                "load": In(1),
                "total": Out(RawSumLayout(width)),
                "overflow": Out(1),
            }
        )

    def elaborate(self, platform):
        """Gate, add, register. What is told of overflow is made behind the register, off the carry chain's end."""
        m = Module()
        partial = Signal(RawSumLayout(self.width))
        m.d.comb += partial.as_value().eq(self.partial.as_value() & self.add.replicate(len(partial.as_value())))
        total = Signal(signed(self.width + 1))
        m.d.comb += total.eq(self.sum.number.as_signed() + partial.number.as_signed())
        number = Signal(self.width + 1, reset_less=True)
        specials = Signal(2, reset_less=True)
        with m.If(self.load):
            m.d.sync += [
                number.eq(total),
                specials[0].eq(self.sum.positive | partial.positive),
                specials[1].eq(self.sum.negative | partial.negative),
            ]
        m.d.comb += [
            self.total.number.eq(number[:-1]),
            self.total.positive.eq(specials[0]),
            self.total.negative.eq(specials[1]),
            self.overflow.eq(number[-1] ^ number[-2]),
        ]
        return m
