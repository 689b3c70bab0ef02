"""Compare the emulator's conversions with the golden model."""

import numpy as np
import pytest

from tensordash.configuration.formats import FORMATS, FP32, FloatFormat
from tensordash_sim.emulator import decode, encode, result_bits
from tensordash_sim.golden import encode as golden_encode
from tensordash_sim.golden.core.results import result_bits as golden_result_bits
from tensordash_sim.golden.numbers import to_float

FLOATS = [name for name, fmt in FORMATS.items() if isinstance(fmt, FloatFormat)]
WITH_NAN = [name for name, fmt in FORMATS.items() if isinstance(fmt, FloatFormat) and fmt.nan]


def draw_values(kind: type[np.floating], fmt: FloatFormat, rng: np.random.Generator) -> np.ndarray:
    """Draw FP32 patterns: any, a format's values, midpoints between two values, and the neighbours of both."""
    size = np.dtype(kind).itemsize
    every = rng.integers(0, 1 << 8 * size, 20_000, np.uint64).astype(f"u{size}").view(kind)
    known = decode(rng.integers(0, min(1 << fmt.width, 1 << 16), 5_000).astype(np.uint32), fmt)
    known = known[np.isfinite(known)].astype(np.float64)
    # A midpoint lies half of the last place above a value.
    place = np.exp2(np.maximum(np.frexp(known)[1] - fmt.significand_bits, fmt.least_exponent))
    with np.errstate(over="ignore"):
        ties = np.concatenate([known, known + place / 2, known - place / 2]).astype(kind)
        near = [np.nextafter(ties, kind(side)) for side in (np.inf, -np.inf)]
    zeros = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, -np.nan], kind)
    return np.concatenate([every, ties, *near, zeros])


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("name", FLOATS)
def test_encode(name, kind):
    values = draw_values(kind, FORMATS[name], np.random.default_rng(0))
    if name not in WITH_NAN:
        with pytest.raises(ValueError, match=f"values must be numbers, since {name} has no NaN, not NaN"):
            encode(values, FORMATS[name])
        values = values[~np.isnan(values)]
    encoded, expected = encode(values, FORMATS[name]), golden_encode(values, FORMATS[name])
    assert encoded.dtype == expected.dtype
    np.testing.assert_array_equal(encoded, expected)


@pytest.mark.parametrize("name", FORMATS)
def test_decode(name):
    fmt = FORMATS[name]
    every = np.arange(1 << fmt.width, dtype=np.uint32)
    decoded, expected = decode(every, fmt), np.array([to_float(int(bits), fmt) for bits in every], np.float32)
    np.testing.assert_array_equal(decoded, expected)
    np.testing.assert_array_equal(np.signbit(decoded), np.signbit(expected) & ~np.isnan(decoded))


@pytest.mark.parametrize("toward_zero", [False, True])
@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("name", [*WITH_NAN, "fp32"])
def test_results(name, relu, toward_zero):
    fmt = FORMATS.get(name, FP32)
    sums = draw_values(np.float32, fmt, np.random.default_rng(0)).view(np.uint32)
    sums[sums & 0x7F800000 == 0] &= 1 << 31  # A core does not round sums to subnormal numbers.
    fields = {"scale": 0, "relu": relu, "mask": 0, "fp32": name == "fp32", "stochastic": 0}
    fields["toward_zero"] = toward_zero
    expected = [golden_result_bits(int(bits), fields, fmt, masked=False, random=0) for bits in sums]
    np.testing.assert_array_equal(result_bits(sums, fmt, relu=relu, toward_zero=toward_zero), expected)


def test_shapes_and_integers():
    values = np.arange(-12, 12, dtype=np.int16).reshape(2, 3, 4)
    bits = encode(values, FORMATS["int8"])
    assert (bits.shape, bits.dtype) == (values.shape, np.uint8)
    np.testing.assert_array_equal(decode(bits, FORMATS["int8"]), values)
    turned = values.astype(np.float64).T
    np.testing.assert_array_equal(decode(encode(turned, FORMATS["bf16"]), FORMATS["bf16"]), turned)
    assert encode(np.zeros((0, 3)), FORMATS["fp16"]).shape == (0, 3)


def test_wrong_values():
    with pytest.raises(TypeError, match="values must be an array of float16, float32 or float64, not of int64"):
        encode(np.arange(3), FORMATS["fp16"])
    with pytest.raises(TypeError, match="values must be an array of signed integers, not of float64"):
        encode([1.0], FORMATS["int8"])
    with pytest.raises(ValueError, match="values must be from -128 to 127, not 128"):
        encode([128], FORMATS["int8"])
    with pytest.raises(TypeError, match="bits must be an array of bf16 bit patterns .*, not of int64"):
        decode([1], FORMATS["bf16"])
