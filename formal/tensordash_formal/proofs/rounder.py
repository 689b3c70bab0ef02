"""Results of exact sums: FP32, rounded to nearest even, or INT32, for all sums.

No other FP32 number is nearer to the sum. Zero, infinities and NaN are exact. INT32 results report overflow if and only
if the sum, with or without C, leaves INT32. The proof has the formats at their real width.
"""

from amaranth.hdl import Cat, Module, Mux, Signal, Value

from tensordash import TileConfig
from tensordash.arithmetic.initial_adder import InitialAdder
from tensordash.arithmetic.integer_result import IntegerResult
from tensordash.arithmetic.rounder import Rounder
from tensordash.block import Block
from tensordash.layouts import accumulator_shape

from ..harness import Fault, Harness
from ..proof import BrokenVariant, Proof
from .multiplier import is_exact

__all__ = ["PROOF"]

FRACTION, BIAS = 23, 127
PLUS_INFINITY, MINUS_INFINITY, NAN = 0x7F800000, 0xFF800000, 0x7FC00000


def build(config: TileConfig, fault: tuple[type[Block], Fault] | None = None) -> Harness:
    """Build the claims about the component that computes results from sums (docs/numerics.md, "exact").

    With a C input, a floating-point sum is the output of the initial adder, which is unchecked here.
    """
    width, least_exponent = accumulator_shape(config.numerics)
    assert least_exponent is not None
    if config.numerics.result == "int32":
        return _integer(IntegerResult(width=width, initial=config.initial), fault)
    if config.initial:
        adder = InitialAdder(width=width, least_exponent=least_exponent)
        width, least_exponent = adder.total_width, adder.total_least_exponent
    dut = Rounder(width=width, least_exponent=least_exponent, bypassed=config.initial)
    return _floating(dut, BIAS + least_exponent, fault)


def _delay(harness: Harness, value: Value) -> Signal:
    """Delay a value by one cycle. The register has no reset because results have none."""
    delayed = Signal(value.shape(), reset_less=True)
    harness.m.d.sync += delayed.eq(value)
    return delayed


def _claim_stability(harness: Harness, dut: Rounder | IntegerResult, loaded: Value) -> None:
    harness.claim("a_result_stays_until_the_next", dut.value == _delay(harness, dut.value), when=~loaded)


def _floating(dut: Rounder, least_exponent: int, fault: tuple[type[Block], Fault] | None) -> Harness:
    """Claim that a result is the normal FP32 number nearest to the sum, with an even fraction in a tie.

    `least_exponent` is the biased exponent of a sum's lowest bit. Distances are in units of 2**-25 of that bit, so a
    quarter of the gap between neighbouring results is an integer.
    """
    harness = Harness(dut, fault=fault)
    block, loaded = _delay(harness, dut.sum.as_value()), _delay(harness, dut.load)
    number, positive, negative = block[: dut.width].as_signed(), block[-2], block[-1]
    _claim_stability(harness, dut, loaded)
    if dut.bypassed:
        # The initial adder marks an infinity or NaN that bypasses the rounder.
        marked = dut.sum.positive | dut.sum.negative
        harness.assume(~dut.other[FRACTION:-1].all() | marked)
    special = dut.value[FRACTION:-1].all()
    harness.claim("infinities_and_nans_are_reported", dut.non_finite, when=loaded & special)
    harness.claim("infinities_and_nans_are_reported", ~dut.non_finite, when=loaded & ~special)
    harness.claim("nan_is_one_pattern", dut.value == NAN, when=loaded & positive & negative)
    harness.claim("infinities_pass", dut.value == PLUS_INFINITY, when=loaded & positive & ~negative)
    harness.claim("infinities_pass", dut.value == MINUS_INFINITY, when=loaded & ~positive & negative)
    finite = loaded & ~positive & ~negative
    if dut.bypassed:
        bypass, other = _delay(harness, dut.bypass), _delay(harness, dut.other)
        harness.claim("another_number_passes_by", dut.value == other, when=finite & bypass)
        finite = finite & ~bypass
    harness.claim("a_zero_sum_is_plus_zero", dut.value == 0, when=finite & (number == 0))

    nonzero = finite & (number != 0)
    fraction, exponent, sign = dut.value[:FRACTION], dut.value[FRACTION:-1], dut.value[-1]
    harness.claim("the_sign_is_the_sums", sign == (number < 0), when=nonzero)
    place = exponent - least_exponent  # place of the result's leading one, counted from the sum's lowest bit
    harness.claim("the_result_is_a_normal_number", (place >= 0) & (place < dut.width), when=nonzero)
    shift = Signal(range(dut.width))
    size, result, half_gap = Signal(dut.width + 25), Signal(dut.width + 26), Signal(dut.width + 1)
    harness.m.d.comb += [
        shift.eq(place),
        size.eq(Mux(number < 0, -number, number) << 25),
        result.eq(Cat(fraction, 1) << (shift + 2)),
        half_gap.eq(2 << shift),
    ]
    # The gap below a power of two is half as wide as the gap above it.
    half_gap_below = Mux(fraction == 0, half_gap >> 1, half_gap)
    above, below = size - result, result - size
    harness.claim("no_neighbour_is_nearer", (above <= half_gap) & (below <= half_gap_below), when=nonzero)
    tie = (above == half_gap) | (below == half_gap_below)
    harness.claim("ties_go_to_even", ~fraction[0], when=nonzero & tie)
    return harness


def _integer(dut: IntegerResult, fault: tuple[type[Block], Fault] | None) -> Harness:
    """Claim that a result is the sum, with C added if there is a C, modulo 2**32."""
    harness = Harness(dut, fault=fault)
    total = dut.sum + dut.c if dut.initial else dut.sum
    loaded = _delay(harness, dut.load)
    _claim_stability(harness, dut, loaded)
    expected = Signal(32, reset_less=True)
    harness.m.d.sync += expected.eq(total)
    harness.claim("the_result_is_the_sum_as_int", dut.value == expected, when=loaded)
    if dut.initial:
        leaves = (total < -(1 << 31)) | (total >= 1 << 31)
        harness.claim("overflow_where_the_sum_leaves_int", dut.overflow, when=leaves)
        harness.claim("no_overflow_elsewhere", ~dut.overflow, when=~leaves)
    return harness


def _always_loads(m: Module, sound: Rounder, outer: Rounder) -> None:
    m.d.comb += sound.load.eq(1)


def _another_nan(m: Module, sound: Rounder, outer: Rounder) -> None:
    with m.If(sound.value == NAN):
        m.d.comb += outer.value.eq(0x7FFFFFFF)


def _infinity_without_sign(m: Module, sound: Rounder, outer: Rounder) -> None:
    with m.If(sound.value == MINUS_INFINITY):
        m.d.comb += outer.value.eq(PLUS_INFINITY)


def _minus_zero(m: Module, sound: Rounder, outer: Rounder) -> None:
    with m.If(sound.value == 0):
        m.d.comb += outer.value.eq(1 << 31)


def _flushes_one(m: Module, sound: Rounder, outer: Rounder) -> None:
    with m.If(sound.value[FRACTION:-1] == outer.least):
        m.d.comb += outer.value.eq(0)


def _jammed_least_bit(m: Module, sound: Rounder, outer: Rounder) -> None:
    m.d.comb += sound.sum.number[0].eq(1)


def _one_nan_is_missed(m: Module, sound: Rounder, outer: Rounder) -> None:
    m.d.comb += outer.non_finite.eq(sound.non_finite & (sound.value != NAN))


def _large_is_infinite(m: Module, sound: Rounder, outer: Rounder) -> None:
    m.d.comb += outer.non_finite.eq(sound.value[FRACTION:-1] >= outer.top)


def _no_extension(m: Module, sound: IntegerResult, outer: IntegerResult) -> None:
    m.d.comb += sound.sum.eq(outer.sum[:-1])


def _no_c(m: Module, sound: IntegerResult, outer: IntegerResult) -> None:
    m.d.comb += sound.c.eq(0)


def _no_overflow_below(m: Module, sound: IntegerResult, outer: IntegerResult) -> None:
    m.d.comb += outer.overflow.eq(sound.overflow & ~outer.c[-1])


def _carry(m: Module, sound: IntegerResult, outer: IntegerResult) -> None:
    m.d.comb += outer.overflow.eq((outer.sum.as_unsigned() + outer.c.as_unsigned())[32])


def _variant(claim: str, title: str, fault: Fault, fmt: str = "fp8_e4m3", *, initial: bool = False) -> BrokenVariant:
    kind = IntegerResult if fmt == "int8" else Rounder
    return BrokenVariant(
        claim=claim, title=title, kind=kind, fault=fault, depth=4, config=TileConfig(format=fmt, initial=initial)
    )


BROKEN_VARIANTS = (
    _variant("a_result_stays_until_the_next", "every sum is rounded", _always_loads),
    _variant("nan_is_one_pattern", "NaN has the bit pattern of a fused accumulator", _another_nan),
    _variant("infinities_pass", "infinities have no sign", _infinity_without_sign),
    _variant("infinities_and_nans_are_reported", "NaN is not reported", _one_nan_is_missed),
    _variant("infinities_and_nans_are_reported", "the largest sums are reported as infinite", _large_is_infinite),
    _variant(
        "another_number_passes_by",
        "a number that bypasses the rounder loses its lowest bit",
        lambda m, sound, outer: sound.other[0].eq(0),
        initial=True,
    ),
    _variant("a_zero_sum_is_plus_zero", "a zero sum is -0", _minus_zero),
    _variant("the_sign_is_the_sums", "results have no sign", lambda m, sound, outer: outer.value.eq(sound.value[:-1])),
    _variant("the_result_is_a_normal_number", "the smallest sum is flushed to zero", _flushes_one),
    _variant("no_neighbour_is_nearer", "the lowest bit is ignored", lambda m, sound, outer: sound.sum.number[0].eq(0)),
    _variant("ties_go_to_even", "the lowest bit counts as one, so ties are rounded away from zero", _jammed_least_bit),
    _variant("a_result_stays_until_the_next", "int8: the result register loads in every cycle", _always_loads, "int8"),
    _variant("the_result_is_the_sum_as_int", "int8: the sum loses its sign", _no_extension, "int8"),
    _variant("the_result_is_the_sum_as_int", "int8: C is not added", _no_c, "int8", initial=True),
    _variant(
        "overflow_where_the_sum_leaves_int", "negative overflow is ignored", _no_overflow_below, "int8", initial=True
    ),
    _variant("no_overflow_elsewhere", "the carry counts as overflow", _carry, "int8", initial=True),
)

PROOF = Proof(name="rounder", build=build, applies=is_exact, broken_variants=BROKEN_VARIANTS, cover_depth=3)
