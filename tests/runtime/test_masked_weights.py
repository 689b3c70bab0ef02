"""Test that masks of weights are fused under `torch.compile` without changing a bit."""

from collections.abc import Iterator

import pytest
import torch
from torch import nn
from torch.nn.utils import prune

from tensordash_runtime import Device

from .test_fusing import inputs, seeded, step

pytestmark = pytest.mark.usefixtures("fresh_compiler")


class Masked(nn.Module):
    """A linear layer whose weights are multiplied by a buffer: by a mask of zeros and ones, or by other factors."""

    def __init__(self, factor: float = 1.0) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.randn(12, 8)), nn.Parameter(torch.randn(12))
        blocks = torch.arange(6).reshape(3, 2) % 3 != 1
        self.register_buffer("mask", factor * blocks.repeat_interleave(4, 0).repeat_interleave(4, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.linear(x, self.weight * self.mask, self.bias)  # type: ignore[operator]


class MaskedTwice(Masked):
    """Multiply the gradient of masked weights by the mask, and return the gradient before it as well."""

    def __init__(self) -> None:
        super().__init__()
        self.offset = nn.Parameter(torch.randn(12, 8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weights = self.weight * self.mask + self.offset  # type: ignore[operator]
        return nn.functional.linear(x, weights, self.bias)


@pytest.fixture
def skipping() -> Iterator[Device]:
    """Return a device that skips masked passes."""
    with Device("core-skip") as device:
        yield device


@pytest.mark.parametrize("shape", [(5, 8), (2, 5, 8)], ids=str)
@pytest.mark.parametrize(("factor", "masks"), [(1.0, 1), (2.0, 0)])
def test_masked_weights(skipping: Device, shape: tuple[int, ...], factor: float, masks: int) -> None:
    """The mask of weights reaches the core with their gradient's product, unless it has other values than 0 and 1."""
    model, x = seeded(lambda: Masked(factor)), inputs(*shape)
    expected, plain = step(model, x, skipping, fuse=False)
    results, run = step(model, x, skipping)
    assert all(map(torch.equal, results, expected))
    assert [each.fused for each in run.contractions].count(("mask",)) == masks
    assert len(run.contractions) == len(plain.contractions)
    with Device("core-skip", "golden") as golden:
        results, run = step(model, x, golden)
    assert all(map(torch.equal, results, expected))
    assert [each.fused for each in run.contractions].count(("mask",)) == masks


def test_cores_that_skip_nothing_get_no_masks_of_weights(device: Device, skipping: Device) -> None:
    model, x = seeded(Masked), inputs(5, 8)
    expected, _ = step(model, x, skipping)
    results, run = step(model, x, device)
    assert all(map(torch.equal, results, expected))
    assert not any("mask" in each.fused for each in run.contractions)


def test_gradients_with_two_users_have_no_mask(skipping: Device) -> None:
    model, x = seeded(MaskedTwice), inputs(5, 8)
    expected, _ = step(model, x, skipping, fuse=False)
    results, run = step(model, x, skipping)
    assert all(map(torch.equal, results, expected))
    assert not any("mask" in each.fused for each in run.contractions)


class Penalised(nn.Module):
    """Multiply by pruned weights, and add a term that uses the masked weights which `prune` stores in the layer."""

    def __init__(self, weight: float) -> None:
        super().__init__()
        self.layer, self.weight = nn.Linear(8, 12), weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x) + self.weight * (1 + self.layer.weight).square().sum()


@pytest.mark.parametrize("penalty", [0.0, 0.5])
@pytest.mark.parametrize(("factor", "masks"), [(1.0, 3), (0.75, 1)])
def test_pruned_weights(skipping: Device, penalty: float, factor: float, masks: int) -> None:
    """Both masks of weights reach the core, as ReLU's does, unless they have other values than 0 and 1.

    The host adds the gradient that masked weights have from other uses.
    """

    def pruned() -> nn.Module:
        model = seeded(lambda: Penalised(penalty) if penalty else nn.Linear(8, 12), nn.ReLU, lambda: nn.Linear(12, 4))
        for layer in [each for each in model.modules() if isinstance(each, nn.Linear)]:
            blocks = torch.rand(layer.out_features // 4, layer.in_features // 4) < 0.5
            mask = factor * blocks.repeat_interleave(4, 0).repeat_interleave(4, 1)
            prune.custom_from_mask(layer, "weight", mask.half())
        return model

    model, x = pruned(), inputs(16, 8)
    expected, plain = step(model, x, skipping, fuse=False)
    results, run = step(model, x, skipping)
    assert all(map(torch.equal, results, expected))
    assert [each.fused for each in run.contractions].count(("mask",)) == masks
    assert len(run.contractions) == len(plain.contractions)


def test_masked_weights_in_float32(skipping: Device) -> None:
    _, run = step(seeded(Masked).float(), inputs(5, 8).float(), skipping)
    assert not any("mask" in each.fused for each in run.contractions)


def test_masked_results_are_zeros_even_if_infinite(skipping: Device) -> None:
    """PyTorch multiplies an infinite result by zero, which is NaN."""
    model, x = seeded(Masked), torch.full((5, 8), 60000.0).half()
    x[:, ::3] = torch.inf
    mask = next(model.children()).mask.bool()  # type: ignore[operator]
    expected, _ = step(model, x, skipping, fuse=False)
    results, _ = step(model, x, skipping)
    assert expected[3][~mask].isnan().any()
    assert not results[3][~mask].any()
    assert torch.equal(results[3][mask].isnan(), expected[3][mask].isnan())
