"""Which tensors are the same memory."""

from collections.abc import Hashable

import torch
from torch.multiprocessing.reductions import StorageWeakRef

__all__ = ["Storages"]


class Storages:
    """Tells storages apart, for as long as it is kept: memory that is freed and used again has another number.

    Examples
    --------
    >>> storages, x = Storages(), torch.zeros(3, 4)
    >>> storages.key(x) == storages.key(x.t()), storages.key(x) == storages.key(x[1:])
    (True, False)
    """

    def __init__(self) -> None:
        self._kept: dict[int, StorageWeakRef] = {}

    def number(self, tensor: torch.Tensor) -> int:
        """Number of the storage that a tensor is in."""
        storage = tensor.untyped_storage()
        number = storage._cdata
        if number not in self._kept:
            self._kept[number] = StorageWeakRef(storage)  # its address is not given away while this is here
        return number

    def key(self, tensor: torch.Tensor) -> Hashable:
        """Equal for two views that consist of the same values, whichever of their dimensions comes first."""
        extents = sorted(pair for pair in zip(tensor.stride(), tensor.shape, strict=True) if pair[1] > 1)
        return self.number(tensor), tensor.storage_offset(), *extents

    def exact_key(self, tensor: torch.Tensor) -> Hashable | None:
        """Equal for the same values at the same places; None where that cannot be told."""
        if tensor.is_inference():
            return None  # which do not count how often they are written to
        place = self.number(tensor), tensor.storage_offset(), tensor._version
        strides = (stride for stride, extent in zip(tensor.stride(), tensor.shape, strict=True) if extent > 1)
        return *place, tuple(tensor.shape), *strides, tensor.dtype
