"""Functions of the user's: in their forward pass gradients are disabled, whether or not it is a part of training."""

import threading
from typing import Any

import torch

__all__ = ["under_way", "unwatch", "watch"]

_local = threading.local()
_watchers = 0
_apply: Any = None


def under_way() -> bool:
    """Whether this thread is in the forward pass of one that was called with gradients enabled."""
    return getattr(_local, "depth", 0) > 0


def watch() -> None:
    """Take note of them, from here to `unwatch`; one recording may be inside of another."""
    global _watchers, _apply
    if not _watchers:
        _apply = torch.autograd.Function.__dict__["apply"]
        torch.autograd.Function.apply = _noted(_apply)  # type: ignore[method-assign]
    _watchers += 1


def unwatch() -> None:
    """The reverse of `watch`."""
    global _watchers
    _watchers -= 1
    if not _watchers:
        torch.autograd.Function.apply = _apply  # type: ignore[method-assign]


def _noted(apply: Any) -> Any:
    def wrapper(cls: Any, *args: Any, **kwargs: Any) -> Any:
        noted = torch.is_grad_enabled() and torch._C._current_graph_task_id() == -1
        _local.depth = getattr(_local, "depth", 0) + noted
        try:
            return apply.__func__(cls, *args, **kwargs)
        finally:
            _local.depth -= noted

    return classmethod(wrapper)
