"""User-defined autograd functions. PyTorch disables gradients in their forward pass, also during training."""

import threading
from typing import Any

import torch

__all__ = ["under_way", "unwatch", "watch"]

_local = threading.local()
_watchers = 0
_apply: Any = None


def under_way() -> int | None:
    """Return the node number of the outermost user function whose forward pass this thread runs, if any.

    Only functions called with gradients enabled count. Operations and functions inside it have no lasting nodes: the
    outermost function's node computes the backward pass.
    """
    return getattr(_local, "number", None)


def watch() -> None:
    """Track forward passes of user functions until `unwatch`. Calls may nest."""
    global _watchers, _apply
    if not _watchers:
        _apply = torch.autograd.Function.__dict__["apply"]
        torch.autograd.Function.apply = _noted(_apply)  # type: ignore[method-assign]
    _watchers += 1


def unwatch() -> None:
    """Undo one `watch`."""
    global _watchers
    _watchers -= 1
    if not _watchers:
        torch.autograd.Function.apply = _apply  # type: ignore[method-assign]


def _noted(apply: Any) -> Any:
    def wrapper(cls: Any, *args: Any, **kwargs: Any) -> Any:
        if not torch.is_grad_enabled():
            return apply.__func__(cls, *args, **kwargs)
        before, _local.number = under_way(), torch.autograd._get_sequence_nr()
        try:
            return apply.__func__(cls, *args, **kwargs)
        finally:
            _local.number = before

    return classmethod(wrapper)
