"""A call of an operation, and the interface that its handler uses to record."""

from dataclasses import dataclass
from typing import Any, Protocol

import torch

from ...lowering import Operation
from .names import Names
from .roles import Entry, Roles

__all__ = ["Call", "Recording", "Step"]


@dataclass
class Call:
    """An operation that has run.

    Attributes
    ----------
    func, args, kwargs, result : Any
        The called function, its arguments and its result.
    name : str
        Name of the operation.
    phase : str
        forward, backward, repeated (a forward pass that a backward pass recomputes) or none.
    number : int or None
        Number of the autograd node that the operation belongs to.
    task : int
        Number of the backward pass; -1 outside a backward pass.
    node : str
        Name of the node that the backward pass is executing.
    repeats : Entry or None
        For the phase "repeated", the forward product that is recomputed, if known.
    """

    func: Any
    args: Any
    kwargs: Any
    result: Any
    name: str = ""
    phase: str = "none"
    number: int | None = None
    task: int = -1
    node: str = ""
    repeats: Entry | None = None

    @property
    def tensors(self) -> list[torch.Tensor]:
        """Arguments that are tensors, without the tensors in lists."""
        return [value for value in (*self.args, *self.kwargs.values()) if isinstance(value, torch.Tensor)]

    @property
    def requires_grad(self) -> bool:
        """Whether an argument requires a gradient, so that autograd creates a node."""
        return any(tensor.requires_grad for tensor in self.tensors)

    @property
    def unfit(self) -> str | None:
        """Layout or type of a tensor that cannot be recorded; None if all can."""
        for tensor in self.tensors:
            if tensor.layout is not torch.strided:
                return str(tensor.layout).removeprefix("torch.")
            if tensor.is_complex() or tensor.is_quantized or tensor.device.type == "meta":
                return "quantized" if tensor.is_quantized else str(tensor.dtype).removeprefix("torch.")
        return None

    def named(self) -> dict[str, Any]:
        """Return all arguments by name, defaults included."""
        arguments = self.func._schema.arguments
        arguments_by_name = {
            argument.name: argument.default_value for argument in arguments if argument.has_default_value()
        }
        arguments_by_name |= {argument.name: value for argument, value in zip(arguments, self.args, strict=False)}
        return arguments_by_name | self.kwargs


class Step(Protocol):
    """State of the step in progress.

    Attributes
    ----------
    names : Names
        Names of the layers.
    roles : Roles
        Forward products of the step so far.
    """

    names: Names
    roles: Roles


class Recording(Step, Protocol):
    """Interface that a handler records to."""

    def uncaptured(self, call: Call, why: str = "") -> None:
        """Note an operation that is not captured."""

    def put(self, layer: str, operation: Operation, geometry: Any, operands: dict[str, torch.Tensor]) -> None: ...

    def wants(self, layer: str) -> bool:
        """Return whether a layer is to be recorded."""
