"""Fused accumulator: FP32 with one aligned multi-operand addition per cycle, as in tensor cores."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib.data import ArrayLayout, View
from amaranth.lib.wiring import In

from ..block import Block
from ..configuration.formats import FP32
from ..configuration.numerics import Fused, Numerics
from ..configuration.parameters import require_int
from ..layouts import RawSumLayout, accumulator_shape
from .float_sum import MIN_EXPONENT, Rounding, levels_up, scaled, shifted_right, signed_total
from .product_scaler import scale_sum_layout
from .product_terms import ProductTerms
from .sum_ports import SumSignature, starts_from_c

__all__ = ["FusedAccumulator", "cut_c", "started"]


class FusedAccumulator(Block):
    """Adds `lanes` products and an FP32 number, all aligned to the largest exponent, once per cycle.

    Timing: products of one cycle are in the sum after `stages` cycles (1: the loop alone; 2: products are aligned to
    the largest of them first and registered). It takes one set of products per cycle. The loop takes one cycle:
    compare, align, add, normalise, round.

    Parameters
    ----------
    numerics : Numerics
        Floating-point formats, and a `Fused` accumulator with its addend inside or last.
    lanes : int
        Products per cycle, at least 1.
    stages : int
        1 or 2.
    shared : bool
        All products of a cycle have the same scales, which are a separate input.

    Members
    -------
    products : In(product_layout, lanes)
    common : In(scale_sum_layout)
        Only if `shared`: the scales of all products.
    active, sum
        As in `ExactAccumulator`. A sum is FP32 cut to `result_bits` fraction bits, or FP16, with marks of infinities
        and NaN. The sign of a zero is undefined. A sum beyond the range is an infinity, without overflow.

    Raises
    ------
    ValueError
        For a parameter out of range.

    Source: docs/numerics.md, "fused"; facts of tensor cores as measured by the sources named there.
    """

    def __init__(self, *, numerics: Numerics, lanes: int, stages: int, shared: bool = False) -> None:
        self.lanes = require_int("lanes", lanes, 1)
        self.stages = require_int("stages", stages, 1, 2)
        self.terms = ProductTerms(numerics, lanes, shared=shared)
        accumulator = numerics.accumulator
        assert isinstance(accumulator, Fused)
        if accumulator.addend == "after":
            raise ValueError(f'numerics must have accumulator.addend = "inside" or "last", not "{accumulator.addend}"')
        if shared and (not numerics.scale_bits or accumulator.zero_exponent != MIN_EXPONENT):
            raise ValueError(
                f"numerics must have scales and count zeros as {MIN_EXPONENT} where they are shared, not {numerics}"
            )
        self.numerics, self.result_bits, self.shared = numerics, accumulator.result_bits, shared
        exponent_bits = accumulator.result_exponent_bits
        # How far the level of the least normal result is above 1, and how far the least product's level is below it.
        self.up = levels_up(exponent_bits)
        self.beneath = max(self.terms.beneath, MIN_EXPONENT + self.up - self.terms.least_product if self.up else 0)
        self.rounding = Rounding(
            fraction_bits=accumulator.fraction_bits,
            result_bits=accumulator.result_bits,
            nearest=accumulator.rounding == "nearest",
            level_bits=self.terms.level_bits,
            below=self.beneath,
            exponent_bits=exponent_bits,
        )
        super().__init__(
            {
                "products": In(ArrayLayout(self.terms.product, lanes)),
                **({"common": In(scale_sum_layout(numerics.scale_bits))} if shared else {}),
                "active": In(lanes),
                "sum": In(SumSignature(numerics)),
            },
        )

    def elaborate(self, platform):
        """Align the products, align them with the accumulated number, add, normalise, round, and accumulate."""
        m = Module()
        level, terms, marks = self.terms.align(
            m,
            self.products,
            self.active,
            self.sum.hold,
            registered=self.stages > 1,
            common=self.common if self.shared else None,
        )
        width, _ = accumulator_shape(self.numerics)
        accumulated = Signal(RawSumLayout(width), reset_less=True)
        basis = started(m, self.sum, accumulated, self.numerics)
        result = self._add(m, basis, level, terms, marks)
        finished = Signal(RawSumLayout(width), reset_less=True)
        accumulated_next = Signal(RawSumLayout(width))
        m.d.comb += [accumulated_next.eq(Mux(marks.counting, result, basis)), self.sum.value.eq(finished)]
        with m.If(~self.sum.hold if self.stages > 1 else Const(1)):
            m.d.sync += accumulated.eq(accumulated_next)
        with m.If(self.sum.take):
            m.d.sync += finished.eq(accumulated_next)
        return m

    def _add(self, m: Module, basis: View, level: Signal, terms: View, marks: View) -> View:
        """Add the accumulated number and the products, with their marks."""
        width, level_bits, result_bits = self.terms.width, self.terms.level_bits, self.result_bits
        number = basis.number
        field, sign = number[result_bits:-1], number[-1]
        normal = field.any()
        own_level = Cat(field[0] | ~normal, field[1:])
        c_level = Signal(level_bits)
        c_above = Signal()
        top_level = Signal(level.shape())
        up, down = (Signal(level_bits + 1, name=name) for name in ("up", "down"))
        m.d.comb += [
            c_level.eq(own_level + self.up if self.up else own_level),
            up.eq(c_level - level),
            down.eq(level - c_level),
            # A zero is not above a level below 1.
            c_above.eq(~up[-1] & number[:-1].any() if self.beneath else ~up[-1]),
            top_level.eq(Mux(c_above, c_level, level)),
        ]
        c_magnitude = scaled(Cat(number[:result_bits], normal), self.terms.fraction_bits - result_bits, width)
        near = (~c_above).replicate(len(down)) & down
        far = c_above.replicate(len(up)) & up
        pairs = [(shifted_right(m, c_magnitude, near[:-1], "c_aligned"), sign)]
        pairs += [
            (shifted_right(m, term.magnitude, far[:-1], f"term_{lane}"), term.sign) for lane, term in enumerate(terms)
        ]
        total = signed_total(m, pairs, width)
        infinite = (basis.positive | marks.positive, basis.negative | marks.negative)
        return self.rounding.apply(m, total, top_level, infinite)


def started(m: Module, ports: View, accumulated: View, numerics: Numerics) -> View:
    """Select the addend of this cycle's products: the accumulated number, or at a sum's start C (truncated) or zero."""
    width, _ = accumulator_shape(numerics)
    basis = Signal(RawSumLayout(width))
    m.d.comb += basis.eq(accumulated)
    with m.If(ports.start):
        if starts_from_c(numerics):
            cut_c(m, ports.c, basis, numerics)
        else:
            m.d.comb += basis.eq(0)
    return basis


def cut_c(m: Module, c: Value, basis: View, numerics: Numerics) -> None:
    """Drive `basis` with the FP32 number `c`, truncated to the bits of an accumulator."""
    width, _ = accumulator_shape(numerics)
    fraction, field, sign = c[: FP32.fraction_bits], c[FP32.fraction_bits : -1], c[-1]
    special, payload = field.all(), fraction.any()
    number, infinite = c[FP32.width - width :], special
    if isinstance(numerics.accumulator, Fused) and numerics.accumulator.result_exponent_bits != 8:
        magnitude, infinite = _as_fp16(m, fraction, field, numerics.accumulator)
        number, payload = Cat(magnitude, sign), special & payload
    m.d.comb += [
        # The number of an infinity is not used. Zero is the safe value.
        basis.number.eq(number & (~infinite).replicate(width)),
        basis.positive.eq(infinite & (payload | ~sign)),
        basis.negative.eq(infinite & (payload | sign)),
    ]


def _as_fp16(m: Module, fraction: Value, field: Value, accumulator: Fused) -> tuple[Value, Value]:
    """Convert the magnitude of an FP32 number to FP16, truncated, and find whether it is too large for FP16."""
    result_bits, up = accumulator.result_bits, levels_up(accumulator.result_exponent_bits)
    below = Signal(range(-(1 << len(field)), up + 2), name="c_below")  # distance below the least normal number
    m.d.comb += below.eq(1 + up - field)
    small = below > 0
    distance = Mux(small, below[:-1], 0)
    moved = shifted_right(m, Cat(fraction[-result_bits:], Const(1, 1)), distance, "c_cut")
    exponent = (field - up)[: accumulator.result_exponent_bits] & (~small).replicate(accumulator.result_exponent_bits)
    return Cat(moved[:result_bits], exponent), field >= up + (1 << accumulator.result_exponent_bits) - 1
