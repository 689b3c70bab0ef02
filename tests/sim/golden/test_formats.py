"""Compare every format with ml_dtypes and NumPy, pattern by pattern."""

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from tensordash.configuration.formats import FORMATS
from tensordash_sim.golden import (
    FP32,
    INT32,
    Kind,
    decode,
    encode,
    fixed_values,
    float_values,
    is_finite,
    is_nan,
    is_zero,
    round_fixed,
    to_float,
)
from tensordash_sim.golden.exact import value_of

from ..float_dtypes import FLOAT_DTYPES
from .conftest import float_format

NUMBERS_ALONE = ("fp6_e2m3", "fp6_e3m2", "fp4_e2m1")
every_float = pytest.mark.parametrize("name", FLOAT_DTYPES)


def patterns(fmt) -> np.ndarray:
    return np.arange(1 << fmt.width, dtype=np.uint8 if fmt.width <= 8 else np.uint16)


def values_of_all(name: str) -> np.ndarray:
    with np.errstate(invalid="ignore"):  # signalling NaN
        return patterns(FORMATS[name]).view(FLOAT_DTYPES[name]).astype(np.float64)


def test_all_formats_have_a_reference():
    assert set(FORMATS) == {*FLOAT_DTYPES, "int8", "tf32"}


@every_float
def test_every_pattern_decodes_as_the_reference_does(name):
    fmt, expected = float_format(name), values_of_all(name)
    everything = range(1 << fmt.width)
    found = np.array([to_float(bits, fmt) for bits in everything])
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(np.signbit(found), np.signbit(expected) & ~np.isnan(expected))
    assert [is_finite(bits, fmt) for bits in everything] == np.isfinite(expected).tolist()
    assert [is_nan(bits, fmt) for bits in everything] == np.isnan(expected).tolist()
    assert [is_zero(bits, fmt) for bits in everything] == (expected == 0).tolist()
    subnormal = (np.abs(expected) < 2.0 ** (1 - fmt.bias)) & (expected != 0)
    assert [decode(bits, fmt).kind is Kind.SUBNORMAL for bits in everything] == subnormal.tolist()
    for bits, value in enumerate(expected):
        exact = value_of(bits, fmt)
        assert exact == Fraction(value) if np.isfinite(value) else str(exact) == str(value)


@every_float
def test_tables_of_values(name):
    fmt = float_format(name)
    fixed, scaled = fixed_values(fmt), float_values(fmt)
    for bits, value in enumerate(values_of_all(name)):
        pair = scaled[bits]
        if not np.isfinite(value):
            assert fixed[bits] is None
            assert pair is None
            continue
        assert fixed[bits] == Fraction(value) / Fraction(2) ** fmt.least_exponent
        assert pair is not None
        significand, exponent = pair
        assert significand * Fraction(2) ** exponent == Fraction(value)
        # Normal significands have the hidden bit. Subnormals and zeros have the least exponent.
        assert abs(significand) >> fmt.fraction_bits == 1 or exponent == fmt.least_exponent


@every_float
def test_the_largest_number(name):
    fmt = float_format(name)
    assert to_float(fmt.largest, fmt) == float(ml_dtypes.finfo(FLOAT_DTYPES[name]).max)


def test_tf32_is_the_upper_part_of_fp32(rng):
    """Each pattern has the value of the FP32 pattern with zeros appended. Ties round to even."""
    fmt = float_format("tf32")
    bits = np.arange(1 << 19, dtype=np.uint32)
    with np.errstate(invalid="ignore"):
        expected = (bits << 13).view(np.float32).astype(np.float64)
    some = np.concatenate([bits[:2100], bits[-2100:], bits[rng.integers(0, 1 << 19, 20_000)]])
    found = np.array([to_float(pattern, fmt) for pattern in some.tolist()])
    np.testing.assert_array_equal(found, expected[some])
    finite = np.isfinite(expected)
    np.testing.assert_array_equal(encode(expected[finite], fmt), bits[finite])
    wide = rng.integers(0, 0x7F800000, 50_000, dtype=np.uint32)
    wide[::2] = (wide[::2] & ~np.uint32(0x1FFF)) | 0x1000  # ties
    rounded = (wide.astype(np.int64) + 0xFFF + (wide >> 13 & 1)) >> 13
    np.testing.assert_array_equal(encode(wide.view(np.float32), fmt), rounded)


def test_e4m3_has_one_nan_of_each_sign_and_no_infinity():
    fmt = FORMATS["fp8_e4m3"]
    kinds = [decode(bits, fmt).kind for bits in range(256)]
    assert [bits for bits, kind in enumerate(kinds) if kind is Kind.NAN] == [0x7F, 0xFF]
    assert Kind.INFINITE not in kinds


@pytest.mark.parametrize("name", NUMBERS_ALONE)
def test_every_pattern_of_6_and_4_bits_is_a_number(name):
    fmt = float_format(name)
    assert all(is_finite(bits, fmt) for bits in range(1 << fmt.width))
    assert fmt.largest == fmt.beyond == (1 << (fmt.width - 1)) - 1


@pytest.mark.parametrize("fmt", [FORMATS["int8"], INT32], ids=["int8", "int32"])
def test_integers(fmt, rng):
    bits = patterns(fmt) if fmt.width == 8 else rng.integers(0, 1 << 32, 2_000, dtype=np.uint32)
    expected = bits.view(f"i{fmt.width // 8}").tolist()
    assert [fixed_values(fmt)[one] for one in bits.tolist()] == expected
    assert [to_float(one, fmt) for one in bits.tolist()] == expected
    assert [value_of(one, fmt) for one in bits.tolist()] == expected
    assert all(is_finite(one, fmt) and is_zero(one, fmt) == (one == 0) for one in bits.tolist())
    np.testing.assert_array_equal(encode(np.array(expected), fmt), bits)
    assert encode(np.array(expected), fmt).dtype == bits.dtype


# Encoding


def reference(values: np.ndarray, name: str) -> np.ndarray:
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        return values.astype(FLOAT_DTYPES[name]).view(f"u{np.dtype(FLOAT_DTYPES[name]).itemsize}")


def assert_encodes(values: np.ndarray, name: str) -> None:
    fmt = FORMATS[name]
    found, expected = encode(values, fmt), reference(values, name)
    assert found.dtype == expected.dtype
    with np.errstate(invalid="ignore"):
        nan = np.isnan(expected.view(FLOAT_DTYPES[name]).astype(np.float32))
    np.testing.assert_array_equal(found[~nan], expected[~nan])
    np.testing.assert_array_equal([is_nan(bits, fmt) for bits in found[nan].tolist()], True)
    np.testing.assert_array_equal(found[nan] >> (fmt.width - 1), np.signbit(values[nan]))


@every_float
def test_encode_inverts_decode(name):
    fmt, values = FORMATS[name], values_of_all(name)
    numbers = ~np.isnan(values)
    np.testing.assert_array_equal(encode(values, fmt)[numbers], patterns(fmt)[numbers])


@every_float
def test_encode_around_every_tie(name):
    """Test all pairs of neighbours, including subnormals and the step above the largest."""
    fmt = float_format(name)
    values = values_of_all(name)[: fmt.largest + 1]
    gaps = np.diff(values)
    middles = (values + np.append(gaps, gaps[-1]) / 2).astype(np.float32)
    for side in (0, np.inf):
        near = np.nextafter(middles, np.float32(side))
        for tried in (middles, near):
            assert_encodes(np.concatenate([tried, -tried]), name)


@every_float
def test_encode_any_float32(name, rng):
    bits = rng.integers(0, 1 << 32, 50_000, dtype=np.uint32)
    bits[:6] = [0, 1 << 31, 0x7F800000, 0xFF800000, 0x7FC00000, 0xFF800001]
    values = bits.view(np.float32)
    if name in NUMBERS_ALONE:
        with pytest.raises(ValueError, match=f"values must be numbers, since {name} has no NaN, not NaN"):
            encode(values, FORMATS[name])
        values = values[~np.isnan(values)]
    assert_encodes(values, name)


@every_float
def test_encode_rounds_doubles_once(name, rng):
    """The double is just above a tie. Rounding to float32 first would make it the tie."""
    fmt = float_format(name)
    low = fmt.bias << fmt.fraction_bits  # 1.0, even
    tie = 1.0 + 2.0 ** -(fmt.fraction_bits + 1)
    assert encode([tie, np.nextafter(tie, 2), np.nextafter(tie, 0)], fmt).tolist() == [low, low + 1, low]
    values = np.ldexp(rng.integers(-(2**53), 2**53, 2_000).astype(np.float64), rng.integers(-75, -30, 2_000))
    expected = [round_fixed(int(value * 2.0**80), -80, fmt) for value in values]
    np.testing.assert_array_equal(encode(values, fmt), expected)


def test_encode_to_fp32_matches_numpy(rng):
    with np.errstate(all="ignore"):
        values = rng.integers(0, 1 << 64, 50_000, dtype=np.uint64).view(np.float64)
        near = (rng.standard_normal(20_000) * 2.0 ** rng.integers(-155, 135, 20_000)).astype(np.float64)
        for tried in (values[~np.isnan(values)], near):
            np.testing.assert_array_equal(encode(tried, FP32), tried.astype(np.float32).view(np.uint32))
    assert is_nan(int(encode([np.nan], FP32)[0]), FP32)
    payload = np.array([0x7F812345], np.uint32)
    assert encode(payload.view(np.float32), FP32) == payload


def test_encode_of_the_widest_floats():
    tie = np.longdouble(1) + np.longdouble(2) ** -11
    assert encode(np.array([tie, tie + np.finfo(np.longdouble).eps]), FORMATS["fp16"]).tolist() == [0x3C00, 0x3C01]


def test_overflow_of_each_format():
    assert encode([464.0, 464.1, np.inf, -np.inf], FORMATS["fp8_e4m3"]).tolist() == [0x7E, 0x7F, 0x7F, 0xFF]
    assert encode([61439.0, 61440.0, -np.inf], FORMATS["fp8_e5m2"]).tolist() == [0x7B, 0x7C, 0xFC]
    assert encode([7.5, -7.75, 1e30, -np.inf], FORMATS["fp6_e2m3"]).tolist() == [0x1F, 0x3F, 0x1F, 0x3F]
    assert encode([28.0, 29.9, 30.0, -np.inf], FORMATS["fp6_e3m2"]).tolist() == [0x1F, 0x1F, 0x1F, 0x3F]
    assert encode([5.0, 5.01, 7.0, -np.inf], FORMATS["fp4_e2m1"]).tolist() == [0x6, 0x7, 0x7, 0xF]
    tie = 2.0**128 - 2.0**119
    assert encode([np.nextafter(tie, 0), tie, -tie], FORMATS["bf16"]).tolist() == [0x7F7F, 0x7F80, 0xFF80]


@every_float
def test_round_fixed_to_any_format_is_encode(name, rng):
    fmt = float_format(name)
    values = rng.integers(-(2**40), 2**40, 3_000)
    exponents = rng.integers(-160, 100, 3_000)
    floats = np.ldexp(values.astype(np.float64), exponents)
    found = [round_fixed(int(v), int(e), fmt) for v, e in zip(values, exponents, strict=True)]
    np.testing.assert_array_equal(found, encode(floats, fmt))


def test_rounding_toward_zero(rng):
    values = rng.integers(-(2**40), 2**40, 20_000)
    exponents = rng.integers(-195, 95, 20_000)
    for value, exponent in zip(values.tolist(), exponents.tolist(), strict=True):
        exact = value * Fraction(2) ** exponent
        found = to_float(round_fixed(value, exponent, rounding="zero"), FP32)
        if abs(exact) >= 2**128:
            assert found == (np.inf if value > 0 else -np.inf)
            continue
        bits = encode([found], FP32).item()
        next_value = Fraction(to_float((bits & 0x7FFFFFFF) + 1, FP32)) if bits & 0x7FFFFFFF < 0x7F7FFFFF else 2**128
        assert abs(Fraction(found)) <= abs(exact) < next_value
        assert value == 0 or np.signbit(found) == (value < 0)
