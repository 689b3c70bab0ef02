"""Scaled accumulator: adds sums of steps, each times its scales, in fixed point."""

from functools import reduce
from operator import or_
from typing import Any

from amaranth.hdl import Cat, Module, Signal, Value, signed
from amaranth.lib.data import ArrayLayout, StructLayout
from amaranth.lib.wiring import In

from ..configuration.numerics import Numerics
from ..configuration.parameters import require_int
from ..layouts import product_layout
from .accumulator import ExactAccumulator, shifted_up
from .step_sums import step_sum_bits
from .sum_ports import SumSignature

__all__ = ["ScaledAccumulator", "scale_product_layout"]


def scale_product_layout(numerics: Numerics) -> StructLayout:
    """Return the layout of the product of both sides' scales of a step."""
    assert numerics.scale is not None
    assert numerics.scale.number is not None
    return product_layout(numerics.scale.number, numerics.scale.number)


class ScaledAccumulator(ExactAccumulator):
    """An `ExactAccumulator` for sums of steps, which it multiplies by their scales first, exactly.

    Timing: as in `ExactAccumulator`.

    Parameters
    ----------
    numerics : Numerics
        Floating-point formats, an `Exact` accumulator, and a scale that is a number.
    lanes : int
        Products per cycle, of all steps together, at least 1.
    steps : int
        Sums per cycle.
    stages : int
        1 or 2.

    Members
    -------
    sums : In(signed(step_sum_bits), steps)
        Sums of steps from `StepSums`.
    scales : In(scale_product_layout, steps)
        The product of each step's scales.
    active : In(steps)
        Sums in which a product counts. The others are zero, and their NaN scales do not count.
    sum : In(SumSignature)
        As in `ExactAccumulator`.

    Raises
    ------
    ValueError
        For a parameter out of range.

    Source: docs/numerics.md, "Scales" and "exact".
    """

    def __init__(self, *, numerics: Numerics, lanes: int, steps: int, stages: int) -> None:
        self.steps = require_int("steps", steps, 1)
        if numerics.scale is None or numerics.scale.number is None:
            raise ValueError(f"numerics must have a scale that is a number, not {numerics}")
        super().__init__(numerics=numerics, lanes=lanes, stages=stages)

    def _members(self, numerics: Numerics) -> dict[str, Any]:
        return {
            "sums": In(ArrayLayout(signed(step_sum_bits(numerics, self.lanes)), self.steps)),
            "scales": In(ArrayLayout(scale_product_layout(numerics), self.steps)),
            "active": In(self.steps),
            "sum": In(SumSignature(numerics)),
        }

    def _terms(self, m: Module) -> list[tuple[Value, Value]]:
        """Multiply each sum by its scales, and place it, as (one's complement number, sign)."""
        return [self._scaled(m, step) for step in range(self.steps)]

    def _scaled(self, m: Module, step: int) -> tuple[Value, Value]:
        scale = self.scales[step]
        counts, negative = Signal(name=f"counts_{step}"), Signal(name=f"negative_{step}")
        multiplied = Signal(signed(len(self.sums[step]) + len(scale.significand)), name=f"multiplied_{step}")
        m.d.comb += [
            counts.eq(self._active[step] & ~scale.nan),
            negative.eq(scale.sign & counts),
            multiplied.eq(self.sums[step] * scale.significand),
        ]
        # Complemented before the shift, with the sign shifted in below, as products are.
        width = self.total_bits
        bits = shifted_up(
            m,
            list((multiplied.as_unsigned() & counts.replicate(len(multiplied))) ^ negative.replicate(len(multiplied))),
            scale.shift,
            below=negative,
            width=width,
            name=f"shifted_{step}",
        )
        term = Signal(signed(width), name=f"term_{step}")
        m.d.comb += term.eq(Cat(*bits).as_signed())
        return term, negative

    def _infinity(self, sign: int) -> Value:
        """Return whether a NaN is among the scales, for either sign."""
        return reduce(or_, [active & scale.nan for active, scale in zip(self._active, self.scales, strict=True)])
