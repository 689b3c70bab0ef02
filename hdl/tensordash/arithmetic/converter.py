"""Converter: converts an FP32 number, times a power of two, to another format."""

from amaranth.hdl import C, Cat, Module, Mux, Signal, signed
from amaranth.lib.wiring import In, Out

from ..block import Block
from ..configuration.formats import FloatFormat
from .random_bits import RANDOM_BITS

__all__ = ["Converter"]

FRACTION_BITS = 23
BIAS = 127
MAX_SHIFT = 31  # places to the right at which every number rounds to zero


class Converter(Block):
    """Rounds FP32 to a format with no more fraction bits, to nearest even, toward zero or stochastically.

    Timing: combinational.

    Parameters
    ----------
    fmt : FloatFormat
        Format of the result.
    saturating : bool
        Magnitudes beyond the largest finite one, infinities and NaN become the largest finite magnitude. Required for
        formats without NaN.

    Members
    -------
    value : In(32)
        FP32.
    scale : In(signed(8))
        The exponent of the power of two. Unless it is 0, subnormal FP32 numbers count as zero.
    stochastic : In(1), random : In(16)
        Round up with a probability equal to the fraction that is cut off.
    toward_zero : In(1)
        Round toward zero, whatever `stochastic` is.
    result : Out(fmt.width)
        The number. A magnitude beyond the largest finite one is an infinity, or NaN if the format has none. Toward zero
        a finite number saturates instead.

    Raises
    ------
    ValueError
        If the format has more fraction bits than FP32, or neither NaN nor `saturating`.

    Source: docs/core.md, "Multiply", 4 to 7; IEEE 754-2019, sections 4.3 and 7.4.
    """

    def __init__(self, *, fmt: FloatFormat, saturating: bool = False) -> None:
        if fmt.fraction_bits > FRACTION_BITS:
            raise ValueError(f"fmt must have at most {FRACTION_BITS} fraction bits, not {fmt.fraction_bits}")
        if not fmt.nan and not saturating:
            raise ValueError(f"saturating must be true for {fmt.name}, which has no NaN")
        self.fmt, self.saturating = fmt, saturating
        super().__init__(
            {
                "value": In(32),
                "scale": In(signed(8)),
                "stochastic": In(1),
                "random": In(RANDOM_BITS),
                "toward_zero": In(1),
                "result": Out(fmt.width),
            },
            variant=fmt.name,
        )

    def elaborate(self, platform):
        """Compute the exponent; shift subnormal results; round; select special values."""
        m = Module()
        fmt = self.fmt
        fraction, field, sign = self.value[:FRACTION_BITS], self.value[FRACTION_BITS:-1], self.value[-1]
        special, hidden = field.all(), field.any()

        # The exponent field of a result with this hidden bit, and the significand, or 0.
        exponent = Signal(signed(11))
        significand = Signal(FRACTION_BITS + 1)
        m.d.comb += [
            exponent.eq(Mux(hidden, field, 1) + self.scale + (fmt.bias - BIAS)),
            significand.eq(Mux(hidden | (self.scale == 0), Cat(fraction, hidden), 0)),
        ]
        cut = FRACTION_BITS - fmt.fraction_bits
        rest_bits = max(cut, RANDOM_BITS)
        too_small = Signal()
        below = Signal(12)
        distance = Signal(range(MAX_SHIFT + 1))
        m.d.comb += [
            too_small.eq(exponent < 1),
            below.eq(C(1) - exponent),
            distance.eq(Mux(too_small, Mux(below[5:].any(), MAX_SHIFT, below[:5]), 0)),
        ]
        wide = Signal(fmt.fraction_bits + 1 + rest_bits)
        shifted = Signal(len(wide) + MAX_SHIFT)  # bits below the lower end count as one sticky bit
        m.d.comb += [
            wide.eq(significand << (rest_bits - cut)),
            shifted.eq(Cat(C(0, MAX_SHIFT), wide) >> distance),
        ]
        significand_bits = shifted[MAX_SHIFT + rest_bits :]
        rest = shifted[MAX_SHIFT : MAX_SHIFT + rest_bits]
        lost = shifted[:MAX_SHIFT].any()
        nearest = rest[-1] & (rest[:-1].any() | lost | significand_bits[0])
        drawn = rest[-RANDOM_BITS:] + self.random
        up = Signal()
        m.d.comb += up.eq(Mux(self.stochastic, drawn[-1], nearest) & ~self.toward_zero)

        # The hidden bit adds 1 to the exponent field. A significand rounded up to 2 adds another 1.
        pattern = Signal(fmt.fraction_bits + 11)
        base = Mux(too_small | ~hidden, 0, (exponent - 1)[:10])
        m.d.comb += pattern.eq((base << fmt.fraction_bits) + significand_bits + up)
        beyond = Signal()
        m.d.comb += beyond.eq((pattern > fmt.largest) | special)
        not_a_number = Signal()
        m.d.comb += not_a_number.eq(special & fraction.any() if not self.saturating else 0)
        quiet = fmt.largest + (not self.saturating)
        nan = quiet | 1 << (fmt.fraction_bits - 1) if fmt.infinities else quiet
        stays_finite = self.toward_zero & ~special
        magnitude = Mux(beyond, Mux(stays_finite, fmt.largest, quiet), pattern[: fmt.width - 1])
        with m.If(not_a_number):
            m.d.comb += self.result.eq(nan)
        with m.Else():
            m.d.comb += self.result.eq(Cat(magnitude[: fmt.width - 1], sign))
        return m
