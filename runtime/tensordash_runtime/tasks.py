"""Tasks of `tensordash train`: networks with their data and their tests. Needs torch."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from tensordash.configuration.parameters import require_choice, require_int
from tensordash_sim.networks.gpt import GPT, SCALES
from tensordash_sim.networks.readers import digits, text
from tensordash_sim.networks.training import seeded

__all__ = ["TASKS", "Task", "load_task"]

BATCH = 16
"""Default number of digits in a step."""
LEARNING_RATE = 0.1
"""Learning rate for `BATCH` digits. The rate of other batches is proportional to their size (arXiv:1706.02677)."""
TRAINING_SHARE = 6 / 7
"""Share of the digits for training; the test has the others."""
TEST_WINDOWS = 256
"""Number of windows of text in the test, and their maximum number in a step."""
LSTM_BATCH = 8
"""Default number of windows of text in a step of the LSTM."""
LSTM_LENGTH = 16
"""Length of the LSTM's windows of text, in bytes."""


@dataclass(frozen=True, kw_only=True)
class Task:
    """A network, its data, and the functions that train and test it.

    Parameters
    ----------
    name, data : str
        The network's name, and the source of its data.
    model : nn.Module
        The network with its initial weights.
    optimizer : callable
        Returns an optimizer of the parameters that it receives.
    order : callable
        Returns the batches of an epoch, by its number.
    loss : callable
        Returns the loss of the model on a batch.
    accuracy : callable
        Returns the share of right predictions of the model on unseen data.
    steps_per_epoch : int
        Number of batches in an epoch.
    bf16_layers : tuple of str
        Patterns of the layers that run in bf16 under NVFP4's recipe: attention's products, the output projection, and
        about 15% of the linear layers before it (arXiv:2509.25149, section 4.1).
    """

    name: str
    data: str
    model: nn.Module
    optimizer: Callable[[Any], torch.optim.Optimizer]
    order: Callable[[int], Iterator[Any]]
    loss: Callable[[nn.Module, Any], Tensor]
    accuracy: Callable[[nn.Module], float]
    steps_per_epoch: int
    bf16_layers: tuple[str, ...]


class CNN(nn.Module):
    """Two convolutions and two linear layers, as in examples/digits_cnn.py."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 16, 3, padding=1)
        self.conv2 = nn.Conv2d(16, 16, 3)
        self.fc1 = nn.Linear(16 * ((size - 2) // 2) ** 2, 32)
        self.fc2 = nn.Linear(32, 10)

    def forward(self, images: Tensor) -> Tensor:
        """Return scores, (N, 10), of images, (N, 1, size, size)."""
        features = self.conv2(self.conv1(images).relu()).relu()
        scores: Tensor = self.fc2(self.fc1(F.max_pool2d(features, 2).flatten(1)).relu())
        return scores


def _classifier(name: str, build: Callable[[int], nn.Module], seed: int, batch: int | None, output: str) -> Task:
    pixels, numbers, source = digits()
    with seeded(seed):
        model = build(pixels.shape[-1])
    shuffled = np.random.default_rng(0).permutation(len(numbers))  # The test is the same for every seed.
    images, labels = torch.from_numpy(pixels[shuffled])[:, None], torch.from_numpy(numbers[shuffled])
    count = round(len(labels) * TRAINING_SHARE)
    size = require_int("batch", BATCH if batch is None else batch, 1, count)

    def order(epoch: int) -> Iterator[tuple[Tensor, Tensor]]:
        chosen = torch.from_numpy(np.random.default_rng((seed, epoch)).permutation(count))
        for each in chosen[: count // size * size].split(size):
            yield images[each], labels[each]

    def loss(network: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
        return F.cross_entropy(network(batch[0]), batch[1])

    def accuracy(network: nn.Module) -> float:
        with torch.no_grad():
            return float((network(images[count:]).argmax(1) == labels[count:]).double().mean())

    return Task(
        name=name,
        data=source,
        model=model,
        optimizer=lambda parameters: torch.optim.SGD(parameters, lr=LEARNING_RATE * size / BATCH),
        order=order,
        loss=loss,
        accuracy=accuracy,
        steps_per_epoch=count // size,
        bf16_layers=(output,),
    )


def _digits(seed: int, batch: int | None) -> Task:
    return _classifier("digits", CNN, seed, batch, output="fc2")


def _mlp(seed: int, batch: int | None) -> Task:
    def build(size: int) -> nn.Module:
        layers = nn.Linear(size**2, 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10)
        return nn.Sequential(nn.Flatten(), *layers)

    return _classifier("mlp", build, seed, batch, output="5")


class LSTM(nn.Module):
    """A recurrent layer of width 64 that predicts the next byte of a text."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes = nn.Embedding(256, 32)
        self.recurrent = nn.LSTM(32, 64, batch_first=True)
        self.scores = nn.Linear(64, 256)

    def forward(self, words: Tensor) -> Tensor:
        """Return scores, (N, length, 256), of bytes, (N, length)."""
        scores: Tensor = self.scores(self.recurrent(self.bytes(words))[0])
        return scores


def _text(
    name: str, build: Callable[[], nn.Module], seed: int, batch: int, length: int, bf16_layers: tuple[str, ...]
) -> Task:
    """Return the task of predicting the next byte of a text. The test uses the last eighth of the text."""
    size = require_int("batch", batch, 1, TEST_WINDOWS)
    prose, source = text()
    stream = torch.from_numpy(np.frombuffer(prose.encode(), np.uint8).astype(np.int64))
    cut = len(stream) * 7 // 8
    steps = 500  # The epoch's length is arbitrary: batches are random windows of the text.
    with seeded(seed):
        model = build()

    def windows(random: np.random.Generator, first: int, last: int, count: int) -> Tensor:
        starts = torch.from_numpy(random.integers(first, last - length, count))
        return stream[starts[:, None] + torch.arange(length + 1)]

    def order(epoch: int) -> Iterator[Tensor]:
        random = np.random.default_rng((seed, epoch))
        for _ in range(steps):
            yield windows(random, 0, cut, size)

    def loss(network: nn.Module, words: Tensor) -> Tensor:
        return F.cross_entropy(network(words[:, :-1]).flatten(0, 1), words[:, 1:].flatten())

    def accuracy(network: nn.Module) -> float:
        words = windows(np.random.default_rng(0), cut, len(stream), TEST_WINDOWS)
        with torch.no_grad():
            return float((network(words[:, :-1]).argmax(-1) == words[:, 1:]).double().mean())

    return Task(
        name=name,
        data=source,
        model=model,
        optimizer=lambda parameters: torch.optim.AdamW(parameters, lr=3e-3, betas=(0.9, 0.95)),
        order=order,
        loss=loss,
        accuracy=accuracy,
        steps_per_epoch=steps,
        bf16_layers=bf16_layers,
    )


def _gpt(seed: int, batch: int | None) -> Task:
    shape = SCALES["tiny"]
    size = shape.batch if batch is None else batch
    bf16_layers = "*/bmm*", "words", f"blocks.{shape.layers - 1}.down"
    return _text("gpt", lambda: GPT(shape), seed, size, shape.length, bf16_layers)


def _lstm(seed: int, batch: int | None) -> Task:
    return _text("lstm", LSTM, seed, LSTM_BATCH if batch is None else batch, LSTM_LENGTH, ("scores",))


TASKS: dict[str, Callable[[int, int | None], Task]] = {"digits": _digits, "mlp": _mlp, "gpt": _gpt, "lstm": _lstm}
"""Functions that build tasks, by name."""


def load_task(name: str, seed: int = 0, batch: int | None = None) -> Task:
    """Return a task by its name.

    Parameters
    ----------
    name : str
        A key of `TASKS`. "digits" is a CNN for handwritten digits, and "mlp" has linear layers for them. "gpt" is a
        small transformer for English text, and "lstm" has a recurrent layer for it.
    seed : int
        Seed of the weights and of the batches' order.
    batch : int, optional
        Number of digits or windows of text in a step. The learning rate of digits, with SGD, is proportional to it.

    Raises
    ------
    TypeError, ValueError
        If an argument is invalid.
    DataError
        If the digits are missing.

    Examples
    --------
    >>> task = load_task("mlp", seed=1)
    >>> batch = next(task.order(0))
    >>> task.loss(task.model, batch).item() > 2, task.steps_per_epoch
    (True, 96)
    """
    require_int("seed", seed, 0)
    return TASKS[require_choice("model", name, TASKS)](seed, batch)
