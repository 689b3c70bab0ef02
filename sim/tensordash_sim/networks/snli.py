"""Natural-language inference: does a premise entail a hypothesis, contradict it, or neither?

Both sentences go through the same projection and the same LSTM. Four fully connected layers classify the pair.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from .images import classifier_loss
from .training import Training, seeded

__all__ = ["SCALES", "PairClassifier", "Shape", "build", "load"]

PAD = 0
PAIRS = 550_152
"""Training pairs of SNLI, the length of an epoch."""

PREMISE = 14.1
"""Mean number of words in a premise (Bowman et al.). Generated lengths are log-normal, with a spread of 0.4 (ours)."""
HYPOTHESIS = 8.3
"""Mean number of words in a hypothesis (Bowman et al.)."""


@dataclass(frozen=True, kw_only=True)
class Shape:
    """Extents of the network's layers."""

    vocabulary: int
    embedding: int
    projection: int
    hidden: int
    batch: int


SCALES = {
    "full": Shape(vocabulary=36_990, embedding=300, projection=300, hidden=300, batch=128),
    "small": Shape(vocabulary=2000, embedding=300, projection=300, hidden=300, batch=32),
    "tiny": Shape(vocabulary=100, embedding=16, projection=16, hidden=16, batch=8),
}


class PairClassifier(nn.Module):
    """Embedding, projection, LSTM and four linear layers with ReLU and dropout between them."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.embed = nn.Embedding(shape.vocabulary, shape.embedding, padding_idx=PAD)
        self.embed.requires_grad_(False)  # Word vectors are not trained.
        self.projection = nn.Linear(shape.embedding, shape.projection)
        self.encoder = nn.LSTM(shape.projection, shape.hidden, batch_first=True)
        self.dropout = nn.Dropout(0.2)
        pair = 2 * shape.hidden
        self.fc1, self.fc2, self.fc3 = (nn.Linear(pair, pair) for _ in range(3))
        self.classifier = nn.Linear(pair, 3)

    def _encode(self, words: Tensor) -> Tensor:
        """Return the LSTM's last state after a sentence and its padding, (batch, hidden)."""
        projected = self.projection(self.embed(words)).relu()
        last: Tensor = self.encoder(self.dropout(projected))[1][0][-1]
        return last

    def forward(self, pair: tuple[Tensor, Tensor]) -> Tensor:
        """Return scores of entailment, neutral and contradiction for premises and hypotheses, (batch, 3)."""
        premise, hypothesis = pair
        y = self.dropout(torch.cat([self._encode(premise), self._encode(hypothesis)], dim=1))
        for layer in (self.fc1, self.fc2, self.fc3):
            y = self.dropout(layer(y).relu())
        scores: Tensor = self.classifier(y)
        return scores


def build(scale: str) -> PairClassifier:
    """Return the network alone, with random weights."""
    return PairClassifier(SCALES[scale])


def _batches(seed: int, shape: Shape) -> Iterator[tuple[tuple[Tensor, Tensor], Tensor]]:
    """Yield generated pairs.

    The hypothesis repeats words of the premise (entailment), repeats them with negations (contradiction), or has other
    words (neutral). As in SNLI, negations and rarer words indicate the label, so that the network learns soon.
    """
    random = np.random.default_rng(seed)
    # Word frequencies follow Zipf's law. The first words are negations, as in SNLI's contradictions.
    negations, words = np.arange(1, 5), np.arange(5, shape.vocabulary)
    share = 1.0 / words
    share /= share.sum()
    while True:
        labels = random.integers(3, size=shape.batch)
        premises, hypotheses = [], []
        for label in labels:
            premise = random.choice(words, _length(random, PREMISE), p=share)
            hypothesis = random.choice(premise, _length(random, HYPOTHESIS))
            if label == 1:
                hypothesis = random.choice(words, len(hypothesis))
            elif label == 2:
                hypothesis[random.integers(len(hypothesis), size=2)] = random.choice(negations, 2)
            premises.append(premise)
            hypotheses.append(hypothesis)
        yield (_padded(premises), _padded(hypotheses)), torch.from_numpy(labels)


def _length(random: np.random.Generator, mean: float) -> int:
    spread = 0.4
    return max(2, round(float(random.lognormal(np.log(mean) - spread**2 / 2, spread))))


def _padded(sentences: list[NDArray[np.int64]]) -> Tensor:
    tensors = [torch.from_numpy(sentence) for sentence in sentences]
    return nn.utils.rnn.pad_sequence(tensors, batch_first=True, padding_value=PAD)


def load(scale: str, seed: int) -> Training:
    """Return the network in training."""
    shape = SCALES[scale]
    with seeded(seed):
        model = build(scale)
    return Training(
        model=model,
        optimizer=torch.optim.Adam([each for each in model.parameters() if each.requires_grad], lr=1e-3),
        batches=_batches(seed, shape),
        loss=classifier_loss,
        steps_per_epoch=PAIRS // shape.batch,
        conditions={"data": "made sentence pairs, lengths as in SNLI", "batch": str(shape.batch)},
        seed=seed,
    )
