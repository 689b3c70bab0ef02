"""The axis of an operand's reduction, along which number formats with scales form blocks."""

from typing import NamedTuple

from tensordash.configuration.parameters import require_choice

from .geometry import Convolution, Geometry, Operation

__all__ = ["Reduction", "reduction"]


class Reduction(NamedTuple):
    """The view of an operand in which its reduction is one axis.

    Attributes
    ----------
    shape : tuple of int
        Shape of the view.
    axis : int
        Axis of the reduction: products of neighbours along this axis are added to the same sum.
    """

    shape: tuple[int, ...]
    axis: int


def reduction(geometry: Geometry, operation: Operation, name: str) -> Reduction:
    """Return the shape and the axis of an operand's reduction.

    ========= =========================== ===========================
    operation left                        right
    ========= =========================== ===========================
    AxW       A: channels of a group      W: channels of a group
    WxG       W: filters of a group       G: filters of a group
    AxG       A: positions of a sample    G: positions of a sample
    ========= =========================== ===========================

    A matrix product has features instead of channels and filters, and samples instead of positions. Positions are in
    the order y, x. Positions of A are those of the tensor, not of the windows that the taps read.

    Parameters
    ----------
    geometry, operation : Geometry, Operation
        The layer and the operation.
    name : str
        The operand.

    Raises
    ------
    ValueError
        If the operation has no such operand.

    Examples
    --------
    >>> from .geometry import MatrixProduct
    >>> linear = MatrixProduct(batch=1, samples=4, in_features=6, out_features=5)
    >>> reduction(linear, Operation("AxW"), "W"), reduction(linear, Operation("WxG"), "W")
    (Reduction(shape=(1, 5, 6), axis=2), Reduction(shape=(1, 5, 6), axis=1))
    """
    require_choice("name", name, (operation.left, operation.right))
    shape = geometry.shapes[name]
    if not isinstance(geometry, Convolution):
        last = operation is Operation.FORWARD or (operation is Operation.INPUT_GRADIENT and name == "G")
        return Reduction(shape, 2 if last else 1)
    if operation is Operation.WEIGHT_GRADIENT:
        return Reduction((*shape[:2], shape[2] * shape[3]), 2)
    if name == "W" and operation is Operation.FORWARD:
        return Reduction(shape, 1)
    groups = geometry.groups
    if name == "W":
        return Reduction((groups, shape[0] // groups, *shape[1:]), 1)
    return Reduction((shape[0], groups, shape[1] // groups, *shape[2:]), 2)
