"""Limit small operations to one thread, since more threads cost more time than they save."""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import numba
from threadpoolctl import ThreadpoolController

__all__ = ["limited_threads", "start_threads"]

SMALL_MACS = 1 << 24
"""Operations with fewer multiply-accumulates run on one thread; they take at most some milliseconds."""
_BLAS = ThreadpoolController()
_LIMITING = threading.Lock()
"""Held by the thread that limits BLAS."""


def start_threads() -> None:
    """Start Numba's threads without changing PyTorch's number of threads.

    Numba starts its threads once, before its first parallel loop, and then sets OpenMP's number of threads. PyTorch may
    use the same OpenMP, and would run on all cores again after ``torch.set_num_threads(1)``.
    """
    torch = sys.modules.get("torch")
    before = None if torch is None else torch.get_num_threads()
    numba.get_num_threads()  # The first call starts Numba's threads.
    if torch is not None:
        torch.set_num_threads(before)


@contextmanager
def limited_threads(macs: int) -> Iterator[None]:
    """Run a small operation on the calling thread alone: its compiled loops and its matrix products.

    On a busy machine each barrier of a parallel loop waits for a time slice, and an operation has about ten barriers.
    BLAS has one setting for the whole process. So one thread at a time changes it, which affects all threads.

    Parameters
    ----------
    macs : int
        Multiply-accumulates of the operation.

    Examples
    --------
    >>> with limited_threads(1000):
    ...     numba.get_num_threads()
    1
    """
    if macs >= SMALL_MACS:
        yield
        return
    threads, limiting = numba.get_num_threads(), _LIMITING.acquire(blocking=False)
    numba.set_num_threads(1)
    try:
        with _BLAS.limit(limits=1, user_api="blas") if limiting else nullcontext():
            yield
    finally:
        numba.set_num_threads(threads)
        if limiting:
            _LIMITING.release()
