"""Numba's loop compiler. Without Numba, Python interprets the same loops: slowly, with the same results.

Compiled loops are kept on disk. A process that finds none there logs that it compiles them.
"""

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tensordash.extras import is_installed

__all__ = ["IS_COMPILED", "get_num_threads", "njit", "prange", "set_num_threads"]

IS_COMPILED = is_installed("numba")

if TYPE_CHECKING or IS_COMPILED:
    from numba import get_num_threads, njit, prange, set_num_threads
    from numba.core import event

    class _Notice(event.Listener):
        """Logs the first compilation of this process. Loading a loop from disk is no compilation."""

        is_logged = False

        def on_start(self, _: event.Event) -> None:
            if not self.is_logged:
                logging.getLogger(__name__).warning("compiling loops, also for later runs; it may take a minute or two")
            self.is_logged = True

        def on_end(self, _: event.Event) -> None:
            pass

    event.register("numba:compile", _Notice())
else:
    prange = range

    def njit(**options: bool) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Return a decorator that does not change the function."""
        return lambda loop: loop

    def get_num_threads() -> int:
        """Return 1: interpreted loops run on the calling thread."""
        return 1

    def set_num_threads(n: int) -> None:
        """Ignore the number of threads."""
