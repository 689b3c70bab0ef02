"""ResNet-50, pruned during training."""

import torch

from tensordash.configuration.parameters import require_choice, require_int

from .pruning import DynamicReparameterization, SparseMomentum, prunable
from .resnet50 import ResNet50, build
from .resnet50 import load as load_dense
from .training import Training

__all__ = ["METHODS", "ResNet50", "build", "load"]

METHODS = ("sparse-momentum", "dynamic-reparameterization")

EPOCHS = 90
"""Epochs of the complete training, over which the prune rate falls."""


def load(
    scale: str, seed: int, *, method: str = METHODS[0], sparsity: float = 0.9, every: int | None = None
) -> Training:
    """Return the network in training.

    Parameters
    ----------
    scale, seed
        As in `tensordash_sim.networks.load`.
    method : str
        One of `METHODS`.
    sparsity : float
        Share of zeros among the weights of all convolutions and the linear layer.
    every : int, optional
        Steps between two changes of the masks. The default is an epoch for sparse momentum, as published, and a tenth
        of an epoch for dynamic reparameterization, which changes fewer weights at a time.
    """
    require_choice("method", method, METHODS)
    if every is not None:
        require_int("every", every, 1)
    run = load_dense(scale, seed)
    weights, generator = prunable(run.model), torch.Generator().manual_seed(seed)
    if method == "sparse-momentum":
        interval = every or run.steps_per_epoch
        total = EPOCHS * run.steps_per_epoch
        run.hooks = SparseMomentum(weights, sparsity, generator, run.optimizer, every=interval, total_steps=total)
    else:
        interval = every or max(1, run.steps_per_epoch // 10)
        run.hooks = DynamicReparameterization(weights, sparsity, generator, run.optimizer, every=interval)
    run.conditions |= {"method": method, "sparsity": str(sparsity), "moves every": f"{interval} steps"}
    return run
