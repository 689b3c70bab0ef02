"""Compare bit patterns with NumPy, and rounding with rational arithmetic."""

from fractions import Fraction

import numpy as np
import pytest

from tensordash.configuration.formats import FORMATS, FloatFormat
from tensordash_sim.golden import FP32, Kind, decode, encode, is_finite, is_nan, is_zero, round_fixed, to_float
from tensordash_sim.golden.exact import round_fraction
from tensordash_sim.golden.numbers import fixed_values

FP16 = FORMATS["fp16"]
ALL_FP16 = np.arange(1 << 16, dtype=np.uint16)
E5M2 = FloatFormat(name="e5m2", exponent_bits=5, fraction_bits=2)


def test_every_fp16_pattern_decodes_as_numpy_does():
    numpy_values = ALL_FP16.view(np.float16).astype(np.float64)
    np.testing.assert_array_equal([to_float(bits, FP16) for bits in range(1 << 16)], numpy_values)
    assert [is_finite(bits, FP16) for bits in range(1 << 16)] == np.isfinite(numpy_values).tolist()
    assert [is_nan(bits, FP16) for bits in range(1 << 16)] == np.isnan(numpy_values).tolist()
    assert [is_zero(bits, FP16) for bits in range(1 << 16)] == (numpy_values == 0).tolist()
    kinds = [decode(bits, FP16).kind for bits in range(1 << 16)]
    assert {kind: kinds.count(kind) for kind in Kind} == {
        Kind.ZERO: 2,
        Kind.SUBNORMAL: 2 * 1023,
        Kind.NORMAL: 2 * 30 * 1024,
        Kind.INFINITE: 2,
        Kind.NAN: 2 * 1023,
    }


def test_every_fp16_pattern_as_a_fixed_point_integer():
    table = fixed_values(FP16)
    numpy_values = ALL_FP16.view(np.float16).astype(np.float64)
    for bits, value in enumerate(numpy_values.tolist()):
        assert table[bits] == (int(value * 2**24) if np.isfinite(value) else None)


def test_fp32_patterns_decode_as_numpy_does(rng):
    bits = rng.integers(0, 1 << 32, 20_000, dtype=np.uint32)
    bits[:8] = [0, 1 << 31, 1, 0x007FFFFF, 0x00800000, 0x7F7FFFFF, 0x7F800000, 0xFF800000]
    with np.errstate(invalid="ignore"):  # signalling NaN
        expected = bits.view(np.float32).astype(np.float64)
    np.testing.assert_array_equal([to_float(int(one), FP32) for one in bits], expected)


def test_decode_rejects_invalid_patterns():
    with pytest.raises(ValueError, match=r"bits must be a bit pattern of fp16, 0 to 2\*\*16 - 1, not 65536"):
        decode(1 << 16, FP16)
    with pytest.raises(ValueError, match="not -1"):
        decode(-1, FP16)


def test_encode_keeps_fp16_and_rounds_ties_to_even():
    np.testing.assert_array_equal(encode(ALL_FP16.view(np.float16), FP16), ALL_FP16)
    finite = ALL_FP16[:0x7C00].view(np.float16).astype(np.float64)
    middle = (finite[:-1] + finite[1:]) / 2
    for values in (middle, np.nextafter(middle, 0), np.nextafter(middle, np.inf), -middle):
        expected = [round_fixed(int(value * 2**100), -100, FP16) for value in values]
        np.testing.assert_array_equal(encode(values, FP16), expected)
    signalling = np.array([0x7F800001], np.uint32).view(np.float32)
    assert is_nan(int(encode(signalling, FP16)[0]), FP16)
    assert encode([65519.99, 65520.0, -1e300], FP16).tolist() == [0x7BFF, 0x7C00, 0xFC00]


def test_encode_errors():
    with pytest.raises(TypeError, match="values must be an array of floats, not of int64"):
        encode(np.array([1, 2]), FP16)
    with pytest.raises(TypeError, match="values must be an array of signed integers, not of float64"):
        encode([1.0], FORMATS["int8"])
    with pytest.raises(ValueError, match="values must be from -128 to 127, not 128"):
        encode([-128, 128, -129], FORMATS["int8"])


def test_rounding_of_doubles_matches_numpy(rng):
    mantissas = rng.integers(-(2**53), 2**53, 20_000)
    exponents = rng.integers(-230, 90, 20_000)
    with np.errstate(over="ignore", under="ignore"):
        expected = np.ldexp(mantissas.astype(np.float64), exponents).astype(np.float32).view(np.uint32)
    rounded = [round_fixed(int(m), int(e)) for m, e in zip(mantissas, exponents, strict=True)]
    np.testing.assert_array_equal(rounded, expected)


def test_rounding_of_wide_sums_matches_fractions(rng):
    for _ in range(5_000):
        value = int.from_bytes(rng.bytes(13), "little", signed=True) >> int(rng.integers(0, 103))
        exponent = int(rng.integers(-180, 30))
        expected = round_fraction(value * Fraction(2) ** exponent) if value else 0
        assert round_fixed(value, exponent) == expected


def test_rounding_around_ties():
    for keep in (2**23, 2**23 + 1, 2**24 - 1, 2**24 - 2):
        for drop in (1, 2, 30):
            for delta in (-1, 0, 1):
                value = (keep << drop) + (1 << (drop - 1)) + delta
                for exponent in (-149 - drop - 5, -149 - drop, -48, 0, 127 - 23 - drop):
                    for signed in (value, -value):
                        expected = round_fraction(signed * Fraction(2) ** exponent)
                        assert round_fixed(signed, exponent) == expected


@pytest.mark.parametrize(
    ("value", "exponent", "bits"),
    [
        (0, 1000, 0),
        (2**24 - 1, 104, 0x7F7FFFFF),
        (2**25 - 2, 103, 0x7F7FFFFF),
        (2**25 - 1, 103, 0x7F800000),  # A tie half a step above the largest number rounds to even: infinity.
        (-1, 128, 0xFF800000),
        (1, -149, 1),
        (1, -150, 0),  # A tie between 0 and the least subnormal rounds to 0.
        (3, -151, 1),
        (-1, -150, 0x80000000),
        (2**24 - 1, -150, 0x00800000),  # The largest subnormal carries into the least normal number.
        (2**23 - 1, -149, 0x007FFFFF),
    ],
)
def test_rounding_edges(value, exponent, bits):
    assert round_fixed(value, exponent) == bits


def test_decode_and_round_e5m2():
    values = [to_float(bits, E5M2) for bits in range(0x7C)]
    assert values[:6] == [0.0, 2.0**-16, 2.0**-15, 3 * 2.0**-16, 2.0**-14, 1.25 * 2.0**-14]
    assert values[-1] == 57344.0
    assert [round_fixed(int(value * 2**16), -16, E5M2) for value in values] == list(range(0x7C))
