"""Initial adder: adds C to an exact sum as it leaves, before the only rounding."""

from amaranth.hdl import C, Cat, Const, Module, Mux, Signal, signed
from amaranth.lib.wiring import In, Out

from ..block import Block
from ..layouts import RESULT_BITS, RawSumLayout

__all__ = ["InitialAdder"]

FRACTION_BITS = 23
BIAS = 127
BELOW = FRACTION_BITS + 3
ABOVE = FRACTION_BITS + 2


class InitialAdder(Block):
    """Adds an FP32 number of any magnitude to a fixed-point sum, with enough bits for one correct rounding.

    The sum gets `BELOW` bits at its lower end and `ABOVE` at its upper end. C's bits below them set a sticky bit. A C
    above them outweighs every sum: then, and when the sum is zero, the result is C itself, which bypasses the adder.

    Timing: one cycle, one sum per cycle.

    Parameters
    ----------
    width : int
        Bits of the sum, sign included.
    least_exponent : int
        Weight of its least bit, as a power of two.

    Members
    -------
    sum : In(RawSumLayout)
        The sum.
    c : In(32)
        C, as FP32.
    load : In(1)
        Take `sum` and `c`. Otherwise the outputs do not change.
    total : Out(RawSumLayout)
        The sum plus C: `total_width` bits, the least of weight `total_least_exponent`.
    bypass : Out(1), other : Out(32)
        The result is `other`, unless `total` is infinite or NaN.

    Source: docs/numerics.md, "exact".
    """

    def __init__(self, *, width: int, least_exponent: int) -> None:
        self.width, self.least_exponent = width, least_exponent
        self.total_width = width + BELOW + ABOVE + 1
        self.total_least_exponent = least_exponent - BELOW
        super().__init__(
            {
                "sum": In(RawSumLayout(width)),
                "c": In(RESULT_BITS),
                "load": In(1),
                "total": Out(RawSumLayout(self.total_width)),
                "bypass": Out(1),
                "other": Out(RESULT_BITS),
            },
        )

    def elaborate(self, platform):
        """Place C's significand in the widened sum, add, and register."""
        m = Module()
        fraction, field, sign = self.c[:FRACTION_BITS], self.c[FRACTION_BITS:-1], self.c[-1]
        special = field.all()
        # The exponent field at which C's significand ends right below the widened sum, so that all its bits are sticky.
        lowest = self.total_least_exponent + BIAS - 1
        # The exponent field at which half of C's last place is no less than the greatest magnitude of a sum.
        dominant_field = self.least_exponent + self.width - 1 + FRACTION_BITS + 2 + BIAS
        small, dominant = (Signal(name=name) for name in ("below", "dominant"))
        shift = Signal(range(dominant_field - lowest))
        m.d.comb += [
            small.eq(field < lowest),
            dominant.eq(Const(0) if dominant_field > 2 * BIAS else (field >= dominant_field)),
            shift.eq(Mux(small, 0, field - lowest)),
        ]
        # `placed` has the sticky bits at its lower end.
        lower = FRACTION_BITS + 1
        significand = Cat(fraction, ~small)
        placed = Signal(self.total_width - 1 + lower)
        m.d.comb += placed.eq(significand << shift)
        nonzero = self.c[:-1].any()
        magnitude = Cat(placed[lower] | placed[:lower].any() | (small & nonzero), placed[lower + 1 :])

        # With one more bit at the lower end, one carry chain adds the sum, C's complement and its sign.
        widened = Cat(Const(1), C(0, BELOW), self.sum.number).as_signed()
        complemented = Cat(sign, magnitude ^ sign.replicate(len(magnitude)), sign).as_signed()
        total = Signal(signed(self.total_width + 1))
        infinite = special & ~fraction.any()
        not_a_number = special & fraction.any()
        number = Signal.like(self.total, reset_less=True)
        bypass = Signal(reset_less=True)
        other = Signal(RESULT_BITS, reset_less=True)
        m.d.comb += [
            total.eq(widened + complemented),
            self.total.eq(number),
            self.bypass.eq(bypass),
            self.other.eq(other),
        ]
        with m.If(self.load):
            m.d.sync += [
                number.number.eq(total[1:]),
                number.positive.eq(self.sum.positive | not_a_number | (infinite & ~sign)),
                number.negative.eq(self.sum.negative | not_a_number | (infinite & sign)),
                bypass.eq(nonzero & (dominant | ~self.sum.number.any())),
                other.eq(self.c),
            ]
        return m
