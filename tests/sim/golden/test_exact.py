"""The mathematical level against NumPy and Python's own correctly rounded sum."""

import math
from fractions import Fraction

import numpy as np
import pytest

from tensordash import TileConfig
from tensordash.formats import FORMATS
from tensordash_sim.golden import dot_exact, matmul_exact
from tensordash_sim.golden.exact import round_fraction, value_of

FP16 = FORMATS["fp16"]
ONE, INF, NEG_INF, NAN, ZERO, NEG_ZERO = 0x3C00, 0x7C00, 0xFC00, 0x7E00, 0x0000, 0x8000
NAN_BITS, INF_BITS, NEG_INF_BITS, ONE_BITS = 0x7FC00000, 0x7F800000, 0xFF800000, 0x3F800000


def test_every_fp16_value():
    expected = np.arange(1 << 16, dtype=np.uint16).view(np.float16).astype(np.float64)
    np.testing.assert_array_equal([float(value_of(bits, FP16)) for bits in range(1 << 16)], expected)


def test_round_fraction_is_numpys(rng):
    values = np.ldexp(rng.integers(-(2**53), 2**53, 5_000).astype(np.float64), rng.integers(-230, 90, 5_000))
    values = values[values != 0]
    with np.errstate(over="ignore", under="ignore"):
        expected = values.astype(np.float32).view(np.uint32)
    np.testing.assert_array_equal([round_fraction(Fraction(value)) for value in values], expected)


def test_dot_is_the_correctly_rounded_sum(operands):
    for _ in range(200):
        a, b = operands.finite((40,)), operands.finite((40,))
        products = a.view(np.float16).astype(np.float64) * b.view(np.float16).astype(np.float64)
        # A double holds every product; fsum rounds once to double, which may differ from one rounding by an ulp.
        expected = math.fsum(products)
        got = np.array(dot_exact(a, b, FP16), dtype=np.uint32).view(np.float32)
        assert abs(float(got) - expected) <= abs(expected) * 2.0**-24
        if math.fsum([*products, -float(np.float32(expected))]) == 0:
            assert got == np.float32(expected)


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
