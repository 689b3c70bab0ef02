"""Show and Tell: an LSTM decodes the features of a convolutional encoder into a caption."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from tensordash.configuration.parameters import require_bool

from .resnet50 import Trunk
from .scenes import COLOURS, KINDS, paint
from .training import Training, seeded

__all__ = ["SCALES", "Shape", "ShowAndTell", "build", "load"]

PAD = 0
START = 1
END = 2
WORDS = ("<pad>", "<start>", "<end>", "a", "large", "small", "left", "of", *COLOURS, *KINDS)
SCENES = 4096
"""Number of scenes in an epoch."""


@dataclass(frozen=True, kw_only=True)
class Shape:
    """Extents of the network's layers."""

    blocks: tuple[int, int, int, int]
    width: int
    size: int
    embedding: int
    hidden: int
    vocabulary: int
    batch: int


SCALES = {
    "full": Shape(blocks=(3, 8, 36, 3), width=64, size=224, embedding=256, hidden=512, vocabulary=9956, batch=128),
    "small": Shape(blocks=(3, 8, 36, 3), width=8, size=64, embedding=64, hidden=128, vocabulary=256, batch=16),
    "tiny": Shape(blocks=(1, 1, 1, 1), width=4, size=32, embedding=16, hidden=16, vocabulary=32, batch=4),
}


class ShowAndTell(nn.Module):
    """Encoder and decoder. The image's features are the decoder's first input."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.encoder = Trunk(shape.blocks, shape.width)
        self.project = nn.Linear(self.encoder.channels[-1], shape.embedding)
        self.normalize = nn.BatchNorm1d(shape.embedding)
        self.embed = nn.Embedding(shape.vocabulary, shape.embedding, padding_idx=PAD)
        self.decoder = nn.LSTM(shape.embedding, shape.hidden, batch_first=True)
        self.words = nn.Linear(shape.hidden, shape.vocabulary)

    def forward(self, images: Tensor, captions: Tensor) -> Tensor:
        """Return scores of every word, predicted from the words before it: (batch, caption length, vocabulary)."""
        features = self.normalize(self.project(self.encoder(images)[-1].mean(dim=(2, 3))))
        inputs = torch.cat([features[:, None], self.embed(captions[:, :-1])], dim=1)
        scores: Tensor = self.words(self.decoder(inputs)[0])
        return scores


def build(scale: str) -> ShowAndTell:
    """Return the network alone, with random weights."""
    return ShowAndTell(SCALES[scale])


def _batches(seed: int, shape: Shape) -> Iterator[tuple[Tensor, Tensor]]:
    random = np.random.default_rng(seed)
    number = {word: index for index, word in enumerate(WORDS)}
    while True:
        scenes = [paint(random, (shape.size, shape.size), 3) for _ in range(shape.batch)]
        captions = [torch.tensor([START, *(number[word] for word in scene.words), END]) for scene in scenes]
        images = torch.from_numpy(np.stack([scene.image for scene in scenes]))
        yield images, nn.utils.rnn.pad_sequence(captions, batch_first=True, padding_value=PAD)


def _loss(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
    images, captions = batch
    scores = model(images, captions)
    loss: Tensor = F.cross_entropy(scores.flatten(0, 1), captions.flatten(), ignore_index=PAD)
    return loss


def load(scale: str, seed: int, *, frozen: bool = False) -> Training:
    """Return the network in training.

    Parameters
    ----------
    scale, seed
        As in `tensordash_sim.networks.load`.
    frozen : bool
        Whether to freeze the encoder and train only the decoder, as in the first phase of the paper's training.
    """
    require_bool("frozen", frozen)
    shape = SCALES[scale]
    with seeded(seed):
        model = build(scale)
    if frozen:
        model.encoder.requires_grad_(False)
    return Training(
        model=model,
        optimizer=torch.optim.Adam([each for each in model.parameters() if each.requires_grad], lr=1e-3),
        batches=_batches(seed, shape),
        loss=_loss,
        steps_per_epoch=SCENES // shape.batch,
        conditions={
            "data": "made scenes and captions",
            "batch": str(shape.batch),
            "image": f"{shape.size} x {shape.size}",
            "encoder": "frozen" if frozen else "trained",
        },
        seed=seed,
        clip=5.0,
    )
