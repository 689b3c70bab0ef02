"""Compare block formats with ml_dtypes and with cases worked out by hand."""

import ml_dtypes
import numpy as np
import pytest

from tensordash.configuration.formats import FORMATS
from tensordash_sim.evaluation.block_formats import BLOCK_FORMATS, ELEMENTS, hadamard, quantise, rounded
from tensordash_sim.golden.quantization import non_zeros, quantized
from tensordash_sim.trace import Trace, example_trace
from tensordash_sim.trace.layer_operands import recorded_values

TYPES = {
    "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2,
    "e2m3": ml_dtypes.float6_e2m3fn,
    "e3m2": ml_dtypes.float6_e3m2fn,
    "e2m1": ml_dtypes.float4_e2m1fn,
}


def every_value(name: str) -> np.ndarray:
    """Return all finite values of a format, in order."""
    if name == "int8":
        return np.arange(-127.0, 128.0)
    bits = {"e2m1": 4, "e2m3": 6, "e3m2": 6}.get(name, 8)
    values = np.arange(1 << bits, dtype=np.uint8).view(TYPES[name]).astype(np.float64)
    return np.unique(values[np.isfinite(values)])


@pytest.mark.parametrize("name", ELEMENTS)
def test_values_and_midpoints_are_rounded(name: str) -> None:
    values, element = every_value(name), ELEMENTS[name]
    assert values[-1] == element.largest
    assert np.array_equal(rounded(values, element), values)
    middles = (values[:-1] + values[1:]) / 2
    assert np.array_equal(rounded(np.nextafter(middles, -np.inf), element), values[:-1])
    assert np.array_equal(rounded(np.nextafter(middles, np.inf), element), values[1:])
    assert rounded(np.array([1e30, -1e30]), element).tolist() == [element.largest, -element.largest]
    ties = rounded(middles, element)
    if name == "int8":
        assert np.array_equal(ties, np.rint(middles))
    else:
        assert np.array_equal(ties, middles.astype(TYPES[name]).astype(np.float64))


@pytest.mark.parametrize(
    ("fmt", "largest", "scale"),
    [
        # The scale's exponent is floor(log2(largest)) minus the largest element's: 2 for e2m1, then 8, 15, 2 and 4.
        ("mxfp4", 4.0, 1.0),
        ("mxfp4", 7.99, 1.0),
        ("mxfp4", 8.0, 2.0),
        ("mxfp8_e4m3", 300.0, 1.0),
        ("mxfp8_e5m2", 65535.0, 2.0**0),
        ("mxfp6_e2m3", 4.0, 1.0),
        ("mxfp6_e3m2", 15.0, 0.5),
        # 6.99 is 1.7475 * 4 and rounds to 1.5 * 4; 7.0, a tie, to 2 * 4.
        ("mxfp4 even", 6.99, 1.0),
        ("mxfp4 even", 7.0, 2.0),
        # The largest power of two by which 3, divided, stays in range: 127 / 64 and 448 / 256.
        ("int8", 3.0, 2.0**-5),
        ("fp8_e4m3", 3.0, 2.0**-7),
    ],
)
def test_scales(fmt: str, largest: float, scale: float) -> None:
    element = BLOCK_FORMATS[fmt].element
    least = 2.0 ** (element.least_exponent - element.fraction_bits)
    row = np.array([largest, scale * least, scale * least / 2, scale * least * 0.51])
    expected = [float(rounded(np.array([largest / scale]), element)[0]) * scale, scale * least, 0.0, scale * least]
    assert quantise(row, BLOCK_FORMATS[fmt], axis=0).tolist() == expected


def test_nvfp4_has_two_levels() -> None:
    # 2688 = 448 * 6, so that the tensor's scale is 1. The second block's 30 / 6 = 5 is a value of E4M3, the third's
    # 0.005 / 6 is below half of the least one, 2^-9, and the fourth's 17.25 lies between 17 and 18 units.
    blocks = np.zeros((4, 16))
    blocks[:, 0] = [2688.0, 30.0, 0.005, 17.25 * 6]
    blocks[:, 1] = [112.0, 1.25, 0.005, 18 * 0.26]
    found = quantise(blocks.reshape(1, -1), BLOCK_FORMATS["nvfp4"], axis=1).reshape(4, 16)
    assert found[:, 0].tolist() == [2688.0, 30.0, 0.0, 18 * 6.0]
    assert found[:, 1].tolist() == [0.0, 0.0, 0.0, 9.0]
    assert not found[:, 2:].any()


def test_blocks_run_along_their_axis() -> None:
    values = np.full((34, 2), 0.1)
    values[0, 0] = values[33, 1] = 6.0  # In the first block of one column, and in the short block of the other.
    nonzero = quantise(values, BLOCK_FORMATS["mxfp4"], axis=0) != 0
    assert nonzero.sum(axis=0).tolist() == [1 + 2, 32 + 1]
    assert (quantise(values, BLOCK_FORMATS["mxfp4"], axis=1) != 0).sum() == 34 * 2 - 2


@pytest.mark.parametrize("fmt", BLOCK_FORMATS)
def test_zeros_stay_zeros(fmt: str) -> None:
    assert not quantise(np.zeros((3, 40), np.float32), BLOCK_FORMATS[fmt], axis=1).any()


@pytest.mark.parametrize("fmt", ["int8", "fp8_e4m3", "fp8_e5m2"])
def test_zeros_match_the_formats_of_tiles(fmt: str) -> None:
    for record in list(Trace.open(example_trace()).records)[:4]:
        for name in record.operands:
            values = recorded_values(record, name)
            found = quantise(values, BLOCK_FORMATS[fmt], axis=0)
            assert np.array_equal(found != 0, non_zeros(quantized(values, FORMATS[fmt]), FORMATS[fmt]))


def test_hadamard_transform_preserves_products() -> None:
    rng = np.random.default_rng(0)
    left, right = rng.integers(-8, 8, (3, 40)).astype(float), rng.integers(-8, 8, (40, 5)).astype(float)
    mixed = hadamard(left, 16, axis=1, seed=3), hadamard(right, 16, axis=0, seed=3)
    assert np.allclose(mixed[0] @ mixed[1], left @ right)
    assert np.array_equal(mixed[0][:, 32:], left[:, 32:]), "after the last whole block nothing is mixed"
    one = hadamard(np.eye(16), 16, axis=1, seed=3)
    assert np.array_equal(np.abs(one), np.full((16, 16), 0.25)), "a single value comes to all places"
    assert not np.allclose(mixed[0] @ hadamard(right, 16, axis=0, seed=4), left @ right)
