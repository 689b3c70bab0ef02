"""Test that fusing under `torch.compile` changes no bit and fuses every element-wise operation that a core can."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import tensordash_runtime.compiled as compiled
from tensordash.configuration.core_config import CoreConfig
from tensordash_runtime import Device, Run
from tensordash_sim.golden.core.golden_core import GoldenCore

ATEN = torch.ops.aten
ELEMENT_WISE = {ATEN.relu.default: "relu", ATEN.threshold_backward.default: "mask"}


pytestmark = pytest.mark.usefixtures("fresh_compiler")


def seeded(*layers: Callable[[], nn.Module]) -> nn.Module:
    """Return layers whose weights have few bits, so that the first sums are exact in FP32.

    Rounding such a sum before and after the bias is added equals rounding once: see `test_biases_are_rounded_once`.
    """
    torch.manual_seed(0)
    model = nn.Sequential(*(make() for make in layers))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_((parameter * 32).round() / 32)
    return model.half()


def inputs(*shape: int) -> torch.Tensor:
    return ((torch.randn(shape, generator=torch.Generator().manual_seed(1)) * 8).round() / 8).half()


def step(model: nn.Module, x: torch.Tensor, device: Device, **options: Any) -> tuple[list[torch.Tensor], Run]:
    """Run a compiled step; return its result, loss and gradients."""
    run = Run(device)
    torch._dynamo.reset()
    options = {"device": device, "run": run, "strict": True, **options}
    x = x.detach().requires_grad_()
    model.zero_grad()
    output = torch.compile(model, backend="tensordash", options=options)(x)
    loss = output.float().square().mean()
    loss.backward()
    assert x.grad is not None
    gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    return [output.detach(), loss.detach(), x.grad, *gradients], run


def count_unfused(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Count the element-wise operations that remain in graphs compiled after this call."""
    found: Counter[str] = Counter()
    fuse = compiled.fuse

    def counting(module: torch.fx.GraphModule, config: CoreConfig) -> None:
        fuse(module, config)
        found.update(ELEMENT_WISE[node.target] for node in module.graph.nodes if node.target in ELEMENT_WISE)

    monkeypatch.setattr(compiled, "fuse", counting)
    return found


class ReluWithInput(nn.Module):
    """Use both the input and the output of ReLU."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        output = self.layer(x)
        return output.relu() + output


class ScaledProducts(nn.Module):
    """Scaled matrix products, and addends other than a bias per column."""

    def __init__(self) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.randn(4, 5)), nn.Parameter(torch.randn(5))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = torch.addmm(self.bias, x, self.weight, alpha=2).relu()
        return torch.addmm(hidden, x, self.weight).relu() + torch.addmm(self.bias[:1], x, self.weight, beta=3).relu()


CONV, LAST = (lambda: nn.Conv2d(3, 5, 3, padding=1)), (lambda: nn.Conv2d(5, 2, 3, stride=2))
IMAGES = 2, 3, 6, 7
CASES: dict[str, tuple[list[Callable[[], nn.Module]], tuple[int, ...], list[str], dict[str, int]]] = {
    "convolutions": ([CONV, nn.ReLU, LAST], IMAGES, ["bias relu", "bias", "mask"], {}),
    "groups": (
        [lambda: nn.Conv2d(3, 6, (3, 2), groups=3), nn.ReLU, lambda: nn.Conv2d(6, 4, 2, groups=2, bias=False)],
        IMAGES,
        ["bias relu", "mask"],
        {},
    ),
    "a pool": ([CONV, nn.ReLU, lambda: nn.MaxPool2d(2), LAST], IMAGES, ["bias relu", "bias"], {"mask": 1}),
    "linear layers": (
        [lambda: nn.Linear(9, 7), nn.ReLU, lambda: nn.Linear(7, 6, bias=False), nn.ReLU, lambda: nn.Linear(6, 3)],
        (5, 9),
        ["bias relu", "relu", "bias", "mask", "mask"],
        {},
    ),
    "two users": ([lambda: ReluWithInput(nn.Conv2d(3, 4, 3))], IMAGES, ["bias"], {"relu": 1, "mask": 1}),
    "a view": (
        [CONV, nn.ReLU, nn.Flatten, lambda: nn.Linear(5 * 6 * 7, 4)],
        IMAGES,
        ["bias relu", "bias"],
        {"mask": 1},
    ),
    "a view after a product": (
        [lambda: nn.Linear(7, 4), lambda: nn.Unflatten(0, (2, 3)), nn.ReLU],
        (6, 7),
        ["bias"],
        {"relu": 1, "mask": 1},
    ),
    "another threshold": ([CONV, lambda: nn.Threshold(0.0, 0.0), LAST], IMAGES, ["bias", "bias"], {"mask": 1}),
    "more than a bias": ([ScaledProducts], (3, 4), [], {"relu": 3, "mask": 3}),
    "transposed": (
        [lambda: nn.ConvTranspose2d(3, 4, 2), nn.ReLU, lambda: nn.ConvTranspose2d(4, 2, 2)],
        IMAGES,
        [],
        {"relu": 1, "mask": 1},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_fused_results_are_bit_identical(device: Device, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    layers, shape, fused, elements = CASES[name]
    model, x = seeded(*layers), inputs(*shape)
    expected, plain = step(model, x, device, fuse=False)
    counted = count_unfused(monkeypatch)
    results, run = step(model, x, device)
    are_equal = [torch.equal(actual, reference) for actual, reference in zip(results, expected, strict=True)]
    assert are_equal == [True] * len(expected)
    assert Counter(" ".join(each.fused) for each in run.contractions if each.fused) == Counter(fused)
    assert counted == elements
    assert not any(each.fused for each in plain.contractions)
    roles = [Counter((each.layer, each.operation) for each in of.contractions) for of in (run, plain)]
    assert roles[0] == roles[1]


def test_on_the_golden_core(device: Device) -> None:
    model, x = seeded(lambda: nn.Conv2d(2, 3, 2), nn.ReLU, lambda: nn.Conv2d(3, 2, 2)), inputs(2, 2, 4, 5)
    expected, _ = step(model, x, device)
    with Device("core", "golden") as golden:
        for fuse in (True, False):
            results, run = step(model, x, golden, fuse=fuse)
            assert all(map(torch.equal, results, expected))
            assert [each.fused for each in run.contractions].count(("mask",)) == fuse


def test_channels_last(device: Device) -> None:
    model = seeded(CONV, nn.ReLU, LAST)
    model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    x = inputs(*IMAGES).to(memory_format=torch.channels_last)
    expected, _ = step(model, x, device, fuse=False)
    results, run = step(model, x, device)
    assert all(map(torch.equal, results, expected))
    assert [each.fused for each in run.contractions].count(("mask",)) == 1


def test_forward_only(device: Device) -> None:
    model, x, outputs = seeded(CONV, nn.ReLU, LAST, nn.ReLU).eval(), inputs(*IMAGES), []
    for fuse in (False, True):
        torch._dynamo.reset()
        run = Run(device)
        options: Any = {"device": device, "run": run, "strict": True, "fuse": fuse}
        with torch.no_grad():
            outputs.append(torch.compile(model, backend="tensordash", options=options)(x))
    assert torch.equal(*outputs)
    assert [each.fused for each in run.contractions] == [("bias", "relu")] * 2


@pytest.mark.parametrize("autocast", [False, True])
def test_float32(device: Device, autocast: bool) -> None:
    """FP32 results have no masks. Under autocast, tensors have the operand type."""
    model, x = seeded(lambda: nn.Linear(6, 5), nn.ReLU, lambda: nn.Linear(5, 3)).float(), inputs(4, 6).float()
    with torch.autocast("cpu", torch.float16, enabled=autocast):
        expected, _ = step(model, x, device, fuse=False)
        results, run = step(model, x, device)
    assert all(map(torch.equal, results, expected))
    found = [each.fused for each in run.contractions if each.fused]
    assert found == [("bias", "relu"), ("bias",), *[("mask",)] * autocast]


def test_biases_are_rounded_once(device: Device) -> None:
    """The device adds a bias before it rounds the sum; PyTorch rounds the sum first."""
    torch.manual_seed(0)
    linear, x = nn.Linear(50, 300).half().float(), torch.randn(100, 50).half().float()
    exact, bias = x.double() @ linear.weight.double().T, linear.bias
    results, run = step(nn.Sequential(linear, nn.ReLU()), x, device)
    assert torch.equal(results[0], (exact + bias).float().relu())
    assert not torch.equal(results[0], (exact.float() + bias).relu())
    assert run.contractions[0].fused == ("bias", "relu")


@pytest.mark.parametrize(
    ("without", "fused"), [("bias", ["mask"]), ("relu", ["bias", "bias", "mask"]), ("mask", ["bias relu", "bias"])]
)
def test_features_that_the_core_lacks(without: str, fused: list[str]) -> None:
    model, x = seeded(CONV, nn.ReLU, LAST), inputs(*IMAGES)
    with Device(CoreConfig.from_toml("", [f"core.{without}=false"])) as device:
        expected, _ = step(model, x, device, fuse=False)
        results, run = step(model, x, device)
    assert all(map(torch.equal, results, expected))
    assert [" ".join(each.fused) for each in run.contractions if each.fused] == fused


def test_a_tile_fuses_nothing() -> None:
    with Device(CoreConfig().tile) as tile:
        _, run = step(seeded(CONV, nn.ReLU, LAST), inputs(*IMAGES), tile)
    assert [each.fused for each in run.contractions] == [()] * 6


def test_missed_operations_are_listed(device: Device) -> None:
    """PyTorch computes the operations one after the other, and the run lists them."""
    model, x = (
        seeded(lambda: nn.Conv2d(3, 4, 2, stride=(1, 5)), nn.ReLU, lambda: nn.Conv2d(4, 2, 2)),
        inputs(2, 3, 6, 20),
    )
    expected, _ = step(model, x, device, strict=False, fuse=False)
    results, run = step(model, x, device, strict=False)
    assert all(map(torch.equal, results, expected))
    assert [each.operation for each in run.missed] == ["AxW", "WxG", "AxG"]


def test_run_lists_fused_operations(device: Device) -> None:
    _, run = step(seeded(CONV, nn.ReLU, LAST), inputs(*IMAGES), device)
    contractions = run.to_json()["contractions"]
    assert [each["fused"] for each in contractions if each["fused"]] == [["bias", "relu"], ["bias"], ["mask"]]
    assert "AxW + bias + relu" in str(run)
    assert "WxG + mask" in str(run)


@pytest.mark.parametrize("which", ["fused_convolution", "fused_convolution_input", "fused_matmul", "masked_matmul"])
def test_registrations(which: str) -> None:
    """PyTorch checks that schema and fake tensors match the computed tensors."""
    a, w, g, b = torch.randn(2, 3, 5, 5), torch.randn(4, 3, 2, 2), torch.randn(2, 4, 4, 4), torch.randn(4)
    settings = [1, 1], [0, 0], [1, 1], False, [0, 0], 1
    arguments: Any = {
        "fused_convolution": (a, w, b, *settings, True),
        "fused_convolution_input": (g, a, w, *settings, torch.randn_like(a)),
        "fused_matmul": (b, torch.randn(3, 5), torch.randn(5, 4), True, torch.randn(3, 4)),
        "masked_matmul": (torch.randn(3, 5), torch.randn(5, 4), torch.ones(3, 4), torch.randn(3, 4)),
    }[which]
    operation = getattr(torch.ops.tensordash, which).default
    torch.library.opcheck(operation, arguments, test_utils=("test_schema", "test_faketensor"))


def sparse_network() -> nn.Module:
    """Return a network in which some units are zero after ReLU for all inputs, and others for most."""
    model = seeded(lambda: nn.Linear(8, 24), nn.ReLU, lambda: nn.Linear(24, 4))
    first = next(model.children())
    assert isinstance(first, nn.Linear)
    with torch.no_grad():
        first.bias.copy_(1 - torch.arange(24) / 8)
    return model


def test_masked_passes_are_skipped(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    skipped: Counter[bool] = Counter()
    is_masked = GoldenCore._is_masked

    def counting(*arguments: Any) -> bool:
        found = is_masked(*arguments)
        skipped[found] += 1
        return found

    monkeypatch.setattr(GoldenCore, "_is_masked", counting)
    model, x = sparse_network(), inputs(8, 8)
    expected, _ = step(model, x, device)
    with Device("core-skip", "golden") as core:
        results, _ = step(model, x, core)
    assert all(map(torch.equal, results, expected))
    assert skipped[True]
    assert skipped[False]


@pytest.mark.slow
def test_masked_passes_are_skipped_on_verilog(device: Device) -> None:
    model, x = sparse_network(), inputs(40, 8)
    expected, _ = step(model, x, device)
    with Device("core-skip", "verilator", quick=True) as core:
        results, _ = step(model, x, core)
    assert all(map(torch.equal, results, expected))
