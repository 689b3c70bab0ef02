"""Identity of tensors by their storage."""

from collections.abc import Callable, Hashable
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef

__all__ = ["Storages", "has_storage"]


def has_storage(tensor: torch.Tensor) -> bool:
    """Return whether a tensor has a storage that identifies it."""
    lazy: Callable[[Any], bool] = torch.nn.parameter.is_lazy
    wrapped = torch._C._functorch.is_functorch_wrapped_tensor(tensor)
    return tensor.layout is torch.strided and tensor.device.type != "meta" and not lazy(tensor) and not wrapped


class Storages:
    """Numbers of storages, unique during this object's life, even if PyTorch frees and reuses memory.

    Examples
    --------
    >>> storages, x = Storages(), torch.zeros(3, 4)
    >>> storages.key(x) == storages.key(x.t()), storages.key(x) == storages.key(x[1:])
    (True, False)
    """

    def __init__(self) -> None:
        self._references: dict[int, StorageWeakRef] = {}
        self._writes: dict[int, int] = {}

    def number(self, tensor: torch.Tensor) -> int:
        """Return the number of a tensor's storage."""
        storage = tensor.untyped_storage()
        number = storage._cdata
        if number not in self._references:
            self._references[number] = StorageWeakRef(storage)  # The reference prevents reuse of the address.
        return number

    def key(self, tensor: torch.Tensor) -> Hashable:
        """Return a key that is equal for two views of the same values, in any order of dimensions."""
        extents = sorted(pair for pair in zip(tensor.stride(), tensor.shape, strict=True) if pair[1] > 1)
        return self.number(tensor), tensor.storage_offset(), *extents

    def written(self, tensor: torch.Tensor) -> None:
        """Note that an operation has written to a tensor. Its `exact_key` changes."""
        number = self.number(tensor)
        self._writes[number] = self._writes.get(number, 0) + 1

    def exact_key(self, tensor: torch.Tensor) -> Hashable:
        """Return a key that is equal for the same values at the same positions.

        PyTorch's version counter cannot be used: in a dispatch mode, a view has a counter of its own.
        """
        number = self.number(tensor)
        place = number, tensor.storage_offset(), self._writes.get(number, 0)
        strides = (stride for stride, extent in zip(tensor.stride(), tensor.shape, strict=True) if extent > 1)
        return *place, tuple(tensor.shape), *strides, tensor.dtype, tensor.is_neg()
