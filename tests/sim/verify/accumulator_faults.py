"""Faults of accumulators and of the rounder that both benches and proofs must find."""

from amaranth.hdl import Cat, Mux

from tensordash.arithmetic import normalizer
from tensordash.arithmetic.accumulator import ExactAccumulator

from .conftest import Recorder


def replace_top_by_sign(sabotage, result_bits: int) -> None:
    """Replace a sum's bits above the results' by its sign."""

    def assignments(self, inside):
        number = inside["accumulated"].number
        cut = Cat(number[:result_bits], number[-1].replicate(self.shape.width - result_bits))
        return inside["basis"].eq(Mux(self.sum.start, 0, cut).as_signed())

    sabotage(ExactAccumulator, assignments)


def check_overflow_from(sabotage, lowest: int) -> None:
    """Report an overflow if not all bits from a place on, counted from the sum's width, are equal."""

    def assignments(self, inside):
        top = inside["grown"][self.shape.width + lowest :]
        return self.sum.overflow.eq(inside["counting"] & ~self.sum.hold & ~(top.all() | ~top.any()))

    sabotage(ExactAccumulator, assignments)


def lose_top_of_first_shift(monkeypatch, module) -> None:
    """Clear the top four bits after the first stage of the normaliser that a module uses."""
    original = normalizer.normalize

    def wrong(m, bits, *args, **kwargs):
        inside = Recorder()
        with monkeypatch.context() as within:
            within.setattr(normalizer, "Signal", inside)
            normalized = original(m, bits, *args, **kwargs)
        m.d.comb += inside.signals[f"normal_{len(bits).bit_length() - 1}"][-4:].eq(0)
        return normalized

    monkeypatch.setattr(module, "normalize", wrong)
