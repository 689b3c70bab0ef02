"""Random bits for stochastic rounding: a generator for each column."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib.wiring import In, Out

from ..block import Block

__all__ = ["RANDOM_BITS", "RandomBits"]

RANDOM_BITS = 16


class RandomBits(Block):
    """xorshift32.

    Timing: `bits` are those of the next state, which `step` makes the state: one draw per cycle.

    Members
    -------
    seed : In(32), start : In(1)
        Begin anew with this seed, 0 standing for 1.
    step : In(1)
        The bits are used.
    bits : Out(16)
        The draw.

    Source: docs/core.md, "Stochastic rounding"; Marsaglia, "Xorshift RNGs", 2003.
    """

    def __init__(self) -> None:
        super().__init__({"seed": In(32), "start": In(1), "step": In(1), "bits": Out(RANDOM_BITS)})

    def elaborate(self, platform):
        """Three shifts and exclusive ors."""
        m = Module()
        state = Signal(32, reset_less=True)
        first, second, third = (Signal(32, name=name) for name in ("first", "second", "third"))
        m.d.comb += [
            first.eq(state ^ (state << 13)[:32]),
            second.eq(first ^ (first >> 17)),
            third.eq(second ^ (second << 5)[:32]),
            self.bits.eq(third),
        ]
        with m.If(self.start):
            m.d.sync += state.eq(Mux(self.seed == 0, 1, self.seed))
        with m.Elif(self.step):
            m.d.sync += state.eq(third)
        return m
