"""A training run of one network: everything that one call of `step` needs."""

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
    """What pruning does in a step."""

    def before_update(self) -> None:
        """Called when gradients are complete, before they are clipped and used."""

    def after_update(self) -> None:
        """Called when the optimizer has changed the weights."""


@dataclass(kw_only=True)
class Training:
    """A network with its data, its loss and its optimizer, ready to train.

    Parameters
    ----------
    model : nn.Module
        The network, in training mode.
    optimizer : torch.optim.Optimizer
        Over the parameters that are trained.
    batches : iterator
        Endless; any other one of the same kind can take its place.
    loss : callable
        Of the model and a batch. It calls the model once.
    steps_per_epoch : int
        Steps until every sample was seen once.
    conditions : dict of str
        What decides the run: model, scale, data, seed, batch and more, as a trace's conditions.
    seed : int
        Of everything random inside `step` (dropout, sampling of boxes).
    hooks : Hooks, optional
        Pruning.
    clip : float, optional
        Greatest norm of the gradient.
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
    """Steps done."""
    _random: Tensor | None = field(default=None, init=False, repr=False)

    def step(self) -> float:
        """Run one training step: batch, forward, loss, backward, update, pruning.

        PyTorch's own random state is left as it was, and has no influence: a run depends on its seed only.

        Returns
        -------
        float
            The loss before the update.
        """
        with torch.random.fork_rng(devices=[]):
            if self._random is None:
                torch.manual_seed(self.seed + 1)  # not the numbers that the weights began with
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
        if self.clip is not None:  # the norm of what is left of the gradient
            nn.utils.clip_grad_norm_(self.model.parameters(), self.clip)
        self.optimizer.step()
        if self.hooks is not None:
            self.hooks.after_update()
        return float(loss.detach())


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Let what is built inside take its random numbers from a seed; PyTorch's random state is put back after."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


def text_batches(words: NDArray[np.int64], *, length: int, batch: int, seed: int) -> Iterator[Tensor]:
    """Yield random passages of a text without end, (batch, length + 1); the last word of each is a target alone."""
    random = np.random.default_rng(seed)
    while True:
        starts = random.integers(len(words) - length, size=batch)
        yield torch.from_numpy(words[starts[:, None] + np.arange(length + 1)])
