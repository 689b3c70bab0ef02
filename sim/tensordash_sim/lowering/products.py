"""Lower an operation on a layer to products of vectors."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tensordash.configuration.parameters import require_choice, require_int

from .geometry import Axis, Convolution, Geometry, MatrixProduct, Operation
from .planes import PlaneVectors
from .vectors import SeparateVectors, Vectors, pack
from .windows import Taps, WindowVectors

__all__ = ["Product", "lower"]

Masks = Mapping[str, NDArray[np.bool_]]


@dataclass(frozen=True)
class Product:
    """A product of vectors: each left vector is multiplied by each right vector of the same batch element.

    Attributes
    ----------
    operation : Operation
        The operation that contains the product.
    left, right : Vectors
        The two sides, with equal `batch`, `steps` and `lanes`.
    """

    operation: Operation
    left: Vectors
    right: Vectors

    @property
    def outputs(self) -> int:
        """Number of results, which is the number of pairs of a left and a right vector."""
        return self.left.batch * self.left.count * self.right.count

    @property
    def positions(self) -> int:
        """Number of multiplications of dense hardware, including those with spatial padding and fragmentation."""
        return self.outputs * self.left.steps * self.left.lanes


def lower(geometry: Geometry, operation: Operation, operands: Masks, lanes: int) -> list[Product]:
    """Lower an operation on a layer to products of vectors.

    ========= ================================ ============================== =================================
    operation left                             right                          reduction, in the order of steps
    ========= ================================ ============================== =================================
    AxW       windows of A: sample, y, x       filters of W                   y tap, x tap, channel
    WxG       channels of W, rotated by 180    windows of G: sample, y, x     y tap, x tap, filter
              degrees                          of the input
    AxG       channels of A, shifted by each   filters' planes of G           output positions of one sample,
              tap: channel, y tap, x tap                                      flattened
    ========= ================================ ============================== =================================

    The groups of a convolution are batch elements. In `AxG`, each pair of a sample and a group is a batch element, and
    the caller adds up the sums of the samples. In `AxW` and `WxG`, each tap is a segment, which is padded to a multiple
    of `lanes`.

    With a stride, `WxG` has one product for each phase of the input positions modulo the stride. A product has only the
    taps that hit an output in its phase, so no stream contains the zeros that would dilate G. A phase without taps has
    no product, and its results are zero.

    A matrix product is lowered in the same way, with a single tap. `AxG` reduces over its samples.

    Parameters
    ----------
    geometry : Convolution or MatrixProduct
        The layer.
    operation : Operation
        The operation.
    operands : mapping of str to array of bool
        Masks of the operation's two tensors, by name: true for nonzero values, with the shapes of ``geometry.shapes``.
        Other names are ignored.
    lanes : int
        Positions per step, 2 to 32.

    Returns
    -------
    list of Product
        One product, except for `WxG` with a stride.

    Raises
    ------
    TypeError, ValueError
        If an operand is missing, not boolean or of another shape, or the number of lanes is wrong.

    Source
    ------
    Table II and Section II of the paper. Deviation: the paper dilates G by the stride in `WxG`, which would charge the
    baseline with multiplications by zeros that no hardware needs.

    Examples
    --------
    >>> layer = Convolution(batch=2, in_channels=6, out_channels=8, size=(6, 6), kernel=(3, 3), stride=(2, 2),
    ...                     padding=(1, 1), dilation=(1, 1), groups=1)
    >>> masks = {name: np.ones(shape, bool) for name, shape in layer.shapes.items()}
    >>> for operation in Operation:
    ...     for product in lower(layer, operation, masks, lanes=4):
    ...         left, right = product.left, product.right
    ...         print(operation, left.batch, left.count, right.count, left.steps, product.positions)
    AxW 1 18 8 18 10368
    WxG 1 6 18 2 864
    WxG 1 6 18 4 1728
    WxG 1 6 18 4 1728
    WxG 1 6 18 8 3456
    AxG 2 54 8 3 10368
    """
    operation = Operation(require_choice("operation", operation, list(Operation)))
    require_int("lanes", lanes, 2, 32)
    left, right = (_checked(geometry, operands, name) for name in (operation.left, operation.right))
    if isinstance(geometry, MatrixProduct):
        return [_lower_matrix_product(operation, left, right, lanes)]
    if operation is Operation.FORWARD:
        return [_lower_forward(geometry, left, right, lanes)]
    if operation is Operation.INPUT_GRADIENT:
        return _lower_input_gradient(geometry, left, right, lanes)
    return [_lower_weight_gradient(geometry, left, right, lanes)]


def _checked(geometry: Geometry, operands: Masks, name: str) -> NDArray[np.bool_]:
    if name not in operands:
        raise ValueError(f"operands must hold {name}, not only {', '.join(operands) or 'nothing'}")
    mask, shape = operands[name], geometry.shapes[name]
    if not isinstance(mask, np.ndarray) or mask.dtype != np.bool_:
        raise TypeError(f"operand {name} must be an array of bool, not of {getattr(mask, 'dtype', type(mask))}")
    if mask.shape != shape:
        raise ValueError(f"operand {name} must be of shape {shape}, not {mask.shape}")
    return mask


def _lower_matrix_product(
    operation: Operation, left: NDArray[np.bool_], right: NDArray[np.bool_], lanes: int
) -> Product:
    # The reduction is the last axis for both operands of AxW and for G in WxG. Otherwise it is the middle axis.
    sides = []
    for name, mask in ((operation.left, left), (operation.right, right)):
        last = operation is Operation.FORWARD or (operation is Operation.INPUT_GRADIENT and name == "G")
        batch, count, reduction = (mask if last else mask.swapaxes(1, 2)).shape
        packed = pack(mask.reshape(-1, reduction, 1) if last else mask, lanes)
        sides.append(SeparateVectors(name, packed.reshape(batch, count, -1), reduction=reduction, lanes=lanes))
    return Product(operation, *sides)


def _lower_forward(layer: Convolution, a: NDArray[np.bool_], w: NDArray[np.bool_], lanes: int) -> Product:
    y, x = layer.axes
    channels = w.shape[1]
    filters = pack(w.reshape(layer.out_channels, channels, -1), lanes)
    filters = filters.reshape(layer.groups, -1, *filters.shape[1:])
    y_taps, x_taps = (
        Taps(axis.outputs, axis.stride, tuple(tap * axis.dilation - axis.padding for tap in range(axis.kernel)))
        for axis in (y, x)
    )
    packed = _pack_channels(a, layer.groups, (y.size, x.size), lanes)
    return Product(
        Operation.FORWARD,
        left=WindowVectors("A", packed, y=y_taps, x=x_taps, reduction=channels, lanes=lanes),
        right=SeparateVectors("W", filters, reduction=channels, lanes=lanes),
    )


def _lower_input_gradient(layer: Convolution, w: NDArray[np.bool_], g: NDArray[np.bool_], lanes: int) -> list[Product]:
    y, x = layer.axes
    filters = layer.out_channels // layer.groups
    packed = _pack_channels(g, layer.groups, (y.outputs, x.outputs), lanes)
    channels = pack(w.reshape(layer.groups, filters, -1), lanes)
    channels = channels.reshape(layer.groups, w.shape[1], y.kernel, x.kernel, -1)
    products = []
    for y_taps, y_windows in _phases(y):
        for x_taps, x_windows in _phases(x):
            chosen = channels[:, :, y_taps][:, :, :, x_taps]
            product = Product(
                Operation.INPUT_GRADIENT,
                left=SeparateVectors("W", chosen, reduction=filters, lanes=lanes),
                right=WindowVectors("G", packed, y=y_windows, x=x_windows, reduction=filters, lanes=lanes),
            )
            products.append(product)
    return products


def _phases(axis: Axis) -> list[tuple[list[int], Taps]]:
    """Return, for each phase of the input positions that has taps, these taps and the places at which they read G.

    Taps count down because the kernel is rotated, so G is read from its beginning.

    >>> _phases(Axis(size=5, kernel=3, stride=2, padding=1, dilation=1))
    [([1], Taps(windows=3, stride=1, offsets=(0,))), ([2, 0], Taps(windows=2, stride=1, offsets=(0, 1)))]
    """
    phases = []
    for first in range(min(axis.stride, axis.size)):
        reads = {tap: first + axis.padding - tap * axis.dilation for tap in reversed(range(axis.kernel))}
        hits = {tap: read // axis.stride for tap, read in reads.items() if read % axis.stride == 0}
        if hits:
            count = -(-(axis.size - first) // axis.stride)
            phases.append((list(hits), Taps(count, 1, tuple(hits.values()))))
    return phases


def _lower_weight_gradient(layer: Convolution, a: NDArray[np.bool_], g: NDArray[np.bool_], lanes: int) -> Product:
    y, x = layer.axes
    positions = y.outputs * x.outputs
    planes = pack(g.reshape(-1, positions, 1), lanes)
    filters = layer.out_channels // layer.groups
    return Product(
        Operation.WEIGHT_GRADIENT,
        left=PlaneVectors(a.reshape(layer.batch, layer.in_channels, y.size, x.size), layer, lanes),
        right=SeparateVectors("G", planes.reshape(-1, filters, planes.shape[-1]), reduction=positions, lanes=lanes),
    )


def _pack_channels(mask: NDArray[np.bool_], groups: int, size: tuple[int, int], lanes: int) -> NDArray[np.uint32]:
    """Pack A or G, (N, channels, *size), along the channels of each group: (N, groups, *size, blocks)."""
    samples, channels = mask.shape[:2]
    packed = pack(mask.reshape(samples * groups, channels // groups, -1), lanes)
    return packed.reshape(samples, groups, *size, -1)
