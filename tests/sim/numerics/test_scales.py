"""For MX and NVFP4, compare products, sums and promotion with ml_dtypes and rational arithmetic."""

from collections import Counter
from itertools import product
from random import Random
from typing import Any

import numpy as np
import pytest

from tensordash import TileConfig
from tensordash.configuration.formats import SCALES, FloatFormat
from tensordash.configuration.numerics import Fused
from tensordash_sim.emulator import matrix_product
from tensordash_sim.golden import make_accumulator, matmul
from tensordash_sim.golden.block_scales import Scaled, scaled_steps
from tensordash_sim.golden.numbers import Kind, decode_scale
from tensordash_sim.verify import Replayer, simulator_names
from tensordash_sim.verify.random_values import random_value, zeros

from .format_values import scale_table, table
from .reference_dots import exact_dot, fused_dot

FOR_SMALL = "icarus" if "icarus" in simulator_names() else "auto"
NVFP4: dict[str, Any] = {"format": "fp4_e2m1", "scale": "e4m3"}
MXFP8: dict[str, Any] = {"format": "fp8_e4m3", "scale": "e8m0", "accumulator": "hopper"}
MXFP4: dict[str, Any] = {"format": "fp4_e2m1", "scale": "e8m0", "accumulator": "hopper"}
TILES = {
    "nvfp4": NVFP4,
    "mxfp8": MXFP8,
    "mxfp8 e5m2 x e4m3": {**MXFP8, "format": {"a": "fp8_e5m2", "b": "fp8_e4m3"}},
    "mxfp6 x mxfp4": {**MXFP4, "format": {"a": "fp6_e3m2", "b": "fp4_e2m1"}},
    "mxfp6": {**MXFP4, "format": "fp6_e2m3", "accumulator": {"fused": 23, "rounding": "nearest"}},
    "mxfp4 after": {**MXFP4, "accumulator": "blackwell-fp8"},
    "mxfp8 low zero": {**MXFP8, "accumulator": {"fused": 24, "zero_exponent": -133}},
}


def names_of(config: TileConfig) -> tuple[str, str, str]:
    return config.a_format.name, config.b_format.name, config.scale


def every_value(config: TileConfig) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return all elements with all scales, and their values."""
    fmt = config.a_format
    bits, scales = np.meshgrid(np.arange(1 << fmt.width), np.arange(256), indexing="ij")
    numbers = np.outer(np.array(table(fmt.name).floats), np.array(scale_table(config.scale)))
    return bits.ravel().astype(np.uint8), scales.ravel().astype(np.uint8), numbers.ravel()


# Scales


@pytest.mark.parametrize("name", SCALES)
def test_decoded_scales_match_ml_dtypes(name):
    scale = SCALES[name]
    for bits, value in enumerate(scale_table(name)):
        decoded = decode_scale(bits, scale)
        if np.isnan(value):
            assert decoded.kind is Kind.NAN
            assert bits & 0x7F == scale.nan & 0x7F
        else:
            assert (-1) ** decoded.sign * decoded.significand * 2.0**decoded.exponent == value


@pytest.mark.sampled(1)
@pytest.mark.parametrize("sparsity", ["none", "both"])
@pytest.mark.parametrize("name", ["nvfp4", "mxfp4"])
def test_every_product(name, sparsity):
    """Test all 16.8 million products of all elements with all scales on the emulator. Most are exact in FP32."""
    config = TileConfig(**(NVFP4 if name == "nvfp4" else MXFP4), sparsity=sparsity)
    bits, scales, numbers = every_value(config)
    vectors = bits[:, np.newaxis]
    found = matrix_product(vectors, vectors, config, scales=(scales[:, np.newaxis], scales[:, np.newaxis]))
    values = found.view(np.float32)
    multiplied = np.ones_like(found, bool)
    if sparsity == "both":
        zero = (bits & 7 == 0) | (numbers == 0)
        multiplied = ~(zero[:, np.newaxis] | zero)
    expected = np.where(multiplied, np.outer(numbers, numbers), 0.0)
    assert np.isnan(expected).any()
    nan = np.isnan(expected)
    assert (np.isnan(values) == nan).all()
    with np.errstate(over="ignore"):
        rounded = expected.astype(np.float32)
    # Rounding is toward zero, except for infinities above FP32's largest number.
    if name == "mxfp4":
        least = np.float64(2.0**-149)
        rounded = np.where(np.abs(expected) < 2.0**-126, np.trunc(expected / least) * least, rounded).astype(np.float32)
    np.testing.assert_array_equal(values[~nan], rounded[~nan])


def drawn_pairs(random: Random, config: TileConfig, lanes: int, specials: float) -> list[tuple[int, ...]]:
    """Draw pairs and scales for a few steps."""
    scale = config.numerics.scale
    assert scale is not None
    around = random.choice((254, 254, 120, 380)) if scale.number is None else 0
    steps = []
    for _ in range(random.randint(1, 3)):
        a, b = random.randrange(256), random.randrange(256)
        if scale.number is None:
            b = min(max(around - a + random.randint(-9, 9), 0), 254)
            a = min(a, 254)
        steps.append(tuple(scale.nan if random.random() < specials else bits for bits in (a, b)))
    pairs = []
    for _ in range(lanes):
        operands = []
        for fmt in (config.a_format, config.b_format):
            assert isinstance(fmt, FloatFormat)
            operands.append(random.choice(zeros(fmt)) if random.random() < 0.1 else random_value(random, fmt, specials))
        pairs.append((*operands, *random.choice(steps)))
    return pairs


@pytest.mark.parametrize("count", [400, pytest.param(40_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", TILES)
def test_sums(name, count):
    """The golden model's sums, with C, equal rational arithmetic at all magnitudes of scales."""
    config = TileConfig(**TILES[name], initial=True, headroom_bits=1)
    golden, accumulator = make_accumulator(config), config.numerics.accumulator
    seen = Counter[str]()
    for index in range(count):
        random = Random(f"{name} {index}")
        specials = 0.02 if index % 4 == 0 else 0.0
        steps = [drawn_pairs(random, config, 4, specials) for _ in range(random.randint(1, 4))]
        c = random.getrandbits(32) if index % 2 else 0
        if index % 20 == 1 and not isinstance(
            accumulator, Fused
        ):  # Test the largest sum, with both signs among the scales.
            signs = [random.choice((0x7E, 0xFE)) for _ in range(2)]
            steps = [[(7, 7, *signs)] * 4] * random.randint(1, 3)
        wrapped = [golden.accumulate(step, first=i == 0, c=c) for i, step in enumerate(steps)]
        if isinstance(accumulator, Fused):
            expected = fused_dot(names_of(config), steps, c, accumulator, seen=seen)
        else:
            expected, overflow = exact_dot(names_of(config), steps, c, width=43 + 1 + 1, seen=seen)
            assert any(wrapped) == overflow
        assert golden.result_bits(c) == expected, (steps, hex(c))
    required = ["rounded", "nan", *(["truncated", "overflow"] if isinstance(accumulator, Fused) else ["wrapped"])]
    assert min(seen[kind] for kind in required) >= count // 100, seen


# Promotion


def promoted(config: TileConfig, a: int, b: int, scales: tuple[int, int], others: Random) -> dict[tuple[int, int], int]:
    """Return a pair's result in each step and lane of a window. Steps after the first are promoted.

    All other elements of the row side are zeros. Other elements of the column side and other scales are random.
    """
    depth, lanes = config.window_depth, config.lanes
    results = {}
    for step, lane in product(range(depth), range(lanes)):
        a_steps = [[[others.randrange(1 << config.a_format.width) for _ in range(lanes)] for _ in range(depth)]]
        b_steps = [[[others.choice(zeros(config.b_format)) for _ in range(lanes)] for _ in range(depth)]]
        a_steps[0][step][lane], b_steps[0][step][lane] = a, b
        for side, own in ((a_steps, scales[0]), (b_steps, scales[1])):
            for at in range(depth):
                side[0][at].append(own if at == step else others.randrange(256))
        tile_sums = matmul(np.array(a_steps, np.uint8), np.array(b_steps, np.uint8), config)
        assert tile_sums.cycles[0] == 1, "the whole window is drained at once"
        results[step, lane] = int(tile_sums.c_bits[0, 0])
    return results


@pytest.mark.parametrize("name", ["nvfp4", "mxfp8", "mxfp6 x mxfp4"])
def test_a_promoted_product_is_the_same_in_golden(name):
    config, random = TileConfig(**TILES[name], rows=1, columns=1), Random(name)
    for _ in range(12):
        pair = drawn_pairs(random, config, 1, 0.1)[0]
        b = pair[1] or 1
        results = promoted(config, pair[0], b, (pair[2], pair[3]), random)
        assert len(set(results.values())) == 1, (pair, results)
        assert len(results) == 16


@pytest.mark.parametrize(
    ("name", "more"),
    [
        ("nvfp4", {}),
        ("mxfp8", {"staging": "ring"}),
        pytest.param("nvfp4", {"staging": "ring", "lanes": 16, "depth": 3}, marks=pytest.mark.slow),
        pytest.param("mxfp6 x mxfp4", {"sparsity": "both"}, marks=pytest.mark.slow),
    ],
)
def test_a_promoted_product_is_the_same_in_the_verilog(name, more, tmp_path):
    """At every place of the window, a pair in its own stream gives the result of the pair alone.

    Expected results are products of ml_dtypes that FP32 holds.
    """
    config = TileConfig(**TILES[name], **more, rows=1, columns=1)
    random, depth, lanes = Random(f"{name} {more}"), config.window_depth, config.lanes
    a_side, b_side, expected = [], [], []
    for _ in range(10):
        while True:
            pair = drawn_pairs(random, config, 1, 0.0)[0]
            values = [table(n).floats[bits] for n, bits in zip(names_of(config)[:2], pair[:2], strict=True)]
            number = np.prod([*values, *(scale_table(config.scale)[bits] for bits in pair[2:])])
            if np.isfinite(number) and number != 0 and 2.0**-100 < abs(number) < 2.0**100:
                break
        for step, lane in product(range(depth), range(lanes)):
            a = [[random.randrange(1 << config.a_format.width) for _ in range(lanes)] for _ in range(depth)]
            b = [[random.choice(zeros(config.b_format)) for _ in range(lanes)] for _ in range(depth)]
            a[step][lane], b[step][lane] = pair[0], pair[1]
            for side, own in ((a, pair[2]), (b, pair[3])):
                for at in range(depth):
                    side[at].append(own if at == step else random.randrange(256))
            a_side.append([a])
            b_side.append([b])
            expected.append(np.float32(number))
    found = Replayer(config, tmp_path, simulator=FOR_SMALL).run(np.array(a_side, np.uint8), np.array(b_side, np.uint8))
    assert not found.mismatches
    np.testing.assert_array_equal(found.c_bits.ravel(), np.array(expected, np.float32).view(np.uint32))
    assert (found.counters["cycles"] == 1).all()


@pytest.mark.parametrize("lanes", [4, 16])
def test_nvfp4_sums_match_the_dense_tile(lanes):
    """Exact accumulators give the bits of the dense tile and the emulator, for any promotion across blocks."""
    config = TileConfig(**NVFP4, rows=3, columns=2, lanes=lanes, depth=3, connectivity="auto")
    rng = np.random.default_rng(lanes)
    saved = 0
    for _ in range(12):
        sides = []
        for count in (config.columns, config.rows):
            bits = rng.integers(0, 16, (count, 96)).astype(np.uint8)
            bits[rng.random(bits.shape) < rng.random()] = 0
            scales = rng.integers(0, 0x7F, (count, 6)).astype(np.uint8)
            scales[rng.random(scales.shape) < 0.2] = 0
            sides.append(Scaled(bits, scales))
        operands = [scaled_steps(side, config) for side in sides]
        sparse, dense = matmul(*operands, config), matmul(*operands, config.baseline)
        np.testing.assert_array_equal(sparse.c_bits, dense.c_bits)
        patterns, scales = [side.bits for side in sides], [side.scales for side in sides]
        emulated = matrix_product(*patterns, config, scales=(scales[0], scales[1]))
        np.testing.assert_array_equal(sparse.c_bits, emulated)
        saved += int(dense.cycles[0] - sparse.cycles[0])
    assert saved > 0


# Zeros and NaN


def one_step(config: TileConfig, a: list[int], b: list[int]) -> Any:
    return matmul(np.array([[a]], np.uint8), np.array([[b]], np.uint8), config)


def test_zero_scale_skips_a_block():
    config = TileConfig(**NVFP4, rows=1, columns=1)
    steps = [[[7, 7, 7, 7, scale] for scale in (0x38, 0x00, 0x80, 0x00, 0x38)]]
    found = matmul(np.array([[[2, 2, 2, 2, 0x38]] * 5], np.uint8), np.array(steps, np.uint8), config)
    assert (found.effectual[0], found.c[0, 0], found.cycles[0]) == (8, 48.0, 2)


@pytest.mark.parametrize("name", ["nvfp4", "mxfp4"])
def test_nan_scales(name):
    config = TileConfig(**(NVFP4 if name == "nvfp4" else MXFP4), rows=1, columns=1)
    scale = config.numerics.scale
    assert scale is not None
    one, nan = 0x38 if scale.number else 0x7F, scale.nan
    values, nothing = [2, 2, 2, 2], [0, 8, 0, 8]
    both = TileConfig(**(NVFP4 if name == "nvfp4" else MXFP4), rows=1, columns=1, sparsity="both")
    for a, b, tile, value in [
        ([*values, nan], [*values, one], config, np.nan),
        ([*values, one], [*values, nan], config, np.nan),
        ([*values, one], [*nothing, nan], config, 0.0),  # The row side's block is skipped.
        ([*values, one], [*nothing, nan], config.baseline, np.nan),
        ([*nothing, nan], [*values, one], config, np.nan),  # The column side's zeros are multiplied.
        ([*nothing, nan], [*values, one], both, 0.0),
        ([*values, nan], [*nothing, one], config, 0.0),
    ]:
        found = one_step(tile, a, b)
        np.testing.assert_array_equal(found.c[0, 0], value)
        assert found.non_finite
        assert found.result_non_finite == np.isnan(value)
