"""Check and convert the shapes of matrix products and convolutions."""

from typing import Any

import numpy as np

from tensordash_sim.lowering import Convolution

__all__ = ["Pair", "broadcast", "convolution_of", "product_shape"]

Pair = int | tuple[int, ...]
"""One value for all directions, or one for each."""


def broadcast(tensor: Any, shape: tuple[int, ...]) -> Any:
    """Return an array or tensor broadcast to a shape."""
    if tuple(tensor.shape) == shape:
        return tensor
    return np.broadcast_to(tensor, shape) if isinstance(tensor, np.ndarray) else tensor.expand(shape)


def product_shape(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[tuple[int, ...], int, int, int]:
    """Return the batch, n, k and m of (..., n, k) times (..., k, m); raise ValueError if the shapes do not fit."""
    if len(a) < 2 or len(b) < 2 or a[-1] != b[-2]:
        raise ValueError(f"a and b must have the shapes (..., n, k) and (..., k, m), not {a} and {b}")
    try:
        return np.broadcast_shapes(a[:-2], b[:-2]), a[-2], a[-1], b[-1]
    except ValueError:
        raise ValueError(f"a and b must have leading axes that fit, not {a} and {b}") from None


def convolution_of(
    a: tuple[int, ...], w: tuple[int, ...], stride: Pair, padding: Pair, dilation: Pair, groups: int
) -> Convolution:
    """Return the geometry of a convolution from its operands' shapes; raise ValueError if they do not fit."""
    dimensions = len(w) - 2
    if len(a) != len(w) or dimensions not in (1, 2):
        raise ValueError(f"a and w must both have 3 or 4 axes, not {len(a)} and {len(w)}")
    if a[1] != w[1] * groups:
        raise ValueError(f"a must have the {w[1] * groups} channels of w and groups = {groups}, not {a[1]}")
    settings = {"stride": stride, "padding": padding, "dilation": dilation}
    return Convolution(
        batch=a[0],
        in_channels=a[1],
        out_channels=w[0],
        size=a[2:],
        kernel=w[2:],
        groups=groups,
        **{name: each if isinstance(each, tuple) else (each,) * dimensions for name, each in settings.items()},
    )
