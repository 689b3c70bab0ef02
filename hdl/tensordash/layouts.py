"""Layouts of the signals between components, each with its invariants."""

from amaranth.hdl import unsigned
from amaranth.lib.data import ArrayLayout, StructLayout, View

from .formats import FloatFormat

__all__ = ["FixedPoint", "FloatLayout", "FloatView", "RawBlockLayout", "product_layout", "steps_layout"]


def steps_layout(width: int, lanes: int, depth: int) -> ArrayLayout:
    """`depth` steps of `lanes` values of `width` bits; element 0 is the oldest step."""
    return ArrayLayout(ArrayLayout(unsigned(width), lanes), depth)


class FloatLayout(StructLayout):
    """A value of a floating-point format, as its fields."""

    def __init__(self, fmt: FloatFormat) -> None:
        self.fmt = fmt
        super().__init__({"fraction": fmt.fraction_bits, "exponent": fmt.exponent_bits, "sign": 1})

    def __call__(self, value):
        """A view of `value`."""
        return FloatView(self, value)


class FloatView(View):
    """A value of a floating-point format, with what is known of it."""

    @property
    def is_zero(self):
        """Zero of either sign."""
        return self.as_value()[:-1] == 0

    @property
    def is_special(self):
        """Infinity or NaN."""
        return self.exponent.all()

    @property
    def is_subnormal(self):
        """Zero or subnormal: no hidden bit, and the exponent of the smallest binade."""
        return self.exponent == 0


def product_layout(a: FloatFormat, b: FloatFormat) -> StructLayout:
    """An exact product ``(-1)**sign * significand << shift``, in units of the least product of subnormals.

    Where `infinite` or `nan` is set, the number means nothing; never both are set.
    """
    return StructLayout(
        {
            "significand": a.significand_bits + b.significand_bits,
            "shift": (a.exponent_range + b.exponent_range - 2).bit_length(),
            "sign": 1,
            "infinite": 1,
            "nan": 1,
        }
    )


class FixedPoint:
    """Shape of an exact accumulator: every product of two formats fits, and 2**headroom_bits of the largest.

    Parameters
    ----------
    a, b : FloatFormat
        Operand formats.
    headroom_bits : int
        Bits above the largest product.

    Source: paper, section IV ("mixed-precision floating-point units"), made exact; design.md section 7.
    """

    def __init__(self, a: FloatFormat, b: FloatFormat, headroom_bits: int) -> None:
        self.significand_bits = a.significand_bits + b.significand_bits
        self.max_shift = a.exponent_range + b.exponent_range - 2
        self.product_bits = self.significand_bits + self.max_shift
        self.width = self.product_bits + 1 + headroom_bits
        self.least_exponent = a.least_exponent + b.least_exponent


class RawBlockLayout(StructLayout):
    """An accumulated sum before rounding: a two's complement number, and whether it is one.

    `positive` and `negative` say that an infinity of that sign came in, or (both) that the sum is NaN.
    """

    def __init__(self, width: int) -> None:
        super().__init__({"number": width, "positive": 1, "negative": 1})
