"""Result converter: converts a rounded sum, times a power of two, to an operand or to FP32."""

from amaranth.hdl import C, Cat, Const, Module, Mux, Signal, signed
from amaranth.lib.wiring import In, Out

from ..block import Block
from ..configuration.formats import FP32, FloatFormat
from ..layouts import RESULT_BITS
from .random_bits import RANDOM_BITS

__all__ = ["OFFSET_BITS", "ResultConverter", "offset_of"]

FRACTION_BITS = 23
MAX_SHIFT = 31  # places to the right at which every number rounds to zero
OFFSET_BITS = 10


def offset_of(fmt: FloatFormat, fp32, scale):
    """Return the offset of FP32's exponent field for a result times 2^scale, in a format or in FP32."""
    return scale + Mux(fp32, 0, C(fmt.bias - FP32.bias, signed(OFFSET_BITS)))


class ResultConverter(Block):
    """Rounds FP32 to a narrower format, to nearest even, toward zero or stochastically, or to FP32. Applies a ReLU.

    Both results use the same shifter, and the same carry chain above the last place.

    Timing: combinational.

    Parameters
    ----------
    fmt : FloatFormat
        The narrower format.
    relu : bool
        There is a ReLU.
    stochastic : bool
        There is stochastic rounding.

    Members
    -------
    value : In(32)
        FP32, but not a subnormal number.
    fp32 : In(1)
        The result is FP32, always rounded to nearest.
    offset : In(signed(10))
        `offset_of` the format and the power of two.
    relu : In(1)
        Only if `relu`: numbers with a sign become +0. NaN stays NaN.
    stochastic : In(1), random : In(16)
        Only if `stochastic`: round up with a probability equal to the fraction that is cut off.
    toward_zero : In(1)
        Round toward zero, whatever `stochastic` is.
    result : Out(32)
        The number in the lowest bits. A magnitude beyond the largest finite one is an infinity, or NaN if the format
        has none. Toward zero a finite number saturates instead.

    Source: docs/core.md, "Multiply", 4 to 7; IEEE 754-2019, sections 4.3 and 7.4.
    """

    def __init__(self, *, fmt: FloatFormat, relu: bool, stochastic: bool) -> None:
        self.fmt, self.has_relu, self.is_stochastic = fmt, relu, stochastic
        super().__init__(
            {
                "value": In(RESULT_BITS),
                "fp32": In(1),
                "offset": In(signed(OFFSET_BITS)),
                **({"relu": In(1)} if relu else {}),
                **({"stochastic": In(1), "random": In(RANDOM_BITS)} if stochastic else {}),
                "toward_zero": In(1),
                "result": Out(RESULT_BITS),
            },
            variant=fmt.name,
        )

    def elaborate(self, platform):
        """Compute the exponent; shift subnormal results; round; select special values."""
        m = Module()
        fmt = self.fmt
        fraction, field, sign = self.value[:FRACTION_BITS], self.value[FRACTION_BITS:-1], self.value[-1]
        special, hidden = field.all(), field.any()
        cut = FRACTION_BITS - fmt.fraction_bits  # from the last place of FP32 to the format's
        rest_bits = max(cut + 2, RANDOM_BITS)

        # The exponent field of a result with this hidden bit. If it is too small, the significand is shifted.
        exponent = Signal(signed(OFFSET_BITS + 1))
        below = Signal(signed(OFFSET_BITS + 2))
        too_small = Signal()
        distance = Signal(range(MAX_SHIFT + 1))
        m.d.comb += [
            exponent.eq(field + self.offset),
            below.eq(C(1) - exponent),
            too_small.eq(exponent < 1),
            distance.eq(Mux(too_small, below[:5] | below[5:-1].any().replicate(5), 0)),
        ]
        significand = Cat(C(0, rest_bits - cut), fraction, hidden)
        shifted = Signal(len(significand) + MAX_SHIFT)  # bits below the lower end count as one sticky bit
        m.d.comb += shifted.eq(Cat(C(0, MAX_SHIFT), significand) >> distance)
        significand_bits, lost = shifted[MAX_SHIFT:], shifted[:MAX_SHIFT].any()

        def nearest(place):
            """Return whether a number with this last place is rounded up."""
            return significand_bits[place - 1] & (significand_bits[: place - 1].any() | lost | significand_bits[place])

        wide, narrow = rest_bits - cut, rest_bits
        carries = nearest(narrow)
        if self.is_stochastic:
            drawn = significand_bits[narrow - RANDOM_BITS : narrow] + self.random
            carries = Mux(self.stochastic, drawn[-1], carries)
        toward_zero = self.toward_zero & ~self.fp32
        up = Signal()
        m.d.comb += up.eq(Mux(self.fp32, nearest(wide), carries & ~toward_zero))

        # Ones below a narrow result's last place propagate the carry. The hidden bit is in the exponent.
        filled = significand_bits[wide:narrow] | (~self.fp32).replicate(cut)
        base = Mux(too_small | ~hidden, 0, exponent[:-1])
        pattern = Signal(FRACTION_BITS + OFFSET_BITS)
        m.d.comb += pattern.eq(Cat(filled, significand_bits[narrow : narrow + fmt.fraction_bits], base) + up)
        beyond, not_a_number = Signal(name="beyond"), Signal(name="not_a_number")
        m.d.comb += [
            beyond.eq(Mux(self.fp32, pattern[FRACTION_BITS:] >= 0xFF, pattern[cut:] > fmt.largest) | special),
            not_a_number.eq(special & fraction.any()),
        ]
        negative = sign & ~self.relu if self.has_relu else sign
        cleared = sign & self.relu if self.has_relu else Const(0)
        stays_finite = toward_zero & ~special

        def of(target: FloatFormat, bits):
            """Return the result in a format, from the rounded magnitude."""
            quiet = target.largest + 1
            nan = quiet | 1 << (target.fraction_bits - 1) if target.infinities else quiet
            magnitude = Mux(beyond, Mux(stays_finite, target.largest, quiet), bits)
            return Mux(not_a_number, nan, Mux(cleared, 0, Cat(magnitude[: target.width - 1], negative)))

        m.d.comb += [
            self.result.eq(Mux(self.fp32, of(FP32, pattern), of(fmt, pattern[cut:]))),
        ]
        return m
