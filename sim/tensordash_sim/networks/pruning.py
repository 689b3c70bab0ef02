"""Weight sparsity while any module trains: static, by sparse momentum, by dynamic sparse reparameterization.

All three keep a mask for every weight that they manage. They differ in what moves: nothing; the weights whose momentum
is large come in for small ones; weights that come in are drawn at random.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable

import torch
from torch import Tensor, nn

from tensordash.configuration.parameters import require_int

__all__ = ["DynamicReparameterization", "SparseMomentum", "StaticSparsity", "apportion", "prunable"]


def prunable(model: nn.Module) -> dict[str, nn.Parameter]:
    """Weights of a module's convolutions and linear layers, by name; not biases, normalization and embeddings."""
    kinds = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.ConvTranspose1d, nn.ConvTranspose2d)
    names = [f"{name}.weight" for name, layer in model.named_modules() if isinstance(layer, kinds)]
    return {name: model.get_parameter(name) for name in names}


def apportion(total: int, shares: Iterable[float], room: Iterable[int]) -> list[int]:
    """Split a number in proportion to shares, none above its room; what one has no room for goes to the others.

    Parameters
    ----------
    total : int
        At most the sum of `room`.
    shares : iterable of float
        Not negative; if all that are left have none, they count alike.
    room : iterable of int

    Returns
    -------
    list of int
        Their sum is `total`.

    Examples
    --------
    >>> apportion(10, [3.0, 1.0, 1.0], [4, 10, 10])
    [4, 3, 3]
    """
    left, weights = list(room), [float(share) for share in shares]
    if total > sum(left):
        raise ValueError(f"total must be at most the room of {sum(left)}, not {total}")
    grown = [0] * len(left)
    while total:
        open_ = [index for index, room_left in enumerate(left) if room_left]
        mass = sum(weights[index] for index in open_)
        exact = [total * (weights[index] / mass if mass else 1 / len(open_)) for index in open_]
        parts = [math.floor(part) for part in exact]
        # Largest remainders get what rounding down left.
        by_remainder = sorted(range(len(open_)), key=lambda place: parts[place] - exact[place])
        for place in by_remainder[: total - sum(parts)]:
            parts[place] += 1
        for index, part in zip(open_, parts, strict=True):
            taken = min(part, left[index])
            grown[index] += taken
            left[index] -= taken
            total -= taken
    return grown


class StaticSparsity:
    """A random mask, drawn once: masked weights start at zero and get no gradient, so they stay zero.

    Every weight tensor gets the same share of zeros. The weights that stay keep their initial values.

    Parameters
    ----------
    weights : dict of nn.Parameter
        What is masked, by name.
    sparsity : float
        Share of zeros, from 0 to below 1.
    generator : torch.Generator
        Draws the masks.

    Raises
    ------
    ValueError
        A sparsity that is not in range; no weights.
    """

    def __init__(self, weights: dict[str, nn.Parameter], sparsity: float, generator: torch.Generator) -> None:
        if not isinstance(sparsity, int | float) or not 0 <= sparsity < 1:
            raise ValueError(f"sparsity must be a number from 0 to below 1, not {sparsity!r}")
        if not weights:
            raise ValueError("weights must hold at least one weight, not none")
        self.weights, self.target, self.generator = weights, float(sparsity), generator
        self.masks = {name: self._random_mask(weight) for name, weight in weights.items()}
        self._apply()

    def _random_mask(self, weight: Tensor) -> Tensor:
        mask = torch.ones(weight.numel(), dtype=torch.bool)
        mask[torch.randperm(weight.numel(), generator=self.generator)[: round(self.target * weight.numel())]] = False
        return mask.view(weight.shape).to(weight.device)

    @property
    def sparsity(self) -> float:
        """Share of masked weights now."""
        return 1 - sum(int(mask.sum()) for mask in self.masks.values()) / sum(map(torch.numel, self.masks.values()))

    @torch.no_grad()
    def _apply(self) -> None:
        for name, weight in self.weights.items():
            weight.mul_(self.masks[name])

    @torch.no_grad()
    def before_update(self) -> None:
        for name, weight in self.weights.items():
            if weight.grad is not None:
                weight.grad.mul_(self.masks[name])

    def after_update(self) -> None:
        """Mask the weights: an optimizer may move a weight that has no gradient."""
        self._apply()


class _Moving(StaticSparsity, ABC):
    """Masks that change at intervals of steps."""

    def __init__(
        self,
        weights: dict[str, nn.Parameter],
        sparsity: float,
        generator: torch.Generator,
        optimizer: torch.optim.Optimizer,
        every: int,
    ) -> None:
        self.optimizer, self.every = optimizer, require_int("every", every, 1)
        self.steps, self.moved = 0, 0
        super().__init__(weights, sparsity, generator)

    def after_update(self) -> None:
        """Mask the weights; when it is time, prune and regrow."""
        self._apply()
        self.steps += 1
        if self.steps % self.every == 0:
            self.moved = self._move()
            self._apply()

    @abstractmethod
    def _move(self) -> int:
        """Prune and regrow; return how many weights moved."""

    def _momentum(self, name: str) -> Tensor | None:
        """Return the optimizer's running mean of a weight's gradient: SGD's momentum, Adam's first moment."""
        state = self.optimizer.state.get(self.weights[name], {})
        found = state.get("momentum_buffer", state.get("exp_avg"))
        return found if isinstance(found, Tensor) else None

    def _grow(self, name: str, places: Tensor) -> None:
        """Let the weights at these places of the flattened tensor come in, at zero."""
        grown = torch.zeros_like(self.masks[name])
        grown.view(-1)[places] = True
        self.masks[name] |= grown
        self.weights[name].masked_fill_(grown, 0.0)

    def _room(self) -> list[int]:
        return [int((~mask).sum()) for mask in self.masks.values()]


class SparseMomentum(_Moving):
    """Sparse momentum: prune small weights, regrow where the momentum is large.

    Every `every` steps each tensor loses the `prune_rate` of its weights that are smallest. As many come back, shared
    among the tensors by the mean momentum magnitude of their remaining weights, and inside a tensor where the masked
    weights' momentum is largest. They start at zero. The optimizer sees dense gradients, so that masked weights have
    a momentum. `prune_rate` falls to zero along a cosine over `total_steps`.

    Parameters
    ----------
    weights, sparsity, generator
        As `StaticSparsity` takes them.
    optimizer : torch.optim.Optimizer
        With momentum (SGD) or a first moment (Adam and its kin).
    every : int
        Steps between two moves; an epoch in the paper.
    prune_rate : float
        At the start, from 0 to 1.
    total_steps : int
        Steps of the whole training.

    Source
    ------
    Dettmers and Zettlemoyer, arXiv:1907.04840, section 3. Deviation: every tensor begins with the same density.
    """

    def __init__(
        self,
        weights: dict[str, nn.Parameter],
        sparsity: float,
        generator: torch.Generator,
        optimizer: torch.optim.Optimizer,
        *,
        every: int,
        total_steps: int,
        prune_rate: float = 0.5,
    ) -> None:
        if not 0 <= prune_rate <= 1:
            raise ValueError(f"prune_rate must be a number from 0 to 1, not {prune_rate!r}")
        self.prune_rate, self.total_steps = prune_rate, require_int("total_steps", total_steps, 1)
        super().__init__(weights, sparsity, generator, optimizer, every)

    def before_update(self) -> None:
        """Leave the gradients dense: where to regrow is read from the momentum of masked weights."""

    @torch.no_grad()
    def _move(self) -> int:
        rate = self.prune_rate * (1 + math.cos(math.pi * min(1.0, self.steps / self.total_steps))) / 2
        shares = []
        pruned = 0
        for name, weight in self.weights.items():
            mask, momentum = self.masks[name], self._momentum(name)
            if momentum is None:
                raise ValueError("the optimizer must keep a momentum: SGD with momentum above 0, or Adam")
            nonzero = int(mask.sum())
            # The paper: the mean over weights that are in, before any of them goes.
            shares.append(float(momentum.abs()[mask].mean()) if nonzero else 0.0)
            count = int(rate * nonzero)
            magnitude = weight.abs().masked_fill(~mask, math.inf).flatten()
            mask.view(-1)[torch.topk(magnitude, count, largest=False).indices] = False
            pruned += count
        for name, count in zip(self.weights, apportion(pruned, shares, self._room()), strict=True):
            mask = self.masks[name]
            momentum = self._momentum(name)
            assert momentum is not None  # checked above
            candidates = momentum.abs().masked_fill(mask, -1.0).flatten()
            # What was just pruned may come back if its momentum is large.
            self._grow(name, torch.topk(candidates, count).indices)
        return pruned


class DynamicReparameterization(_Moving):
    """Dynamic sparse reparameterization: prune below one adaptive threshold, regrow at random.

    Every `every` steps all weights below the threshold go, in all tensors alike. If that is more than the target
    number by a tenth, the threshold is halved, if less by a tenth, doubled. As many come back, shared among the
    tensors in proportion to the weights that they still have, at random places, starting at zero.

    Parameters
    ----------
    weights, sparsity, generator, optimizer, every
        As `SparseMomentum` takes them; the optimizer needs no momentum.
    fraction : float
        The target number, as a share of the weights that are not masked.
    threshold : float
        At the start.

    Source
    ------
    Mostafa and Wang, arXiv:1902.05967, algorithm 1. The paper sets the target number by hand; `fraction` is ours.
    """

    TOLERANCE = 0.1

    def __init__(
        self,
        weights: dict[str, nn.Parameter],
        sparsity: float,
        generator: torch.Generator,
        optimizer: torch.optim.Optimizer,
        *,
        every: int,
        fraction: float = 0.04,
        threshold: float = 1e-3,
    ) -> None:
        for name, value in (("fraction", fraction), ("threshold", threshold)):
            if not 0 < value < 1:
                raise ValueError(f"{name} must be a number between 0 and 1, not {value!r}")
        self.fraction, self.threshold = fraction, threshold
        super().__init__(weights, sparsity, generator, optimizer, every)

    @torch.no_grad()
    def _move(self) -> int:
        active = sum(int(mask.sum()) for mask in self.masks.values())
        pruned = 0
        for name, weight in self.weights.items():
            mask = self.masks[name]
            falling = mask & (weight.abs() < self.threshold)
            mask[falling] = False
            pruned += int(falling.sum())
            momentum = self._momentum(name)
            if momentum is not None:
                momentum[falling] = 0.0  # one that comes back starts from rest
        wanted = self.fraction * active
        if pruned > (1 + self.TOLERANCE) * wanted:
            self.threshold /= 2
        elif pruned < (1 - self.TOLERANCE) * wanted:
            self.threshold *= 2
        left = [int(mask.sum()) for mask in self.masks.values()]
        for name, count in zip(self.weights, apportion(pruned, left, self._room()), strict=True):
            places = (~self.masks[name]).flatten().nonzero()[:, 0]
            drawn = torch.randperm(len(places), generator=self.generator)[:count]
            self._grow(name, places[drawn.to(places.device)])
        return pruned
