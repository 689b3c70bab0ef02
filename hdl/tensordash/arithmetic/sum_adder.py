"""Sum adder: adds partial sums and biases to a pass's sums."""

from amaranth.hdl import Cat, Module, Signal, signed

from ..block import Block
from ..configuration.parameters import require_bool, require_int
from ..layouts import RawSumLayout
from .adder_terms import adder_members, chosen_terms

__all__ = ["SumAdder"]


class SumAdder(Block):
    """Adds a partial sum to a sum, or a bias to a sum or to an earlier total.

    Timing: combinational.

    Parameters
    ----------
    width : int
        Bits of a sum, sign included.
    biased : bool
        There are biases.

    Members
    -------
    sum, partial : In(RawSumLayout)
        A sum, and the partial sum to add.
    add : In(1)
        `partial` counts.
    second_pass : In(1), earlier : In(RawSumLayout)
        Only if `biased`: an earlier total instead of `sum`.
    bias : In(RawSumLayout), carry : In(1)
        Only if `biased`: a second addend and a carry (`BiasAligner`). Both are zero where `add` is set.
    total : Out(RawSumLayout)
        The total, modulo 2^width.
    overflow : Out(1)
        The total leaves the range of `width` bits.

    Source: docs/core.md, "Multiply".
    """

    def __init__(self, *, width: int, biased: bool) -> None:
        self.width, self.biased = require_int("width", width, 2), require_bool("biased", biased)
        super().__init__(adder_members(RawSumLayout(width), biased=biased))

    def elaborate(self, platform):
        """Select the terms and add them. With one more bit at the lower end, one carry chain also adds the carry."""
        m = Module()
        left, right, carry = chosen_terms(m, self, RawSumLayout(self.width))
        total = Signal(signed(self.width + 2))
        m.d.comb += [
            total.eq(Cat(carry, left.number).as_signed() + Cat(carry, right.number).as_signed()),
            self.total.number.eq(total[1:-1]),
            self.total.positive.eq(left.positive | right.positive),
            self.total.negative.eq(left.negative | right.negative),
            self.overflow.eq(total[-1] ^ total[-2]),
        ]
        return m
