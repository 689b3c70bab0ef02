"""Sum adder: partial sums and biases join a pass's sums."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, signed
from amaranth.lib.wiring import In, Out

from ..block import Block
from ..configuration.parameters import require_int
from ..layouts import RawSumLayout

__all__ = ["SumAdder"]


class SumAdder(Block):
    """Adds to a sum, or to the last total, into a register.

    Timing: one cycle, one addition per cycle.

    Parameters
    ----------
    width : int
        Bits of a sum, sign included.
    biased : bool
        There are biases.

    Members
    -------
    sum, partial : In(RawSumLayout)
        A sum, and what is added to it.
    add : In(1)
        `partial` counts.
    again : In(1), bias : In(RawSumLayout), carry : In(1)
        Only if `biased`: the last total instead of `sum`; what is added besides, a number and 1 more (`BiasAligner`).
        Never both `partial` and a bias that is not zero.
    load : In(1)
        Add; otherwise the outputs stay.
    total : Out(RawSumLayout)
        The sum, modulo 2^width.
    overflow : Out(1)
        It has left the range of `width` bits.

    Source: docs/core.md, "Multiply".
    """

    def __init__(self, *, width: int, biased: bool) -> None:
        self.width, self.biased = require_int("width", width, 2), biased
        super().__init__(
            {
                "sum": In(RawSumLayout(width)),
                "partial": In(RawSumLayout(width)),
                "add": In(1),
                **({"again": In(1), "bias": In(RawSumLayout(width)), "carry": In(1)} if biased else {}),
                "load": In(1),
                "total": Out(RawSumLayout(width)),
                "overflow": Out(1),
            }
        )

    def elaborate(self, platform):
        """Gate, add, register. What is told of overflow is made behind the register, off the carry chain's end."""
        m = Module()
        layout = RawSumLayout(self.width)
        held, added = Signal(layout, name="held"), Signal(layout, name="added")
        carry = self.carry if self.biased else Const(0, 1)
        more = self.partial.as_value() & self.add.replicate(layout.size)
        m.d.comb += [
            held.as_value().eq(
                Mux(self.again, self.total.as_value(), self.sum.as_value()) if self.biased else self.sum
            ),
            added.as_value().eq(more | self.bias.as_value() if self.biased else more),
        ]
        # One bit more at the lower end, so that one carry chain adds the carry, too.
        total = Signal(signed(self.width + 2))
        m.d.comb += total.eq(
            Cat(Const(1), held.number).as_signed() + Cat(carry, added.number).as_signed()
            if self.biased
            else Cat(Const(0), held.number.as_signed() + added.number.as_signed())
        )
        number = Signal(self.width + 1, reset_less=True)
        specials = Signal(2, reset_less=True)
        with m.If(self.load):
            m.d.sync += [
                number.eq(total[1:]),
                specials[0].eq(held.positive | added.positive),
                specials[1].eq(held.negative | added.negative),
            ]
        m.d.comb += [
            self.total.number.eq(number[:-1]),
            self.total.positive.eq(specials[0]),
            self.total.negative.eq(specials[1]),
            self.overflow.eq(number[-1] ^ number[-2]),
        ]
        return m
