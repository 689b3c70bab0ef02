"""Recorder of a step's data flow. It identifies tensors by their storage."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch

from ..flow import Flow, FlowTensor, Update, Work
from .identity import Storages, has_storage
from .operators import COPIES

__all__ = ["FlowRecorder", "tensors_in"]

_COPY = "aten::copy_"
_MAKES = re.compile(r"_like$|::new_")
"""Operations that use only the shape of their arguments."""


class FlowRecorder:
    """Records the data flow of one step, operation by operation.

    A tensor of the flow is a storage between two writes. A result with the values of an argument, in another type or
    order, is the same tensor as that argument. The result of an operation without input tensors, such as ``zeros``,
    becomes a tensor at its first write.

    Attributes
    ----------
    unsupported_reason : str
        Reason why the flow of this step is unknown; empty if it is known.
    """

    def __init__(self) -> None:
        self.unsupported_reason = ""
        self._storages = Storages()
        self._current: dict[int, int] = {}
        self._fresh: set[int] = set()
        self._tensors: list[FlowTensor] = []
        self._work: list[Work] = []
        self._updates: list[Update] = []

    def take(self, args: Any, kwargs: Mapping[str, Any]) -> list[int | torch.Tensor]:
        """Return the reads of an operation before its results are added: indices, and tensors without an index."""
        reads: list[int | torch.Tensor] = []
        for tensor in tensors_in((*args, *kwargs.values())):
            if not has_storage(tensor):
                self.unsupported_reason = (
                    self.unsupported_reason or f"a tensor without memory of its own ({tensor.layout})"
                )
            elif tensor.numel():
                number = self._storages.number(tensor)
                reads.append(self._place(tensor) if number in self._current else tensor)
        return reads

    def add(
        self,
        name: str,
        phase: str,
        reads: Iterable[int | torch.Tensor],
        written: Iterable[torch.Tensor],
        args: Any,
        result: Any,
        recorded: Iterable[tuple[int, Mapping[str, torch.Tensor]]],
    ) -> None:
        """Add an operation of training that has run.

        Parameters
        ----------
        name, phase : str
            Name of the operation, and one of `PHASES`.
        reads : list
            The result of `take`.
        written : iterable of torch.Tensor
            Arguments that the operation has written to.
        args, result : Any
            Arguments and results.
        recorded : iterable of (int, dict)
            The operation's records: their indices and operands.
        """
        inputs = {self._storages.number(tensor) for tensor in tensors_in(args) if has_storage(tensor)}
        changed = [tensor for tensor in written if has_storage(tensor) and tensor.numel()]
        made = [
            tensor
            for tensor in tensors_in((result,))
            if has_storage(tensor) and tensor.numel() and self._storages.number(tensor) not in inputs
        ]
        if not changed and not made:
            return  # The result is a view, or there is none.
        empty = self._fresh & {self._storages.number(tensor) for tensor in changed}
        places = [
            each if isinstance(each, int) else self._place(each)
            for each in reads
            if isinstance(each, int) or self._storages.number(each) not in empty
        ]
        if name in COPIES and made:
            self._same(made[0], args[0])
        elif name == _COPY and args[0].numel() == args[1].numel() == _size(args[0]):
            self._same(args[0], args[1])
        elif places and not _MAKES.search(name):
            products = [(record, self._places(operands)) for record, operands in recorded]
            writes = [self._new(tensor) for tensor in _distinct([*changed, *made], self._storages)]
            self._work.append(
                Work(
                    name=name,
                    phase=phase,
                    reads=tuple(dict.fromkeys(places)),
                    writes=tuple(writes),
                    products=tuple(products),
                )
            )
        else:
            self._fresh |= {self._storages.number(tensor) for tensor in made}

    def _places(self, operands: Mapping[str, torch.Tensor]) -> dict[str, int]:
        """Return the indices of a product's operands, without operands that have none."""
        numbers = {name: self._storages.number(tensor) for name, tensor in operands.items() if has_storage(tensor)}
        return {name: self._current[number] for name, number in numbers.items() if number in self._current}

    def update(self, optimizer: torch.optim.Optimizer) -> None:
        """Add the parameters that an optimizer has updated."""
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                if parameter.grad is None or not has_storage(parameter):
                    continue
                saved = optimizer.state.get(parameter, {}).values()
                states = sum(isinstance(each, torch.Tensor) and each.numel() == parameter.numel() > 1 for each in saved)
                gradient = self._places({"G": parameter.grad}).get("G")
                self._updates.append(Update(parameter=self._place(parameter), gradient=gradient, states=states))

    def close(self) -> Flow | None:
        """Return the flow; None if it is unknown."""
        if self.unsupported_reason or not self._work:
            return None
        return Flow(tensors=tuple(self._tensors), work=tuple(self._work), updates=tuple(self._updates))

    def _place(self, tensor: torch.Tensor) -> int:
        number = self._storages.number(tensor)
        if number not in self._current:
            return self._new(tensor)
        place = self._current[number]
        before = self._tensors[place]
        if tensor.numel() > torch.Size(before.shape).numel() and tensor.numel() <= _size(tensor):
            self._tensors[place] = _described(tensor)
        return place

    def _new(self, tensor: torch.Tensor) -> int:
        """Return a new index for a storage that was written. A write to a part counts as a write to the tensor."""
        number = self._storages.number(tensor)
        described = _described(tensor)
        if number in self._current:
            before = self._tensors[self._current[number]]
            if torch.Size(before.shape).numel() > tensor.numel():
                described = before
        self._fresh.discard(number)
        self._tensors.append(described)
        self._current[number] = len(self._tensors) - 1
        return self._current[number]

    def _same(self, copy: torch.Tensor, source: torch.Tensor) -> None:
        """Give a copy the index of its source."""
        target, origin = self._storages.number(copy), self._storages.number(source)
        self._current[target] = self._current[origin]
        self._fresh.discard(target)


def tensors_in(values: Iterable[Any]) -> Iterator[torch.Tensor]:
    """Yield the tensors among values, lists and tuples included."""
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from tensors_in(value)


def _distinct(tensors: Iterable[torch.Tensor], storages: Storages) -> list[torch.Tensor]:
    """Return one tensor per storage."""
    return list({storages.number(tensor): tensor for tensor in tensors}.values())


def _size(tensor: torch.Tensor) -> int:
    """Return the number of values that fit into a tensor's storage."""
    return tensor.untyped_storage().nbytes() // tensor.element_size()


def _described(tensor: torch.Tensor) -> FlowTensor:
    return FlowTensor(shape=tuple(tensor.shape), dtype=str(tensor.dtype).removeprefix("torch."))
