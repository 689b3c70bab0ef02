"""Compare quantisation to elements and scales with ml_dtypes' rounding and value-level quantisation."""

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from tensordash import TileConfig
from tensordash.configuration.formats import SCALES
from tensordash_sim.evaluation.block_formats import BLOCK_FORMATS, BlockFormat, quantise
from tensordash_sim.golden import to_float
from tensordash_sim.golden.block_scales import Scaled, quantise_blocks, scale_values, scaled_steps

from ..float_dtypes import FLOAT_DTYPES
from .conftest import float_format

E8M0, E4M3 = SCALES["e8m0"], SCALES["e4m3"]
DTYPES = {name: dtype for name, dtype in FLOAT_DTYPES.items() if name not in ("fp16", "bf16")}
KNOWN = {
    "mxfp8_e4m3": "fp8_e4m3",
    "mxfp8_e5m2": "fp8_e5m2",
    "mxfp6_e2m3": "fp6_e2m3",
    "mxfp6_e3m2": "fp6_e3m2",
    "mxfp4": "fp4_e2m1",
}


def draw_values(seed: int, rows: int = 400, length: int = 80) -> np.ndarray:
    """Draw values of any magnitude, with some ties and some zeros."""
    rng = np.random.default_rng(seed)
    values = rng.standard_normal((rows, length)) * np.exp2(rng.integers(-30, 30, (rows, 1)))
    coarse = np.round(rng.standard_normal((rows, length)) * 8) * np.exp2(rng.integers(-4, 4, (rows, 1)))
    values = np.where(rng.random((rows, 1)) < 0.5, coarse, values)
    values[rng.random(values.shape) < 0.2] = 0
    values[0], values[rows // 2, :32] = 0, 0
    return values.astype(np.float32)


def dequantise(quantised: Scaled, name: str, block: int, scale) -> np.ndarray:
    elements = quantised.bits.view(DTYPES[name]).astype(np.float64)
    scales = np.repeat(scale_values(quantised.scales, scale), block, axis=-1)[..., : quantised.bits.shape[-1]]
    return elements * scales * quantised.tensor


@pytest.mark.parametrize("known", KNOWN)
def test_mx_blocks_match_value_level_quantisation(known):
    values = draw_values(1)
    quantised = quantise_blocks(values, float_format(KNOWN[known]), E8M0)
    np.testing.assert_array_equal(
        dequantise(quantised, KNOWN[known], 32, E8M0), quantise(values, BLOCK_FORMATS[known], axis=1)
    )


@pytest.mark.parametrize("known", KNOWN)
def test_scales_rounded_up_are_the_largest_that_fit(known):
    values = draw_values(1)
    quantised = quantise_blocks(values, float_format(KNOWN[known]), E8M0, scale_rounding="up")
    fitting = BlockFormat(BLOCK_FORMATS[known].element, 32, "fit")
    np.testing.assert_array_equal(dequantise(quantised, KNOWN[known], 32, E8M0), quantise(values, fitting, axis=1))


@pytest.mark.parametrize("name", DTYPES)
def test_cost_of_rounding_scales_matches_the_page(name):
    """The page's row has the share of saturated elements and the error."""
    values = np.random.default_rng(0).standard_normal((1 << 15, 32)).astype(np.float32)
    top, saturated, errors = to_float(float_format(name).largest, float_format(name)), [], []
    for scale_rounding in ("floor", "up"):
        quantised = quantise_blocks(values, float_format(name), E8M0, scale_rounding=scale_rounding)
        saturated.append(np.mean(np.abs(values) > top * scale_values(quantised.scales, E8M0)))
        error = dequantise(quantised, name, 32, E8M0) - values
        errors.append(np.mean(error**2) ** 0.5 / np.mean(values.astype(np.float64) ** 2) ** 0.5)
    row = f"| {name} | {saturated[0]:.2%} | {saturated[1]:.2%} | {errors[0]:.4f} | {errors[1]:.4f} |"
    assert row in (Path(__file__).parents[3] / "docs" / "numerics.md").read_text(encoding="utf-8")


def test_nvfp4_blocks_match_value_level_quantisation():
    values = draw_values(2)
    quantised = quantise_blocks(values, float_format("fp4_e2m1"), E4M3)
    np.testing.assert_allclose(
        dequantise(quantised, "fp4_e2m1", 16, E4M3), quantise(values, BLOCK_FORMATS["nvfp4"], axis=1), rtol=1e-15
    )


@pytest.mark.parametrize("name", DTYPES)
def test_elements_are_rounded_as_ml_dtypes_does(name):
    """Without saturation, each element is ml_dtypes' rounding of the value divided by the scale."""
    values, fmt = draw_values(3), float_format(name)
    quantised = quantise_blocks(values, fmt, E8M0)
    scales = np.repeat(scale_values(quantised.scales, E8M0), 32, axis=-1)[:, : values.shape[1]]
    top = float(ml_dtypes.finfo(DTYPES[name]).max)
    ratios = np.clip(values / scales, -top, top)
    np.testing.assert_array_equal(quantised.bits, ratios.astype(DTYPES[name]).view(np.uint8))
    largest = np.abs(values[:, :32]).max(axis=1)
    expected = np.exp2(np.floor(np.log2(largest[largest > 0])) - np.floor(np.log2(top)))
    expected_bits = expected.astype(ml_dtypes.float8_e8m0fnu).view(np.uint8)
    np.testing.assert_array_equal(quantised.scales[largest > 0, 0], expected_bits)


def test_nvfp4_scales_are_rounded_as_ml_dtypes_does():
    values = draw_values(4)
    quantised = quantise_blocks(values, float_format("fp4_e2m1"), E4M3)
    top = np.float32(np.abs(values.astype(np.float64)).max() / (448 * 6))
    assert quantised.tensor == top
    blocks = np.abs(values.astype(np.float64)).reshape(len(values), -1, 16).max(axis=2) / 6 / float(top)
    expected = np.minimum(blocks, 448).astype(ml_dtypes.float8_e4m3fn).view(np.uint8)
    np.testing.assert_array_equal(quantised.scales, expected)
    assert quantised.scales.max() == 0x7E
    assert not quantised.bits[np.repeat(quantised.scales, 16, axis=1) == 0].any()


def test_smallest_and_largest_fp32_numbers():
    """Quantise the least subnormal and the largest number, alone and together."""
    least, top = np.float32(2.0**-149), np.finfo(np.float32).max
    blocks = np.zeros((3, 32), np.float32)
    blocks[0, 0], blocks[1, 0], blocks[2, :2] = least, top, (least, -top)
    quantised = quantise_blocks(blocks, float_format("fp4_e2m1"), E8M0)
    assert quantised.scales.ravel().tolist() == [0, 127 + 125, 127 + 125]
    assert quantised.bits[:, :2].tolist() == [[0, 0], [7, 0], [0, 15]]  # fp4 does not have 2**-149 / 2**-127.


@pytest.mark.parametrize("scale", [E8M0, E4M3], ids=lambda scale: scale.name)
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_infinities_and_nan_affect_only_their_block(scale, bad):
    values = draw_values(5, rows=2, length=64)[1:]
    values[0, 3] = bad
    quantised = quantise_blocks(values, float_format("fp4_e2m1"), scale)
    assert quantised.scales[0, 0] == scale.nan
    assert (quantised.scales[0, 1:] != scale.nan).all()
    assert not quantised.bits[0, : scale.block].any()


def test_zeros():
    for scale, name in ((E8M0, "fp8_e4m3"), (E4M3, "fp4_e2m1")):
        quantised = quantise_blocks(np.array([[0.0, -0.0] * 20], np.float32), float_format(name), scale)
        assert quantised.tensor == 1.0
        assert not quantised.scales.any()
        assert not (quantised.bits & ((1 << (float_format(name).width - 1)) - 1)).any()


def test_scaled_steps():
    config = TileConfig(format="fp4_e2m1", scale="e4m3", lanes=8, depth=2, connectivity="auto")
    quantised = Scaled(np.arange(40, dtype=np.uint8) % 16, np.array([1, 2, 3], np.uint8))
    steps = scaled_steps(quantised, config)
    assert steps.shape == (5, 9)
    assert steps[:, -1].tolist() == [1, 1, 2, 2, 3]
    assert steps[:, :-1].ravel().tolist() == (np.arange(40) % 16).tolist()
    with pytest.raises(ValueError, match="config must be a tile with scales"):
        scaled_steps(quantised, TileConfig())
