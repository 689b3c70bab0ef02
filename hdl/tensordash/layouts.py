"""Layouts of the signals between components, each with its invariants."""

from math import prod

from amaranth.hdl import Const, Shape, signed, unsigned
from amaranth.lib.data import ArrayLayout, StructLayout, View

from .configuration.formats import FP32, FloatFormat, IntegerFormat, ScaleFormat
from .configuration.numerics import Binned, Fused, Numerics

__all__ = [
    "RESULT_BITS",
    "BinnedShape",
    "FixedPoint",
    "FloatLayout",
    "FloatView",
    "RawSumLayout",
    "accumulator_shape",
    "beat_layout",
    "product_layout",
    "product_shape",
    "steps_layout",
    "sum_beat_layout",
    "sum_shape",
]

RESULT_BITS = 32


def steps_layout(width: int, lanes: int, depth: int) -> ArrayLayout:
    """Return the layout of `depth` steps of `lanes` values of `width` bits. Element 0 is the oldest step."""
    return ArrayLayout(ArrayLayout(unsigned(width), lanes), depth)


class FloatLayout(StructLayout):
    """A value of a floating-point format, as its fields."""

    def __init__(self, fmt: FloatFormat) -> None:
        self.fmt = fmt
        super().__init__({"fraction": fmt.fraction_bits, "exponent": fmt.exponent_bits, "sign": 1})

    def __call__(self, value):
        """Return a view of `value`."""
        return FloatView(self, value)


class FloatView(View):
    """A value of a floating-point format, with its class flags."""

    @property
    def is_zero(self):
        """Whether the value is a zero of either sign."""
        return self.as_value()[:-1] == 0

    @property
    def is_special(self):
        if not self.shape().fmt.nan:
            return Const(0)
        return self.exponent.all() if self.shape().fmt.infinities else self.as_value()[:-1].all()

    @property
    def is_nan(self):
        return self.is_special & self.fraction.any()

    @property
    def is_subnormal(self):
        """Whether the value is zero or subnormal: no hidden bit, and the exponent of the smallest binade."""
        return self.exponent == 0


def product_layout(a: FloatFormat, b: FloatFormat, scale: ScaleFormat | None = None) -> StructLayout:
    """Return the layout of a product ``(-1)**sign * significand << shift``, in units of subnormals' least product.

    With a `scale` that is a power of two, the unit is that product with the least scales.
    Where `infinite` or `nan` is set, the number is undefined. They are never both set.
    """
    scales = 0 if scale is None else 2 * (scale.exponent_range - 1)
    return StructLayout(
        {
            "significand": a.significand_bits + b.significand_bits,
            "shift": (a.exponent_range + b.exponent_range - 2 + scales).bit_length(),
            "sign": 1,
            "infinite": 1,
            "nan": 1,
        }
    )


def product_shape(numerics: Numerics) -> StructLayout | Shape:
    """Return the shape of a multiplier's product: `product_layout`, or for integers the product itself."""
    a, b = numerics.a_format, numerics.b_format
    if isinstance(a, IntegerFormat) or isinstance(b, IntegerFormat):
        return signed(a.width + b.width)
    return product_layout(a, b)


class FixedPoint:
    """Shape of an exact accumulator, which fits every product of two formats, and 2**headroom_bits of the largest.

    Parameters
    ----------
    a, b : FloatFormat
        Operand formats.
    headroom_bits : int
        Bits above the largest product.
    scale : ScaleFormat, optional
        Format of both operands' scales.

    Source: paper, section IV ("mixed-precision floating-point units"), made exact; docs/numerics.md, "exact".
    """

    def __init__(self, a: FloatFormat, b: FloatFormat, headroom_bits: int, scale: ScaleFormat | None = None) -> None:
        factors = [a, b, *([scale.number] * 2 if scale is not None and scale.number is not None else [])]
        self.significand_bits = sum(factor.significand_bits for factor in factors)
        self.max_shift = sum(factor.exponent_range - 1 for factor in factors)
        self.product_bits = prod(factor.largest_units for factor in factors).bit_length()
        self.width = self.product_bits + 1 + headroom_bits
        self.least_exponent = sum(factor.least_exponent for factor in factors)


class BinnedShape:
    """Shape of a binned accumulator.

    Parameters
    ----------
    numerics : Numerics
        Floating-point formats, and a `Binned` accumulator.

    Attributes
    ----------
    bins, bin_bits : int
        As in `Binned`.
    unit : int
        Weight of the lowest place of bin 0, as a power of two.
    first_place : int
        Place, counted from `unit`, of the highest bit of a product whose shift is 0.
    place_bits, bin_width, top_bits : int
        Bits of a product's place, of a bin's register (sign included), and of a top bin's number.
    max_top : int
        The largest top bin of all terms.
    layout : StructLayout
        A sum: `bins`, the lowest first, and the `top` bin's number.
    width : int
        Bits of a sum.

    Raises
    ------
    ValueError
        If the formats are not floating-point, or the accumulator is not binned.

    Source: docs/numerics.md, "binned".
    """

    def __init__(self, numerics: Numerics) -> None:
        a, b, accumulator, scale = numerics.a_format, numerics.b_format, numerics.accumulator, numerics.scale
        if not isinstance(accumulator, Binned) or not isinstance(a, FloatFormat) or not isinstance(b, FloatFormat):
            raise ValueError(f"numerics must be floating-point and binned, not {numerics}")
        self.bins, self.bin_bits = accumulator.bins, accumulator.bin_bits
        least_product = a.least_exponent + b.least_exponent - (0 if scale is None else 2 * scale.bias)
        max_shift = a.exponent_range + b.exponent_range - 2 + (0 if scale is None else 2 * (scale.exponent_range - 1))
        # With C, FP32's least place is in a bin. The boundaries of bins are the same as without C.
        lowered = -(-(least_product - FP32.least_exponent) // self.bin_bits) if numerics.initial else 0
        self.unit = least_product - max(0, lowered) * self.bin_bits
        self.first_place = least_product - self.unit + a.significand_bits + b.significand_bits - 1
        places = [self.first_place + max_shift, *([FP32.bias - self.unit] if numerics.initial else [])]
        self.place_bits = places[0].bit_length()
        self.max_top = max(places) // self.bin_bits
        self.top_bits = max(1, self.max_top.bit_length())
        self.bin_width = self.bin_bits + 1 + accumulator.headroom_bits
        self.layout = StructLayout({"bins": ArrayLayout(signed(self.bin_width), self.bins), "top": self.top_bits})
        self.width = self.layout.size


def accumulator_shape(numerics: Numerics) -> tuple[int, int | None]:
    """Return an accumulator's bits, with sign, and the weight of its least bit as a power of two (None if floating).

    >>> from tensordash import TileConfig
    >>> accumulator_shape(TileConfig().numerics), accumulator_shape(TileConfig(format="int8").numerics)
    ((97, -48), (32, 0))
    """
    a, b = numerics.a_format, numerics.b_format
    if isinstance(numerics.accumulator, Fused):
        return 1 + numerics.accumulator.result_exponent_bits + numerics.accumulator.result_bits, None
    if isinstance(numerics.accumulator, Binned):
        return BinnedShape(numerics).width, None
    if isinstance(a, IntegerFormat) or isinstance(b, IntegerFormat):
        return a.width + b.width + numerics.accumulator.headroom_bits, 0
    shape = FixedPoint(a, b, numerics.accumulator.headroom_bits, numerics.scale)
    return shape.width, shape.least_exponent


class RawSumLayout(StructLayout):
    """A sum before rounding, and marks of infinities and NaN.

    The number is in two's complement, bins and the top bin's number (`BinnedShape`), FP32's upper bits, or FP16. A zero
    in FP32 or FP16 has no sign.

    `positive` or `negative` is set if an infinity of that sign is among the terms; both are set if the sum is NaN.
    """

    def __init__(self, width: int) -> None:
        super().__init__({"number": width, "positive": 1, "negative": 1})


def sum_shape(numerics: Numerics) -> StructLayout | Shape:
    """Return the shape of a PE's finished sum: `RawSumLayout`, or for integers only the number."""
    width, _ = accumulator_shape(numerics)
    return unsigned(width) if numerics.result == "int32" else RawSumLayout(width)


def beat_layout(out_rows: int, columns: int) -> StructLayout:
    """Return the layout of a beat of results or C: `out_rows` rows of a block, and a mark of the block's last beat."""
    return StructLayout({"values": ArrayLayout(ArrayLayout(RESULT_BITS, columns), out_rows), "last": 1})


def sum_beat_layout(numerics: Numerics, columns: int) -> StructLayout:
    """Return the layout of a block's row before rounding, and whether it is the block's last row."""
    return StructLayout({"values": ArrayLayout(sum_shape(numerics), columns), "last": 1})
