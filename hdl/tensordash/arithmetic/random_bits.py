"""Random bits for stochastic rounding: a generator for each column."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib.wiring import In, Out

from ..block import Block
from ..configuration.parameters import require_int

__all__ = ["RANDOM_BITS", "RandomBits"]

RANDOM_BITS = 16
GOLDEN_RATIO = 0x9E3779B9


class RandomBits(Block):
    """xorshift32 with the seed of one column.

    Timing: `bits` are those of the next state, which `step` makes the state: one draw per cycle.

    Parameters
    ----------
    column : int
        Which column.

    Members
    -------
    seed : In(32), start : In(1)
        Begin anew with this seed. Never together with `step`.
    step : In(1)
        The bits are used.
    bits : Out(16)
        The draw.

    Source: docs/core.md, "Stochastic rounding"; Marsaglia, "Xorshift RNGs", 2003.
    """

    def __init__(self, *, column: int) -> None:
        self.column = require_int("column", column, 0)
        super().__init__({"seed": In(32), "start": In(1), "step": In(1), "bits": Out(RANDOM_BITS)})

    def elaborate(self, platform):
        """Three shifts and exclusive ors."""
        m = Module()
        state = Signal(32, reset_less=True)
        first, second, third, initial = (Signal(32, name=name) for name in ("first", "second", "third", "initial_state"))
        m.d.comb += [
            initial.eq(self.seed ^ ((self.column + 1) * GOLDEN_RATIO % 2**32)),
            first.eq(state ^ (state << 13)[:32]),
            second.eq(first ^ (first >> 17)),
            third.eq(second ^ (second << 5)[:32]),
            self.bits.eq(third),
        ]
        with m.If(self.start):
            m.d.sync += state.eq(Mux(initial == 0, 1, initial))
        with m.Elif(self.step):
            m.d.sync += state.eq(third)
        return m
