"""Compare fused sums with additions worked by hand from docs/numerics.md."""

from typing import Any

import numpy as np
import pytest

from tensordash import TileConfig
from tensordash.configuration.numerics import Fused
from tensordash_sim.golden import FusedAccumulator, make_accumulator

ONE, MINUS_ONE, ZERO, INF, NEG_INF, NAN = 0x3C00, 0xBC00, 0x0000, 0x7C00, 0xFC00, 0x7E00
TINY = 0x0001  # 2**-24
SMALL = (ONE, TINY)
PLUS, MINUS = (ONE, ONE), (MINUS_ONE, ONE)


def fused_accumulator(fraction_bits: int, rounding: str = "zero", fmt: Any = "fp16") -> FusedAccumulator:
    return FusedAccumulator(TileConfig(format=fmt, accumulator=Fused(fraction_bits, rounding), initial=True))


def add_pairs(accumulator: FusedAccumulator, pairs, c: int = 0) -> int:
    assert not accumulator.accumulate(pairs, first=True, c=c)
    result = accumulator.result_bits()
    assert accumulator.result_bits(c=0x3F800000) == result
    flags = {0x7F800000: 1, 0xFF800000: 2, 0x7FFFFFFF: 3}.get(result, 0)
    block = accumulator.block_bits()
    assert block >> 32 == flags
    assert flags or block == result
    return result


# Alignment


def test_terms_are_truncated_separately():
    assert add_pairs(fused_accumulator(23), [PLUS, SMALL, SMALL]) == 0x3F800000
    assert add_pairs(fused_accumulator(24), [PLUS, SMALL, SMALL]) == 0x3F800001
    # The alignment keeps the bit; the rounding drops it.
    assert add_pairs(fused_accumulator(24), [PLUS, SMALL]) == 0x3F800000
    assert add_pairs(fused_accumulator(24), [PLUS, SMALL, MINUS]) == 0x33800000
    assert add_pairs(fused_accumulator(23), [PLUS, SMALL, MINUS]) == 0


def test_magnitudes_are_truncated():
    """F = 8: 1 - 1.5 * 2**-8 becomes 1 - 2**-8, not 1 - 2 * 2**-8."""
    assert add_pairs(fused_accumulator(8), [PLUS, (0xBC00, 0x1E00)]) == 0x3F7F0000
    assert add_pairs(fused_accumulator(8), [MINUS, (ONE, 0x1E00)]) == 0xBF7F0000


def test_the_largest_exponent_may_be_that_of_c():
    """With C = 2**9, multiples of 2**-14 count; with 2**10, multiples of 2**-13."""
    pair = (ONE, 0x0400)
    assert add_pairs(fused_accumulator(23), [pair], c=0x44000000) == 0x44000001
    assert add_pairs(fused_accumulator(23), [pair], c=0x44800000) == 0x44800000
    assert add_pairs(fused_accumulator(24), [pair, pair], c=0x44800000) == 0x44800001


def test_c_is_truncated_too():
    """In a sum with 1 (e_max = 0) and F = 23, C = 2**-20 + 2**-43 is truncated to 2**-20."""
    assert add_pairs(fused_accumulator(23), [PLUS, MINUS], c=0x35800001) == 0x35800000
    assert add_pairs(fused_accumulator(64), [PLUS, MINUS], c=0x35800001) == 0x35800001
    # A cycle without an active lane keeps C. A product of zero truncates C if F is below 23.
    assert add_pairs(fused_accumulator(8), [], c=0x3F80FFFF) == 0x3F80FFFF
    assert add_pairs(fused_accumulator(8), [(ZERO, ONE)], c=0x3F80FFFF) == 0x3F808000


def test_products_are_not_normalised():
    """1.5 * 1.5 = 2.25 has exponent 0, so that 2**-23 is kept. Two such terms change the result."""
    pairs = [(0x3E00, 0x3E00), (ONE, 0x0002), (ONE, 0x0002)]
    assert add_pairs(fused_accumulator(23), pairs) == 0x40100001
    assert add_pairs(fused_accumulator(22), pairs) == 0x40100000


def test_subnormal_operands_have_the_least_exponent_of_their_format():
    """2**-24 * 1 has exponent -14: F = 8 keeps multiples of 2**-22."""
    assert add_pairs(fused_accumulator(8), [SMALL]) == 0
    assert add_pairs(fused_accumulator(8), [(ONE, 0x0004)]) == 0x34800000
    assert add_pairs(fused_accumulator(9), [(ONE, 0x0003)]) == 0x34000000
    assert add_pairs(fused_accumulator(10), [SMALL]) == 0x33800000
    # The exponent is -28; 2**-48 is 20 bits below.
    assert add_pairs(fused_accumulator(20), [(TINY, TINY)]) == 0x27800000
    assert add_pairs(fused_accumulator(19), [(TINY, TINY)]) == 0


def test_products_of_zero_have_no_exponent():
    assert add_pairs(fused_accumulator(23), [(0x7BFF, ZERO), SMALL]) == 0x33800000
    assert add_pairs(fused_accumulator(23), [(0x7BFF, 0x8000), SMALL]) == 0x33800000


def test_a_subnormal_c_has_exponent_minus_126():
    assert add_pairs(fused_accumulator(23), [(ZERO, ONE)], c=0x00000001) == 0x00000001
    assert add_pairs(fused_accumulator(22), [(ZERO, ONE)], c=0x00000003) == 0x00000002
    assert add_pairs(fused_accumulator(23), [(TINY, TINY)], c=0x00000001) == 0x27800000


# Rounding


@pytest.mark.parametrize(
    ("c", "zero", "nearest"),
    [
        (0x3F800000, 0x3F800000, 0x3F800000),  # 1 + 2**-24: a tie, to even
        (0x3F800001, 0x3F800001, 0x3F800002),  # 1 + 2**-23 + 2**-24: a tie, to even
        (0xBF800000, 0xBF7FFFFF, 0xBF7FFFFF),  # -1 + 2**-24 needs no rounding
    ],
)
def test_ties(c, zero, nearest):
    assert add_pairs(fused_accumulator(24, "zero"), [SMALL], c) == zero
    assert add_pairs(fused_accumulator(24, "nearest"), [SMALL], c) == nearest


def test_beyond_a_tie():
    """1 + 2**-24 + 2**-48: the last term decides if the alignment keeps it."""
    pairs = [SMALL, (TINY, TINY)]
    assert add_pairs(fused_accumulator(48, "nearest"), pairs, 0x3F800000) == 0x3F800001
    assert add_pairs(fused_accumulator(47, "nearest"), pairs, 0x3F800000) == 0x3F800000
    assert add_pairs(fused_accumulator(64, "zero"), pairs, 0x3F800000) == 0x3F800000
    assert add_pairs(fused_accumulator(64, "zero"), [(MINUS_ONE, TINY), (0x8001, TINY)], 0xBF800000) == 0xBF800000


def test_carries_beyond_the_aligned_bits():
    assert add_pairs(fused_accumulator(23), [(0x3E00, 0x3E00)] * 16) == 0x42100000  # 36
    # 4 + 2**-22 and 4 + 3 * 2**-22 are ties: FP32's step is 2**-21.
    assert add_pairs(fused_accumulator(23, "zero"), [PLUS] * 3, 0x3F800002) == 0x40800000
    assert add_pairs(fused_accumulator(23, "nearest"), [PLUS] * 3, 0x3F800002) == 0x40800000
    assert add_pairs(fused_accumulator(23, "zero"), [PLUS] * 3, 0x3F800006) == 0x40800001
    assert add_pairs(fused_accumulator(23, "nearest"), [PLUS] * 3, 0x3F800006) == 0x40800002


def test_rounding_up_to_the_next_power_of_two():
    """The sum is 2 - 2**-23 + 2**-24."""
    assert add_pairs(fused_accumulator(24, "nearest"), [SMALL], 0x3FFFFFFF) == 0x40000000
    assert add_pairs(fused_accumulator(24, "zero"), [SMALL], 0x3FFFFFFF) == 0x3FFFFFFF


# Products of bf16 exceed FP32 at both ends. 0x3F80 is 1, 0x7F00 2**127, 0x0080 2**-126, and 0x0001 2**-133.


@pytest.mark.parametrize(
    ("fraction_bits", "rounding", "pairs", "result"),
    [
        (23, "zero", [(0x0001, 0x3F80)], 0x00010000),
        (23, "zero", [(0x0080, 0xBF80)], 0x80800000),
        (23, "zero", [(0x0080, 0x3400)], 0x00000001),  # 2**-149
        (23, "nearest", [(0x0080, 0x3380)], 0),  # e_max = -126 does not keep 2**-150
        (24, "zero", [(0x0080, 0x3380)], 0),
        (24, "nearest", [(0x0080, 0x3380)], 0),  # a tie of 0 and the least subnormal
        (24, "nearest", [(0x0080, 0x3380)] * 2, 0x00000001),
        (25, "nearest", [(0x0080, 0x3380), (0x0080, 0x3300)], 0x00000001),  # 1.5 * 2**-150
        (24, "zero", [(0x8080, 0x3380)], 0),  # a negative sum that is truncated to zero: +0
        (24, "nearest", [(0x8080, 0x3380)], 0),
        (23, "zero", [(0x8080, 0x3380)], 0),
        (23, "zero", [(0x0001, 0x0001)], 0),  # 2**-266
        (64, "zero", [(0x0001, 0x0001)], 0),
        (24, "zero", [(0x0080, 0x3400), (0x8080, 0x3400)], 0),
        (23, "zero", [(0x0080, 0x3F80), (0x8001, 0x3F80)], 0x007F0000),
        (23, "zero", [(0x7F00, 0x3F80)] * 2, 0x7F800000),
        (23, "nearest", [(0xFF00, 0x3F80)] * 2, 0xFF800000),
        (23, "zero", [(0x7F00, 0x3F80), (0x7F00, 0x3F80), (0x7F00, 0xBF80)], 0x7F000000),
        (23, "zero", [(0x7F7F, 0x7F7F)], 0x7F800000),
        (23, "zero", [(0x7F7F, 0x7F7F), (0x7F7F, 0xFF7F), (0x3F80, 0x3F80)], 0),  # the 1 is lost in the sum with 2**254
    ],
)
def test_smallest_and_largest_fp32_numbers(fraction_bits, rounding, pairs, result):
    assert add_pairs(fused_accumulator(fraction_bits, rounding, "bf16"), pairs) == result


@pytest.mark.parametrize(
    ("fraction_bits", "rounding", "pairs", "result"),
    [
        (23, "nearest", [(0x7300, 0x3F80)], 0x7F7FFFFF),  # 2**103 is lost in the sum with exponent 127
        (24, "zero", [(0x7300, 0x3F80)], 0x7F7FFFFF),
        (24, "nearest", [(0x7300, 0x3F80)], 0x7F800000),
        (25, "nearest", [(0x7280, 0x3F80)], 0x7F7FFFFF),
        (23, "zero", [(0x7380, 0x3F80)], 0x7F800000),  # 2**128 exactly
    ],
)
def test_sums_near_the_largest_number(fraction_bits, rounding, pairs, result):
    accumulator = fused_accumulator(fraction_bits, rounding, "bf16")
    assert add_pairs(accumulator, pairs, c=0x7F7FFFFF) == result
    negative = [(a ^ 0x8000, b) for a, b in pairs]
    assert add_pairs(accumulator, negative, c=0xFF7FFFFF) == result | 0x80000000


# Special values


@pytest.mark.parametrize(
    ("pairs", "c", "result"),
    [
        ([(NAN, ONE)], 0, 0x7FFFFFFF),
        ([(ZERO, 0xFE01)], 0, 0x7FFFFFFF),
        ([(INF, ZERO)], 0, 0x7FFFFFFF),
        ([(INF, ONE)], 0, 0x7F800000),
        ([(INF, MINUS_ONE), PLUS], 0x7F7FFFFF, 0xFF800000),
        ([(INF, ONE), (NEG_INF, ONE)], 0, 0x7FFFFFFF),
        ([(NEG_INF, ONE)], 0x7F800000, 0x7FFFFFFF),
        ([(INF, ONE)], 0x7F800000, 0x7F800000),
        ([(INF, ONE)], 0xFFC00000, 0x7FFFFFFF),
        ([PLUS], 0xFF800000, 0xFF800000),
        # Without an active lane, the result is C, except for -0 and NaN.
        ([], 0x80000000, 0),
        ([], 0x80000001, 0x80000001),
        ([], 0xFF800000, 0xFF800000),
        ([], 0x7F800001, 0x7FFFFFFF),
        ([], 0xFFC00000, 0x7FFFFFFF),
        # Zero sums.
        ([PLUS, MINUS], 0, 0),
        ([(0x8000, ONE)], 0x80000000, 0),
        ([MINUS], 0x3F800000, 0),
    ],
)
def test_special_values(pairs, c, result):
    assert add_pairs(fused_accumulator(23), pairs, c) == result


def test_special_values_persist_until_the_next_stream():
    accumulator = fused_accumulator(23, fmt="bf16")
    accumulator.accumulate([(0x7F00, 0x3F80)] * 2, first=True)  # Overflow gives an ordinary infinity.
    accumulator.accumulate([], first=False)
    accumulator.accumulate([(0x7F00, 0xBF80)] * 3, first=False)
    assert accumulator.result_bits() == 0x7F800000
    accumulator.accumulate([(0xFF80, 0x3F80)], first=False)
    accumulator.accumulate([(0x3F80, 0x3F80)], first=False)
    assert accumulator.result_bits() == 0x7FFFFFFF
    accumulator.accumulate([(0x3F80, 0x3F80)], first=True)
    assert accumulator.result_bits() == 0x3F800000


# Streams


def test_every_cycle_rounds():
    """Adding 2**-24 to 1 in each of two cycles gives 1. Adding both in one cycle with F = 24 gives more."""
    accumulator = fused_accumulator(24)
    for first, pairs in ((True, [PLUS]), (False, [SMALL]), (False, []), (False, [SMALL])):
        accumulator.accumulate(pairs, first)
    assert accumulator.result_bits() == 0x3F800000
    accumulator.accumulate([SMALL, SMALL], first=False)
    assert accumulator.result_bits() == 0x3F800001


def test_c_counts_at_the_start_only():
    accumulator = fused_accumulator(23)
    accumulator.accumulate([PLUS], first=True, c=0x40000000)
    accumulator.accumulate([PLUS], first=False, c=0x40000000)
    assert accumulator.result_bits() == 0x40800000
    assert not accumulator.result_overflow(0x7F7FFFFF)


def test_sides_of_different_formats():
    """e4m3 with e5m2: 448 * 57344, 256 (no infinity in e4m3) * 1, 2**-9 * 2**-16, NaN."""
    accumulator = fused_accumulator(25, fmt={"a": "fp8_e4m3", "b": "fp8_e5m2"})
    assert add_pairs(accumulator, [(0x7E, 0x7B)]) == np.float32(448 * 57344).view(np.uint32)
    assert add_pairs(accumulator, [(0x78, 0x3C)]) == 0x43800000
    assert add_pairs(accumulator, [(0x01, 0x01)]) == 0x33000000
    assert add_pairs(accumulator, [(0xFF, 0x3C)]) == 0x7FFFFFFF
    assert add_pairs(accumulator, [(0x38, 0xFC)]) == 0xFF800000


@pytest.mark.parametrize(("name", "fraction_bits"), [("volta", 23), ("ampere", 24), ("hopper", 25)])
def test_presets(name, fraction_bits):
    """Compute 1 + 2**-F + 2**-F - 1, and the same with one bit more than F."""
    accumulator = make_accumulator(TileConfig(accumulator=name))
    for extra, expected in ((0, 2.0 ** (1 - fraction_bits)), (1, 0.0)):
        power = -fraction_bits - extra + 14  # The other factor is 2**-14.
        pair = (0x0400, (power + 15) << 10)
        accumulator.accumulate([PLUS, pair, pair, MINUS], first=True)
        assert np.uint32(accumulator.result_bits()).view(np.float32) == expected
