"""Layers of all kinds with values, small enough for the reference."""

import numpy as np
import pytest

from tensordash_sim.lowering import Geometry, MatrixProduct

from .geometries import convolution

CHOSEN: dict[str, Geometry] = {
    "3x3": convolution(batch=2, channels=(5, 6), size=(5, 6), kernel=(3, 3), padding=(1, 1)),
    "3x3 stride 2": convolution(batch=2, channels=(4, 3), size=(6, 7), kernel=(3, 3), stride=(2, 2), padding=(1, 1)),
    "1x1": convolution(batch=2, channels=(9, 7), size=(3, 4), kernel=(1, 1)),
    "1x1 stride 2": convolution(batch=2, channels=(5, 4), size=(5, 4), kernel=(1, 1), stride=(2, 2)),
    "7x7 stride 2": convolution(channels=(3, 5), size=(10, 9), kernel=(7, 7), stride=(2, 2), padding=(3, 3)),
    "uneven": convolution(
        batch=2, channels=(2, 3), size=(7, 9), kernel=(2, 4), stride=(3, 2), padding=(0, 2), dilation=(2, 1)
    ),
    "stride above kernel": convolution(batch=2, channels=(3, 2), size=(9, 8), kernel=(2, 1), stride=(4, 3)),
    "stride and dilation share a factor": convolution(
        channels=(3, 4), size=(9, 10), kernel=(3, 2), stride=(2, 4), padding=(2, 1), dilation=(2, 6)
    ),
    "rows longer than a word": convolution(channels=(2, 2), size=(2, 75), kernel=(1, 3), padding=(0, 1)),
    "long rows, stride and dilation": convolution(
        size=(2, 150), kernel=(1, 3), stride=(1, 2), padding=(0, 5), dilation=(1, 5)
    ),
    "padding beyond the kernel": convolution(batch=2, channels=(2, 2), size=(2, 1), kernel=(2, 2), padding=(3, 2)),
    "smaller than the stride": convolution(channels=(2, 3), size=(1, 2), kernel=(1, 1), stride=(3, 3)),
    "rows never read": convolution(channels=(2, 3), size=(8, 8), kernel=(3, 3), stride=(5, 5)),
    "groups": convolution(batch=2, channels=(6, 10), size=(4, 3), kernel=(3, 3), padding=(1, 1), groups=2),
    "depthwise": convolution(batch=2, channels=(6, 6), size=(5, 4), kernel=(3, 3), padding=(1, 1), groups=6),
    "depthwise stride 2": convolution(
        batch=2, channels=(3, 6), size=(5, 6), kernel=(3, 3), stride=(2, 2), padding=(1, 1), groups=3
    ),
    "1d": convolution(batch=2, channels=(5, 3), size=(11,), kernel=(4,), padding=(2,)),
    "1d stride, dilation, groups": convolution(
        batch=2, channels=(4, 6), size=(13,), kernel=(3,), stride=(2,), padding=(1,), dilation=(3,), groups=2
    ),
    "less padding at the end": convolution(
        batch=2, channels=(3, 4), size=(6, 7), kernel=(3, 2), padding=(2, 1), dilation=(1, 3), end_padding=(0, -2)
    ),
    "less padding at the end, stride 2": convolution(
        channels=(4, 6), size=(9, 40), kernel=(2, 3), stride=(3, 2), padding=(2, 3), groups=2, end_padding=(-4, 0)
    ),
    "a single value": convolution(size=(1, 1), kernel=(1, 1)),
    "linear": MatrixProduct(batch=1, samples=5, in_features=11, out_features=6),
    "linear, one sample": MatrixProduct(batch=1, samples=1, in_features=6, out_features=9),
    "matrix products": MatrixProduct(batch=3, samples=7, in_features=4, out_features=5),
}


def random_geometry(rng: np.random.Generator) -> Geometry:
    """Draw a small layer."""
    batch = int(rng.integers(1, 3))
    if rng.random() < 0.15:
        samples, inputs, outputs = rng.integers(1, 12, 3).tolist()
        return MatrixProduct(batch=batch, samples=samples, in_features=inputs, out_features=outputs)
    dimensions = int(rng.integers(1, 3))

    def sizes(low: int, high: int) -> tuple[int, ...]:
        return tuple(rng.integers(low, high, dimensions).tolist())

    groups = int(rng.choice([1, 1, 2, 3]))
    channels = (rng.integers(1, 4 if groups > 1 else 7, 2) * groups).tolist()
    kernel, dilation, padding = sizes(1, 5), sizes(1, 4), sizes(0, 4)
    least = [d * (k - 1) + 1 - 2 * p for k, d, p in zip(kernel, dilation, padding, strict=True)]
    less = rng.integers(0, 4, dimensions) * rng.integers(0, 2)
    size = tuple(int(max(1, one) + rng.integers(0, 5) + fewer) for one, fewer in zip(least, less, strict=True))
    end_padding = tuple(int(max(p - fewer, -s)) for p, fewer, s in zip(padding, less, size, strict=True))
    return convolution(batch, channels, size, kernel, sizes(1, 5), padding, dilation, groups, end_padding)


@pytest.fixture(params=[*CHOSEN, *(f"random {index}" for index in range(8))])
def geometry(request, rng) -> Geometry:
    name = request.param
    found = CHOSEN[name] if name in CHOSEN else random_geometry(rng)
    print(found)
    return found


@pytest.fixture
def values(geometry, rng) -> dict[str, np.ndarray]:
    """Draw small integers, about half of them zero."""
    shapes = geometry.shapes.items()
    return {name: rng.integers(-4, 5, shape) * (rng.random(shape) < 0.6) for name, shape in shapes}


@pytest.fixture
def lanes(rng) -> int:
    return int(rng.choice([2, 3, 4, 4, 5, 7, 8, 16, 31, 32]))
