"""Where an operand's reduction runs: what number formats with a scale for each block need to know."""

from typing import NamedTuple

from tensordash.configuration.parameters import require_choice

from .geometry import Convolution, Geometry, Operation

__all__ = ["Reduction", "reduction"]


class Reduction(NamedTuple):
    """An operand seen along its reduction.

    Attributes
    ----------
    shape : tuple of int
        To which its values are reshaped.
    axis : int
        The one along which neighbours are multiplied into the same sum.
    """

    shape: tuple[int, ...]
    axis: int


def reduction(geometry: Geometry, operation: Operation, name: str) -> Reduction:
    """Return how neighbours of one reduction lie in an operand.

    ========= =========================== ===========================
    operation left                        right
    ========= =========================== ===========================
    AxW       A: channels of a group      W: channels of a group
    WxG       W: filters of a group       G: filters of a group
    AxG       A: positions of a sample    G: positions of a sample
    ========= =========================== ===========================

    A matrix product has features for channels and filters, and samples for positions. Positions are y, then x; of A
    they are those of the tensor itself, not of the windows that the taps cut from it.

    Parameters
    ----------
    geometry, operation : Geometry, Operation
        The layer, and what is done.
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
