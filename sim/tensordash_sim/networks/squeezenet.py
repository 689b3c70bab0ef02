"""SqueezeNet 1.0: fire modules squeeze to few channels, then expand by 1x1 and 3x3 convolutions."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from .images import classifier_training
from .training import Training, seeded

__all__ = ["SCALES", "Fire", "Shape", "SqueezeNet", "build", "load"]


@dataclass(frozen=True, kw_only=True)
class Shape:
    """Extents of the network. Channels are the published numbers over `divide`."""

    divide: int
    size: int
    classes: int
    batch: int


SCALES = {
    "full": Shape(divide=1, size=227, classes=1000, batch=128),  # With 227, pooling results in 55 x 55.
    "small": Shape(divide=1, size=99, classes=10, batch=16),
    "tiny": Shape(divide=8, size=51, classes=10, batch=4),
}


class Fire(nn.Module):
    """A squeezing 1x1 convolution, then 1x1 and 3x3 convolutions side by side."""

    def __init__(self, channels: int, squeeze: int, expand: int) -> None:
        super().__init__()
        self.squeeze = nn.Conv2d(channels, squeeze, 1)
        self.expand1x1 = nn.Conv2d(squeeze, expand, 1)
        self.expand3x3 = nn.Conv2d(squeeze, expand, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        """Return both outputs; channels of the 1x1 convolution come first."""
        squeezed = self.squeeze(x).relu()
        return torch.cat([self.expand1x1(squeezed).relu(), self.expand3x3(squeezed).relu()], dim=1)


class SqueezeNet(nn.Module):
    """Version 1.0, as in the paper."""

    FIRES = ((16, 64), (16, 64), (32, 128), "pool", (32, 128), (48, 192), (48, 192), (64, 256), "pool", (64, 256))

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        channels = 96 // shape.divide
        layers: list[nn.Module] = [nn.Conv2d(3, channels, 7, stride=2), nn.ReLU(), nn.MaxPool2d(3, 2, ceil_mode=True)]
        for fire in self.FIRES:
            if isinstance(fire, str):
                layers.append(nn.MaxPool2d(3, 2, ceil_mode=True))
            else:
                squeeze, expand = (extent // shape.divide for extent in fire)
                layers.append(Fire(channels, squeeze, expand))
                channels = 2 * expand
        self.features = nn.Sequential(*layers)
        last = nn.Conv2d(channels, shape.classes, 1)
        self.classifier = nn.Sequential(nn.Dropout(0.5), last, nn.ReLU())
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_uniform_(module.weight)
                assert module.bias is not None
                nn.init.zeros_(module.bias)
        nn.init.normal_(last.weight, std=0.01)

    def forward(self, x: Tensor) -> Tensor:
        """Return scores of the classes, (batch, classes)."""
        scores: Tensor = self.classifier(self.features(x))
        return scores.mean(dim=(2, 3))


def build(scale: str) -> SqueezeNet:
    """Return the network alone, with random weights."""
    return SqueezeNet(SCALES[scale])


def _optimizer(scale: str, model: nn.Module) -> torch.optim.Optimizer:
    if scale == "full":
        return torch.optim.SGD(model.parameters(), lr=0.04, momentum=0.9, weight_decay=2e-4)
    # With small batches, SGD needs thousands of steps before the loss changes.
    return torch.optim.Adam(model.parameters(), lr=3e-4)


def load(scale: str, seed: int) -> Training:
    """Return the network in training."""
    shape = SCALES[scale]
    with seeded(seed):
        model = build(scale)
    return classifier_training(model, _optimizer(scale, model), batch=shape.batch, size=shape.size, seed=seed, clip=1.0)
