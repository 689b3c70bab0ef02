"""Which tensors are the same memory."""

from collections.abc import Callable, Hashable
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef

__all__ = ["Storages", "has_storage"]


def has_storage(tensor: torch.Tensor) -> bool:
    """Return whether the tensor has memory that identifies it."""
    lazy: Callable[[Any], bool] = torch.nn.parameter.is_lazy
    wrapped = torch._C._functorch.is_functorch_wrapped_tensor(tensor)
    return tensor.layout is torch.strided and tensor.device.type != "meta" and not lazy(tensor) and not wrapped


class Storages:
    """Tells storages apart, for as long as it is kept: memory that is freed and used again has another number.

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
            self._references[number] = StorageWeakRef(storage)  # its address is not given away while this is here
        return number

    def key(self, tensor: torch.Tensor) -> Hashable:
        """Equal for two views that consist of the same values, whichever of their dimensions comes first."""
        extents = sorted(pair for pair in zip(tensor.stride(), tensor.shape, strict=True) if pair[1] > 1)
        return self.number(tensor), tensor.storage_offset(), *extents

    def written(self, tensor: torch.Tensor) -> None:
        """Note that an operation has written to a tensor: what is there is not what was there before."""
        number = self.number(tensor)
        self._writes[number] = self._writes.get(number, 0) + 1

    def exact_key(self, tensor: torch.Tensor) -> Hashable:
        """Equal for the same values at the same places.

        PyTorch's own counter of writes is of no use here: inside of a dispatch mode a view has one of its own.
        """
        number = self.number(tensor)
        place = number, tensor.storage_offset(), self._writes.get(number, 0)
        strides = (stride for stride, extent in zip(tensor.stride(), tensor.shape, strict=True) if extent > 1)
        return *place, tuple(tensor.shape), *strides, tensor.dtype, tensor.is_neg()
