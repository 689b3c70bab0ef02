"""Training run of one network, step by step."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

__all__ = ["Hooks", "Training", "seeded", "text_batches"]


class Hooks(Protocol):
    """Hooks of pruning in a training step."""

    def before_update(self) -> None:
        """Modify complete gradients, before they are clipped and used."""

    def after_update(self) -> None:
        """Modify weights after the optimizer's step."""


@dataclass(kw_only=True)
class Training:
    """A network with its data, its loss and its optimizer, ready to train.

    Parameters
    ----------
    model : nn.Module
        The network, in training mode.
    optimizer : torch.optim.Optimizer
        Optimizer of the trained parameters.
    batches : iterator
        Endless batches. It can be replaced by another iterator of the same kind.
    loss : callable
        Loss for the model and a batch. It calls the model once.
    steps_per_epoch : int
        Steps in which every sample occurs once.
    conditions : dict of str
        Conditions of the run: model, scale, data, seed, batch and more, as in a trace.
    seed : int
        Seed of random numbers in `step` (dropout, sampling of boxes).
    hooks : Hooks, optional
        Pruning.
    clip : float, optional
        Maximum norm of the gradient.
    """

    model: nn.Module
    optimizer: torch.optim.Optimizer
    batches: Iterator[Any]
    loss: Callable[[nn.Module, Any], Tensor]
    steps_per_epoch: int
    conditions: dict[str, str]
    seed: int
    hooks: Hooks | None = None
    clip: float | None = None
    steps: int = field(default=0, init=False)
    """Number of completed steps."""
    _random: Tensor | None = field(default=None, init=False, repr=False)

    def step(self) -> float:
        """Run one training step: batch, forward, loss, backward, update, pruning.

        The run depends on its seed, not on PyTorch's global random state, which the step does not change.

        Returns
        -------
        float
            The loss before the update.
        """
        with torch.random.fork_rng(devices=[]):
            if self._random is None:
                torch.manual_seed(self.seed + 1)  # `seed` itself has initialized the weights.
            else:
                torch.set_rng_state(self._random)
            loss = self._update(next(self.batches))
            self._random = torch.get_rng_state()
        self.steps += 1
        return loss

    def _update(self, batch: Any) -> float:
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.loss(self.model, batch)
        loss.backward()
        if self.hooks is not None:
            self.hooks.before_update()
        if self.clip is not None:  # Clipping uses the norm after the hooks.
            nn.utils.clip_grad_norm_(self.model.parameters(), self.clip)
        self.optimizer.step()
        if self.hooks is not None:
            self.hooks.after_update()
        return float(loss.detach())


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed PyTorch's random numbers inside a block, and restore the random state after it."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


def text_batches(words: NDArray[np.int64], *, length: int, batch: int, seed: int) -> Iterator[Tensor]:
    """Yield endless random passages of a text, (batch, length + 1). The last word of each is only a target."""
    random = np.random.default_rng(seed)
    while True:
        starts = random.integers(len(words) - length, size=batch)
        yield torch.from_numpy(words[starts[:, None] + np.arange(length + 1)])
