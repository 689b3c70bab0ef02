"""Binned adder: adds partial sums and biases to a pass's binned sums."""

from functools import reduce
from operator import or_

from amaranth.hdl import Module, Mux, Signal, signed
from amaranth.lib.data import View

from ..block import Block
from ..configuration.numerics import Numerics
from ..configuration.parameters import require_bool
from ..layouts import BinnedShape, RawSumLayout
from .adder_terms import adder_members, chosen_terms
from .binned_digits import distances, moved_down

__all__ = ["BinnedAdder"]


class BinnedAdder(Block):
    """Adds a partial sum to a binned sum, or a bias to a sum or to an earlier total.

    The bins of the sum with the lower top bin move down to the other sum's bins. Those below the last register are
    dropped.

    Timing: combinational.

    Parameters
    ----------
    numerics : Numerics
        Floating-point formats, and a `Binned` accumulator.
    biased : bool
        There are biases.

    Members
    -------
    sum, partial, add, second_pass, earlier, total
        As in `SumAdder`. Sums are bins and the number of the top bin (`BinnedShape`).
    bias : In(RawSumLayout), carry : In(1)
        Only if `biased`: a second addend, and a carry into each of its bins (`BinnedBias`). Both are zero where `add`
        is set.
    overflow : Out(1)
        A bin leaves the range of its register, and wraps.

    Raises
    ------
    ValueError
        If the formats are not floating-point, or the accumulator is not binned.

    Source: docs/core.md, "Binned sums".
    """

    def __init__(self, *, numerics: Numerics, biased: bool) -> None:
        self.shape, self.biased = BinnedShape(numerics), require_bool("biased", biased)
        super().__init__(adder_members(RawSumLayout(self.shape.width), biased=biased))

    def elaborate(self, platform):
        """Select the terms, align both to the larger top bin, and add bin by bin."""
        m = Module()
        shape = self.shape
        left, right, carry = chosen_terms(m, self, RawSumLayout(shape.width))
        numbers = [View(shape.layout, each.number) for each in (left, right)]
        total = View(shape.layout, self.total.number)
        left_down, right_down = distances(m, numbers[1].top, numbers[0].top, shape.bins, "top")
        left_bins, right_bins = (
            moved_down(list(number.bins), down) for number, down in zip(numbers, (left_down, right_down), strict=True)
        )
        carries = moved_down([carry] * shape.bins, right_down)
        overflows = []
        for place in range(shape.bins):
            grown = Signal(signed(shape.bin_width + 1), name=f"grown_{place}")
            m.d.comb += [
                grown.eq(left_bins[place].as_signed() + right_bins[place].as_signed() + carries[place]),
                total.bins[place].eq(grown),
            ]
            overflows.append(grown[-1] ^ grown[-2])
        m.d.comb += [
            total.top.eq(Mux(left_down[0], numbers[0].top, numbers[1].top)),
            self.total.positive.eq(left.positive | right.positive),
            self.total.negative.eq(left.negative | right.negative),
            self.overflow.eq(reduce(or_, overflows)),
        ]
        return m
