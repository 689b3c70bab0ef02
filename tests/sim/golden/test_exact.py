"""Compare the mathematical definition with NumPy and with Python's correctly rounded sum."""

import math
from fractions import Fraction

import numpy as np
import pytest

from tensordash import TileConfig
from tensordash.configuration.formats import FORMATS
from tensordash_sim.golden import dot_exact, encode, matmul_exact
from tensordash_sim.golden.exact import round_fraction, value_of

FP16 = FORMATS["fp16"]
ONE, INF, NEG_INF, NAN, ZERO, NEG_ZERO = 0x3C00, 0x7C00, 0xFC00, 0x7E00, 0x0000, 0x8000
NAN_BITS, INF_BITS, NEG_INF_BITS, ONE_BITS = 0x7FC00000, 0x7F800000, 0xFF800000, 0x3F800000


def test_every_fp16_value():
    expected = np.arange(1 << 16, dtype=np.uint16).view(np.float16).astype(np.float64)
    np.testing.assert_array_equal([float(value_of(bits, FP16)) for bits in range(1 << 16)], expected)


def test_round_fraction_matches_numpy(rng):
    values = np.ldexp(rng.integers(-(2**53), 2**53, 5_000).astype(np.float64), rng.integers(-230, 90, 5_000))
    values = values[values != 0]
    with np.errstate(over="ignore", under="ignore"):
        expected = values.astype(np.float32).view(np.uint32)
    np.testing.assert_array_equal([round_fraction(Fraction(value)) for value in values], expected)


def test_dot_is_correctly_rounded(operands):
    for _ in range(200):
        a, b = operands.finite((40,)), operands.finite((40,))
        products = a.view(np.float16).astype(np.float64) * b.view(np.float16).astype(np.float64)
        # A double holds every product. fsum rounds to double, so rounding its sum again may be off by an ulp.
        expected = math.fsum(products)
        result = np.array(dot_exact(a, b, FP16), dtype=np.uint32).view(np.float32)
        assert abs(float(result) - expected) <= abs(expected) * 2.0**-24
        if math.fsum([*products, -float(np.float32(expected))]) == 0:
            assert result == np.float32(expected)


@pytest.mark.parametrize(
    ("pairs", "none", "rows", "both"),
    [
        ([(NAN, ONE)], NAN_BITS, NAN_BITS, NAN_BITS),
        ([(NAN, ZERO)], NAN_BITS, 0, 0),
        ([(ZERO, NAN)], NAN_BITS, NAN_BITS, 0),
        ([(INF, NEG_ZERO)], NAN_BITS, 0, 0),
        ([(NEG_ZERO, INF)], NAN_BITS, NAN_BITS, 0),
        ([(INF, ONE)], INF_BITS, INF_BITS, INF_BITS),
        ([(INF, 0xBC00)], NEG_INF_BITS, NEG_INF_BITS, NEG_INF_BITS),
        ([(INF, NEG_INF), (ONE, ONE)], NEG_INF_BITS, NEG_INF_BITS, NEG_INF_BITS),
        ([(INF, ONE), (NEG_INF, ONE)], NAN_BITS, NAN_BITS, NAN_BITS),
        ([(ONE, ONE), (NAN, ZERO)], NAN_BITS, ONE_BITS, ONE_BITS),
        ([(NEG_ZERO, ONE)], 0, 0, 0),
        ([(ONE, ONE), (0xBC00, ONE)], 0, 0, 0),
    ],
)
def test_specials_and_signs(pairs, none, rows, both):
    a, b = zip(*pairs, strict=True)
    assert [dot_exact(a, b, FP16, sparsity=mode) for mode in ("none", "rows", "both")] == [none, rows, both]


def test_matmul_exact_lays_out_rows_by_columns():
    a = np.full((2, 1, 4), [[[ONE]], [[0x4000]]], dtype=np.uint16)
    b = np.full((3, 1, 4), [[[ONE]], [[0x4000]], [[0x4200]]], dtype=np.uint16)
    c = matmul_exact(a, b, TileConfig(rows=3, columns=2)).view(np.float32)
    assert c.tolist() == [[4, 8], [8, 16], [12, 24]]


def test_c_is_one_more_term(rng):
    """Short sums of doubles are exact if all exponents are close. float32 then rounds once."""
    a, b = (rng.integers(-64, 64, (500, 6)).astype(np.float16) / 8 for _ in range(2))
    c = rng.standard_normal(500).astype(np.float32)
    expected = (np.sum(a.astype(np.float64) * b, axis=1) + c).astype(np.float32).view(np.uint32)
    for one in range(500):
        bits = dot_exact(
            a[one].view(np.uint16), b[one].view(np.uint16), FP16, c=int(c[one : one + 1].view(np.uint32)[0])
        )
        assert bits == expected[one]


@pytest.mark.parametrize(
    ("pairs", "c", "expected"),
    [
        ([], 0x80000000, 0),
        ([(ONE, ONE)], 0xBF800000, 0),
        ([(ONE, ONE)], 0x00000001, ONE_BITS),
        ([(ONE, ONE)], 0x7F7FFFFF, 0x7F7FFFFF),
        ([(ONE, ONE)], 0x7F800000, INF_BITS),
        ([(INF, ONE)], 0xFF800000, NAN_BITS),
        ([(INF, ONE)], 0x7F7FFFFF, INF_BITS),
        ([(ONE, ONE)], 0xFFABCDEF, NAN_BITS),
        ([(NAN, ZERO)], 0xFF800000, NAN_BITS),
    ],
)
def test_specials_and_c(pairs, c, expected):
    a, b = zip(*pairs, strict=True) if pairs else ((), ())
    assert dot_exact(a, b, FP16, c=c) == expected


def test_integers_wrap_to_int32(rng):
    int8 = FORMATS["int8"]
    a, b = (rng.integers(-128, 128, (200, 9)) for _ in range(2))
    c = rng.integers(-(2**31), 2**31, 200)
    expected = (np.sum(a * b, axis=1) + c).astype(np.int32).view(np.uint32)
    bits = [dot_exact(x % 256, y % 256, int8, c=int(z) % 2**32) for x, y, z in zip(a, b, c, strict=True)]
    np.testing.assert_array_equal(bits, expected)
    assert dot_exact([1], [1], int8, c=0x7FFFFFFF) == 0x80000000


@pytest.mark.parametrize(("a", "b"), [("fp8_e4m3", "fp8_e5m2"), ("fp8_e4m3", "fp8_e4m3"), ("fp16", "fp8_e5m2")])
def test_sides_of_any_format(a, b, rng):
    """Products and sums of small numbers are exact in doubles."""
    sides = [rng.integers(-8, 9, (100, 5)) / 4 for _ in range(2)]
    expected = np.sum(sides[0] * sides[1], axis=1).astype(np.float32).view(np.uint32)
    bits = [encode(values, FORMATS[name]) for values, name in zip(sides, (a, b), strict=True)]
    found = [dot_exact(x, y, FORMATS[a], FORMATS[b]) for x, y in zip(*bits, strict=True)]
    np.testing.assert_array_equal(found, expected & np.where(expected == 0x80000000, 0, 0xFFFFFFFF).astype(np.uint32))


def test_matmul_exact_adds_c_to_its_own_result():
    ones = np.full((3, 1, 4), ONE, dtype=np.uint16)
    config = TileConfig(rows=3, columns=2, initial=True)
    c = np.arange(6, dtype=np.float32).reshape(3, 2)
    found = matmul_exact(ones[:2], ones, config, c.view(np.uint32)).view(np.float32)
    np.testing.assert_array_equal(found, c + 4)
