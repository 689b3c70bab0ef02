"""Numba's loop compiler. Without Numba, Python interprets the same loops: slowly, with the same results."""

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
        """Return a decorator that does not change the function."""
        return lambda loop: loop

    def get_num_threads() -> int:
        """Return 1: interpreted loops run on the calling thread."""
        return 1
