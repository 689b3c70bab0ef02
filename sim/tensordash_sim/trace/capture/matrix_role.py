"""Role of a matrix product in training: the layer, its operation (of three), and the role of each operand."""

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
        Name of the layer.
    operation : Operation
        The operation.
    geometry : MatrixProduct
        Geometry of the layer.
    operands : dict of str to torch.Tensor
        Both operands, in the geometry's shapes.
    turned : bool
        Whether the product of the two factors is the transpose of the operation's result.
    """

    layer: str
    operation: Operation
    geometry: MatrixProduct
    operands: dict[str, torch.Tensor]
    turned: bool


def role_of(step: Step, call: Call) -> Role | None:
    """Return the role of a matrix product, and register it if it is in the forward pass; None if it is unknown."""
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
        a, w = y.mT, x  # The parameter is the left factor.
    kind = next(kind for kind in ("bmm", "mm", "mv", "dot") if kind in call.name)
    layer = layer_of(step, call, kind, w)
    needs = _needs(A=left, W=right) if w is not x else _needs(A=right, W=left)
    # Autograd computes the right factor's gradient first for mm and bmm, and the left factor's first for the others.
    first = WEIGHT_GRADIENT if (call.name in ("aten::mm", "aten::bmm")) is (w is not x) else INPUT_GRADIENT
    geometry, operands = geometry_of(a, w), {"A": a, "W": w}
    if call.phase != "none":
        step.roles.add(Entry(layer, geometry=geometry, needs=needs, first=first), call.number, operands)
    return Role(layer, FORWARD, geometry, operands, w is x)


def layer_of(step: Step, call: Call, kind: str, operand: torch.Tensor | None) -> str:
    """Return the name of a product's layer. A repeated product has the name of the product that it repeats."""
    return call.repeats.layer if call.repeats is not None else step.names.layer(kind, operand)


def _needs(**tensors: torch.Tensor) -> frozenset[Operation]:
    """Return the gradients that A and W need."""
    gradients = {"A": INPUT_GRADIENT, "W": WEIGHT_GRADIENT}
    return frozenset(gradients[name] for name, tensor in tensors.items() if tensor.requires_grad)
