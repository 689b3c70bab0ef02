"""BERT from the package transformers, fine-tuned to classify sentences as positive or negative."""

import re
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from tensordash.extras import require

from .data import available, dataset_folder
from .images import classifier_loss
from .readers import rated_sentences
from .training import Training, seeded

__all__ = ["SCALES", "Classifier", "Shape", "build", "load"]

PAD = 0
CLS = 101
SEP = 102
"""Tokens of BERT's vocabulary at the start and at the end of a sentence."""


@dataclass(frozen=True, kw_only=True)
class Shape:
    """Extents of the network. The pretrained weights fit scales with MiniLM's extents."""

    vocabulary: int = 30_522
    hidden: int = 384
    layers: int = 6
    heads: int = 12
    inner: int = 1536
    length: int
    batch: int


# The network is small: only length and batch have to be reduced for a small machine.
SCALES = {
    "full": Shape(length=128, batch=32),
    "small": Shape(length=64, batch=8),
    "tiny": Shape(vocabulary=1000, hidden=32, layers=2, heads=2, inner=64, length=16, batch=4),
}


def _transformers() -> Any:
    require("bert", "transformers")
    return import_module("transformers")


class Classifier(nn.Module):
    """BERT with its pooler, dropout and a linear layer."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        transformers = _transformers()
        config = transformers.BertConfig(
            vocab_size=shape.vocabulary,
            hidden_size=shape.hidden,
            num_hidden_layers=shape.layers,
            num_attention_heads=shape.heads,
            intermediate_size=shape.inner,
            # Eager attention consists of single operations, whose products can be recorded.
            attn_implementation="eager",
        )
        self.bert = transformers.BertModel(config)
        self.dropout = nn.Dropout(0.1)
        self.classifier = nn.Linear(shape.hidden, 2)

    def forward(self, words: Tensor) -> Tensor:
        """Return scores of negative and positive, (batch, 2); padding is 0."""
        pooled = self.bert(input_ids=words, attention_mask=(words != PAD).long()).pooler_output
        scores: Tensor = self.classifier(self.dropout(pooled))
        return scores


def build(scale: str) -> Classifier:
    """Return the network alone, with random weights."""
    return Classifier(SCALES[scale])


def _load_pretrained(model: Classifier) -> None:
    load_file: Callable[..., dict[str, Tensor]] = import_module("safetensors.torch").load_file
    weights = load_file(dataset_folder("minilm") / "model.safetensors")
    weights.pop("embeddings.position_ids", None)  # Older files store these indices.
    model.bert.load_state_dict(weights)


def _tokenizer(shape: Shape, pretrained: bool) -> Callable[[str], list[int]]:
    """Return a function from text to word numbers: MiniLM's word pieces, or words hashed into the vocabulary."""
    if pretrained:
        tokenizer = import_module("tokenizers").Tokenizer.from_file(str(dataset_folder("minilm") / "tokenizer.json"))
        tokenizer.no_padding()
        tokenizer.enable_truncation(shape.length)
        return lambda sentence: list(tokenizer.encode(sentence).ids)
    first = SEP + 1

    def hashed(sentence: str) -> list[int]:
        words = re.findall(r"\w+|[^\w\s]", sentence.lower())[: shape.length - 2]
        return [CLS, *(first + zlib.crc32(word.encode()) % (shape.vocabulary - first) for word in words), SEP]

    return hashed


def _generate_sentences() -> list[tuple[str, float]]:
    """Generate sentences, each with one word that carries its sentiment."""
    random = np.random.default_rng(0)
    good, bad = ["good", "great", "lovely", "superb"], ["bad", "poor", "awful", "dreadful"]
    others = ["the", "a", "film", "book", "day", "meal", "was", "seemed", "and", "with", "very", "people", "story"]
    sentences = []
    for _ in range(4000):
        positive = bool(random.integers(2))
        words = list(random.choice(others, random.integers(6, 24)))
        words[random.integers(len(words))] = str(random.choice(good if positive else bad))
        sentences.append((" ".join(words), 2.0 if positive else -2.0))
    return sentences


def _batches(seed: int, shape: Shape, pretrained: bool) -> tuple[Iterator[tuple[Tensor, Tensor]], int, str]:
    real = rated_sentences()
    # Sentences rated near 0 are neither positive nor negative.
    rated = [(sentence, rating > 0) for sentence, rating in real or _generate_sentences() if abs(rating) >= 0.5]
    tokenize = _tokenizer(shape, pretrained)

    def batches() -> Iterator[tuple[Tensor, Tensor]]:
        random = np.random.default_rng(seed)
        while True:
            order = random.permutation(len(rated))
            for start in range(0, len(rated) - shape.batch + 1, shape.batch):
                chosen = [rated[index] for index in order[start : start + shape.batch]]
                words = [torch.tensor(tokenize(sentence)) for sentence, _ in chosen]
                labels = torch.tensor([int(positive) for _, positive in chosen])
                yield nn.utils.rnn.pad_sequence(words, batch_first=True, padding_value=PAD), labels

    source = "VADER's rated sentences (real)" if real else "made sentences"
    return batches(), len(rated) // shape.batch, source


def load(scale: str, seed: int) -> Training:
    """Return the network in training, from pretrained weights if they are available and have its shape."""
    shape = SCALES[scale]
    pretrained = shape.hidden == 384 and available("minilm")
    with seeded(seed):
        model = build(scale)
    if pretrained:
        _load_pretrained(model)
    model.train()
    batches, steps, source = _batches(seed, shape, pretrained)
    return Training(
        model=model,
        optimizer=torch.optim.AdamW(model.parameters(), lr=5e-5 if pretrained else 3e-4),
        batches=batches,
        loss=classifier_loss,
        steps_per_epoch=steps,
        conditions={
            "data": source,
            "weights": "all-MiniLM-L6-v2 (pretrained)" if pretrained else "random",
            "batch": str(shape.batch),
            "length": f"up to {shape.length} words",
        },
        seed=seed,
        clip=1.0,
    )
