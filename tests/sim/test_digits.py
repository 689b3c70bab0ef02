"""Real operands, one training step's, in every format: how they are rounded, and what tiles make of them."""

from typing import Any

import numpy as np
import pytest

from tensordash import TileConfig
from tensordash.formats import FORMATS
from tensordash_sim.digits import Product, as_streams, quantized, share_of_zeros, training_step
from tensordash_sim.golden import matmul, matmul_exact, to_float

EXACT: dict[str, Any] = {
    "fp16": "fp16",
    "e4m3": "fp8_e4m3",
    "e5m2": "fp8_e5m2",
    "e4m3xe5m2": {"a": "fp8_e4m3", "b": "fp8_e5m2"},
    "int8": "int8",
}
PRODUCTS = {product.operation: product for product in training_step()}


def decoded(bits: np.ndarray, name: str) -> np.ndarray:
    if name == "int8":
        return bits.view(np.int8).astype(float)
    table = {pattern: to_float(pattern, FORMATS[name]) for pattern in np.unique(bits).tolist()}
    return np.vectorize(table.get, otypes=[float])(bits)


class TestQuantized:
    @pytest.mark.parametrize("name", FORMATS)
    @pytest.mark.parametrize("operation", PRODUCTS)
    def test_nearest_of_a_scaled_operand(self, name, operation):
        """The scale is a power of two, and no other value of the format is nearer."""
        values = PRODUCTS[operation].scheduled
        bits = quantized(values, FORMATS[name])
        assert bits.dtype == (np.uint16 if FORMATS[name].width == 16 else np.uint8)
        found = decoded(bits, name)
        largest = np.unravel_index(np.abs(values).argmax(), values.shape)
        scale = 2.0 ** np.round(np.log2(found[largest] / values[largest]))
        assert scale == 1 or FORMATS[name].width == 8
        patterns = np.arange(1 << FORMATS[name].width, dtype=bits.dtype)
        representable = decoded(patterns, name)
        representable = np.unique(representable[np.isfinite(representable)])
        near = np.searchsorted(representable, values * scale)
        nearest = np.minimum(
            np.abs(values * scale - representable[np.clip(near - 1, 0, None)]),
            np.abs(values * scale - representable[np.clip(near, None, len(representable) - 1)]),
        )
        np.testing.assert_array_equal(np.abs(values * scale - found), nearest)

    @pytest.mark.parametrize(("name", "top"), [("fp8_e4m3", 448), ("fp8_e5m2", 57344), ("int8", 127)])
    def test_8_bits_use_their_range(self, name, top):
        for product in PRODUCTS.values():
            found = decoded(quantized(product.other, FORMATS[name]), name)
            assert top / 2 < np.abs(found).max() <= top

    def test_nothing_but_zeros(self):
        assert not quantized(np.zeros((2, 3), np.float32), FORMATS["int8"]).any()

    def test_share_of_zeros(self):
        bits = np.array([0x00, 0x80, 0x01, 0x3C], np.uint8)
        assert share_of_zeros(bits, FORMATS["fp8_e4m3"]) == 0.5
        assert share_of_zeros(bits, FORMATS["int8"]) == 0.25


def test_streams_are_the_product():
    product, config = PRODUCTS["WxG"], TileConfig(rows=2, columns=8)
    a, b = as_streams(product, config)
    assert a.shape == (16 * 8, 8, 8, 4)
    assert b.shape == (16 * 8, 2, 8, 4)
    values = np.einsum("sctl,srtl->src", a.view(np.float16).astype(float), b.view(np.float16).astype(float))
    whole = values.reshape(16, 8, 2, 8).transpose(0, 2, 1, 3).reshape(32, 64)
    wanted = product.scheduled.astype(np.float16).astype(float) @ product.other.astype(np.float16).astype(float).T
    np.testing.assert_allclose(whole, wanted, rtol=1e-12, atol=1e-9)


def test_shapes_must_divide():
    product = Product(
        operation="AxW",
        scheduled=np.zeros((4, 8), np.float32),
        other=np.zeros((4, 8), np.float32),
        scheduled_name="A",
        other_name="W",
    )
    with pytest.raises(ValueError, match=r"^I must be a multiple of 3, not 4$"):
        as_streams(product, TileConfig(rows=3))


@pytest.mark.parametrize("initial", [False, True])
@pytest.mark.parametrize("operation", PRODUCTS)
@pytest.mark.parametrize("name", EXACT)
def test_tensordash_equals_dense_equals_correctly_rounded(name, operation, initial):
    config = TileConfig(format=EXACT[name], initial=initial)
    a, b = as_streams(PRODUCTS[operation], config)
    random = np.random.default_rng(1)
    c: Any = None
    if initial:
        shape = (len(a), config.rows, config.columns)
        if name == "int8":
            c = random.integers(-(2**16), 2**16, shape)
        else:
            c = random.normal(size=shape).astype(np.float32) * 2.0 ** random.integers(-30, 30, shape)
    dense = matmul(a, b, config.baseline, c)
    c_bits = [None] * len(a) if c is None else list(result_bits(c, name))
    exact = np.stack([matmul_exact(*pair, config, bits) for *pair, bits in zip(a, b, c_bits, strict=True)])
    np.testing.assert_array_equal(dense.c_bits, exact)
    for sparsity in ("rows", "both"):
        found = matmul(a, b, TileConfig(format=EXACT[name], initial=initial, sparsity=sparsity), c)
        np.testing.assert_array_equal(found.c_bits, exact)
        assert found.cycles.sum() < dense.cycles.sum()
        assert not found.overflow
        assert not found.non_finite


def result_bits(c: np.ndarray, name: str) -> np.ndarray:
    """C as bit patterns."""
    return c.astype(np.int32).view(np.uint32) if name == "int8" else c.astype(np.float32).view(np.uint32)
