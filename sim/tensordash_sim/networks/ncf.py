"""Neural collaborative filtering (NeuMF): matrix factorization next to a perceptron, on pairs of user and item."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from .readers import FILMS, USERS, interactions
from .training import Training, seeded

__all__ = ["SCALES", "NeuMF", "Shape", "build", "load"]

NEGATIVES = 4
"""Number of negative samples, items that the user has not rated, for each rated item."""


@dataclass(frozen=True, kw_only=True)
class Shape:
    """Extents of the network. The perceptron's first extent is the size of both embeddings together."""

    users: int = USERS
    items: int = FILMS
    factors: int
    layers: tuple[int, ...]
    batch: int


# The network is small: only the batch has to be reduced for a small machine.
SCALES = {
    "full": Shape(factors=64, layers=(256, 256, 128, 64), batch=2048),
    "small": Shape(factors=64, layers=(256, 256, 128, 64), batch=256),
    "tiny": Shape(factors=4, layers=(16, 16, 8, 4), batch=32),
}


class NeuMF(nn.Module):
    """Three linear layers with ReLU, and a linear layer on their output and the product of factors."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        half = shape.layers[0] // 2
        self.user_factors, self.item_factors = (
            nn.Embedding(shape.users, shape.factors),
            nn.Embedding(shape.items, shape.factors),
        )
        self.user_words, self.item_words = nn.Embedding(shape.users, half), nn.Embedding(shape.items, half)
        for embedding in (self.user_factors, self.item_factors, self.user_words, self.item_words):
            nn.init.normal_(embedding.weight, std=0.01)
        self.layers = nn.ModuleList(nn.Linear(inputs, outputs) for inputs, outputs in pairwise(shape.layers))
        self.predict = nn.Linear(shape.layers[-1] + shape.factors, 1)
        for layer in (*self.layers, self.predict):
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)

    def forward(self, users: Tensor, items: Tensor) -> Tensor:
        """Return the log odds that a user rates an item, (batch,)."""
        factors = self.user_factors(users) * self.item_factors(items)
        y = torch.cat([self.user_words(users), self.item_words(items)], dim=1)
        for layer in self.layers:
            y = layer(y).relu()
        odds: Tensor = self.predict(torch.cat([factors, y], dim=1))
        return odds.flatten()


def build(scale: str) -> NeuMF:
    """Return the network alone, with random weights."""
    return NeuMF(SCALES[scale])


Batch = tuple[Tensor, Tensor, Tensor]


def _batches(seed: int, shape: Shape) -> tuple[Iterator[Batch], int, str]:
    pairs, source = interactions()
    positives = shape.batch // (1 + NEGATIVES)

    def batches() -> Iterator[Batch]:
        random = np.random.default_rng(seed)
        rated = np.zeros((shape.users, shape.items), bool)
        rated[pairs[:, 0], pairs[:, 1]] = True
        while True:
            shuffled = random.permutation(pairs)
            for start in range(0, len(pairs) - positives + 1, positives):
                users, items = shuffled[start : start + positives].T
                negatives = np.repeat(users, NEGATIVES)
                others = random.integers(shape.items, size=len(negatives))
                while (redraw := rated[negatives, others]).any():
                    others[redraw] = random.integers(shape.items, size=redraw.sum())
                labels = np.repeat(np.array([1.0, 0.0], np.float32), [len(users), len(negatives)])
                who, what = np.concatenate([users, negatives]), np.concatenate([items, others])
                order = random.permutation(len(labels))
                yield torch.from_numpy(who[order]), torch.from_numpy(what[order]), torch.from_numpy(labels[order])

    return batches(), len(pairs) // positives, source


def _loss(model: nn.Module, batch: Batch) -> Tensor:
    users, items, labels = batch
    loss: Tensor = F.binary_cross_entropy_with_logits(model(users, items), labels)
    return loss


def load(scale: str, seed: int) -> Training:
    """Return the network in training."""
    shape = SCALES[scale]
    with seeded(seed):
        model = build(scale)
    batches, steps, source = _batches(seed, shape)
    return Training(
        model=model,
        optimizer=torch.optim.Adam(model.parameters(), lr=1e-3),
        batches=batches,
        loss=_loss,
        steps_per_epoch=steps,
        conditions={
            "data": source,
            "batch": f"{shape.batch // (1 + NEGATIVES)} ratings and {NEGATIVES} times as many others",
        },
        seed=seed,
    )
