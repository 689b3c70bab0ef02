"""What a matrix product is of training: of which layer, which of its three operations, and which operand is which."""

from typing import NamedTuple

import torch

from ...lowering import MatrixProduct, Operation
from . import operators
from .call import Call, Step
from .roles import Entry, geometry_of

__all__ = ["Role", "layer_of", "role_of"]

FORWARD, INPUT_GRADIENT, WEIGHT_GRADIENT = Operation


class Role(NamedTuple):
    """A matrix product as an operation of a layer.

    Attributes
    ----------
    layer : str
        Its name.
    operation : Operation
        Which one.
    geometry : MatrixProduct
        Of the layer.
    operands : dict of str to torch.Tensor
        Both, shaped as the geometry has them.
    turned : bool
        The product of the two factors is the operation's result transposed.
    """

    layer: str
    operation: Operation
    geometry: MatrixProduct
    operands: dict[str, torch.Tensor]
    turned: bool


def role_of(step: Step, call: Call) -> Role | None:
    """Return the role of a matrix product, from the forward pass; None if a backward product has no known role."""
    left, right, x, y = operators.factors(call.name, call.args)
    if call.phase == "backward":
        gradient = None if call.number is None else step.roles.gradient(x, y, call.number, call.task)
        if gradient is None or gradient.entry.geometry is None:
            return None
        saved = gradient.operands["W" if gradient.operation is INPUT_GRADIENT else "A"]
        return Role(
            gradient.entry.layer, gradient.operation, gradient.entry.geometry, gradient.operands, saved is not y
        )
    a, w = x, y.mT
    if step.names.parameter(x) is not None and step.names.parameter(y) is None:
        a, w = y.mT, x  # W X: the parameter is on the left
    kind = next(kind for kind in ("bmm", "mm", "mv", "dot") if kind in call.name)
    layer = layer_of(step, call, kind, w)
    needs = _needs(A=left, W=right) if w is not x else _needs(A=right, W=left)
    # Autograd's formulas of mm and bmm begin with the right factor's gradient, those of the others with the left one's.
    first = WEIGHT_GRADIENT if (call.name in ("aten::mm", "aten::bmm")) is (w is not x) else INPUT_GRADIENT
    geometry, operands = geometry_of(a, w), {"A": a, "W": w}
    if call.phase != "none":
        step.roles.add(Entry(layer, geometry=geometry, needs=needs, first=first), call.number, operands)
    return Role(layer, FORWARD, geometry, operands, w is x)


def layer_of(step: Step, call: Call, kind: str, operand: torch.Tensor | None) -> str:
    """Name of a product's layer: of what it repeats, or a new one."""
    return call.repeats.layer if call.repeats is not None else step.names.layer(kind, operand)


def _needs(**tensors: torch.Tensor) -> frozenset[Operation]:
    """Return the gradients that A and W need."""
    gradients = {"A": INPUT_GRADIENT, "W": WEIGHT_GRADIENT}
    return frozenset(gradients[name] for name, tensor in tensors.items() if tensor.requires_grad)
