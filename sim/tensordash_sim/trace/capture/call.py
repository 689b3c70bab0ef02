"""An operation that has run, and what its handler asks of the recording that goes on."""

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
        What was called, and the result.
    name : str
        Of the operation.
    phase : str
        forward, backward, repeated (a forward pass, in a backward pass) or none.
    number : int or None
        Of the autograd node that it belongs to.
    task : int
        The backward pass, -1 outside of one.
    node : str
        Name of the node that is at work in the backward pass.
    repeats : Entry or None
        What a repeated one repeats, where that is known.
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
        """Its tensors, but for those in lists."""
        return [value for value in (*self.args, *self.kwargs.values()) if isinstance(value, torch.Tensor)]

    @property
    def requires_grad(self) -> bool:
        """Return whether autograd makes a node."""
        return any(tensor.requires_grad for tensor in self.tensors)

    @property
    def unfit(self) -> str | None:
        """Why its operands cannot be recorded, if so."""
        for tensor in self.tensors:
            if tensor.layout is not torch.strided:
                return str(tensor.layout).removeprefix("torch.")
            if tensor.is_complex() or tensor.is_quantized or tensor.device.type == "meta":
                return "quantized" if tensor.is_quantized else str(tensor.dtype).removeprefix("torch.")
        return None

    def named(self) -> dict[str, Any]:
        """Return its arguments by name, defaults included."""
        arguments = self.func._schema.arguments
        arguments_by_name = {
            argument.name: argument.default_value for argument in arguments if argument.has_default_value()
        }
        arguments_by_name |= {argument.name: value for argument, value in zip(arguments, self.args, strict=False)}
        return arguments_by_name | self.kwargs


class Step(Protocol):
    """What is known of the step that is under way.

    Attributes
    ----------
    names : Names
        Of the layers.
    roles : Roles
        Of the operands of the step so far.
    """

    names: Names
    roles: Roles


class Recording(Step, Protocol):
    """Where a handler records."""

    def uncaptured(self, call: Call, why: str = "") -> None:
        """Name an operation that is not captured."""

    def put(self, layer: str, operation: Operation, geometry: Any, operands: dict[str, torch.Tensor]) -> None: ...

    def wants(self, layer: str) -> bool:
        """Return whether a layer is to be recorded."""
