"""Training data of the classifiers: digits as colour images of any size."""

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from .readers import digits
from .training import Training

__all__ = ["classifier_loss", "classifier_training", "image_batches"]


def image_batches(seed: int, batch: int, size: int) -> tuple[Iterator[tuple[Tensor, Tensor]], int, str]:
    """Return endless batches of digits, scaled up, bright on a dark background, in random colours with noise.

    The background of a digit is zero, unlike a photograph's. Colour and noise remove these zeros, so that the zeros in
    training come from the network.

    Parameters
    ----------
    seed : int
        Seed of order, colours and noise.
    batch : int
        Images per batch.
    size : int
        Width and height in pixels.

    Returns
    -------
    batches : iterator
        Images, (batch, 3, size, size), about -1 to 3 with a mean near 0, and labels, (batch,).
    steps_per_epoch : int
        Batches per epoch.
    source : str
        Name of the data set.
    """
    images, labels, source = digits()

    def batches() -> Iterator[tuple[Tensor, Tensor]]:
        order = np.random.default_rng(seed)
        generator = torch.Generator().manual_seed(seed)
        while True:
            shuffled = order.permutation(len(labels))
            for start in range(0, len(labels) - batch + 1, batch):
                chosen = shuffled[start : start + batch]
                shapes = torch.from_numpy(images[chosen])[:, None]
                shapes = F.interpolate(shapes, size=(size, size), mode="bilinear", align_corners=False)
                ground, ink = 0.3 * torch.rand(2, batch, 3, 1, 1, generator=generator)
                ink += 0.7
                noise = 0.1 * torch.randn(batch, 3, size, size, generator=generator)
                yield 4 * (ground + shapes * (ink - ground) + noise - 0.25), torch.from_numpy(labels[chosen])

    return batches(), len(labels) // batch, source


def classifier_loss(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
    """Return the cross entropy of the classes."""
    images, labels = batch
    loss: Tensor = F.cross_entropy(model(images), labels)
    return loss


def classifier_training(
    model: nn.Module, optimizer: torch.optim.Optimizer, *, batch: int, size: int, seed: int, clip: float | None = None
) -> Training:
    """Return a classifier of `image_batches`, ready to train. Parameters are as in `image_batches` and `Training`."""
    batches, steps, source = image_batches(seed, batch, size)
    return Training(
        model=model,
        optimizer=optimizer,
        batches=batches,
        loss=classifier_loss,
        steps_per_epoch=steps,
        conditions={"data": source, "batch": str(batch), "image": f"{size} x {size}"},
        seed=seed,
        clip=clip,
    )
