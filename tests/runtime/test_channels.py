"""Test that sorted channels keep the bits of a training on a device, and what they refuse."""

import copy
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from tensordash_runtime import Device, offload, sort_channels

Build = Callable[[], tuple[Any, Any, torch.Tensor]]


def linear() -> tuple[Any, Any, torch.Tensor]:
    return nn.Linear(9, 24), nn.Linear(24, 5), torch.randn(7, 9)


def convolution() -> tuple[Any, Any, torch.Tensor]:
    return nn.Conv2d(3, 12, 3), nn.Conv2d(12, 4, 3, bias=False), torch.randn(2, 3, 7, 6)


@pytest.mark.parametrize("build", [linear, convolution])
@pytest.mark.parametrize("preset", ["core", "core-bf16"])
def test_training_keeps_its_bits(build: Build, preset: str) -> None:
    """Two runs differ only in the order of channels: results, gradients and weights are equal, with AdamW's state."""
    torch.manual_seed(0)
    first, second, x = build()
    runs = [(first, second), copy.deepcopy((first, second))]
    found: list[list[torch.Tensor]] = [[], []]
    places = torch.arange(len(first.weight))
    for sorts, (layers, results) in enumerate(zip(runs, found, strict=True)):
        optimizer = torch.optim.AdamW([each for layer in layers for each in layer.parameters()], lr=0.03)
        for step in range(4):
            with Device(preset) as device, offload(device):
                hidden = F.relu(layers[0](x))
                y = layers[1](hidden)
                optimizer.zero_grad()
                y.backward(torch.cos(torch.arange(y.numel(), dtype=torch.float32)).view(y.shape))
            optimizer.step()
            results.append(y.detach())
            if sorts and step in (0, 2):
                gradient = layers[0].weight.grad.clone()
                order = sort_channels(*layers, hidden, optimizer)
                assert torch.equal(layers[0].weight.grad, gradient[order])
                assert not torch.equal(order, torch.arange(len(order)))
                places = places[order]
    assert all(torch.equal(*each) for each in zip(*found, strict=True))
    (plain, plain_second), (sorted_first, sorted_second) = runs
    assert torch.equal(plain.weight[places], sorted_first.weight)
    assert torch.equal(plain.bias[places], sorted_first.bias)
    assert torch.equal(plain_second.weight[:, places], sorted_second.weight)


def test_most_active_channels_come_first() -> None:
    first, second = nn.Linear(2, 4), nn.Linear(4, 3)
    activations = torch.tensor([[0, 1, 0, 2], [0, 3, math.nan, 4], [0, 0, 0, -1]])
    assert sort_channels(first, second, activations).tolist() == [3, 1, 2, 0]
    images = torch.zeros(2, 4, 3, 3)
    images[1, 2, 0, 1] = 1
    assert sort_channels(nn.Conv2d(1, 4, 1), nn.Conv2d(4, 1, 1), images).tolist() == [2, 0, 1, 3]


@pytest.mark.parametrize(
    ("first", "second", "shape", "message"),
    [
        (nn.Linear(2, 4), nn.ReLU(), (3, 4), "second must be a Linear, Conv1d or Conv2d layer, not ReLU"),
        (nn.Conv2d(2, 4, 1, groups=2), nn.Conv2d(4, 1, 1), (1, 4, 1, 1), "first must have groups=1, not 2"),
        (nn.Linear(2, 4), nn.Linear(5, 2), (3, 4), "second must take the 4 channels of first, not 5"),
        (nn.Linear(2, 4), nn.Linear(4, 2), (4, 3), r"activations must have 4 channels, not the shape \(4, 3\)"),
        (nn.Conv2d(2, 4, 1), nn.Conv2d(4, 2, 1), (4, 3), r"activations must have 4 channels, not the shape \(4, 3\)"),
        (nn.Conv2d(2, 4, 1), nn.Conv2d(4, 2, 1), (4,), r"activations must have 4 channels, not the shape \(4,\)"),
    ],
)
def test_bad_input(first: Any, second: Any, shape: tuple[int, ...], message: str) -> None:
    before = copy.deepcopy(first.state_dict())
    with pytest.raises(ValueError, match=message):
        sort_channels(first, second, torch.ones(shape))
    assert all(torch.equal(before[name], value) for name, value in first.state_dict().items())
