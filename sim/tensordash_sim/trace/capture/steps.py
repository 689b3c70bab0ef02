"""Detection of the end of a training step: an optimizer has stepped, or a gradient scaler has skipped its step."""

import functools
import os
from collections.abc import Callable
from typing import Any

import torch
from torch.amp.grad_scaler import GradScaler
from torch.optim.optimizer import register_optimizer_step_post_hook

__all__ = ["Steps"]


class Steps:
    """Calls a function after each training step, from `begin` to `end`.

    Parameters
    ----------
    ended : callable
        Called with the optimizer.
    """

    def __init__(self, ended: Callable[[Any], None]) -> None:
        self._ended = ended
        self._count = 0
        self._process = os.getpid()

    def begin(self) -> None:
        """Watch all optimizers and gradient scalers of this process."""
        self._handle = register_optimizer_step_post_hook(self._after_optimizer)
        self._scale = GradScaler.step
        GradScaler.step = self._scaled(GradScaler.step)  # type: ignore[method-assign]

    def end(self) -> None:
        """Stop watching."""
        self._handle.remove()
        GradScaler.step = self._scale  # type: ignore[method-assign]

    def _after_optimizer(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if os.getpid() != self._process or torch._C._current_graph_task_id() != -1:
            return  # An optimizer that steps during the backward pass does not end the training step.
        self._count += 1
        self._ended(optimizer)

    def _scaled(self, step: Any) -> Any:
        """Wrap a gradient scaler's step: it ends a training step even if it skips the optimizer's step."""

        @functools.wraps(step)
        def wrapper(scaler: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
            count = self._count
            result = step(scaler, optimizer, *args, **kwargs)
            if self._count == count:
                self._after_optimizer(optimizer, args, kwargs)
            return result

        return wrapper
