"""Numba's compiler of loops. Without Numba, Python interprets the same loops: same results, but slowly."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tensordash.extras import is_installed

__all__ = ["IS_COMPILED", "get_num_threads", "njit", "prange"]

IS_COMPILED = is_installed("numba")

if TYPE_CHECKING or IS_COMPILED:
    from numba import get_num_threads, njit, prange
else:
    prange = range

    def njit(**options: bool) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Return a decorator that leaves a function as it is."""
        return lambda loop: loop

    def get_num_threads() -> int:
        """Return 1: interpreted loops run on the calling thread."""
        return 1
