"""Products of all pairs of 8-bit operands, compared with the definition of their formats."""

from dataclasses import dataclass

from amaranth.hdl import Const, Module, Mux, Value

from tensordash import TileConfig
from tensordash.arithmetic.integer_multiplier import IntegerMultiplier
from tensordash.arithmetic.multiplier import Multiplier
from tensordash.block import Block
from tensordash.configuration.formats import FloatFormat, IntegerFormat

from ..harness import Fault, Harness
from ..proof import BrokenVariant, Proof

__all__ = ["PROOF", "is_eight_bit_exact", "is_exact", "magnitude"]


def build(config: TileConfig, fault: tuple[type[Block], Fault] | None = None) -> Harness:
    """Build the claims about a multiplier with free operands (docs/numerics.md, "Operands" and "Products")."""
    a_format, b_format = config.a_format, config.b_format
    if isinstance(a_format, FloatFormat) and isinstance(b_format, FloatFormat):
        return _floating(a_format, b_format, fault)
    assert isinstance(a_format, IntegerFormat)
    assert isinstance(b_format, IntegerFormat)
    return _integer(a_format, b_format, fault)


@dataclass(frozen=True)
class Operand:
    """The decoded value of an operand."""

    magnitude: Value  # in units of the least subnormal
    sign: Value
    nan: Value
    infinite: Value

    @property
    def finite(self) -> Value:
        """Whether the operand is a finite number."""
        return ~self.nan & ~self.infinite


def magnitude(fmt: FloatFormat, pattern: int) -> int | None:
    """Return the magnitude of a bit pattern without sign, in units of the least subnormal; None if it is not finite.

    >>> from tensordash.configuration.formats import FORMATS
    >>> magnitude(FORMATS["fp8_e4m3"], 0x7E) == 448 * 2**9, magnitude(FORMATS["fp8_e5m2"], 0x7B) == 57344 * 2**16
    (True, True)

    Source: docs/numerics.md, "Operands"; OCP 8-bit Floating Point Specification (OFP8), "FP8 formats".
    """
    exponent, fraction = divmod(pattern, 1 << fmt.fraction_bits)
    ones = (1 << fmt.exponent_bits) - 1
    if exponent == ones and fmt.nan and (fmt.infinities or fraction == (1 << fmt.fraction_bits) - 1):
        return None
    if exponent == 0:
        return fraction
    # (1 + fraction / 2**f) * 2**(exponent - bias), over 2**(1 - bias - f)
    return ((1 << fmt.fraction_bits) + fraction) << (exponent - 1)


def _operand(fmt: FloatFormat, bits: Value) -> Operand:
    """Decode bits with a table of all patterns."""
    table = [magnitude(fmt, pattern) for pattern in range(1 << (fmt.width - 1))]
    infinity = ((1 << fmt.exponent_bits) - 1) << fmt.fraction_bits if fmt.infinities else None
    pattern = bits[:-1]
    return Operand(
        magnitude=_look_up([each or 0 for each in table], pattern),
        sign=bits[-1],
        nan=_look_up([each is None and i != infinity for i, each in enumerate(table)], pattern),
        infinite=_look_up([i == infinity for i in range(len(table))], pattern),
    )


def _look_up(table: list[int], index: Value) -> Value:
    """Select an entry of a table with multiplexers.

    Yosys turns an `Array` into a memory, whose contents are free in the induction step.
    """
    if len(table) == 1:
        return Const(table[0])
    half = len(table) // 2
    return Mux(index[-1], _look_up(table[half:], index[:-1]), _look_up(table[:half], index[:-1]))


def _floating(a_format: FloatFormat, b_format: FloatFormat, fault: tuple[type[Block], Fault] | None) -> Harness:
    dut = Multiplier(a_format=a_format, b_format=b_format)
    harness = Harness(dut, fault=fault)
    a, b = _operand(a_format, dut.a.as_value()), _operand(b_format, dut.b.as_value())
    product = dut.product
    harness.claim(
        "product_is_exact",
        (product.significand << product.shift) == a.magnitude * b.magnitude,
        when=a.finite & b.finite,
    )
    a_zero, b_zero = a.finite & (a.magnitude == 0), b.finite & (b.magnitude == 0)
    nan = a.nan | b.nan | (a.infinite & b_zero) | (b.infinite & a_zero)
    infinite = (a.infinite | b.infinite) & ~nan
    harness.claim("sign_is_right", product.sign == (a.sign ^ b.sign), when=~nan)
    harness.claim("nan_where_the_product_is_none", product.nan, when=nan)
    harness.claim("nan_nowhere_else", ~product.nan, when=~nan)
    if a_format.infinities or b_format.infinities:
        harness.claim("infinite_where_the_product_is", product.infinite, when=infinite)
    harness.claim("infinite_nowhere_else", ~product.infinite, when=~infinite)
    return harness


def _integer(a_format: IntegerFormat, b_format: IntegerFormat, fault: tuple[type[Block], Fault] | None) -> Harness:
    dut = IntegerMultiplier(a_format=a_format, b_format=b_format)
    harness = Harness(dut, fault=fault)
    harness.claim("product_is_exact", dut.product == _integer_value(dut.a) * _integer_value(dut.b))
    return harness


def _integer_value(bits: Value) -> Value:
    """Decode two's complement: bit i has the weight 2**i, the sign bit -(2**i)."""
    return bits[:-1].as_unsigned() - (bits[-1] << (len(bits) - 1))


def is_eight_bit_exact(config: TileConfig) -> bool:
    """Return whether both operands have 8 bits and sums are exact."""
    return is_exact(config) and config.a_format.width == config.b_format.width == 8


def is_exact(config: TileConfig) -> bool:
    """Return whether sums are exact."""
    return config.accumulator == "exact"


def _no_subnormals(m: Module, sound: Multiplier, outer: Multiplier) -> None:
    with m.If(outer.a.exponent == 0):
        m.d.comb += outer.product.significand.eq(0)


def _binade_of_subnormals(m: Module, sound: Multiplier, outer: Multiplier) -> None:
    with m.If((outer.b.exponent == 0) & sound.product.shift.any()):
        m.d.comb += outer.product.shift.eq(sound.product.shift - 1)


def _sign_of_a(m: Module, sound: Multiplier, outer: Multiplier) -> None:
    m.d.comb += outer.product.sign.eq(outer.a.sign)


def _nan_of_a_only(m: Module, sound: Multiplier, outer: Multiplier) -> None:
    with m.If(~outer.a.exponent.all()):
        m.d.comb += outer.product.nan.eq(0)


def _nan_in_all_of_the_top_binade(m: Module, sound: Multiplier, outer: Multiplier) -> None:
    with m.If(outer.a.exponent.all()):
        m.d.comb += outer.product.nan.eq(1)


def _infinity_times_zero(m: Module, sound: Multiplier, outer: Multiplier) -> None:
    with m.If(sound.product.nan & ~outer.a.fraction.any() & ~outer.b.fraction.any()):
        m.d.comb += [outer.product.nan.eq(0), outer.product.infinite.eq(1)]


def _no_negative_infinity(m: Module, sound: Multiplier, outer: Multiplier) -> None:
    m.d.comb += outer.product.infinite.eq(sound.product.infinite & ~sound.product.sign)


def _nan_is_infinite(m: Module, sound: Multiplier, outer: Multiplier) -> None:
    m.d.comb += outer.product.infinite.eq(sound.product.infinite | sound.product.nan)


def _unsigned_a(m: Module, sound: IntegerMultiplier, outer: IntegerMultiplier) -> None:
    m.d.comb += outer.product.eq(outer.a.as_unsigned() * outer.b)


def _one_too_few(m: Module, sound: IntegerMultiplier, outer: IntegerMultiplier) -> None:
    with m.If(sound.product == 1 << 14):
        m.d.comb += outer.product.eq((1 << 14) - 1)


def _variant(fmt: str, claim: str, title: str, fault: Fault) -> BrokenVariant:
    kind = IntegerMultiplier if fmt == "int8" else Multiplier
    return BrokenVariant(claim=claim, title=title, kind=kind, fault=fault, depth=2, config=TileConfig(format=fmt))


BROKEN_VARIANTS = (
    _variant("fp8_e4m3", "product_is_exact", "subnormals of A count as zero", _no_subnormals),
    _variant("fp8_e5m2", "product_is_exact", "subnormals of B have their own binade", _binade_of_subnormals),
    _variant("int8", "product_is_exact", "A is unsigned", _unsigned_a),
    _variant("int8", "product_is_exact", "-128 times -128 is one too small", _one_too_few),
    _variant("fp8_e4m3", "sign_is_right", "the product has the sign of A", _sign_of_a),
    _variant("fp8_e4m3", "nan_where_the_product_is_none", "a NaN of B is a number", _nan_of_a_only),
    _variant("fp8_e5m2", "nan_where_the_product_is_none", "infinity times zero is an infinity", _infinity_times_zero),
    _variant(
        "fp8_e4m3", "nan_nowhere_else", "all patterns in the top binade of e4m3 are NaN", _nan_in_all_of_the_top_binade
    ),
    _variant("fp8_e5m2", "infinite_where_the_product_is", "negative infinities are not marked", _no_negative_infinity),
    _variant("fp8_e5m2", "infinite_nowhere_else", "a NaN is also marked as an infinity", _nan_is_infinite),
)

PROOF = Proof(name="multiplier", build=build, applies=is_eight_bit_exact, broken_variants=BROKEN_VARIANTS)
