"""Fused accumulator: FP32, with one aligned multi-operand addition a cycle, as tensor cores do it."""

from functools import reduce
from operator import add, or_

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value, signed
from amaranth.lib.data import ArrayLayout, StructLayout
from amaranth.lib.wiring import In

from ..block import Block
from ..configuration.formats import FloatFormat
from ..configuration.numerics import Fused, Numerics
from ..configuration.parameters import require_int
from ..layouts import RESULT_BITS, RawSumLayout, product_layout
from .normalizer import normalize
from .sum_ports import SumSignature

__all__ = ["FusedAccumulator"]

FRACTION_BITS = 23
LEAST = -126  # FP32's least exponent


class FusedAccumulator(Block):
    """Adds `lanes` products and an FP32 number, all aligned to the largest exponent, once a cycle.

    Exponents are kept as `level`: the exponent less FP32's least, plus one, so that an FP32 number's level is its
    exponent field, or 1 if that is zero.

    Timing: products of one cycle are in the sum after `stages` cycles (1: the loop alone; 2: products are aligned to
    the largest of them first and registered); throughput one set of products per cycle. The loop takes one cycle:
    compare, align, add, normalise, round.

    Parameters
    ----------
    numerics : Numerics
        Floating-point formats, and a `Fused` accumulator.
    lanes : int
        Products per cycle, at least 1.
    stages : int
        1 or 2.

    Members
    -------
    products : In(product_layout, lanes)
    active, sum
        As in `ExactAccumulator`. A sum is FP32 bits, whose sign means nothing if they are zero, and the marks of
        infinities and NaN; it never overflows: beyond the range it is an infinity.

    Raises
    ------
    ValueError
        For a parameter out of range.

    Source: docs/numerics.md, "fused"; facts of tensor cores as measured by the sources named there.
    """

    def __init__(self, *, numerics: Numerics, lanes: int, stages: int) -> None:
        self.lanes = require_int("lanes", lanes, 1)
        self.stages = require_int("stages", stages, 1, 2)
        a, b, accumulator = numerics.a_format, numerics.b_format, numerics.accumulator
        if not isinstance(accumulator, Fused) or not isinstance(a, FloatFormat) or not isinstance(b, FloatFormat):
            raise ValueError(f"numerics must be floating-point and fused, not {numerics}")
        self.numerics, self.fraction_bits, self.rounding = numerics, accumulator.fraction_bits, accumulator.rounding
        self.product = product_layout(a, b)
        self.product_fraction_bits = a.fraction_bits + b.fraction_bits
        # The exponent of a product whose shift is 0, and how far the least level of a product lies below 1.
        self.least_product = a.least_exponent + b.least_exponent + self.product_fraction_bits
        self.below = max(0, LEAST - self.least_product)
        top_level = self.least_product + a.exponent_range + b.exponent_range - 2 - LEAST + 1
        self.level_bits = max(8, top_level.bit_length())
        super().__init__(
            {
                "products": In(ArrayLayout(self.product, lanes)),
                "active": In(lanes),
                "sum": In(SumSignature(numerics)),
            },
        )

    def elaborate(self, platform):
        """Align the products; compare with what was accumulated, align, add, normalise, round; keep."""
        m = Module()
        level, terms, marks = self._align_products(m)
        accumulated = Signal(RawSumLayout(RESULT_BITS), reset_less=True)
        basis = self._basis(m, accumulated)
        result = self._add(m, basis, level, terms, marks)
        finished = Signal(RawSumLayout(RESULT_BITS), reset_less=True)
        following = Signal(RawSumLayout(RESULT_BITS))
        m.d.comb += [following.eq(Mux(marks.counting, result, basis)), self.sum.value.eq(finished)]
        with m.If(~self.sum.hold if self.stages > 1 else Const(1)):
            m.d.sync += accumulated.eq(following)
        with m.If(self.sum.take):
            m.d.sync += finished.eq(following)
        return m

    def _align_products(self, m: Module):
        """Largest level of the products that count, and the products aligned to it, registered or not."""
        width = self.fraction_bits + 2  # of a magnitude below 4
        levels, counts = [], []
        offset = self.least_product + self.below - LEAST  # so that level = shift + offset + 1 - below
        for lane, product in enumerate(self.products):
            counted = Signal(name=f"counted_{lane}")
            level = Signal(range(self.below + (1 << self.level_bits)), name=f"level_{lane}")
            m.d.comb += [
                counted.eq(
                    self.active[lane] & ~self.sum.hold & product.significand.any() & ~product.infinite & ~product.nan
                ),
                # A product that does not count has the least of all levels.
                level.eq((product.shift + offset) & counted.replicate(len(level))),
            ]
            levels.append(level)
            counts.append(counted)
        highest = self._highest(m, levels)

        aligned = StructLayout({"magnitude": width, "sign": 1})
        terms = Signal(ArrayLayout(aligned, self.lanes), reset_less=True)
        level = Signal(self.level_bits, reset_less=True)
        marks = Signal(StructLayout({"counting": 1, "positive": 1, "negative": 1}), reset_less=True)
        updates = [
            level.eq(highest - self.below + 1),
            marks.counting.eq(self.active.any() & ~self.sum.hold),
            marks.positive.eq(self._infinity(0)),
            marks.negative.eq(self._infinity(1)),
        ]
        for lane, product in enumerate(self.products):
            distance = Signal(len(levels[lane]), name=f"distance_{lane}")
            significand = _scaled(product.significand, self.fraction_bits - self.product_fraction_bits, width)
            masked = significand & counts[lane].replicate(width)
            m.d.comb += distance.eq(highest - levels[lane])
            updates += [
                terms[lane].magnitude.eq(_shifted_right(m, masked, distance, f"aligned_{lane}")),
                terms[lane].sign.eq(product.sign & counts[lane]),
            ]
        # A loop that adds nothing while the tile is frozen needs no enable; one behind a register does.
        if self.stages > 1:
            with m.If(~self.sum.hold):
                m.d.sync += updates
        else:
            m.d.comb += updates
        return level, terms, marks

    def _highest(self, m: Module, levels: list[Signal]) -> Value:
        """The largest level, and FP32's least at least: a tree of comparisons."""
        rest: list[Value] = [*levels, Const(self.below, len(levels[0]))]
        while len(rest) > 1:
            pairs, rest = [rest[i : i + 2] for i in range(0, len(rest), 2)], []
            for pair in pairs:
                larger = Signal(len(levels[0]), name=f"higher_{len(pairs)}_{len(rest)}")
                m.d.comb += larger.eq(Mux(pair[0] > pair[-1], pair[0], pair[-1]))
                rest.append(larger)
        return rest[0]

    def _infinity(self, sign: int):
        """Whether an infinity of this sign, or a NaN, is among the products."""
        marks = [
            active & ~self.sum.hold & (product.nan | (product.infinite & (product.sign == sign)))
            for active, product in zip(self.active, self.products, strict=True)
        ]
        return reduce(or_, marks)

    def _basis(self, m: Module, accumulated):
        """What this cycle's products are added to."""
        basis = Signal(RawSumLayout(RESULT_BITS))
        m.d.comb += basis.eq(accumulated)
        with m.If(self.sum.start):
            if self.numerics.initial:
                fraction, field, sign = self.sum.c[:FRACTION_BITS], self.sum.c[FRACTION_BITS:-1], self.sum.c[-1]
                special, payload = field.all(), fraction.any()
                m.d.comb += [
                    # The number means nothing in an infinity; zero harms least.
                    basis.number.eq(self.sum.c & (~special).replicate(RESULT_BITS)),
                    basis.positive.eq(special & (payload | ~sign)),
                    basis.negative.eq(special & (payload | sign)),
                ]
            else:
                m.d.comb += basis.eq(0)
        return basis

    def _add(self, m: Module, basis, level, terms, marks):
        """C + products: the result with its marks."""
        width = self.fraction_bits + 2
        number = basis.number
        field, sign = number[FRACTION_BITS:-1], number[-1]
        normal = field.any()
        c_level = Signal(self.level_bits)
        c_above = Signal()
        top_level = Signal(self.level_bits)
        up, down = (Signal(self.level_bits + 1, name=name) for name in ("up", "down"))
        m.d.comb += [
            c_level.eq(Cat(field[0] | ~normal, field[1:])),
            up.eq(c_level - level),
            down.eq(level - c_level),
            c_above.eq(~up[-1]),
            top_level.eq(Mux(c_above, c_level, level)),
        ]
        c_magnitude = _scaled(Cat(number[:FRACTION_BITS], normal), self.fraction_bits - FRACTION_BITS, width)
        near = (~c_above).replicate(len(down)) & down
        far = c_above.replicate(len(up)) & up
        pairs = [(_shifted_right(m, c_magnitude, near[:-1], "c_aligned"), sign)]
        pairs += [
            (_shifted_right(m, term.magnitude, far[:-1], f"term_{lane}"), term.sign) for lane, term in enumerate(terms)
        ]
        # Two's complement: each negative term is complemented, and its sign added.
        sum_width = width + len(pairs).bit_length() + 1
        total = Signal(signed(sum_width))
        signs = reduce(add, (negative for _, negative in pairs))
        complements = [Cat(bits ^ negative.replicate(width), negative).as_signed() for bits, negative in pairs]
        m.d.comb += total.eq(reduce(add, complements) + signs)
        return self._round(m, total, top_level, basis, marks)

    def _round(self, m: Module, total, level, basis, marks):
        """Normalise and round to FP32. Without its sign a negative number is its magnitude less one: ones behind it."""
        sign = total[-1]
        padding = max(0, FRACTION_BITS + 4 - len(total))  # so that there is something below the result's last place
        bits = Signal(len(total) - 1 + padding)
        limit = Signal(range((1 << self.level_bits) + len(bits)))
        m.d.comb += [
            bits.eq(Cat(sign.replicate(padding), total[:-1] ^ sign.replicate(len(total) - 1))),
            # How far the top may move until it is the place of the least normal number.
            limit.eq(level + (len(bits) - 1 - padding - self.fraction_bits - 1)),
        ]
        normal, shift, _, _ = normalize(m, bits, sign, limit)
        field = Signal(signed(len(limit) + 1))
        rounded = Signal(FRACTION_BITS + len(field))
        up = Signal()
        rest, last, guard = normal[: -(FRACTION_BITS + 1)], normal[-(FRACTION_BITS + 1)], normal[-(FRACTION_BITS + 2)]
        if self.rounding == "zero":
            # Only what the complement lacks: cut-off bits of all ones, and the endless ones behind them, are a whole.
            m.d.comb += up.eq(sign & rest.all())
        else:
            below = normal[: -(FRACTION_BITS + 2)]
            m.d.comb += up.eq(Mux(sign, guard | (below.all() & last), guard & (below.any() | last)))
        m.d.comb += [
            field.eq((limit + 1 - shift) & normal[-1].replicate(len(field))),
            rounded.eq(Cat(normal[-(FRACTION_BITS + 1) : -1], field) + up),
        ]
        result = Signal(RawSumLayout(RESULT_BITS))
        special, overflow = (Signal(name=name) for name in ("special", "overflow"))
        infinite = (basis.positive | marks.positive, basis.negative | marks.negative)
        m.d.comb += [
            special.eq(infinite[0] | infinite[1]),
            overflow.eq(~special & (rounded[FRACTION_BITS:] >= 0xFF)),
            result.number.eq(Cat(rounded[: FRACTION_BITS + 8], sign) & (~overflow).replicate(RESULT_BITS)),
            result.positive.eq(infinite[0] | (overflow & ~sign)),
            result.negative.eq(infinite[1] | (overflow & sign)),
        ]
        return result


def _scaled(significand, shift: int, width: int):
    """`significand` times two to the `shift`, cut off below, in `width` bits."""
    moved = Cat(Const(0, shift), significand) if shift >= 0 else significand[-shift:]
    return Cat(moved, Const(0, width))[:width]


def _shifted_right(m: Module, bits, distance, name: str) -> Value:
    """`bits` moved down by `distance`, cut off below; all gone if it is beyond them."""
    width, stages = len(bits), (len(bits) - 1).bit_length()
    for stage in range(stages):
        moved = Signal(width, name=f"{name}_{stage}")
        m.d.comb += moved.eq(Mux(distance[stage], bits >> (1 << stage), bits))
        bits = moved
    return bits & (~distance[stages:].any()).replicate(width)
