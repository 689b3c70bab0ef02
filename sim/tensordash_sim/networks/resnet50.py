"""ResNet-50, and the residual trunk that other networks share."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from .images import classifier_training
from .training import Training, seeded

__all__ = ["SCALES", "Bottleneck", "ResNet50", "Shape", "Trunk", "build", "load"]

Norm = Callable[[int], nn.Module]
"""Function that creates a normalization layer for a number of channels."""


class Bottleneck(nn.Module):
    """A 1x1, a 3x3 and a 1x1 convolution, and a shortcut around them. The 3x3 convolution has the stride."""

    EXPANSION = 4

    def __init__(self, channels: int, width: int, stride: int, norm: Norm) -> None:
        super().__init__()
        expanded = width * self.EXPANSION
        self.conv1, self.bn1 = nn.Conv2d(channels, width, 1, bias=False), norm(width)
        self.conv2, self.bn2 = nn.Conv2d(width, width, 3, stride, padding=1, bias=False), norm(width)
        self.conv3, self.bn3 = nn.Conv2d(width, expanded, 1, bias=False), norm(expanded)
        self.downsample: nn.Module | None = None
        if stride != 1 or channels != expanded:
            self.downsample = nn.Sequential(nn.Conv2d(channels, expanded, 1, stride, bias=False), norm(expanded))

    def forward(self, x: Tensor) -> Tensor:
        """Return the ReLU of the sum of both branches."""
        shortcut = x if self.downsample is None else self.downsample(x)
        y = self.bn1(self.conv1(x)).relu()
        y = self.bn2(self.conv2(y)).relu()
        total: Tensor = self.bn3(self.conv3(y)) + shortcut
        return total.relu()


class Trunk(nn.Module):
    """A residual network without its classifier.

    Parameters
    ----------
    blocks : sequence of int
        Blocks of each of the four stages: (3, 4, 6, 3) is ResNet-50, (3, 8, 36, 3) is ResNet-152.
    width : int
        Channels of the first convolution. 64 is published.
    norm : callable, optional
        Creates a normalization layer for a number of channels.
    """

    def __init__(self, blocks: Sequence[int], width: int, norm: Norm = nn.BatchNorm2d) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, width, 7, stride=2, padding=3, bias=False), norm(width)
        self.pool = nn.MaxPool2d(3, 2, padding=1)
        channels = width
        self.stages = nn.ModuleList()
        self.channels: list[int] = []
        """Channels of each stage's output."""
        for index, count in enumerate(blocks):
            layers = []
            for block in range(count):
                stride = 2 if index and not block else 1
                layers.append(Bottleneck(channels, width << index, stride, norm))
                channels = (width << index) * Bottleneck.EXPANSION
            self.stages.append(nn.Sequential(*layers))
            self.channels.append(channels)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x: Tensor) -> list[Tensor]:
        """Return the outputs of the four stages, at 1/4, 1/8, 1/16 and 1/32 of the image's size."""
        y = self.pool(self.bn1(self.conv1(x)).relu())
        outputs = []
        for stage in self.stages:
            y = stage(y)
            outputs.append(y)
        return outputs


@dataclass(frozen=True, kw_only=True)
class Shape:
    """Extents of the network's layers."""

    width: int
    size: int
    classes: int
    batch: int
    rate: float


SCALES = {
    "full": Shape(width=64, size=224, classes=1000, batch=64, rate=0.025),
    "small": Shape(width=32, size=64, classes=10, batch=16, rate=0.005),
    "tiny": Shape(width=4, size=32, classes=10, batch=4, rate=0.01),
}


class ResNet50(nn.Module):
    """The trunk and one linear layer."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.trunk = Trunk((3, 4, 6, 3), shape.width)
        self.fc = nn.Linear(self.trunk.channels[-1], shape.classes)

    def forward(self, x: Tensor) -> Tensor:
        """Return scores of the classes, (batch, classes)."""
        scores: Tensor = self.fc(self.trunk(x)[-1].mean(dim=(2, 3)))
        return scores


def build(scale: str) -> ResNet50:
    """Return the network alone, with random weights."""
    return ResNet50(SCALES[scale])


def load(scale: str, seed: int) -> Training:
    """Return the dense network in training. `resnet50_sparse` prunes it."""
    shape = SCALES[scale]
    with seeded(seed):
        model = build(scale)
    optimizer = torch.optim.SGD(model.parameters(), lr=shape.rate, momentum=0.9, weight_decay=1e-4)
    return classifier_training(model, optimizer, batch=shape.batch, size=shape.size, seed=seed)
