"""Detection of products in other threads. A dispatch mode intercepts the operations of one thread only."""

import os
import threading
from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch

from .call import Call
from .operators import COPIES, multiplies, name_of

__all__ = ["ThreadWatcher", "excluded", "unwatch", "watch"]

KEY = torch._C.DispatchKey.BackendSelect
"""Dispatch key that every operation of every thread passes, after autograd and dispatch modes.

PyTorch itself registers only factories for it.
"""


class ThreadWatcher:
    """Calls a function after each operation of another thread that multiplies.

    Parameters
    ----------
    handled : container of str
        Names of operations that multiply, besides those with a multiplication in their name.
    found : callable
        Called with the operation, in the thread that ran it. Its exceptions reach that thread.
    """

    def __init__(self, handled: Container[str], found: Callable[[Call], None]) -> None:
        self.handled, self.found, self.process = handled, found, os.getpid()


_watchers: list[ThreadWatcher] = []
_period = 0
"""Counts the times from the first `watch` to the last `unwatch`."""
_local = threading.local()
"""Per thread: `excluded`, and `owner`, the period in which it called `watch`. A mode intercepts its operations."""


def watch(watcher: ThreadWatcher) -> None:
    """Watch all other threads until `unwatch`, whether Python or PyTorch started them.

    The first call installs a function before every PyTorch operation that multiplies, which adds some microseconds to
    each. It stays installed until the process ends, because another thread may be about to call it.
    """
    _install()
    _local.owner = _period
    _watchers.append(watcher)


def unwatch(watcher: ThreadWatcher) -> None:
    """Stop watching."""
    global _period
    _watchers.remove(watcher)
    if not _watchers:
        _period += 1


@contextmanager
def excluded() -> Iterator[None]:
    """Ignore this thread's operations in a block, because a dispatch mode has intercepted them already."""
    before, _local.excluded = getattr(_local, "excluded", False), True
    try:
        yield
    finally:
        _local.excluded = before


@cache
def _install() -> list[torch.library.Library]:
    library = torch.library.Library("aten", "IMPL", KEY.name)
    for name in torch._C._dispatch_get_all_op_names():
        base, _, overload = name.partition(".")
        if not base.startswith("aten::") or not _may_multiply(base):
            continue
        if any(torch._C._dispatch_has_kernel_for_dispatch_key(name, key) for key in ("CompositeImplicitAutograd", KEY)):
            continue  # Its parts are watched, or it is a factory.
        operation = getattr(getattr(torch.ops.aten, base.removeprefix("aten::")), overload or "default")
        library.impl(operation, _watched(operation), with_keyset=True)
    return [library]


def _may_multiply(name: str) -> bool:
    return name not in COPIES and (multiplies(name) or multiplies(name.removesuffix("_")))


def _watched(operation: Any) -> Callable[..., Any]:
    after = torch._C._dispatch_keyset_full_after(KEY)

    def kernel(keys: Any, *args: Any, **kwargs: Any) -> Any:
        if not _watchers or getattr(_local, "excluded", False) or getattr(_local, "owner", -1) == _period:
            return operation.redispatch(keys & after, *args, **kwargs)
        with excluded():  # Do not report the operations inside this one.
            result = operation.redispatch(keys & after, *args, **kwargs)
            for watcher in list(_watchers):
                name = name_of(operation, watcher.handled)
                if name and watcher.process == os.getpid():
                    watcher.found(Call(operation, args, kwargs, result, name=name))
        return result

    return kernel
