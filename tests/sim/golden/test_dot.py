"""Test exact accumulators: range, wrapping, special values, C, and results against rational arithmetic."""

import numpy as np
import pytest

from tensordash import TileConfig
from tensordash.configuration.formats import FORMATS
from tensordash_sim.golden import (
    ExactAccumulator,
    FusedAccumulator,
    IntegerAccumulator,
    dot_exact,
    fixed_values,
    make_accumulator,
    product_bits,
)

FP16 = FORMATS["fp16"]
FORMAT_PAIRS = [
    ("fp16", "fp16"),
    ("fp8_e4m3", "fp8_e4m3"),
    ("fp8_e5m2", "fp8_e5m2"),
    ("fp8_e4m3", "fp8_e5m2"),
    ("fp8_e5m2", "fp8_e4m3"),
    ("fp16", "fp8_e4m3"),
    ("int8", "int8"),
]
every_exact = pytest.mark.parametrize(("a", "b"), FORMAT_PAIRS, ids=["-".join(pair) for pair in FORMAT_PAIRS])
MAX, NEG_MAX, ONE = 0x7BFF, 0xFBFF, 0x3C00
MAX_PRODUCT = (2047 << 29) ** 2  # 65504**2 in units of 2**-48


@pytest.mark.parametrize(
    ("a", "b", "bits"),
    [
        ("fp16", "fp16", 80),
        ("fp8_e4m3", "fp8_e4m3", 36),
        ("fp8_e5m2", "fp8_e5m2", 64),
        ("fp8_e4m3", "fp8_e5m2", 50),
        ("fp16", "fp8_e5m2", 72),
        ("fp6_e2m3", "fp6_e2m3", 12),
        ("fp6_e3m2", "fp6_e3m2", 18),
        ("fp4_e2m1", "fp4_e2m1", 8),
        ("fp8_e4m3", "fp4_e2m1", 22),
        ("fp8_e5m2", "fp6_e3m2", 41),
        ("bf16", "bf16", 522),
        ("int8", "int8", 15),
    ],
)
def test_product_widths(a, b, bits):
    """The table of docs/numerics.md states the width of the largest product."""
    assert product_bits(FORMATS[a], FORMATS[b]) == bits
    if max(FORMATS[a].width, FORMATS[b].width) <= 8:
        tables = [[fixed_values(fmt)[bits] or 0 for bits in range(1 << fmt.width)] for fmt in (FORMATS[a], FORMATS[b])]
        largest = [max(map(abs, table)) for table in tables]
        assert (largest[0] * largest[1]).bit_length() == bits


@every_exact
def test_results_are_correctly_rounded_for_any_split(a, b, operands, rng):
    config = TileConfig(format={"a": a, "b": b}, initial=True, rows=1, columns=1)
    accumulator = make_accumulator(config)
    for _ in range(150):
        count = int(rng.integers(1, 40))
        share = float(rng.choice([0.0, 0.02]))
        a_bits = operands.special((count,), 0.8, share, config.a_format)
        b_bits = operands.special((count,), 0.8, share, config.b_format)
        pairs = list(zip(a_bits.tolist(), b_bits.tolist(), strict=True))
        rng.shuffle(pairs)
        first = True
        while pairs:
            taken = int(rng.integers(0, 5))
            assert not accumulator.accumulate(pairs[:taken], first)
            pairs, first = pairs[taken:], False
        formats = config.a_format, config.b_format
        alone = dot_exact(a_bits, b_bits, *formats)
        assert accumulator.result_bits() == alone
        # C is any number, or cancels all but the last bits of the sum.
        for c in (operands.initial(config, share=0.2).item(), alone ^ 0x80000000, alone, (alone ^ 0x80000000) + 1):
            assert accumulator.result_bits(c) == dot_exact(a_bits, b_bits, *formats, c=c)


@pytest.mark.parametrize("name", ["fp8_e4m3", "fp8_e5m2", "int8"])
def test_every_product_of_two_bytes(name):
    """FP32 holds each of the 65,536 products without rounding."""
    accumulator = make_accumulator(TileConfig(format=name))
    fmt = FORMATS[name]
    for a in range(256):
        for b in range(256):
            accumulator.accumulate([(a, b)], first=True)
            assert accumulator.result_bits() == dot_exact([a], [b], fmt)


def test_accumulators_refuse_other_kinds():
    assert isinstance(make_accumulator(TileConfig(format="int8", headroom_bits=0)), IntegerAccumulator)
    with pytest.raises(ValueError, match="accumulator must be exact, not volta"):
        ExactAccumulator(TileConfig(accumulator="volta"))
    with pytest.raises(ValueError, match="accumulator must be fused, not exact"):
        FusedAccumulator(TileConfig())


def test_a_small_term_survives_a_large_one_that_cancels():
    accumulator = ExactAccumulator(TileConfig())
    accumulator.accumulate([(MAX, MAX), (1, 1)], first=True)
    assert accumulator.total == MAX_PRODUCT + 1
    accumulator.accumulate([(MAX, NEG_MAX)], first=False)
    assert accumulator.total == 1
    assert accumulator.result_bits() == np.float32(2.0**-48).view(np.uint32)


def test_first_clears_the_sum_and_special_values():
    accumulator = ExactAccumulator(TileConfig())
    accumulator.accumulate([(0x7E00, ONE), (0x7C00, ONE)], first=True)
    assert accumulator.result_bits() == 0x7FC00000
    accumulator.accumulate([], first=True)
    assert accumulator.result_bits() == 0
    accumulator.accumulate([(ONE, 0xBC00)], first=False)
    assert accumulator.result_bits() == 0xBF800000


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("headroom", [0, 1, 3])
def test_overflow_wraps_at_the_range(headroom, sign):
    """With h bits of headroom, 2**h products of the largest magnitude fit. Far more of them wrap."""
    accumulator = ExactAccumulator(TileConfig(headroom_bits=headroom))
    assert accumulator.width == 81 + headroom
    pair = (MAX, MAX if sign > 0 else NEG_MAX)
    half = 1 << (80 + headroom)
    total, overflows = 0, 0
    for count in range(40):
        total += sign * MAX_PRODUCT
        wrapped = (total + half) % (2 * half) - half
        assert accumulator.accumulate([pair], first=count == 0) == (wrapped != total)
        overflows += wrapped != total
        assert count >= 2**headroom or overflows == 0
        total = wrapped
        assert accumulator.total == total
    assert overflows >= 1


def test_range_of_twos_complement():
    accumulator = ExactAccumulator(TileConfig(headroom_bits=0))
    accumulator.accumulate([], first=True)
    accumulator.total = -(2**80) + 1
    assert not accumulator.accumulate([(1, 0x8001)], first=False)  # -2**80
    assert accumulator.accumulate([(1, 0x8001)], first=False)
    assert accumulator.total == 2**80 - 1
    assert accumulator.accumulate([(1, 1)], first=False)
    assert accumulator.total == -(2**80)


def test_only_the_sum_of_a_cycle_counts_as_overflow():
    accumulator = ExactAccumulator(TileConfig(headroom_bits=0))
    assert not accumulator.accumulate([(MAX, MAX), (MAX, MAX), (MAX, NEG_MAX), (MAX, NEG_MAX)], first=True)


def test_finite_products_overflow_after_an_infinity():
    accumulator = ExactAccumulator(TileConfig(headroom_bits=0))
    assert accumulator.accumulate([(0x7C00, ONE), (MAX, MAX), (MAX, MAX)], first=True)
    assert accumulator.result_bits() == 0x7F800000


# C


def with_c(pairs, c, **settings):
    accumulator = make_accumulator(TileConfig(initial=True, **settings))
    accumulator.accumulate(pairs, first=True)
    return accumulator.result_bits(c)


@pytest.mark.parametrize(
    ("pairs", "c", "result"),
    [
        ([(ONE, ONE)], 0x3F800000, 0x40000000),
        # 1 + 2**-24 is a tie, to even; the least product of all, 2**-48, breaks it.
        ([(ONE, 1)], 0x3F800000, 0x3F800000),
        ([(ONE, 1), (1, 1)], 0x3F800000, 0x3F800001),
        ([(ONE, 1), (1, 0x8001)], 0x3F800001, 0x3F800001),
        ([(ONE, 1)], 0x3F800001, 0x3F800002),
        # Far apart: 2**127 - 2**-48, 2**-48 + 2**-149.
        ([(1, 0x8001)], 0x7F000000, 0x7F000000),
        ([(1, 1)], 0x00000001, 0x27800000),
        # The remainder is a subnormal number, then zero: +0, even from -0 and -0.
        ([(1, 1), (1, 0x8001)], 0x80000003, 0x80000003),
        ([(1, 0x8001)], 0x27800000, 0),
        ([], 0x80000000, 0),
        ([(0x8000, ONE)], 0x80000000, 0),
        # Infinities and NaN.
        ([(ONE, ONE)], 0xFF800000, 0xFF800000),
        ([(0x7C00, ONE)], 0xFF7FFFFF, 0x7F800000),
        ([(0x7C00, ONE)], 0x7F800000, 0x7F800000),
        ([(0x7C00, ONE)], 0xFF800000, 0x7FC00000),
        ([(ONE, ONE)], 0xFFFFFFFF, 0x7FC00000),
        ([(0x7C00, ONE)], 0x7F800001, 0x7FC00000),
        ([(0x7E00, ONE)], 0x7F800000, 0x7FC00000),
    ],
)
def test_c_is_a_term_of_the_sum(pairs, c, result):
    assert with_c(pairs, c) == result


def test_a_result_beyond_the_largest_number_is_an_infinity():
    """2**128 - 2**104 is the largest number; a sum half a step, 2**103, above it needs 64 bits of headroom."""
    accumulator = ExactAccumulator(TileConfig(headroom_bits=64))
    accumulator.accumulate([], first=True)
    for units, c, result in [
        (2**103 - 1, 0x7F7FFFFF, 0x7F7FFFFF),
        (2**103, 0x7F7FFFFF, 0x7F800000),
        (-(2**103), 0xFF7FFFFF, 0xFF800000),
        (-(2**103), 0x7F7FFFFF, 0x7F7FFFFE),
    ]:
        accumulator.total = units << 48
        assert accumulator.result_bits(c) == result
        assert not accumulator.result_overflow(c)


def test_c_is_not_accumulated():
    accumulator = ExactAccumulator(TileConfig())
    accumulator.accumulate([(ONE, ONE)], first=True, c=0x41000000)
    assert [accumulator.result_bits(c) for c in (0x3F800000, 0x7F800000, 0)] == [0x40000000, 0x7F800000, 0x3F800000]


def test_the_block_of_an_exact_accumulator():
    """A block has the number and the flags of plus and minus infinity; both flags mean NaN."""
    accumulator = ExactAccumulator(TileConfig(headroom_bits=0))
    assert accumulator.width == 81
    accumulator.accumulate([(1, 0x8001)], first=True)
    assert accumulator.block_bits() == (1 << 81) - 1
    flags = []
    for pairs in ([(0x7C00, ONE)], [(ONE, 0xFC00)], [(0x7C00, 0)], [(0x7C00, ONE), (0xFC00, ONE)], [(0x7E00, ONE)]):
        accumulator.accumulate(pairs, first=True)
        flags.append(accumulator.block_bits() >> 81)
    assert flags == [1, 2, 3, 3, 3]


# int8


def test_small_int8_sums():
    accumulator = IntegerAccumulator(TileConfig(format="int8", headroom_bits=2))
    assert accumulator.width == 18
    assert not accumulator.accumulate([(0x80, 0x80), (0xFF, 0x02)], first=True)  # 16384 - 2
    assert (accumulator.total, accumulator.block_bits(), accumulator.result_bits()) == (16382, 16382, 16382)
    assert not accumulator.accumulate([(0x80, 0x7F)] * 2, first=False)  # - 2 * 16256
    assert accumulator.total == -16130
    assert accumulator.block_bits() == (1 << 18) - 16130
    assert accumulator.result_bits() == (1 << 32) - 16130


def test_int8_wraps_at_its_range():
    accumulator = IntegerAccumulator(TileConfig(format="int8", headroom_bits=0))
    assert not accumulator.accumulate([(0x80, 0x80)], first=True)
    assert accumulator.accumulate([(0x80, 0x80)], first=False)  # 32768 in 16 bits
    assert accumulator.result_bits() == (1 << 32) - 32768
    assert accumulator.accumulate([(0xFF, 0x01)], first=False)
    assert accumulator.total == 32767
    assert not accumulator.accumulate([(0x80, 0x80)] * 3 + [(0x80, 0x7F)] * 3, first=True)  # only the sum counts
    accumulator = IntegerAccumulator(TileConfig(format="int8"))
    accumulator.accumulate([], first=True)
    accumulator.total = 2**31 - 1
    assert accumulator.accumulate([(1, 1)], first=False)
    assert accumulator.result_bits() == 0x80000000


@pytest.mark.parametrize(
    ("total", "c", "result", "overflow"),
    [
        (5, 0xFFFFFFFF, 4, False),
        (1, 0x7FFFFFFF, 0x80000000, True),
        (-1, 0x7FFFFFFF, 0x7FFFFFFE, False),
        (0, 0x80000000, 0x80000000, False),
        (-1, 0x80000000, 0x7FFFFFFF, True),
        (-(2**31), 0x80000000, 0, True),
        (2**31 - 1, 0x7FFFFFFF, 0xFFFFFFFE, True),
    ],
)
def test_int8_adds_c_modulo_two_to_the_32(total, c, result, overflow):
    accumulator = IntegerAccumulator(TileConfig(format="int8", initial=True))
    accumulator.total = total
    assert (accumulator.result_bits(c), accumulator.result_overflow(c)) == (result, overflow)
