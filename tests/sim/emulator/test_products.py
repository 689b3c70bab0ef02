"""Compare the emulator's matrix products with the golden model bit by bit."""

import numpy as np
import pytest
from numpy.typing import NDArray

from tensordash import TileConfig
from tensordash.configuration.formats import FORMATS, FP32, FloatFormat
from tensordash_sim.emulator import encode, matrix_product
from tensordash_sim.golden import is_zero, make_accumulator, matmul
from tensordash_sim.golden.dot import ExactAccumulator

from .drawn import random_bits, random_config


def golden_product(columns: NDArray, rows: NDArray, config: TileConfig) -> NDArray[np.uint32]:
    """Multiply with the tile model in blocks of a tile's size, padded with zeros."""
    steps = -(-columns.shape[1] // config.lanes)

    def blocks(vectors: NDArray, ports: int) -> NDArray:
        filled = np.zeros((-(-len(vectors) // ports) * ports, steps * config.lanes), vectors.dtype)
        filled[: len(vectors), : vectors.shape[1]] = vectors
        return filled.reshape(-1, ports, steps, config.lanes)

    a, b = blocks(columns, config.columns), blocks(rows, config.rows)
    products = matmul(np.tile(a, (len(b), 1, 1, 1)), np.repeat(b, len(a), axis=0), config).c_bits
    whole = products.reshape(len(b), len(a), config.rows, config.columns).transpose(0, 2, 1, 3)
    return whole.reshape(len(b) * config.rows, -1)[: len(rows), : len(columns)]


def pair_by_pair(
    columns: NDArray, rows: NDArray, config: TileConfig, added: NDArray[np.uint32] | None = None
) -> NDArray[np.uint32]:
    """Sum all products of a stream and a bias in one step of a golden accumulator, without a tile."""
    if added is not None:
        sums = make_accumulator(config)
        assert isinstance(sums, ExactAccumulator)
        assert isinstance(config.a_format, FloatFormat)
        assert isinstance(config.b_format, FloatFormat)
        unit = 2.0 ** (config.a_format.least_exponent + config.b_format.least_exponent)
        with np.errstate(invalid="ignore"):  # signalling NaN
            numbers = added.view(np.float32).astype(np.float64)
        width = sums.width
        large = np.copysign(np.inf, numbers)
        numbers = np.where(np.abs(numbers) >= unit * 2.0 ** min(width - 1, 127), large, np.trunc(numbers / unit) * unit)
        with np.errstate(over="ignore"):
            added = numbers.astype(np.float32).view(np.uint32)
    results = np.empty((len(rows), len(columns)), np.uint32)
    for n, b_vector in enumerate(rows.tolist()):
        for m, a_vector in enumerate(columns.tolist()):
            pairs = [
                (a, b)
                for a, b in zip(a_vector, b_vector, strict=True)
                if not (config.sparsity != "none" and is_zero(b, config.b_format))
                and not (config.sparsity == "both" and is_zero(a, config.a_format))
            ]
            accumulator = make_accumulator(config)
            accumulator.accumulate(pairs, first=True)
            results[n, m] = accumulator.result_bits(0 if added is None else int(added[n, m]))
    return results


@pytest.mark.parametrize(("seed", "count"), [(0, 300), pytest.param(1, 10_000, marks=pytest.mark.slow)])
def test_random_products(seed, count):
    rng = np.random.default_rng(seed)
    for _ in range(count):
        config = random_config(rng)
        length = int(rng.integers(1, 4 * config.lanes + 2))
        columns = random_bits(rng, config.a_format, (int(rng.integers(1, 2 * config.columns + 1)), length))
        rows = random_bits(rng, config.b_format, (int(rng.integers(1, config.rows + 2)), length))
        product, expected = matrix_product(columns, rows, config), golden_product(columns, rows, config)
        assert product.tolist() == expected.tolist(), (config, columns.tolist(), rows.tolist())


@pytest.mark.sampled(8)
@pytest.mark.parametrize("accumulator", ["exact", "volta"])
@pytest.mark.parametrize("sparsity", ["none", "rows", "both"])
@pytest.mark.parametrize(
    "names", [("fp8_e4m3", "fp8_e4m3"), ("fp8_e5m2", "fp8_e5m2"), ("fp8_e4m3", "fp8_e5m2"), ("int8", "int8")]
)
def test_every_product(names, accumulator, sparsity):
    if names[0] == "int8" and accumulator != "exact":
        pytest.skip("int8 is exact")
    config = TileConfig(format=dict(zip("ab", names, strict=True)), accumulator=accumulator, sparsity=sparsity)
    every = np.arange(256, dtype=np.uint8)[:, None]
    np.testing.assert_array_equal(matrix_product(every, every, config), pair_by_pair(every, every, config))


@pytest.mark.parametrize("headroom_bits", [0, 3, 16, 47, 64])
@pytest.mark.parametrize("name", ["fp16", "fp8_e4m3", "fp8_e5m2"])
def test_long_streams(name, headroom_bits):
    """Streams exceed a block of digits. Large values make sums wrap, or cancel except for a few low bits."""
    config = TileConfig(format=name, headroom_bits=headroom_bits)
    fmt, rng = FORMATS[name], np.random.default_rng(headroom_bits)
    top = 1 << (fmt.width - 1)
    columns = np.full((5, 9000), fmt.largest)
    columns[1:] -= rng.integers(0, 1 << fmt.fraction_bits, (4, 9000))
    rows = columns[:3].copy()
    columns[2, 4500:] = columns[2, :4500] | top
    rows[2, 4500:] = rows[2, :4500]
    columns[2, 8999], rows[2, 8999] = 1, 1 | top
    columns[4, rng.random(9000) < 0.5] |= top
    rows[1, rng.random(9000) < 0.5] |= top
    pattern = np.dtype(f"u{fmt.width // 8}")
    patterns = columns.astype(pattern), rows.astype(pattern)
    np.testing.assert_array_equal(matrix_product(*patterns, config), pair_by_pair(*patterns, config))


def test_sums_beyond_float64():
    """The largest products cancel, but intermediate sums are so large that float64 loses small products.

    The number of products is so large that a library's order of additions makes no difference.
    """
    small = np.random.default_rng(0).random(200_000) < 0.2
    columns = np.where(small, 0x2C00, 0x7BFF).astype(np.uint16)  # The small value is 2**-4.
    both = np.concatenate([columns, columns])[None]
    rows = np.concatenate([columns, np.where(small, 0, 0xFBFF)])[None].astype(np.uint16)
    product = matrix_product(both, rows, TileConfig())
    assert product.view(np.float32).tolist() == [[np.count_nonzero(small) * 2.0**-8]]
    np.testing.assert_array_equal(product, pair_by_pair(both, rows, TileConfig()))


def test_ties():
    """Sums lie halfway between two FP32 numbers, or differ from halfway by 2**-24 or 2**-48."""
    config = TileConfig()
    columns = np.array([[0x7800, 0x3C00, 0x0000], [0x7800, 0x4200, 0x0000]] * 3, np.uint16)
    columns[2:4, 2], columns[4:, 2] = 0x0001, 0x8001
    rows = np.array([[0x6400, 0x3C00, 0x3C00], [0xE400, 0xBC00, 0xBC00]] * 2, np.uint16)
    rows[2:, 2] -= 0x3BFF
    rows[:, 0] += 0x800  # 2**15 * 2**12 = 2**27, whose neighbours are 16 apart: halfway is 8
    rows[:, 1] += 0xC00
    np.testing.assert_array_equal(matrix_product(columns, rows, config), pair_by_pair(columns, rows, config))


@pytest.mark.sampled(9)
@pytest.mark.parametrize("rounding", ["zero", "nearest"])
@pytest.mark.parametrize("fraction_bits", [8, 24, 25, 40, 64])
@pytest.mark.parametrize("sparsity", ["none", "rows", "both"])
def test_fused_sums_near_the_limits(sparsity, fraction_bits, rounding):
    """Test sums of either sign near the least subnormal and its half, and sums of more than 64 bits near a tie."""
    config = TileConfig(
        format="bf16", accumulator={"fused": fraction_bits, "rounding": rounding}, sparsity=sparsity, rows=2, columns=2
    )
    values = np.array(
        [
            [-133, -133, -133],  # with the following factor: 2**-149, 2**-150 and 2**-151
            [-16, -17, -18],
            [0, -12, -31],  # 2.25 with the following factor, half of its last place, and 2**-63
            [0, -11, -32],
        ]
    )
    vectors = encode(np.exp2(values.astype(np.float64)), FORMATS["bf16"])
    vectors[2:, 0] = 0x3FC0
    columns = np.concatenate([vectors, vectors | np.array([0x8000, 0, 0], np.uint16), vectors | np.uint16(0x8000)])
    for length in (1, 2, 3):
        for first in range(4 - length):
            part = slice(first, first + length)
            product = matrix_product(columns[:, part], columns[:, part], config)
            expected = pair_by_pair(columns[:, part], columns[:, part], config)
            np.testing.assert_array_equal(product, expected)


@pytest.mark.parametrize("accumulator", ["exact", "hopper"])
@pytest.mark.parametrize("sparsity", ["none", "rows", "both"])
def test_blocks_of_large_matrices(accumulator, sparsity):
    """Vectors of several blocks give the results of each block alone."""
    config, rng = TileConfig(accumulator=accumulator, sparsity=sparsity), np.random.default_rng(0)
    columns = random_bits(rng, config.a_format, (2100, 9))
    rows = random_bits(rng, config.b_format, (2100, 9))
    product = matrix_product(columns, rows, config)
    for n, m in ((0, 0), (2044, 2044), (2048, 0), (0, 2048), (2052, 2052), (2096, 2096), (1024, 128)):
        block = golden_product(columns[m : m + 4], rows[n : n + 4], config)
        np.testing.assert_array_equal(product[n : n + 4, m : m + 4], block)


def test_leading_axes():
    config, rng = TileConfig(accumulator="volta"), np.random.default_rng(0)
    columns, rows = random_bits(rng, config.a_format, (2, 1, 5, 9)), random_bits(rng, config.b_format, (3, 4, 9))
    product = matrix_product(columns, rows, config)
    assert product.shape == (2, 3, 4, 5)
    for i, j in np.ndindex(2, 3):
        np.testing.assert_array_equal(product[i, j], matrix_product(columns[i, 0], rows[j], config))
    assert matrix_product(columns[:, :, :0], rows, config).shape == (2, 3, 4, 0)


ZEROS = np.zeros((2, 4), np.uint16)


@pytest.mark.parametrize(
    ("columns", "rows", "config", "message"),
    [
        (ZEROS, ZEROS, None, "config must be a TileConfig, not None"),
        (ZEROS, ZEROS, TileConfig(initial=True), r"config must be a tile without C input \(initial = false\)"),
        (ZEROS.astype(float), ZEROS, TileConfig(), "columns must be an array of fp16 bit patterns .*, not of float64"),
        (ZEROS, ZEROS.astype(np.uint32) + 65536, TileConfig(), "rows must hold fp16 .* below 2..16, not 65536"),
        (ZEROS, ZEROS[:, :3], TileConfig(), r"rows must have vectors as long as columns has \(4\), not 3"),
        (ZEROS[0], ZEROS, TileConfig(), r"columns must have shape \(..., vectors, K\) with K >= 1, not \(4,\)"),
        (ZEROS, ZEROS[:, :0], TileConfig(), r"rows must have shape .* with K >= 1, not \(2, 0\)"),
        (np.stack([ZEROS] * 2), np.stack([ZEROS] * 3), TileConfig(), r"rows must go with columns, \(2, 2, 4\)"),
    ],
)
def test_wrong_operands(columns, rows, config, message):
    with pytest.raises((TypeError, ValueError), match=message):
        matrix_product(columns, rows, config)


@pytest.mark.parametrize("name", ["fp16", "fp8_e5m2"])
def test_added_numbers(name):
    """Addends have all magnitudes. Some nearly cancel a sum that fills its accumulator."""
    config, rng = TileConfig(format=name), np.random.default_rng(0)
    fmt = config.a_format
    for _ in range(40):
        columns, rows = (random_bits(rng, fmt, (6, 8)) for _ in range(2))
        columns[:, rng.integers(0, 8)] = rng.integers(1, 4)  # The least product must not be lost.
        near = -matrix_product(columns, rows, config).view(np.float32)
        near = (near.view(np.uint32) + rng.integers(-2, 3, near.shape)).astype(np.uint32)
        added = np.where(rng.random(near.shape) < 0.5, near, random_bits(rng, FP32, near.shape)).astype(np.uint32)
        product = matrix_product(columns, rows, config, added.view(np.float32))
        np.testing.assert_array_equal(product, pair_by_pair(columns, rows, config, added))


@pytest.mark.parametrize("name", ["fp16", "fp8_e5m2"])
def test_smallest_addend_decides_a_tie(name):
    """The sum is halfway between two FP32 numbers without its smallest number."""
    config = TileConfig(format=name)
    halfway = encode(np.array([[1.0, 2.0**-12], [-1.0, -(2.0**-12)]]), config.a_format)
    one = encode(np.array([[1.0, 2.0**-12]]), config.b_format)
    for added in (0.0, 1e-45, -1e-45, 2.0**-50, -(2.0**-50), 2.0**-32, -(2.0**-32), 2.0**-24, -(2.0**-24)):
        numbers = np.full((1, 2), added, np.float32)
        product = matrix_product(halfway, one, config, numbers)
        np.testing.assert_array_equal(product, pair_by_pair(halfway, one, config, numbers.view(np.uint32)))
    assert matrix_product(halfway, one, config, np.full((1, 2), 2.0**-32, np.float32)).tolist() == [
        [0x3F800001, 0xBF800000]
    ]
