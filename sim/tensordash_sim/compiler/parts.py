"""Parts of an operation for several cores, and the operand that all of them read."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
from numpy.typing import NDArray

from .layer import OPERANDS, RESULTS, Layer

__all__ = ["Division", "divide", "join_results", "part_of"]

AXES = {
    "samples": {"A": 0, "G": 0},
    "positions": {"A": 3, "G": 3},
    "filters": {"W": 0, "G": 1, "bias": 0},
    "channels": {"A": 1, "W": 1},
}
"""By the size that is divided: the axis of each tensor, after the axis of products."""
OF_RESULTS = {
    "AxW": ("samples", "positions", "filters"),
    "WxG": ("samples", "positions", "channels"),
    "AxG": ("channels", "filters"),
}
"""Sizes by which the results of an operation can be divided; the first ones are tried first."""


@dataclass(frozen=True, kw_only=True)
class Division:
    """A division of an operation: every result is computed in one part.

    Parameters
    ----------
    size : str
        What is divided: "products", "samples", "positions" (columns of images), "filters" or "channels".
    count : int
        Number of parts.
    shared : str
        The operand that all parts read, if they are equally large; otherwise empty.
    """

    size: str
    count: int
    shared: str = ""


def divide(layer: Layer, operation: str, count: int, lanes: int) -> Division:
    """Divide an operation into equally large parts of whole groups if possible, or else of any equal size.

    Parameters
    ----------
    layer : Layer
        Shapes.
    operation : str
        "AxW", "WxG" or "AxG".
    count : int
        Maximum number of parts.
    lanes : int
        Positions and channels of a group.

    Examples
    --------
    >>> layer = Layer(samples=1, channels=64, filters=32, size=(1, 16))
    >>> [divide(layer, operation, 4, 4) for operation in ("AxW", "AxG")]  # doctest: +NORMALIZE_WHITESPACE
    [Division(size='positions', count=4, shared='W'), Division(size='channels', count=4, shared='G')]
    """
    sizes = {"samples": layer.samples, "filters": layer.filters, "channels": layer.channels}
    is_pointwise = (layer.kernel, layer.stride, layer.padding) == ((1, 1), (1, 1), (0, 0)) and not layer.end_padding
    if is_pointwise:
        sizes["positions"] = layer.size[1]
    if layer.products % count == 0:
        return Division(size="products", count=count)
    allowed = [name for name in OF_RESULTS[operation] if name in sizes]
    if operation == "AxG":
        allowed.sort(key=lambda name: -sizes[name])
    for unit, name in product((lanes, 1), allowed):
        if sizes[name] % (count * (1 if name == "samples" else unit)) == 0:
            (shared,) = (each for each in OPERANDS[operation] if each not in AXES[name])
            return Division(size=name, count=count, shared=shared)
    sizes["products"] = layer.products
    largest = max(("products", *allowed), key=lambda name: sizes[name])
    return Division(size=largest, count=min(count, sizes[largest]))


def part_of(
    layer: Layer, operation: str, values: Mapping[str, NDArray], division: Division, number: int
) -> tuple[Layer, dict[str, NDArray]]:
    """Return a part's layer and values.

    Parameters
    ----------
    layer, operation
        As for `divide`.
    values : mapping of str to array
        As for `TensorImage`, as arrays.
    division : Division
        From `divide`.
    number : int
        The part, from 0.
    """
    if division.count == 1:
        return layer, dict(values)
    chosen, sizes = {}, set()
    for name, value in values.items():
        tensor = RESULTS[operation] if name == "mask" else name
        axis = 0 if division.size == "products" else AXES[division.size].get(tensor)
        if axis is None:
            chosen[name] = value
            continue
        axis += division.size != "products" and layer.products > 1
        part = np.array_split(value, division.count, axis)[number]
        sizes.add(part.shape[axis])
        if division.size == "products" and part.shape[0] == 1:
            part = part[0]
        chosen[name] = np.ascontiguousarray(part)
    (size,) = sizes
    if division.size == "positions":
        return replace(layer, size=(layer.size[0], size)), chosen
    return replace(layer, **{division.size: size}), chosen


def join_results(results: list[NDArray], layer: Layer, operation: str, division: Division) -> NDArray:
    """Join the results of all parts, the inverse of `part_of`."""
    if division.count == 1:
        return results[0]
    if division.size == "products":
        return np.concatenate([each.reshape(-1, *layer.shape(RESULTS[operation])) for each in results])
    axis = AXES[division.size][RESULTS[operation]] + (layer.products > 1)
    return np.concatenate(results, axis)
