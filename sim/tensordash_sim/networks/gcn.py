"""The gated convolutional network of Dauphin et al.: a language model of causal convolutions and gated linear units."""

import re
from collections import Counter
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812
from torch.nn.utils.parametrizations import weight_norm

from .readers import text
from .training import Training, seeded, text_batches

__all__ = ["SCALES", "GatedConvolutions", "Shape", "build", "load"]


@dataclass(frozen=True, kw_only=True)
class Shape:
    """Extents of the network. Layers are pairs of output channels and taps."""

    vocabulary: int
    embedding: int
    layers: tuple[tuple[int, int], ...]
    cutoffs: tuple[int, ...]
    length: int
    batch: int
    rate: float


def _gcnn14(divide: int) -> tuple[tuple[int, int], ...]:
    """Return the layers of the paper's GCNN-14 for WikiText-103, with channels divided by a number."""
    middle, wide, widest = 850 // divide, 1024 // divide, 2048 // divide
    taps = (6, 6, 6, 1, 5, 5, 5, 5, 1, 4, 4, 4)
    return (*((middle, tap) for tap in taps), (wide, 4), (widest, 4))


SCALES = {
    "full": Shape(
        vocabulary=33_278,  # of WikiText-2
        embedding=280,
        layers=_gcnn14(1),
        cutoffs=(10_000, 20_000),
        length=256,
        batch=64,
        rate=1.0,
    ),
    "small": Shape(
        vocabulary=4000, embedding=64, layers=_gcnn14(8), cutoffs=(1000, 2000), length=64, batch=8, rate=0.5
    ),
    "tiny": Shape(
        vocabulary=200,
        embedding=16,
        layers=((16, 4), (16, 1), (24, 4)),
        cutoffs=(50, 100),
        length=16,
        batch=4,
        rate=0.5,
    ),
}


class _Gated(nn.Module):
    """A layer: a causal convolution that computes values and gates, and a shortcut around it."""

    def __init__(self, channels: int, outputs: int, taps: int) -> None:
        super().__init__()
        self.before = taps - 1
        convolution = nn.Conv1d(channels, 2 * outputs, taps)
        nn.init.kaiming_normal_(convolution.weight, nonlinearity="linear")
        self.convolution = weight_norm(convolution)
        self.shortcut: nn.Module = nn.Identity()
        if channels != outputs:
            self.shortcut = weight_norm(nn.Conv1d(channels, outputs, 1))

    def forward(self, x: Tensor) -> Tensor:
        """Return the layer's output. Padding is only in front, so that no position depends on later words."""
        y: Tensor = F.glu(self.convolution(F.pad(x, (self.before, 0))), dim=1)
        total: Tensor = (self.shortcut(x) + y) * 0.5**0.5  # The factor preserves the variance.
        return total


class GatedConvolutions(nn.Module):
    """Embedding, gated convolutions and an adaptive softmax."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.embed = nn.Embedding(shape.vocabulary, shape.embedding)
        nn.init.normal_(self.embed.weight, std=0.1)
        layers = []
        channels = shape.embedding
        for outputs, taps in shape.layers:
            layers.append(_Gated(channels, outputs, taps))
            channels = outputs
        self.layers = nn.Sequential(*layers)
        # As in the published network, a layer of the embedding's size precedes the softmax.
        self.shrink = weight_norm(nn.Linear(channels, shape.embedding))
        self.softmax = nn.AdaptiveLogSoftmaxWithLoss(shape.embedding, shape.vocabulary, list(shape.cutoffs))

    def forward(self, words: Tensor) -> Tensor:
        """Return the mean loss of every word predicted from the words before it; words are (batch, length + 1)."""
        y = self.shrink(self.layers(self.embed(words[:, :-1]).mT).mT)
        loss: Tensor = self.softmax(y.flatten(0, 1), words[:, 1:].flatten()).loss
        return loss


def build(scale: str) -> GatedConvolutions:
    """Return the network alone, with random weights."""
    return GatedConvolutions(SCALES[scale])


def _words(vocabulary: int) -> tuple[np.ndarray, str]:
    """Return the text as word numbers in order of frequency, as the adaptive softmax requires; 0 is any rarer word."""
    prose, source = text()
    words = re.findall(r"\w+|[^\w\s]", prose.lower())
    common = [word for word, _ in Counter(words).most_common(vocabulary - 1)]
    number = {word: index for index, word in enumerate(common, start=1)}
    return np.array([number.get(word, 0) for word in words]), source


def load(scale: str, seed: int) -> Training:
    """Return the network in training."""
    shape = SCALES[scale]
    with seeded(seed):
        model = build(scale)
    words, source = _words(shape.vocabulary)
    return Training(
        model=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=shape.rate, momentum=0.9, nesterov=True),
        batches=text_batches(words, length=shape.length, batch=shape.batch, seed=seed),
        loss=lambda model, words: model(words),
        steps_per_epoch=len(words) // (shape.length * shape.batch),
        conditions={"data": source, "batch": str(shape.batch), "length": f"{shape.length} words"},
        seed=seed,
        clip=0.1,
    )
