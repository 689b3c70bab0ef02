"""Integer adder: adds partial sums and biases to a pass's sums of integer products."""

from amaranth.hdl import Module, Signal, signed

from ..block import Block
from ..configuration.parameters import require_bool
from ..layouts import RESULT_BITS
from .adder_terms import adder_members, chosen_terms

__all__ = ["IntegerAdder"]


class IntegerAdder(Block):
    """Adds a partial sum to a sum, or a bias to a sum or to an earlier total, as INT32.

    Timing: combinational.

    Parameters
    ----------
    biased : bool
        There are biases.

    Members
    -------
    sum, partial, total : INT32
    add, second_pass, earlier, bias, carry, overflow
        As in `SumAdder`. `bias` is zero where `add` is set, and `carry` is always 0.

    Source: docs/core.md, "Integers".
    """

    def __init__(self, *, biased: bool) -> None:
        self.biased = require_bool("biased", biased)
        super().__init__(adder_members(signed(RESULT_BITS), biased=biased))

    def elaborate(self, platform):
        """Select the terms and add them. One more bit shows whether the total leaves the range."""
        m = Module()
        left, right, _ = chosen_terms(m, self, signed(RESULT_BITS))
        total = Signal(signed(RESULT_BITS + 1))
        m.d.comb += [total.eq(left + right), self.total.eq(total), self.overflow.eq(total[-1] ^ total[-2])]
        return m
