"""GPT with static unstructured weight sparsity: small networks that can be trained, and the shapes of the 13B GPT."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from tensordash.configuration.parameters import require_choice, require_int

from ..lowering import Geometry, MatrixProduct
from .pruning import StaticSparsity, prunable
from .readers import text
from .training import Training, seeded, text_batches

__all__ = ["ACTIVATIONS", "GPT", "SCALES", "Shape", "build", "gpt_geometries", "load"]

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": F.gelu,
    "relu": F.relu,
    "relu2": lambda x: F.relu(x).square(),
}
"""Activations between the two linear layers. Source of ReLU squared: So et al. 2021, arXiv:2109.08668."""


@dataclass(frozen=True, kw_only=True)
class Shape:
    """Extents of the network's layers."""

    vocabulary: int
    layers: int
    hidden: int
    heads: int
    length: int
    batch: int


SCALES = {
    "full": Shape(vocabulary=50_257, layers=40, hidden=5120, heads=40, length=2048, batch=1),
    "small": Shape(vocabulary=256, layers=4, hidden=128, heads=4, length=128, batch=16),
    "tiny": Shape(vocabulary=256, layers=2, hidden=32, heads=2, length=16, batch=4),
}


class Block(nn.Module):
    """Causal attention, then two linear layers with an activation between them; a normalization precedes each part."""

    def __init__(self, shape: Shape, activation: str) -> None:
        super().__init__()
        self.activation = ACTIVATIONS[activation]
        self.heads = shape.heads
        self.norm1, self.norm2 = nn.LayerNorm(shape.hidden), nn.LayerNorm(shape.hidden)
        self.qkv = nn.Linear(shape.hidden, 3 * shape.hidden)
        self.out = nn.Linear(shape.hidden, shape.hidden)
        self.up = nn.Linear(shape.hidden, 4 * shape.hidden)
        self.down = nn.Linear(4 * shape.hidden, shape.hidden)

    def forward(self, x: Tensor) -> Tensor:
        """Return the block's output. Attention consists of single operations, so that its products can be recorded."""
        batch, length, hidden = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        scores = q @ k.mT / (hidden // self.heads) ** 0.5
        later = torch.ones(length, length, dtype=torch.bool, device=x.device).triu(1)
        attended = scores.masked_fill(later, -torch.inf).softmax(-1) @ v
        x = x + self.out(attended.transpose(1, 2).reshape(batch, length, hidden))
        y: Tensor = x + self.down(self.activation(self.up(self.norm2(x))))
        return y


class GPT(nn.Module):
    """Embeddings, blocks, and an output layer that shares the words' embeddings."""

    def __init__(self, shape: Shape, activation: str = "gelu") -> None:
        super().__init__()
        self.words = nn.Embedding(shape.vocabulary, shape.hidden)
        self.positions = nn.Embedding(shape.length, shape.hidden)
        self.blocks = nn.Sequential(*(Block(shape, activation) for _ in range(shape.layers)))
        self.norm = nn.LayerNorm(shape.hidden)
        for module in self.modules():
            if isinstance(module, nn.Linear | nn.Embedding):
                nn.init.normal_(module.weight, std=0.02)
            if isinstance(module, nn.Linear):
                nn.init.zeros_(module.bias)
        for name, parameter in self.named_parameters():
            if name.endswith(("out.weight", "down.weight")):  # Their outputs add up over the layers.
                nn.init.normal_(parameter, std=0.02 / (2 * shape.layers) ** 0.5)

    def forward(self, words: Tensor) -> Tensor:
        """Return scores of the next word at every position, (batch, length, vocabulary)."""
        positions = torch.arange(words.shape[1], device=words.device)
        y = self.norm(self.blocks(self.words(words) + self.positions(positions)))
        scores: Tensor = F.linear(y, self.words.weight)
        return scores


def build(scale: str, activation: str = "gelu") -> GPT:
    """Return the network alone, with random weights. The full scale needs PyTorch's meta device.

    Raises
    ------
    ValueError
        If the scale is full and the default device is not meta. The weights would take 51 GB.
    """
    if scale == "full" and torch.get_default_device().type != "meta":
        raise ValueError(
            "scale of gpt must be small or tiny, not full: 13 billion weights; gpt_geometries() gives their shapes"
        )
    return GPT(SCALES[scale], activation)


def gpt_geometries(batch: int = 1, scale: str = "full") -> Iterator[tuple[str, Geometry]]:
    """Yield every matrix product of a GPT's forward pass, for simulation, without allocating tensors.

    A training step computes all three operations of each product. All blocks have the same shapes.

    Parameters
    ----------
    batch : int
        Number of sequences.
    scale : str
        A key of `SCALES`.

    Yields
    ------
    name : str
        Name of the layer in the model. Attention's two products are "attention.scores" and "attention.values".
    geometry : MatrixProduct
        Shapes of the product.

    Examples
    --------
    >>> shapes = dict(gpt_geometries())
    >>> len(shapes), shapes["blocks.39.up"]
    (241, MatrixProduct(batch=1, samples=2048, in_features=5120, out_features=20480))
    >>> attention = shapes["blocks.0.attention.scores"].macs + shapes["blocks.0.attention.values"].macs
    >>> attention / sum(shape.macs for name, shape in shapes.items() if name.startswith("blocks.0."))
    0.0625
    """
    shape = SCALES[scale]
    samples, hidden, head = require_int("batch", batch, 1) * shape.length, shape.hidden, shape.hidden // shape.heads

    def linear(inputs: int, outputs: int) -> MatrixProduct:
        return MatrixProduct(batch=1, samples=samples, in_features=inputs, out_features=outputs)

    def attention(inputs: int, outputs: int) -> MatrixProduct:
        products = batch * shape.heads
        return MatrixProduct(batch=products, samples=shape.length, in_features=inputs, out_features=outputs)

    for layer in range(shape.layers):
        yield f"blocks.{layer}.qkv", linear(hidden, 3 * hidden)
        yield f"blocks.{layer}.attention.scores", attention(head, shape.length)
        yield f"blocks.{layer}.attention.values", attention(shape.length, head)
        yield f"blocks.{layer}.out", linear(hidden, hidden)
        yield f"blocks.{layer}.up", linear(hidden, 4 * hidden)
        yield f"blocks.{layer}.down", linear(4 * hidden, hidden)
    yield "words", linear(hidden, shape.vocabulary)


def _loss(model: nn.Module, words: Tensor) -> Tensor:
    loss: Tensor = F.cross_entropy(model(words[:, :-1]).flatten(0, 1), words[:, 1:].flatten())
    return loss


def _penalised_loss(model: nn.Module, words: Tensor, weight: float) -> Tensor:
    """Return the loss plus `weight` times the sum, over blocks, of the mean magnitude of activations."""
    found: list[Tensor] = []
    handles = [
        block.down.register_forward_pre_hook(lambda _, inputs: found.append(inputs[0].abs().mean()))
        for block in model.modules()
        if isinstance(block, Block)
    ]
    try:
        loss = _loss(model, words)
    finally:
        for handle in handles:
            handle.remove()
    for magnitude in found:
        loss = loss + weight * magnitude
    return loss


def load(
    scale: str, seed: int, *, sparsity: float = 0.875, activation: str = "gelu", activation_penalty: float = 0.0
) -> Training:
    """Return the network in training. It predicts bytes.

    Parameters
    ----------
    scale, seed
        As in `tensordash_sim.networks.load`, without "full".
    sparsity : float
        Share of zeros in the weights of every linear layer in the blocks, drawn once; 0 is dense. Embeddings are always
        dense. Dense and sparse runs with the same seed have the same batches and the same initial weights.
    activation : str
        One of `ACTIVATIONS`.
    activation_penalty : float
        Weight of an L1 penalty in the loss: the mean magnitude of activations, added up over blocks. It increases the
        zeros of activations that have zeros.

    Raises
    ------
    ValueError
        If the activation is unknown, or the penalty is negative or not finite.
    """
    require_choice("activation", activation, ACTIVATIONS)
    if not 0 <= activation_penalty < np.inf:
        raise ValueError(f"activation_penalty must be a number of at least 0, not {activation_penalty}")
    shape = SCALES[scale]
    with seeded(seed):
        model = build(scale, activation)
    prose, source = text()
    characters = np.frombuffer(prose.encode(), np.uint8).astype(np.int64)
    hooks = StaticSparsity(prunable(model), sparsity, torch.Generator().manual_seed(seed))
    return Training(
        model=model,
        optimizer=torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.95), weight_decay=0.1),
        batches=text_batches(characters, length=shape.length, batch=shape.batch, seed=seed),
        loss=partial(_penalised_loss, weight=activation_penalty) if activation_penalty else _loss,
        steps_per_epoch=len(characters) // (shape.length * shape.batch),
        conditions={
            "data": source,
            "batch": str(shape.batch),
            "length": f"{shape.length} bytes",
            "sparsity": str(sparsity),
        }
        | ({} if activation == "gelu" else {"activation": activation})
        | ({"activation_penalty": str(activation_penalty)} if activation_penalty else {}),
        seed=seed,
        hooks=hooks,
        clip=1.0,
    )
