"""Compare the emulator's binned sums with the golden model bit by bit."""

from random import Random

import numpy as np
import pytest
from numpy.typing import NDArray

from tensordash import TileConfig
from tensordash.configuration.formats import FP32, SCALES, FloatFormat
from tensordash_sim.compiler.layer import Layer
from tensordash_sim.emulator import contract, matrix_product
from tensordash_sim.emulator.tables import pattern_type
from tensordash_sim.golden import is_zero, make_accumulator
from tensordash_sim.golden.binned import BinnedAccumulator
from tensordash_sim.verify.random_values import EXPONENTS, random_scale, random_value

CASES = {
    "bf16": {"format": "bf16", "accumulator": {"bins": 3}},
    "wraps": {"format": "fp16", "accumulator": {"bins": 3, "bin_bits": 11}, "headroom_bits": 0},
    "small bins": {"format": "bf16", "accumulator": {"bins": 4, "bin_bits": 8}, "headroom_bits": 0},
    "large bins": {"format": "bf16", "accumulator": {"bins": 4, "bin_bits": 32}},
    "tf32": {"format": "tf32", "accumulator": {"bins": 4}},
    "tf32 wraps": {"format": "tf32", "accumulator": {"bins": 4, "bin_bits": 24}, "headroom_bits": 1},
    "much headroom": {"format": "tf32", "accumulator": {"bins": 3, "bin_bits": 32}, "headroom_bits": 64},
    "mixed": {"format": {"a": "bf16", "b": "fp8_e5m2"}, "accumulator": {"bins": 4, "bin_bits": 11}},
    "fp4": {"format": "fp4_e2m1", "accumulator": {"bins": 3}},
    "MXFP8": {"format": "fp8_e4m3", "accumulator": {"bins": 3}, "scale": "e8m0"},
    "MXFP4 wraps": {
        "format": "fp4_e2m1",
        "accumulator": {"bins": 4, "bin_bits": 8},
        "scale": "e8m0",
        "headroom_bits": 0,
    },
    "MX, large bins": {"format": "fp8_e4m3", "accumulator": {"bins": 4, "bin_bits": 32}, "scale": "e8m0"},
}
LENGTH, BLOCK = 70, 32


def golden(
    columns: NDArray,
    rows: NDArray,
    config: TileConfig,
    scales: tuple[NDArray, NDArray] | None,
    added: NDArray[np.uint32] | None = None,
) -> NDArray:
    """Sum all products of each stream and a core's biases in one step of the golden model."""
    sums = np.empty((len(rows), len(columns)), np.uint32)
    for n, m in np.ndindex(sums.shape):
        pairs = [
            (a, b, *(() if scales is None else (int(scales[0][m, k // BLOCK]), int(scales[1][n, k // BLOCK]))))
            for k, (a, b) in enumerate(zip(columns[m].tolist(), rows[n].tolist(), strict=True))
            if not (config.sparsity != "none" and is_zero(b, config.b_format))
            and not (config.sparsity == "both" and is_zero(a, config.a_format))
        ]
        accumulator = make_accumulator(config)
        accumulator.accumulate(pairs, first=True)
        if added is not None:
            assert isinstance(accumulator, BinnedAccumulator)
            accumulator.add_bias(int(added[n, m]))
        sums[n, m] = accumulator.result_bits()
    return sums


@pytest.mark.parametrize("sign", [0, 1])
def test_sums_below_subnormals_are_plus_zero(sign):
    config = TileConfig(**CASES["bf16"])
    columns, rows = np.full((1, 1), 1, np.uint16), np.full((1, 1), sign << 15 | 1, np.uint16)  # 2**-266
    assert golden(columns, rows, config, None) == 0
    assert matrix_product(columns, rows, config) == 0


@pytest.mark.sampled(12)
@pytest.mark.parametrize("sparsity", ["rows", "none", "both"])
@pytest.mark.parametrize("name", CASES)
def test_products(name, sparsity):
    config, random = TileConfig(**CASES[name], sparsity=sparsity), Random(f"{name} {sparsity}")

    def drawn(count: int, fmt: FloatFormat, exponents) -> NDArray:
        values = [random_value(random, fmt, 0.003, exponents) for _ in range(count * LENGTH)]
        array = np.array([value if random.random() < 0.8 else 0 for value in values], pattern_type(fmt))
        return array.reshape(count, LENGTH)

    for exponents, c_exponents in EXPONENTS:
        columns, rows = drawn(3, config.a_format, exponents), drawn(4, config.b_format, exponents)
        rows[0] = 0  # The product does not change the addend.
        scales = None
        if config.numerics.scale is not None:
            scales = tuple(
                np.array(
                    [[random_scale(random, SCALES["e8m0"], 0.01, around=127) for _ in range(3)] for _ in range(count)],
                    np.uint8,
                )
                for count in (3, 4)
            )
        found = matrix_product(columns, rows, config, scales=scales)
        assert found.tolist() == golden(columns, rows, config, scales).tolist()
        added = np.array(
            [[random_value(random, FP32, 0.05, c_exponents) for _ in range(3)] for _ in range(4)], np.uint32
        )
        near = golden(columns, rows, config, scales) ^ np.uint32(1 << 31)  # The addend cancels most of each sum.
        for terms in (added, near):
            found = matrix_product(columns, rows, config, terms.view(np.float32), scales=scales)
            assert found.tolist() == golden(columns, rows, config, scales, terms).tolist()


@pytest.mark.parametrize("operation", ["AxW", "WxG", "AxG"])
def test_operations_of_layers(operation):
    """Bins that hold every product of fp8 give exact sums, with either operand on the row side."""
    layer = Layer(samples=2, channels=3, filters=5, size=(6, 7), kernel=(3, 3), padding=1)
    exact = TileConfig(format="fp8_e4m3")
    binned = TileConfig(format="fp8_e4m3", accumulator={"bins": 4, "bin_bits": 32})
    rng = np.random.default_rng(7)
    values = {name: rng.integers(0, 127, layer.shape(name), np.uint8) for name in operation.split("x")}
    values = {name: array | rng.integers(0, 2, array.shape, np.uint8) << 7 for name, array in values.items()}
    for rows in operation.split("x"):
        found, expected = (contract(tile, layer, operation, rows, values, fp32=True) for tile in (binned, exact))
        assert np.array_equal(found, expected)
