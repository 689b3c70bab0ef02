"""Grouped matrix products: one operation for the products of all experts of a mixture of experts."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import torch

from .call import Call, Step

__all__ = ["GROUPED", "Group", "groups_of", "result_shape"]

GROUPED = "aten::_grouped_mm"


class Group(NamedTuple):
    """A product of a grouped operation.

    Attributes
    ----------
    place : tuple
        Index of the product in the operation's result.
    call : Call
        The product as a call of a matrix product.
    """

    place: tuple[Any, ...]
    call: Call


def groups_of(step: Step, call: Call) -> Iterator[Group]:
    """Yield the products of ``aten::_grouped_mm`` that are not empty.

    Offsets are the ends of the groups. They divide the rows of a two-dimensional first factor, the columns of a
    two-dimensional second factor, or the reduced dimension if both factors have two dimensions. Without offsets, the
    operation is a batch of products.

    Raises
    ------
    ValueError
        If shapes or offsets do not fit.
    """
    arguments = call.named()
    left, right, offsets = arguments["self"], arguments["mat2"], arguments["offs"]
    if offsets is None:
        if not left.dim() == right.dim() == 3 or left.shape[0] != right.shape[0] or left.shape[2] != right.shape[1]:
            raise ValueError(f"shapes {tuple(left.shape)} and {tuple(right.shape)} without offsets")
        yield Group((), replace(call, name="aten::bmm", args=(left, right), kwargs={}))
        return
    number, repeats = _node_number(), call.repeats
    for group, (begin, end) in enumerate(_bounds(left, right, offsets)):
        some = slice(begin, end)
        index: tuple[Any, ...]
        if left.dim() == right.dim() == 2:
            index, x, y = (group,), left[:, some], right[some]
        elif left.dim() == 2:
            index, x, y = (some,), left[some], right[group]
        else:
            index, x, y = (slice(None), some), left[group], right[:, some]
        if x.numel() and y.numel():
            yield Group(index, replace(call, name="aten::mm", args=(x, y), kwargs={}, repeats=repeats))
            if repeats is not None and number is not None:
                repeats = step.roles.repeated(number, call.task)


def result_shape(call: Call) -> tuple[int, ...]:
    """Return the shape of the operation's result."""
    arguments = call.named()
    left, right, offsets = arguments["self"], arguments["mat2"], arguments["offs"]
    leading = () if left.dim() != right.dim() else (len(left),) if left.dim() == 3 else (len(offsets),)
    return (*leading, left.shape[-2], right.shape[-1])


def _bounds(left: torch.Tensor, right: torch.Tensor, offsets: torch.Tensor) -> list[tuple[int, int]]:
    """Return where each group begins and ends."""
    if left.dim() == right.dim() == 3:
        raise ValueError("offsets for two factors with three dimensions")
    groups = [tensor.shape[0] for tensor in (left, right) if tensor.dim() == 3]
    extent = right.shape[-1] if left.dim() == 3 else left.shape[-1] if right.dim() == 2 else left.shape[0]
    ends = offsets.tolist()
    ascending = [0, *ends, extent]
    if ascending != sorted(ascending) or groups not in ([], [len(ends)]) or left.shape[-1] != right.shape[-2]:
        raise ValueError(f"shapes {tuple(left.shape)} and {tuple(right.shape)} with offsets {ends}")
    return list(zip([0, *ends], ends, strict=False))


def _node_number() -> int | None:
    node = torch._C._current_autograd_node()
    return None if node is None else node._sequence_nr()
