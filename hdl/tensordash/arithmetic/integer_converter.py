"""Integer converter: converts an integer sum, times a power of two, to a narrow or wide result."""

from amaranth.hdl import C, Cat, Module, Mux, Signal, signed
from amaranth.lib.wiring import In, Out

from ..block import Block
from ..configuration.parameters import require_bool, require_int
from ..layouts import RESULT_BITS
from .random_bits import RANDOM_BITS

__all__ = ["IntegerConverter"]

SCALE_BITS = 8


class IntegerConverter(Block):
    """Multiplies a sum by a power of two, rounds and saturates it, or passes it unchanged. Applies a ReLU.

    Timing: combinational.

    Parameters
    ----------
    width : int
        Bits of the narrower result, sign included.
    relu : bool
        There is a ReLU.
    stochastic : bool
        There is stochastic rounding.
    sum_bits : int
        Bits of the sum and of the wider result, sign included.

    Members
    -------
    value : In(signed(sum_bits))
        The sum.
    wide : In(1)
        The result is the sum.
    scale : In(signed(8))
        The exponent of the power of two.
    relu : In(1)
        Only if `relu`: a negative sum becomes 0.
    stochastic : In(1), random : In(16)
        Only if `stochastic`: round away from zero with a probability equal to the fraction that is cut off.
    toward_zero : In(1)
        Round toward zero, whatever `stochastic` is.
    result : Out(sum_bits)
        The integer in the lowest bits. The bits above a narrow result are zero.

    Source: docs/core.md, "Integers".
    """

    def __init__(self, *, width: int, relu: bool, stochastic: bool, sum_bits: int = RESULT_BITS) -> None:
        self.sum_bits = require_int("sum_bits", sum_bits, 3)
        self.width = require_int("width", width, 2, sum_bits - 1)
        self.has_relu, self.is_stochastic = require_bool("relu", relu), require_bool("stochastic", stochastic)
        super().__init__(
            {
                "value": In(signed(sum_bits)),
                "wide": In(1),
                "scale": In(signed(SCALE_BITS)),
                **({"relu": In(1)} if relu else {}),
                **({"stochastic": In(1), "random": In(RANDOM_BITS)} if stochastic else {}),
                "toward_zero": In(1),
                "result": Out(sum_bits),
            }
        )

    def elaborate(self, platform):
        """Shift down from the largest scale that matters, round the floor up, and saturate."""
        m = Module()
        width, sign = self.width, self.value[-1]
        # With a scale of `width` every sum but 0 saturates. From `max_distance` on, every sum rounds to zero.
        max_distance = width + self.sum_bits + RANDOM_BITS
        distance = Signal(range(max_distance + 1))
        steps = Signal(signed(SCALE_BITS + 2))
        m.d.comb += [
            steps.eq(width - self.scale),
            distance.eq(Mux(steps < 0, 0, Mux(steps > max_distance, max_distance, steps))),
        ]
        places = Signal(signed(max_distance + RANDOM_BITS + width + self.sum_bits))
        m.d.comb += places.eq(Cat(C(0, max_distance + RANDOM_BITS + width), self.value).as_signed() >> distance)
        remaining = places[max_distance:]
        below, floor = remaining[:RANDOM_BITS], remaining[RANDOM_BITS:]
        lost = places[:max_distance].any()

        # Two's complement: the cut-off fraction of a negative number counts from the next integer below.
        half, rest = below[-1], below[:-1].any() | lost
        carries = half & (rest | floor[0])
        if self.is_stochastic:
            drawn = Signal(RANDOM_BITS + 1)
            m.d.comb += drawn.eq(below + (self.random ^ sign.replicate(RANDOM_BITS)) + (sign & lost))
            carries = Mux(self.stochastic, drawn[-1], carries)
        rounded = Signal(signed(width + 2))
        beyond = Signal()
        low = floor[: width + 1].as_signed()
        top = rounded[width - 1].replicate(2)
        m.d.comb += [
            rounded.eq(low + Mux(self.toward_zero, sign & (half | rest), carries)),
            beyond.eq((floor[width:] ^ sign.replicate(len(floor) - width)).any() | (rounded[width:] ^ top).any()),
        ]
        narrow = Mux(beyond, Cat((~sign).replicate(width - 1), sign), rounded[:width])
        cleared = sign & self.relu if self.has_relu else C(0)
        m.d.comb += self.result.eq(Mux(cleared, 0, Mux(self.wide, self.value, narrow)))
        return m
