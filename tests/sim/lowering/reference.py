"""Reference lowering: compute every stream from the definitions, slowly.

The reference shares only the geometries with the fast lowering. It lists the places that each side of a product reads,
one by one. Values, zeros, and counts of padding and fragmentation follow from the places.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product as pairs
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensordash_sim.lowering import Convolution, Geometry, MatrixProduct, Operation

__all__ = ["FRAGMENT", "OUTSIDE", "ReferenceProduct", "ReferenceSide", "multiply_out", "reference_streams"]

OUTSIDE = -1
"""Place of spatial padding: a position outside of the tensor."""

FRAGMENT = -2
"""Place of fragmentation: a position after the end of a segment whose length is no multiple of the lanes."""

Segment = list[int]
Vector = list[Segment]
Batch = list[list[Vector]]


@dataclass(frozen=True, eq=False)
class ReferenceSide:
    """One side of a product.

    Attributes
    ----------
    name : str
        The operand.
    places : array of int64, (batch, count, steps, lanes)
        Flat index of the operand's value that each position reads. OUTSIDE and FRAGMENT read zero.
    values : array, (batch, count, steps, lanes)
        Value that each position reads.
    """

    name: str
    places: NDArray[np.int64]
    values: NDArray[Any]


@dataclass(frozen=True, eq=False)
class ReferenceProduct:
    """Two sides, and the result to which each pair of vectors adds its sum.

    Attributes
    ----------
    left, right : ReferenceSide
        The sides.
    outputs : array of int64, (batch, left vectors, right vectors)
        Flat index into the result.
    """

    left: ReferenceSide
    right: ReferenceSide
    outputs: NDArray[np.int64]


def reference_streams(
    geometry: Geometry, operation: Operation, values: Mapping[str, NDArray[Any]], lanes: int
) -> Iterator[ReferenceProduct]:
    """Yield the products of an operation, in the order of `lower`, with the values of their streams.

    Parameters
    ----------
    geometry : Convolution or MatrixProduct
        The layer.
    operation : Operation
        The operation.
    values : mapping of str to array
        The operation's two tensors by name, shaped as in ``geometry.shapes``.
    lanes : int
        Positions of a step.

    Yields
    ------
    ReferenceProduct
        One product.

    Examples
    --------
    >>> layer = MatrixProduct(batch=1, samples=1, in_features=3, out_features=1)
    >>> values = {"A": np.array([[[1, 2, 3]]]), "W": np.array([[[4, 5, 6]]])}
    >>> for product in reference_streams(layer, Operation.FORWARD, values, lanes=2):
    ...     print(product.left.values.tolist(), product.right.places.tolist(), product.outputs.tolist())
    [[[[1, 2], [3, 0]]]] [[[[0, 1], [2, -2]]]] [[[0]]]
    """
    if isinstance(geometry, MatrixProduct):
        products = iter([_matrix_product(geometry, operation)])
    elif operation is Operation.FORWARD:
        products = iter([_forward(geometry)])
    elif operation is Operation.INPUT_GRADIENT:
        products = _input_gradient(geometry)
    else:
        products = iter([_weight_gradient(geometry)])
    for left, right, outputs in products:
        yield ReferenceProduct(
            left=_side(operation.left, left, values, lanes),
            right=_side(operation.right, right, values, lanes),
            outputs=np.array(outputs, np.int64),
        )


def multiply_out(
    geometry: Geometry, operation: Operation, values: Mapping[str, NDArray[Any]], lanes: int
) -> NDArray[Any]:
    """Multiply the streams of an operation and add each product to its result.

    Parameters
    ----------
    geometry, operation, values, lanes
        As in `reference_streams`.

    Returns
    -------
    array, ``geometry.shapes[operation.output]``
        The result.

    Examples
    --------
    >>> layer = Convolution(batch=1, in_channels=1, out_channels=1, size=(4,), kernel=(3,), stride=(1,), padding=(0,),
    ...                     dilation=(1,), groups=1)
    >>> values = {"A": np.array([[[1, 2, 3, 4]]]), "W": np.array([[[1, 0, -1]]])}
    >>> multiply_out(layer, Operation.FORWARD, values, lanes=4).tolist()
    [[[-2, -2]]]
    """
    shape = geometry.shapes[operation.output]
    result = np.zeros(shape, np.result_type(values[operation.left], values[operation.right])).reshape(-1)
    for product in reference_streams(geometry, operation, values, lanes):
        sums = np.einsum("blsi,brsi->blr", product.left.values, product.right.values)
        np.add.at(result, product.outputs, sums)
    return result.reshape(shape)


def _side(name: str, batch: Batch, values: Mapping[str, NDArray[Any]], lanes: int) -> ReferenceSide:
    places = np.array([[_steps(vector, lanes) for vector in vectors] for vectors in batch], np.int64)
    inside = places >= 0
    read = np.zeros(places.shape, values[name].dtype)
    read[inside] = values[name].reshape(-1)[places[inside]]
    return ReferenceSide(name, places, read)


def _steps(vector: Vector, lanes: int) -> list[list[int]]:
    """Return the places of a vector, step by step. Each segment starts a new step."""
    steps = []
    for segment in vector:
        filled = segment + [FRAGMENT] * (-len(segment) % lanes)
        steps += [filled[first : first + lanes] for first in range(0, len(filled), lanes)]
    return steps


class _Places:
    """The places of a convolution's tensors, in two spatial dimensions."""

    def __init__(self, layer: Convolution) -> None:
        (self.height, self.width) = (1, *layer.size)[-2:]
        (self.kernel_y, self.kernel_x) = (1, *layer.kernel)[-2:]
        (self.stride_y, self.stride_x) = (1, *layer.stride)[-2:]
        (self.padding_y, self.padding_x) = (0, *layer.padding)[-2:]
        (self.dilation_y, self.dilation_x) = (1, *layer.dilation)[-2:]
        (self.out_height, self.out_width) = (1, *layer.out_size)[-2:]
        self._a = self._numbered(layer.batch, layer.in_channels, self.height, self.width)
        self._w = self._numbered(*layer.shapes["W"][:2], self.kernel_y, self.kernel_x)
        self._g = self._numbered(layer.batch, layer.out_channels, self.out_height, self.out_width)
        self.samples = range(layer.batch)
        self.groups = range(layer.groups)
        self.group_channels = range(layer.in_channels // layer.groups)
        self.outputs = list(pairs(range(self.out_height), range(self.out_width)))
        self.taps = list(pairs(range(self.kernel_y), range(self.kernel_x)))
        self._layer = layer

    @staticmethod
    def _numbered(*shape: int) -> NDArray[np.int64]:
        return np.arange(np.prod(shape)).reshape(shape)

    def channels(self, group: int) -> range:
        """Return the channels of A in a group."""
        count = len(self.group_channels)
        return range(group * count, (group + 1) * count)

    def filters(self, group: int) -> range:
        """Return the filters of a group."""
        count = self._layer.out_channels // self._layer.groups
        return range(group * count, (group + 1) * count)

    def a_place(self, n: int, c: int, output: tuple[int, int], tap: tuple[int, int]) -> int:
        """Return the place in A that an output multiplies by a tap."""
        y = output[0] * self.stride_y + tap[0] * self.dilation_y - self.padding_y
        x = output[1] * self.stride_x + tap[1] * self.dilation_x - self.padding_x
        return self.a(n, c, y, x) if 0 <= y < self.height and 0 <= x < self.width else OUTSIDE

    def hits(self, place: tuple[int, int], tap: tuple[int, int]) -> bool:
        """Return whether a tap connects a place of A with an output position, not with a gap between two of them."""
        y = place[0] + self.padding_y - tap[0] * self.dilation_y
        x = place[1] + self.padding_x - tap[1] * self.dilation_x
        return y % self.stride_y == 0 and x % self.stride_x == 0

    def g_place(self, n: int, f: int, place: tuple[int, int], tap: tuple[int, int]) -> int:
        """Return the place in G that a tap connects with a place of A, if `hits`."""
        y = (place[0] + self.padding_y - tap[0] * self.dilation_y) // self.stride_y
        x = (place[1] + self.padding_x - tap[1] * self.dilation_x) // self.stride_x
        return self.g(n, f, y, x) if 0 <= y < self.out_height and 0 <= x < self.out_width else OUTSIDE

    def a(self, n: int, c: int, y: int, x: int) -> int:
        """Return a place in A."""
        return int(self._a[n, c, y, x])

    def w(self, f: int, c: int, tap: tuple[int, int]) -> int:
        """Return a place in W."""
        return int(self._w[f, c, *tap])

    def g(self, n: int, f: int, y: int, x: int) -> int:
        """Return a place in G."""
        return int(self._g[n, f, y, x])


Sides = tuple[Batch, Batch, list[list[list[int]]]]


def _forward(layer: Convolution) -> Sides:
    at = _Places(layer)
    left, right, outputs = [], [], []
    for group in at.groups:
        channels, filters, windows = at.channels(group), at.filters(group), list(pairs(at.samples, at.outputs))
        left.append([[[at.a_place(n, c, out, tap) for c in channels] for tap in at.taps] for n, out in windows])
        right.append([[[at.w(f, c, tap) for c in at.group_channels] for tap in at.taps] for f in filters])
        outputs.append([[at.g(n, f, *out) for f in filters] for n, out in windows])
    return left, right, outputs


def _input_gradient(layer: Convolution) -> Iterator[Sides]:
    at = _Places(layer)
    for phase in pairs(range(at.stride_y), range(at.stride_x)):
        places = list(pairs(range(phase[0], at.height, at.stride_y), range(phase[1], at.width, at.stride_x)))
        taps = [tap for tap in reversed(at.taps) if at.hits(phase, tap)]
        if not places or not taps:
            continue
        left, right, outputs = [], [], []
        for group in at.groups:
            channels, filters, windows = at.channels(group), at.filters(group), list(pairs(at.samples, places))
            left.append([[[at.w(f, c, tap) for f in filters] for tap in taps] for c in at.group_channels])
            right.append([[[at.g_place(n, f, place, tap) for f in filters] for tap in taps] for n, place in windows])
            outputs.append([[at.a(n, c, *place) for n, place in windows] for c in channels])
        yield left, right, outputs


def _weight_gradient(layer: Convolution) -> Sides:
    at = _Places(layer)
    left, right, outputs = [], [], []
    for n, group in pairs(at.samples, at.groups):
        channels, filters = at.channels(group), at.filters(group)
        left.append([[[at.a_place(n, c, out, tap) for out in at.outputs]] for c in channels for tap in at.taps])
        right.append([[[at.g(n, f, *out) for out in at.outputs]] for f in filters])
        outputs.append([[at.w(f, c, tap) for f in filters] for c in at.group_channels for tap in at.taps])
    return left, right, outputs


def _matrix_product(layer: MatrixProduct, operation: Operation) -> Sides:
    extents = {"n": range(layer.samples), "c": range(layer.in_features), "f": range(layer.out_features)}
    axes = {"A": ("n", "c"), "W": ("f", "c"), "G": ("n", "f")}
    (reduced,) = set(axes[operation.left]) & set(axes[operation.right])
    (of_left,) = set(axes[operation.left]) - {reduced}
    (of_right,) = set(axes[operation.right]) - {reduced}

    def place(name: str, element: int, **index: int) -> int:
        first, second = axes[name]
        return (element * len(extents[first]) + index[first]) * len(extents[second]) + index[second]

    def side(name: str, element: int, output_axis: str) -> list[Vector]:
        return [
            [[place(name, element, **{output_axis: i, reduced: j}) for j in extents[reduced]]]
            for i in extents[output_axis]
        ]

    left, right, outputs = [], [], []
    for element in range(layer.batch):
        left.append(side(operation.left, element, of_left))
        right.append(side(operation.right, element, of_right))
        indices = [[{of_left: i, of_right: j} for j in extents[of_right]] for i in extents[of_left]]
        outputs.append([[place(operation.output, element, **index) for index in row] for row in indices])
    return left, right, outputs
