"""Compare host calls with PyTorch, and their C code under sanitizers with Python."""

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.preset import load_any_preset
from tensordash_runtime import compile_step
from tensordash_runtime.program_folder.building import PlanBuilder
from tensordash_runtime.program_folder.execution import read_tensor, run_plan
from tensordash_runtime.program_folder.folder import ProgramFolder, run_folder
from tensordash_runtime.program_folder.host_math import exp, log
from tensordash_runtime.program_folder.tensors import StepTensor, groups_of
from tensordash_sim.lowering import MatrixProduct

from .host_calls_in_c import FLAGS, IMAGES, add, add_result, build, compute, hard_numbers, require_equal
from .loaded_memory import load_memory

SCORES = MatrixProduct(batch=1, samples=6, in_features=9, out_features=5)
POOL = {"kernel_y": 3, "kernel_x": 2, "stride_y": 2, "stride_x": 1, "padding_y": 1, "padding_x": 1}
"""These windows overlap each other and the image's border."""


# C


@pytest.mark.parametrize(
    ("preset", "kind"),
    [("core", "fp16"), ("core-bf16", "bf16"), ("core-fp8", "fp8_e4m3"), ("core-fp8", "fp8_e5m2")],
)
def test_conversions(preset: str, kind: str, tmp_path: Path) -> None:
    """Decode every pattern of the format, and round special numbers, in groups of 4 and 8 lanes."""
    config = load_any_preset(preset)
    assert isinstance(config, CoreConfig)
    builder = PlanBuilder(config)
    width = config.value_bits
    layer = MatrixProduct(batch=1, samples=1 << width // 2, in_features=1 << width // 2, out_features=1)
    shape, groups = layer.shapes["A"], groups_of(layer, "A")
    patterns = StepTensor(name="patterns", shape=shape, format=kind, groups=groups)
    builder.add_tensor(patterns)
    builder.values["patterns"] = builder.initial["patterns"] = (
        np.arange(1 << width).astype(f"u{width // 8}").reshape(shape)
    )
    add(builder, "numbers", hard_numbers(1 << width).reshape(shape))
    add_result(builder, "decoded", shape)
    add_result(builder, "rounded", shape, kind, groups=groups)
    builder.add_host_call("convert", {"x": "patterns", "result": "decoded"})
    builder.add_host_call("convert", {"x": "numbers", "result": "rounded"})
    assert require_equal(build(builder), tmp_path) == ["convert", "convert"]


def test_element_wise_functions(builder: PlanBuilder, tmp_path: Path) -> None:
    """Operands may differ in their layout. Padding of groups becomes zero."""
    shape = IMAGES.shapes["A"]
    groups, turned = groups_of(IMAGES, "A"), groups_of(IMAGES, "A", turned=True)
    rounded = hard_numbers(int(np.prod(shape)), 1).reshape(shape)
    add(builder, "x", rounded, format="fp16", groups=groups)
    add(builder, "gradient", hard_numbers(rounded.size, 2).reshape(shape), groups=turned)
    add(builder, "plain", hard_numbers(rounded.size, 3).reshape(shape))
    add_result(builder, "relu", shape, "fp16", groups=groups)
    add_result(builder, "backward", shape, "fp32", groups=groups)
    add_result(builder, "plain_relu", shape)
    add_result(builder, "converted", shape, "fp16", groups=groups)
    builder.add_host_call("convert", {"x": "plain", "result": "converted"})
    builder.add_host_call("relu", {"x": "x", "result": "relu"})
    builder.add_host_call("relu", {"x": "plain", "result": "plain_relu"})
    builder.add_host_call("relu_backward", {"gradient": "gradient", "y": "relu", "result": "backward"})
    require_equal(build(builder), tmp_path)


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_optimizer_updates(momentum: float, builder: PlanBuilder, tmp_path: Path) -> None:
    shape = IMAGES.shapes["W"]
    numbers = [hard_numbers(int(np.prod(shape)), k).reshape(shape) for k in range(3)]
    add(builder, "p", numbers[0])
    add(builder, "g", numbers[1], groups=groups_of(IMAGES, "W", turned=True))
    tensors = {"parameter": "p", "gradient": "g"}
    if momentum:
        tensors["velocity"] = add(builder, "v", numbers[2])
    parameters = {"rate": 0.1, "momentum": momentum, "weight_decay": 0.01 * momentum, "gradient_scale": 2.0**-10}
    builder.add_host_call("sgd", tensors, **{name: float(np.float32(each)) for name, each in parameters.items()})
    require_equal(build(builder), tmp_path)


def repeated_numbers(count: int) -> np.ndarray:
    return np.arange(count, dtype=np.float32) % 7


@pytest.mark.parametrize("kind", ["fp16", "fp32"])
@pytest.mark.parametrize("numbers", [hard_numbers, repeated_numbers])
def test_pooling(numbers: Callable[[int], np.ndarray], kind: str, builder: PlanBuilder, tmp_path: Path) -> None:
    """Gradients of overlapping windows add up. Of equal values, the first gets the gradient."""
    shape, out = IMAGES.shapes["A"], (2, 5, 4, 7)
    x = numbers(int(np.prod(shape))).reshape(shape)
    add(builder, "x", x, format="fp16", groups=groups_of(IMAGES, "A"))
    flat = MatrixProduct(batch=1, samples=2, in_features=140, out_features=1)
    add_result(builder, "result", out, "fp16", groups=groups_of(flat, "A"))
    add(builder, "gradient", numbers(280).reshape(out), groups=groups_of(flat, "A"))
    backward_groups = groups_of(IMAGES, "A", turned=kind == "fp32")
    add_result(builder, "backward", shape, kind, groups=backward_groups)
    shapes = {"x": list(shape)}
    builder.add_host_call("max_pool", {"x": "x", "result": "result"}, shapes=shapes, **POOL)
    shapes = {"x": list(shape), "gradient": list(out)}
    backward = {"gradient": "gradient", "x": "x", "result": "backward"}
    builder.add_host_call("max_pool_backward", backward, shapes=shapes, **POOL)
    require_equal(build(builder), tmp_path)


@pytest.mark.parametrize("kind", ["ordinary", "large", "hard", "label"])
def test_loss(kind: str, builder: PlanBuilder, tmp_path: Path) -> None:
    """Scores include infinities and NaN, and one label is no class."""
    shape = SCORES.shapes["G"]
    scale = 60.0 if kind == "large" else 1.0
    scores = (np.random.default_rng(0).standard_normal(shape) * scale).astype(np.float32)
    labels = np.array([0, 4, 2, 3, 1, 1 << 30 if kind == "label" else 2], np.int32)
    if kind == "hard":
        scores[0, 0, 2], scores[0, 1, 0], scores[0, 2, 4] = np.nan, np.nan, np.inf
        scores[0, 3], scores[0, 4, 1] = -np.inf, -np.inf
    groups = groups_of(SCORES, "G")
    add(builder, "scores", scores, groups=groups)
    add(builder, "labels", labels)
    add_result(builder, "loss", (1,))
    add_result(builder, "gradient", shape, "fp16", groups=groups)
    names = {name: name for name in ("scores", "labels", "loss", "gradient")}
    shapes = {"scores": list(shape[1:]), "labels": [6]}
    builder.add_host_call("softmax_cross_entropy", names, shapes=shapes, gradient_scale=float(np.float32(1024 / 6)))
    require_equal(build(builder), tmp_path)


class Residual(nn.Module):
    """A small ResNet with BatchNorm, a sum of strided branches, and a mean over planes."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.norm1 = nn.Conv2d(1, 5, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(5)
        self.conv2, self.norm2 = nn.Conv2d(1, 5, 1, stride=2, bias=False), nn.BatchNorm2d(5, momentum=0.2)
        self.linear = nn.Linear(5, 3)

    def forward(self, x: Tensor) -> Tensor:
        """Return scores of images."""
        branches = F.relu(self.norm1(self.conv1(x))) + self.norm2(self.conv2(x))
        scores: Tensor = self.linear(torch.flatten(F.adaptive_avg_pool2d(F.relu(branches), 1), 1))
        return scores


def feed_forward() -> nn.Module:
    layers = nn.Flatten(), nn.Linear(36, 9), nn.LayerNorm(9), nn.GELU(), nn.Linear(9, 7), nn.ReLU(), nn.Linear(7, 3)
    return nn.Sequential(*layers)


def pooled() -> nn.Module:
    return nn.Sequential(nn.Conv2d(1, 5, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(20, 3))


NETWORKS = {"pooled": pooled, "residual": Residual, "feed_forward": feed_forward}


@pytest.mark.parametrize("network", NETWORKS)
def test_training_step(network: str, tmp_path: Path) -> None:
    """Host calls run between the core's products. Values differ from PyTorch's only by rounding."""
    torch.manual_seed(0)
    model = NETWORKS[network]()
    sgd = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.5, weight_decay=0.01)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, weight_decay=0.5) if network == "feed_forward" else sgd
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    scale: dict[str, Any] = {} if network == "pooled" else {"loss_scale": scaler}
    images, labels = torch.rand(3, 1, 6, 6), torch.tensor([0, 2, 1])
    folder = compile_step(model, F.cross_entropy, optimizer, (images, labels), **scale)
    functions = set(require_equal(folder, tmp_path))
    assert {
        "pooled": {"max_pool_backward", "sum_channels", "sgd"},
        "residual": {"normalize_backward", "add", "spread_mean", "find_overflow", "update_scale", "relu_backward"},
        "feed_forward": {"compute_statistics", "normalize_sums", "gelu_backward", "update_corrections", "adamw"},
    }[network] < functions
    subprocess.run(["gcc", *FLAGS, "-O2", "-ffreestanding", "-c", "host.c"], cwd=tmp_path, check=True)
    symbols = subprocess.run(["nm", "-u", "host.o"], cwd=tmp_path, check=True, capture_output=True, text=True).stdout
    assert {line.split()[-1] for line in symbols.splitlines()} <= {"memcpy", "memset", "_GLOBAL_OFFSET_TABLE_"}
    assert run_folder(folder, "golden")[1] == ""
    loss = F.cross_entropy(model(images), labels)
    loss.backward()
    optimizer.step()

    def found(name: str) -> np.ndarray:
        tensor = folder.plan.tensors[name]
        return tensor.numbers(tensor.from_bytes(folder.expected_bytes(name), folder.plan.config))

    assert found("loss")[0] == pytest.approx(loss.item(), abs=2e-3)
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None
        gradient = found(f"{name}.gradient").reshape(parameter.shape) / 1024
        np.testing.assert_allclose(gradient, parameter.grad.numpy(), atol=3e-3)
        # AdamW's first step uses the gradient's sign, which rounding can change if the gradient is small.
        clear = abs(gradient) > (-1 if optimizer is sgd else 1e-2)
        np.testing.assert_allclose(found(name)[clear], parameter.detach().numpy()[clear], atol=5e-4)
    for name, buffer in model.named_buffers():
        if not name.endswith("num_batches_tracked"):
            np.testing.assert_allclose(found(name), buffer.numpy(), atol=1e-3)


def compiled_step(preset: str) -> tuple[nn.Module, tuple[Tensor, Tensor], ProgramFolder]:
    torch.manual_seed(0)
    model = pooled()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    batch = torch.rand(3, 1, 6, 6), torch.tensor([0, 2, 1])
    return model, batch, compile_step(model, F.cross_entropy, optimizer, batch, preset=preset)


def test_step_in_bf16(tmp_path: Path) -> None:
    """C, emulator and golden core leave the same memory."""
    model, (images, labels), folder = compiled_step("core-bf16")
    assert {tensor.format for name, tensor in folder.plan.tensors.items() if "operand" in name} == {"bf16"}
    require_equal(folder, tmp_path)
    assert run_folder(folder, "golden")[1] == ""
    loss = folder.plan.tensors["loss"].from_bytes(folder.expected_bytes("loss"), folder.plan.config)
    assert loss.view(np.float32)[0] == pytest.approx(F.cross_entropy(model(images), labels).item(), abs=0.01)


def test_step_in_two_formats(tmp_path: Path) -> None:
    """The row side has E5M2, the column side E4M3. Results stay FP32 until the host converts them."""
    model, (images, labels), folder = compiled_step("core-fp8")
    formats = {name: tensor.format for name, tensor in folder.plan.tensors.items() if "operand" in name}
    assert set(formats.values()) == {"fp8_e4m3", "fp8_e5m2"}
    assert formats["4.weight.operand"] == "fp8_e4m3"
    assert "convert" in require_equal(folder, tmp_path)
    assert run_folder(folder, "golden")[1] == ""
    loss = folder.plan.tensors["loss"].from_bytes(folder.expected_bytes("loss"), folder.plan.config)
    assert loss.view(np.float32)[0] == pytest.approx(F.cross_entropy(model(images), labels).item(), abs=0.1)


@pytest.mark.slow
@pytest.mark.parametrize("preset", ["core-bf16", "core-fp8"])
def test_steps_on_verilog(preset: str) -> None:
    assert run_folder(compiled_step(preset)[2], "verilator")[1] == ""


def test_steps_are_skipped() -> None:
    """A gradient that is not finite halves the loss scale, and changes no parameter."""
    model = feed_forward()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    batch = torch.rand(3, 1, 6, 6), torch.tensor([0, 2, 1])
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**20, growth_interval=2)
    folder = compile_step(model, F.cross_entropy, optimizer, batch, loss_scale=scaler)
    memory = load_memory(folder, "emulator")

    def values(name: str) -> np.ndarray:
        tensor = folder.plan.tensors[name]
        return tensor.numbers(read_tensor(memory, folder.plan, folder.memory_map, name))

    skipped = 0
    for _ in range(12):
        before, scale = {name: values(name) for name, _ in model.named_parameters()}, values("loss_scale")[0]
        run_plan(memory, folder.plan, folder.memory_map)
        is_skipped = values("loss_scale.overflow")[0] != 0
        skipped += is_skipped
        assert values("loss_scale")[0] / scale in ((0.5,) if is_skipped else (1.0, 2.0))
        assert all((values(name) == each).all() == is_skipped for name, each in before.items())
    assert 2 < skipped < 10


# Results


def test_exponential_and_logarithm() -> None:
    random = np.random.default_rng(0)
    x = (-80 * random.random(100_000)).astype(np.float32)
    exact = np.exp(x.astype(np.float64))
    assert (abs(exp(x) - exact) / exact).max() < 2.0**-23
    x = (1 + 1000 * random.random(100_000) ** 4).astype(np.float32)
    exact = np.log(x.astype(np.float64))
    assert (abs(log(x) - exact) / np.maximum(exact, 0.1)).max() < 1.5 * 2.0**-23


@pytest.mark.parametrize("padding", [0, 1])
def test_pooling_matches_pytorch(padding: int) -> None:
    x = torch.relu(torch.randn(2, 3, 7, 6, generator=torch.Generator().manual_seed(0))).requires_grad_()
    parameters = {**POOL, "padding_y": padding, "padding_x": padding}
    pooled = F.max_pool2d(x, (3, 2), (2, 1), padding)
    gradient = torch.randn(pooled.shape, generator=torch.Generator().manual_seed(1))
    pooled.backward(gradient)
    assert x.grad is not None
    plain = x.detach().numpy()
    np.testing.assert_array_equal(compute("max_pool", {"x": plain}, **parameters)["result"], pooled.detach().numpy())
    found = compute("max_pool_backward", {"x": plain, "gradient": gradient.numpy()}, **parameters)["result"]
    np.testing.assert_allclose(found, x.grad.numpy(), rtol=1e-6)


def test_loss_matches_pytorch() -> None:
    scores = torch.randn(6, 5, generator=torch.Generator().manual_seed(0)).requires_grad_()
    labels = torch.tensor([0, 4, 2, 3, 1, 2])
    loss = F.cross_entropy(scores, labels)
    loss.backward()
    assert scores.grad is not None
    values = {"scores": scores.detach().numpy(), "labels": labels.to(torch.int32).numpy()}
    results = compute("softmax_cross_entropy", values, gradient_scale=1 / 6)
    assert results["loss"][0] == pytest.approx(loss.item(), rel=1e-6)
    np.testing.assert_allclose(results["gradient"], scores.grad.numpy(), atol=1e-7)


def test_sums_are_in_order() -> None:
    """Values are added in order: 1 is lost if added to 2^24, but not if added to -2^24."""
    gradient = np.array([2.0**24, 1, 1, -(2.0**24)], np.float32).reshape(2, 1, 2)
    assert compute("sum_channels", {"gradient": gradient})["result"].tolist() == [0.0]
    assert compute("sum_channels", {"gradient": gradient[::-1, :, ::-1]})["result"].tolist() == [2.0]
