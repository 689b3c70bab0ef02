"""VGG16: thirteen 3x3 convolutions, five poolings and three fully connected layers, without normalization."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from .images import classifier_training
from .training import Training, seeded

__all__ = ["SCALES", "VGG16", "Shape", "build", "load"]


@dataclass(frozen=True, kw_only=True)
class Shape:
    """Extents of the network. Channels and hidden units are the published numbers over `divide`."""

    divide: int
    size: int
    classes: int
    batch: int


SCALES = {
    "full": Shape(divide=1, size=224, classes=1000, batch=64),
    "small": Shape(divide=2, size=64, classes=10, batch=16),
    "tiny": Shape(divide=16, size=32, classes=10, batch=4),
}


class VGG16(nn.Module):
    """Configuration D of the paper."""

    STAGES = ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3))

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        channels, side = 3, shape.size
        for width, count in self.STAGES:
            for _ in range(count):
                layers += [nn.Conv2d(channels, width // shape.divide, 3, padding=1), nn.ReLU()]
                channels = width // shape.divide
            layers.append(nn.MaxPool2d(2))
            side //= 2
        hidden = 4096 // shape.divide
        last = nn.Linear(hidden, shape.classes)
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Sequential(
            nn.Flatten(),
            *(nn.Linear(channels * side * side, hidden), nn.ReLU(), nn.Dropout(0.5)),
            *(nn.Linear(hidden, hidden), nn.ReLU(), nn.Dropout(0.5)),
            last,
        )
        for module in self.modules():
            if isinstance(module, nn.Conv2d | nn.Linear):
                # The paper starts from pretrained shallower networks. This initialization has replaced them.
                nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
                assert module.bias is not None
                nn.init.zeros_(module.bias)
        nn.init.normal_(last.weight, std=0.01)

    def forward(self, x: Tensor) -> Tensor:
        """Return scores of the classes, (batch, classes)."""
        scores: Tensor = self.classifier(self.features(x))
        return scores


def build(scale: str) -> VGG16:
    """Return the network alone, with random weights."""
    return VGG16(SCALES[scale])


def load(scale: str, seed: int) -> Training:
    """Return the network in training."""
    shape = SCALES[scale]
    with seeded(seed):
        model = build(scale)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=5e-4)
    return classifier_training(model, optimizer, batch=shape.batch, size=shape.size, seed=seed, clip=1.0)
