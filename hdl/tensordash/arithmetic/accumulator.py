"""Exact accumulator: the sum of a stream's products in fixed point."""

from functools import reduce
from operator import add, or_
from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib.data import ArrayLayout
from amaranth.lib.wiring import In

from ..block import Block
from ..configuration.formats import FloatFormat
from ..configuration.numerics import Exact, Numerics
from ..configuration.parameters import require_int
from ..layouts import FixedPoint, RawSumLayout, product_layout
from .sum_ports import SumSignature

__all__ = ["ExactAccumulator", "shifted_up"]


def shifted_up(
    m: Module, bits: list[Value], shift: Value, *, below: Value, above: Value | None = None, width: int, name: str
) -> list[Value]:
    """Shift bits to the left. The result has at most `width` bits; upper bits are lost.

    Parameters
    ----------
    m : Module
        The module to build in, with a signal for each level.
    bits : list of Value
        The bits to shift, the lowest first.
    shift : Value
        The distance.
    below, above : Value
        Bits shifted in at both ends. By default `above` is the highest bit, a sign bit.
    width : int
        Maximum number of bits, at least the length of `bits`.
    name : str
        Name of the signals, without the level.
    """
    for level, selected in enumerate(shift):
        reach, top = 1 << level, bits[-1] if above is None else above
        grown = min(len(bits) + reach, width)
        padded = [below] * reach + bits + [top] * (grown - len(bits))
        shifted = Signal(grown, name=f"{name}_{level}")
        m.d.comb += shifted.eq(Mux(selected, Cat(padded[:grown]), Cat(padded[reach:])))
        bits = list(shifted)
    return bits


class ExactAccumulator(Block):
    """Sums `lanes` products per cycle without rounding, and holds the last finished sum while the next one grows.

    Timing: products of one cycle are in the sum after `stages` cycles (1: the loop alone; 2: the products of a cycle
    are added first and registered). It takes one set of products per cycle.

    Parameters
    ----------
    numerics : Numerics
        Floating-point formats, and an `Exact` accumulator.
    lanes : int
        Products per cycle, at least 1.
    stages : int
        1 or 2.

    Members
    -------
    products : In(product_layout, lanes)
    active : In(lanes)
        Products that count. Without any, the sum does not change.
    sum : In(SumSignature)
        Its controls refer to the products of `stages - 1` cycles ago. A sum that leaves its range wraps.

    Raises
    ------
    ValueError
        For a parameter out of range.

    Source: paper, Fig. 2 (the sum and accumulator of a PE), in exact fixed point instead of FP32: a sum does not
    depend on the order of its terms in the schedule.
    """

    def __init__(self, *, numerics: Numerics, lanes: int, stages: int) -> None:
        self.lanes = require_int("lanes", lanes, 1)
        self.stages = require_int("stages", stages, 1, 2)
        a, b, accumulator = numerics.a_format, numerics.b_format, numerics.accumulator
        if not isinstance(accumulator, Exact) or not isinstance(a, FloatFormat) or not isinstance(b, FloatFormat):
            raise ValueError(f"numerics must be floating-point and exact, not {numerics}")
        self.shape = FixedPoint(a, b, accumulator.headroom_bits, numerics.scale)
        self.total_bits = self.shape.product_bits + 1 + (self.lanes - 1).bit_length()
        super().__init__(self._members(numerics))
        self._active = Signal(len(self.active), name="counted")

    def _members(self, numerics: Numerics) -> dict[str, Any]:
        a, b = numerics.a_format, numerics.b_format
        assert isinstance(a, FloatFormat)
        assert isinstance(b, FloatFormat)
        return {
            "products": In(ArrayLayout(product_layout(a, b), self.lanes)),
            "active": In(self.lanes),
            "sum": In(SumSignature(numerics)),
        }

    def _terms(self, m: Module) -> list[tuple[Value, Value]]:
        """Return the terms that a cycle adds."""
        return [self._term(m, lane) for lane in range(self.lanes)]

    def _term(self, m: Module, lane: int) -> tuple[Value, Value]:
        """Place a product, as (one's complement number, sign). Their sum is the product's value."""
        product = self.products[lane]
        counts = Signal(name=f"counts_{lane}")
        negative = Signal(name=f"negative_{lane}")
        m.d.comb += [
            counts.eq(self._active[lane] & ~product.infinite & ~product.nan),
            negative.eq(product.sign & counts),
        ]
        # Complemented before the shift, with the sign shifted in at both ends: fewer gates than after the shift.
        width = self.shape.significand_bits
        bits = shifted_up(
            m,
            list((product.significand & counts.replicate(width)) ^ negative.replicate(width)),
            product.shift,
            below=negative,
            above=negative,
            width=self.shape.product_bits,
            name=f"shifted_{lane}",
        )
        term = Signal(signed(self.shape.product_bits + 1), name=f"term_{lane}")
        m.d.comb += term.eq(Cat(*bits, negative).as_signed())
        return term, negative

    def _infinity(self, sign: int) -> Value:
        """Return whether an infinity of this sign, or a NaN, is among the products."""
        marks = [
            active & (product.nan | (product.infinite & (product.sign == sign)))
            for active, product in zip(self._active, self.products, strict=True)
        ]
        return reduce(or_, marks)

    def elaborate(self, platform):
        """Align and add the products of a cycle, then accumulate."""
        m = Module()
        width = self.shape.width
        terms = self._terms(m)
        total = Signal(signed(self.total_bits), reset_less=True)
        positive = Signal(reset_less=True)
        negative = Signal(reset_less=True)
        counting = Signal()
        # A loop that adds nothing while the tile is frozen needs no enable. A loop after a register does.
        registered = self.stages > 1
        m.d.comb += self._active.eq(self.active & ~self.sum.hold.replicate(len(self.active)))
        added = [
            total.eq(reduce(add, [term for term, _ in terms] + [sign for _, sign in terms])),
            positive.eq(self._infinity(0)),
            negative.eq(self._infinity(1)),
            counting.eq(self._active.any()),
        ]
        if registered:
            with m.If(~self.sum.hold):
                m.d.sync += added
        else:
            m.d.comb += added

        accumulated = Signal(RawSumLayout(width), reset_less=True)
        finished = Signal(RawSumLayout(width), reset_less=True)
        accumulated_next = Signal(RawSumLayout(width))
        basis = Signal(signed(width))
        grown = Signal(signed(max(width, len(total)) + 1))
        m.d.comb += [
            basis.eq(Mux(self.sum.start, 0, accumulated.number).as_signed()),
            grown.eq(basis + total),
            accumulated_next.number.eq(grown),
            accumulated_next.positive.eq((accumulated.positive & ~self.sum.start) | positive),
            accumulated_next.negative.eq((accumulated.negative & ~self.sum.start) | negative),
            # The sum is undefined before the first stream.
            self.sum.overflow.eq(counting & ~self.sum.hold & ~(grown[width - 1 :].all() | ~grown[width - 1 :].any())),
            self.sum.value.eq(finished),
        ]
        with m.If(~self.sum.hold if registered else Const(1)):
            m.d.sync += accumulated.eq(accumulated_next)
        with m.If(self.sum.take):
            m.d.sync += finished.eq(accumulated_next)
        return m
