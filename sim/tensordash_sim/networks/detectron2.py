"""Mask R-CNN with a feature pyramid, as Detectron2's R50-FPN, in plain PyTorch; its data and training."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from .detection_parts import FrozenNorm, Heads, Proposals, Pyramid, Settings, Target, calibrate
from .resnet50 import Trunk
from .scenes import paint
from .training import Training, seeded

__all__ = ["SCALES", "MaskRCNN", "Shape", "build", "load"]

SCENES = 4096
"""Number of scenes in an epoch."""


@dataclass(frozen=True, kw_only=True)
class Shape:
    """Extents of network and images. `Settings.scale` scales the published box sizes."""

    blocks: tuple[int, int, int, int]
    width: int
    size: tuple[int, int]
    batch: int
    settings: Settings


SCALES = {
    "full": Shape(
        blocks=(3, 4, 6, 3),
        width=64,
        size=(800, 1344),
        batch=2,
        settings=Settings(
            channels=256, hidden=1024, classes=80, scale=1.0, before=2000, after=1000, anchors=256, regions=512
        ),
    ),
    "small": Shape(
        blocks=(3, 4, 6, 3),
        width=16,
        size=(128, 192),
        batch=2,
        settings=Settings(
            channels=64, hidden=256, classes=3, scale=0.25, before=200, after=100, anchors=64, regions=32
        ),
    ),
    "tiny": Shape(
        blocks=(1, 1, 1, 1),
        width=4,
        size=(64, 64),
        batch=1,
        settings=Settings(channels=8, hidden=16, classes=3, scale=0.125, before=50, after=20, anchors=32, regions=16),
    ),
}


class MaskRCNN(nn.Module):
    """Trunk, pyramid, proposals and heads.

    As in Detectron2, the first convolution, the first stage and all normalizations are frozen.
    """

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.trunk = Trunk(shape.blocks, shape.width, FrozenNorm)
        for frozen in (self.trunk.conv1, self.trunk.stages[0]):
            frozen.requires_grad_(False)
        self.pyramid = Pyramid(self.trunk.channels, shape.settings.channels)
        self.proposals = Proposals(shape.settings)
        self.heads = Heads(shape.settings)

    def forward(self, images: Tensor, targets: list[Target]) -> dict[str, Tensor]:
        """Return the five losses: objectness and boxes of the proposals; class, boxes and masks of the heads."""
        levels = self.pyramid(self.trunk(images))
        size = (images.shape[2], images.shape[3])
        proposed, losses = self.proposals(levels, size, targets)
        losses |= self.heads(levels[:-1], proposed, targets)  # Only proposals use the coarsest level.
        return losses


def build(scale: str) -> MaskRCNN:
    """Return the network alone, with random weights."""
    return MaskRCNN(SCALES[scale])


def _batches(seed: int, shape: Shape) -> Iterator[tuple[Tensor, list[Target]]]:
    random = np.random.default_rng(seed)
    while True:
        scenes = [paint(random, shape.size, 6) for _ in range(shape.batch)]
        targets = [
            Target(*(torch.from_numpy(array) for array in (scene.boxes, scene.kinds, scene.masks))) for scene in scenes
        ]
        yield torch.from_numpy(np.stack([scene.image for scene in scenes])), targets


def _loss(model: nn.Module, batch: tuple[Tensor, list[Target]]) -> Tensor:
    losses: dict[str, Tensor] = model(*batch)
    return torch.stack(list(losses.values())).sum()


def load(scale: str, seed: int) -> Training:
    """Return the network in training."""
    shape = SCALES[scale]
    with seeded(seed):
        model = build(scale)
        # Pretrained weights come with statistics. For random weights they are measured.
        calibrate(model.trunk, next(_batches(seed + 1, shape))[0])
    return Training(
        model=model,
        optimizer=torch.optim.SGD([each for each in model.parameters() if each.requires_grad], lr=0.005, momentum=0.9),
        batches=_batches(seed, shape),
        loss=_loss,
        steps_per_epoch=SCENES // shape.batch,
        conditions={
            "data": "made scenes with boxes and masks",
            "weights": "random, normalization measured once and frozen",
            "batch": str(shape.batch),
            "image": f"{shape.size[0]} x {shape.size[1]}",
        },
        seed=seed,
        clip=5.0,
    )
