"""Weight sparsity during training: static, sparse momentum, dynamic sparse reparameterization, the rigged lottery.

All have a mask for every weight tensor that they manage. Static masks do not change. Sparse momentum replaces small
weights by weights with a large momentum, dynamic sparse reparameterization by randomly drawn ones, and the rigged
lottery by weights with a large gradient.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable

import torch
from torch import Tensor, nn

from tensordash.configuration.parameters import require_int

__all__ = ["DynamicReparameterization", "RiggedLottery", "SparseMomentum", "StaticSparsity", "apportion", "prunable"]


def prunable(model: nn.Module) -> dict[str, nn.Parameter]:
    """Return the weights of a module's convolutions and linear layers by name, without biases."""
    kinds = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.ConvTranspose1d, nn.ConvTranspose2d)
    names = [f"{name}.weight" for name, layer in model.named_modules() if isinstance(layer, kinds)]
    return {name: model.get_parameter(name) for name in names}


def apportion(total: int, shares: Iterable[float], room: Iterable[int]) -> list[int]:
    """Split a number in proportion to shares, with an upper bound for each part. The others get the excess.

    Parameters
    ----------
    total : int
        Number to split, at most the sum of `room`.
    shares : iterable of float
        Shares, not negative. If all remaining shares are 0, they count as equal.
    room : iterable of int
        Upper bounds.

    Returns
    -------
    list of int
        Parts with the sum `total`.

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
        # The parts with the largest remainders get the rest that rounding down has left.
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
    """Random masks, drawn once. Masked weights start at zero and get no gradient, so they stay zero.

    Every weight tensor has the same share of zeros. The other weights have their initial values.

    Parameters
    ----------
    weights : dict of nn.Parameter
        Weights to mask, by name.
    sparsity : float
        Share of zeros, from 0 to below 1.
    generator : torch.Generator
        Generator for the masks.
    block : int
        Weights of a square block of this size are masked together. More than 1 is only for matrices.

    Raises
    ------
    ValueError
        If the sparsity is out of range, there are no weights, or blocks do not divide a weight.
    """

    def __init__(
        self, weights: dict[str, nn.Parameter], sparsity: float, generator: torch.Generator, *, block: int = 1
    ) -> None:
        if not isinstance(sparsity, int | float) or not 0 <= sparsity < 1:
            raise ValueError(f"sparsity must be a number from 0 to below 1, not {sparsity!r}")
        if not weights:
            raise ValueError("weights must hold at least one weight, not none")
        self.block = require_int("block", block, 1)
        for name, weight in weights.items():
            if block > 1 and (weight.dim() != 2 or any(extent % block for extent in weight.shape)):
                raise ValueError(f"block must divide both extents of a matrix, not be {block} for {name}")
        self.weights, self.target, self.generator = weights, float(sparsity), generator
        self.masks = {name: self._random_mask(weight) for name, weight in weights.items()}
        self._apply()

    def _random_mask(self, weight: Tensor) -> Tensor:
        count = weight.numel() // self.block**2
        mask = torch.ones(count, dtype=torch.bool)
        mask[torch.randperm(count, generator=self.generator)[: round(self.target * count)]] = False
        return self._expand(mask, weight).to(weight.device)

    def _expand(self, blocks: Tensor, weight: Tensor) -> Tensor:
        """Return a mask of a weight from the mask of its blocks, which is flat."""
        if self.block == 1:
            return blocks.view(weight.shape)
        coarse = blocks.view(weight.shape[0] // self.block, -1)
        return coarse.repeat_interleave(self.block, 0).repeat_interleave(self.block, 1)

    @property
    def sparsity(self) -> float:
        """Current share of masked weights."""
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
        """Mask the weights, because an optimizer may change a weight without a gradient."""
        self._apply()


class _Moving(StaticSparsity, ABC):
    """Masks that change every `every` steps."""

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
        """Mask the weights; every `every` steps, prune and regrow."""
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
        """Unmask the weights at these indices of the flattened tensor, and set them to zero."""
        grown = torch.zeros_like(self.masks[name])
        grown.view(-1)[places] = True
        self.masks[name] |= grown
        self.weights[name].masked_fill_(grown, 0.0)

    def _room(self) -> list[int]:
        return [int((~mask).sum()) for mask in self.masks.values()]


class SparseMomentum(_Moving):
    """Sparse momentum: prune small weights, regrow where the momentum is large.

    Every `every` steps, the share `prune_rate` of each tensor's weights, the smallest ones, is masked. The same number
    of weights regrows. Tensors share this number by the mean momentum magnitude of their weights. Inside a tensor, the
    masked weights with the largest momentum regrow, starting at zero. The optimizer gets dense gradients, so that
    masked weights have a momentum. `prune_rate` falls to zero along a cosine over `total_steps`.

    Parameters
    ----------
    weights, sparsity, generator
        As in `StaticSparsity`.
    optimizer : torch.optim.Optimizer
        Optimizer with momentum (SGD) or a first moment (Adam and its variants).
    every : int
        Steps between two changes of the masks; an epoch in the paper.
    prune_rate : float
        Initial prune rate, from 0 to 1.
    total_steps : int
        Steps of the complete training.

    Source
    ------
    Dettmers and Zettlemoyer, arXiv:1907.04840, section 3. Deviation: every tensor starts with the same density.
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
        """Leave the gradients dense. The momentum of masked weights decides which of them regrow."""

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
            # As in the paper, the mean is over the unmasked weights before pruning.
            shares.append(float(momentum.abs()[mask].mean()) if nonzero else 0.0)
            count = int(rate * nonzero)
            magnitude = weight.abs().masked_fill(~mask, math.inf).flatten()
            mask.view(-1)[torch.topk(magnitude, count, largest=False).indices] = False
            pruned += count
        for name, count in zip(self.weights, apportion(pruned, shares, self._room()), strict=True):
            mask = self.masks[name]
            momentum = self._momentum(name)
            assert momentum is not None  # Checked above.
            candidates = momentum.abs().masked_fill(mask, -1.0).flatten()
            # A weight that was just pruned may regrow if its momentum is large.
            self._grow(name, torch.topk(candidates, count).indices)
        return pruned


class DynamicReparameterization(_Moving):
    """Dynamic sparse reparameterization: prune below one adaptive threshold, regrow at random.

    Every `every` steps, all weights below one threshold for all tensors are masked. If their number is more than a
    tenth above the target, the threshold is halved. If it is more than a tenth below, the threshold is doubled. The
    same number of weights regrows at random positions, starting at zero. Tensors share this number in proportion to
    their remaining weights.

    Parameters
    ----------
    weights, sparsity, generator, optimizer, every
        As in `SparseMomentum`. The optimizer needs no momentum.
    fraction : float
        Target number of pruned weights, as a share of the weights that are not masked.
    threshold : float
        Initial threshold.

    Source
    ------
    Mostafa and Wang, arXiv:1902.05967, algorithm 1. Deviation: the paper sets the target number by hand.
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
                momentum[falling] = 0.0  # A weight that regrows starts without momentum.
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


class RiggedLottery(StaticSparsity):
    """RigL: prune small weights, regrow where the gradient is large.

    Every `every` steps, the share `prune_rate` of each tensor's weights, the smallest ones, is masked. Of the weights
    that were masked before, as many with the largest gradients regrow, starting at zero. Only these steps need the
    gradients of masked weights. `prune_rate` falls to zero along a cosine until `last_step`; then the masks are static.
    With blocks, the sum of a block's magnitudes decides.

    Parameters
    ----------
    weights, sparsity, generator, block
        As in `StaticSparsity`.
    every : int
        Steps between two changes of the masks.
    prune_rate : float
        Initial prune rate, from 0 to 1.
    last_step : int
        The step from which on masks do not change.

    Source
    ------
    Evci et al., arXiv:1911.11134, section 3. Deviation: a step that changes the masks also updates the weights.
    """

    def __init__(
        self,
        weights: dict[str, nn.Parameter],
        sparsity: float,
        generator: torch.Generator,
        *,
        every: int,
        last_step: int,
        prune_rate: float = 0.3,
        block: int = 1,
    ) -> None:
        if not 0 <= prune_rate <= 1:
            raise ValueError(f"prune_rate must be a number from 0 to 1, not {prune_rate!r}")
        self.every, self.last_step = require_int("every", every, 1), require_int("last_step", last_step, 1)
        self.prune_rate, self.steps, self.dense_steps = prune_rate, 0, 0
        self._gradients: dict[str, Tensor] = {}
        super().__init__(weights, sparsity, generator, block=block)

    def before_update(self) -> None:
        """Store the gradients of a step that changes the masks; then mask them."""
        self.steps += 1
        if self.steps % self.every == 0 and self.steps < self.last_step:
            self.dense_steps += 1
            self._gradients = {
                name: weight.grad.clone() for name, weight in self.weights.items() if weight.grad is not None
            }
        super().before_update()

    def after_update(self) -> None:
        """Mask the weights; prune and regrow if the step stored gradients."""
        self._apply()
        if self._gradients:
            self._move()
            self._gradients.clear()

    @torch.no_grad()
    def _move(self) -> None:
        rate = self.prune_rate * (1 + math.cos(math.pi * self.steps / self.last_step)) / 2
        for name, gradient in self._gradients.items():
            weight, masked = self.weights[name], self._sums(~self.masks[name]) > 0
            count = min(int(rate * int((~masked).sum())), int(masked.sum()))
            magnitude = self._sums(weight.abs()).masked_fill(masked, math.inf)
            candidates = self._sums(gradient.abs()).masked_fill(~masked, -1.0)
            blocks = ~masked
            blocks[torch.topk(magnitude, count, largest=False).indices] = False
            blocks[torch.topk(candidates, count).indices] = True
            self.masks[name] = self._expand(blocks, weight)
        self._apply()

    def _sums(self, values: Tensor) -> Tensor:
        """Return the sum of each block's values, flat."""
        if self.block == 1:
            return values.flatten()
        rows, columns = values.shape
        return values.view(rows // self.block, self.block, columns // self.block, self.block).sum((1, 3)).flatten()
