"""Compare sparse, dense and correctly rounded sums of a training step's operands in every exact format."""

from typing import Any

import numpy as np
import pytest

from tensordash import TileConfig
from tensordash_sim.golden import matmul, matmul_exact
from tensordash_sim.trace import Trace, example_trace
from tensordash_sim.trace.layer_operands import layer_passes

FORMATS: dict[str, Any] = {
    "fp16": "fp16",
    "e4m3": "fp8_e4m3",
    "e5m2": "fp8_e5m2",
    "e4m3xe5m2": {"a": "fp8_e4m3", "b": "fp8_e5m2"},
    "int8": "int8",
}
RECORDS = {str(one.operation): one for one in Trace.open(example_trace()).records if one.layer == "CNN.conv2"}


@pytest.mark.sampled(10)
@pytest.mark.parametrize("initial", [False, True])
@pytest.mark.parametrize("operation", RECORDS)
@pytest.mark.parametrize("name", FORMATS)
def test_tensordash_equals_dense_equals_correctly_rounded(name, operation, initial):
    config = TileConfig(format=FORMATS[name], initial=initial)
    ((a, b),) = layer_passes(RECORDS[operation], config, sample=16, seed=0)
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
        found = matmul(a, b, TileConfig(format=FORMATS[name], initial=initial, sparsity=sparsity), c)
        np.testing.assert_array_equal(found.c_bits, exact)
        assert found.cycles.sum() < dense.cycles.sum()
        assert not found.overflow
        assert not found.non_finite


def result_bits(c: np.ndarray, name: str) -> np.ndarray:
    """Return C as bit patterns."""
    return c.astype(np.int32).view(np.uint32) if name == "int8" else c.astype(np.float32).view(np.uint32)
