"""Test that the parts of an operation have all its results, by PyTorch's results of each part."""

import numpy as np
import pytest

from tensordash_sim.compiler.images import expected
from tensordash_sim.compiler.layer import OPERANDS, RESULTS, Layer
from tensordash_sim.compiler.parts import Division, divide, join_results, part_of

LAYERS = {
    "convolution": Layer(samples=4, channels=8, filters=16, size=(5, 6), kernel=(3, 3), stride=2, padding=1),
    "one sample": Layer(samples=1, channels=16, filters=8, size=(5, 6), kernel=(3, 3), padding=1),
    "matrix product": Layer(samples=1, channels=12, filters=10, size=(1, 16)),
    "products": Layer(samples=1, channels=5, filters=3, size=(1, 7), products=4),
    "more products": Layer(samples=1, channels=5, filters=3, size=(1, 7), products=6),
    "odd sizes": Layer(samples=3, channels=5, filters=7, size=(4, 5), kernel=(2, 2)),
    "equal sizes": Layer(samples=1, channels=16, filters=12, size=(3, 4), kernel=(2, 2)),
    "one of each": Layer(samples=1, channels=1, filters=1, size=(1, 1)),
}


@pytest.mark.parametrize("count", [2, 4])
@pytest.mark.parametrize("operation", OPERANDS)
@pytest.mark.parametrize("name", LAYERS)
def test_parts_have_all_results(name, operation, count):
    layer, rng = LAYERS[name], np.random.default_rng(count)
    values = {
        each: rng.integers(-3, 4, layer.whole_shape(each)).astype(np.float16)
        for each in (*OPERANDS[operation], *["bias"][: operation == "AxW"])
    }
    values["mask"] = rng.integers(0, 2, layer.whole_shape(RESULTS[operation])).astype(np.float16)
    if "bias" in values:
        values["bias"] = values["bias"].astype(np.float32)
    division = divide(layer, operation, count, 4)
    parts = [part_of(layer, operation, values, division, number) for number in range(division.count)]
    results = [expected(part, operation, chosen) for part, chosen in parts]
    joined = join_results(results, layer, operation, division).reshape(layer.whole_shape(RESULTS[operation]))
    assert np.array_equal(joined, expected(layer, operation, values))
    if division.shared:
        assert division.count == count
        assert len({part for part, _ in parts}) == 1
        assert all(chosen[division.shared] is values[division.shared] for _, chosen in parts)


@pytest.mark.parametrize(
    ("name", "operation", "division"),
    [
        ("convolution", "AxW", Division(size="samples", count=4, shared="W")),
        ("convolution", "AxG", Division(size="filters", count=4, shared="A")),
        ("one sample", "WxG", Division(size="channels", count=4, shared="G")),
        ("matrix product", "AxW", Division(size="positions", count=4, shared="W")),
        ("products", "AxG", Division(size="products", count=4)),
        ("more products", "AxW", Division(size="positions", count=4)),
        ("odd sizes", "AxW", Division(size="filters", count=4)),
        ("equal sizes", "AxW", Division(size="filters", count=4, shared="A")),
        ("equal sizes", "AxG", Division(size="channels", count=4, shared="G")),
        ("one of each", "AxG", Division(size="products", count=1)),
    ],
)
def test_divisions(name, operation, division):
    assert divide(LAYERS[name], operation, 4, 4) == division
