"""The exact accumulator: range, wrapping, special values, and bits against rational arithmetic."""

import numpy as np
import pytest

from tensordash import TileConfig
from tensordash.formats import FORMATS, FloatFormat
from tensordash_sim.golden import ExactAccumulator, dot_exact, product_bits

FP16 = FORMATS["fp16"]
MAX, NEG_MAX, ONE = 0x7BFF, 0xFBFF, 0x3C00
MAX_PRODUCT = (2047 << 29) ** 2  # 65504**2 in units of 2**-48


def test_product_widths():
    e5m2 = FloatFormat(name="e5m2", exponent_bits=5, fraction_bits=2)
    assert product_bits(FP16, FP16) == 80
    assert product_bits(e5m2, e5m2) == 64
    assert product_bits(FP16, e5m2) == 72


def test_bits_are_the_correctly_rounded_sum_however_it_is_split(operands, rng):
    accumulator = ExactAccumulator(TileConfig())
    for _ in range(100):
        a, b = operands.special((30,), 0.8, share=0.01), operands.special((30,), 0.8, share=0.01)
        pairs = list(zip(a.tolist(), b.tolist(), strict=True))
        rng.shuffle(pairs)
        first = True
        while pairs:
            count = int(rng.integers(0, 5))
            assert not accumulator.accumulate(pairs[:count], first)
            pairs, first = pairs[count:], False
        assert accumulator.result_bits() == dot_exact(a, b, FP16)


def test_a_small_term_survives_a_large_one_that_cancels():
    accumulator = ExactAccumulator(TileConfig())
    accumulator.accumulate([(MAX, MAX), (1, 1)], first=True)
    assert accumulator.total == MAX_PRODUCT + 1
    accumulator.accumulate([(MAX, NEG_MAX)], first=False)
    assert accumulator.total == 1
    assert accumulator.result_bits() == np.float32(2.0**-48).view(np.uint32)


def test_first_starts_from_zero_and_forgets_special_values():
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
    """With h bits of headroom, 2**h products of largest magnitude fit; far more wrap."""
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


def test_the_range_is_that_of_twos_complement():
    accumulator = ExactAccumulator(TileConfig(headroom_bits=0))
    accumulator.accumulate([], first=True)
    accumulator.total = -(2**80) + 1
    assert not accumulator.accumulate([(1, 0x8001)], first=False)  # the least value of all
    assert accumulator.accumulate([(1, 0x8001)], first=False)
    assert accumulator.total == 2**80 - 1
    assert accumulator.accumulate([(1, 1)], first=False)
    assert accumulator.total == -(2**80)


def test_only_the_sum_of_a_cycle_counts_as_overflow():
    accumulator = ExactAccumulator(TileConfig(headroom_bits=0))
    assert not accumulator.accumulate([(MAX, MAX), (MAX, MAX), (MAX, NEG_MAX), (MAX, NEG_MAX)], first=True)


def test_finite_products_overflow_behind_an_infinity():
    accumulator = ExactAccumulator(TileConfig(headroom_bits=0))
    assert accumulator.accumulate([(0x7C00, ONE), (MAX, MAX), (MAX, MAX)], first=True)
    assert accumulator.result_bits() == 0x7F800000
