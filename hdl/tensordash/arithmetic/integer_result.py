"""Integer result: converts a finished integer sum to INT32."""

from amaranth.hdl import Module, Signal, signed
from amaranth.lib.wiring import In, Out

from ..block import Block
from ..configuration.parameters import require_int
from ..layouts import RESULT_BITS

__all__ = ["IntegerResult"]


class IntegerResult(Block):
    """Extends a sum to INT32, and adds C if there is one.

    Timing: one cycle, one sum per cycle.

    Parameters
    ----------
    width : int
        Bits of the sum, sign included, at most 32.
    initial : bool
        Whether there is a C.

    Members
    -------
    sum : In(width)
        The sum.
    load : In(1)
        Take the sum. Otherwise `value` does not change.
    value : Out(32)
        Sum (and C) of the last load, modulo 2**32.
    c : In(32), overflow : Out(1)
        Only if `initial`: C, and whether this cycle's addition leaves the range, loaded or not.

    Raises
    ------
    ValueError
        For a sum wider than the result.

    Source: docs/numerics.md, "exact".
    """

    def __init__(self, *, width: int, initial: bool) -> None:
        self.width = require_int("width", width, 2, RESULT_BITS)
        self.initial = initial
        members: dict = {"sum": In(signed(width)), "load": In(1), "value": Out(RESULT_BITS)}
        if initial:
            members |= {"c": In(signed(RESULT_BITS)), "overflow": Out(1)}
        super().__init__(members)

    def elaborate(self, platform):
        m = Module()
        total = Signal(signed(RESULT_BITS + 1))
        value = Signal(RESULT_BITS, reset_less=True)
        m.d.comb += [total.eq(self.sum), self.value.eq(value)]
        if self.initial:
            m.d.comb += [total.eq(self.sum + self.c), self.overflow.eq(total[-1] ^ total[-2])]
        with m.If(self.load):
            m.d.sync += value.eq(total)
        return m
