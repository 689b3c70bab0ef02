"""Compare host calls of normalization, GELU, means and updates with PyTorch, and their C code with Python."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from tensordash_runtime.program_folder.building import PlanBuilder
from tensordash_runtime.program_folder.host_math import normal
from tensordash_runtime.program_folder.tensors import groups_of

from .host_calls_in_c import IMAGES, add, add_result, build, compute, hard_numbers, require_equal, round_parameters

SHAPE = IMAGES.shapes["A"]
"""Samples, channels, rows, columns: 2, 5, 7, 6."""
BATCH_NORM = {"samples": 2, "groups": 5, "plane": 42, "inner": 42, "size": 5}
LAYER_NORM = {"samples": 1, "groups": 70, "plane": 6, "inner": 1, "size": 6}
RUNNING = {"momentum": 0.1, "keep": 0.9, "unbiased": 84 / 83}
EPSILON = 1e-5


def numbers(kind: str, seed: int, *shape: int) -> np.ndarray:
    """Return normal deviates, or numbers of all kinds."""
    count = int(np.prod(shape))
    ordinary = np.random.default_rng(seed).standard_normal(count).astype(np.float32)
    hard = hard_numbers(count, seed)
    hard[np.isnan(hard)] = np.nan  # A skipped step keeps the stored bits, and host calls write only this NaN.
    return (ordinary if kind == "ordinary" else hard).reshape(shape)


# C


@pytest.mark.parametrize("kind", ["ordinary", "hard"])
@pytest.mark.parametrize("norm", ["batch", "layer"])
def test_normalization(norm: str, kind: str, builder: PlanBuilder, tmp_path: Path) -> None:
    shape = BATCH_NORM if norm == "batch" else LAYER_NORM
    groups, size = shape["groups"], shape["size"]
    order = groups_of(IMAGES, "A")
    add(builder, "x", numbers(kind, 1, *SHAPE), groups=groups_of(IMAGES, "A", turned=True))
    add(builder, "gradient", numbers(kind, 2, *SHAPE), format="fp16", groups=order)
    roles = {"x": "x", "mean": "mean", "inverse": "inverse"}
    more: dict[str, Any] = {"epsilon": EPSILON}
    if norm == "batch":
        for k, role in enumerate(("running_mean", "running_variance")):
            roles[role] = add(builder, role, numbers(kind, 3 + k, groups))
        more |= RUNNING
    for name in ("mean", "inverse"):
        add_result(builder, name, (groups,))
    builder.add_host_call("compute_statistics", roles, **shape, **round_parameters(**more))
    statistics = {role: role for role in ("x", "mean", "inverse")}
    add(builder, "weight", numbers(kind, 5, size))
    add(builder, "bias", numbers(kind, 6, size))
    add_result(builder, "y", SHAPE, "fp16", groups=order)
    builder.add_host_call("normalize", {**statistics, "weight": "weight", "bias": "bias", "result": "y"}, **shape)
    sums = {role: add_result(builder, role, (size,)) for role in ("weight_gradient", "bias_gradient")}
    builder.add_host_call("normalize_sums", {**statistics, "gradient": "gradient", **sums}, **shape)
    add_result(builder, "backward", SHAPE, "fp16", groups=order)
    backward = {**statistics, "gradient": "gradient", "weight": "weight", "result": "backward"}
    builder.add_host_call("normalize_backward", backward, **shape)
    require_equal(build(builder), tmp_path)


def test_element_wise_functions_and_means(builder: PlanBuilder, tmp_path: Path) -> None:
    order = groups_of(IMAGES, "A")
    add(builder, "x", hard_numbers(int(np.prod(SHAPE)), 1).reshape(SHAPE), format="fp16", groups=order)
    add(builder, "y", hard_numbers(int(np.prod(SHAPE)), 2).reshape(SHAPE))
    add(builder, "small", numbers("ordinary", 3, *SHAPE))
    add(builder, "plane_gradient", numbers("ordinary", 4, 10))
    for k, name in enumerate(("x", "y", "small")):
        add_result(builder, f"gelu{k}", SHAPE, "fp32", groups=order)
        builder.add_host_call("gelu", {"x": name, "result": f"gelu{k}"})
        add_result(builder, f"backward{k}", SHAPE)
        builder.add_host_call("gelu_backward", {"gradient": "small", "x": name, "result": f"backward{k}"})
        add_result(builder, f"mean{k}", (10,))
        builder.add_host_call("mean_plane", {"x": name, "result": f"mean{k}"}, planes=10, plane=42)
    add_result(builder, "sum", SHAPE, "fp16", groups=order)
    builder.add_host_call("add", {"x": "x", "y": "y", "result": "sum"})
    add_result(builder, "spread", SHAPE, "fp16", groups=order)
    builder.add_host_call("spread_mean", {"gradient": "plane_gradient", "result": "spread"}, planes=10, plane=42)
    require_equal(build(builder), tmp_path)


ADAMW = {"rate": 1e-3, "keep": 1 - 1e-5, "beta1_rest": 0.1, "beta2": 0.999, "beta2_rest": 0.001, "epsilon": 1e-8}
CORRECTIONS = {"beta1": 0.9, "beta1_rest": 0.1, "beta2": 0.999, "beta2_rest": 0.001}


@pytest.mark.parametrize("skips", [False, True])
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("kind", ["ordinary", "hard"])
def test_optimizer_updates(kind: str, dynamic: bool, skips: bool, builder: PlanBuilder, tmp_path: Path) -> None:
    shape = IMAGES.shapes["W"]
    add(builder, "g", numbers(kind, 1, *shape), groups=groups_of(IMAGES, "W", turned=True))
    overflow = {}
    if dynamic:
        add(builder, "scale", np.full(1, 2.0**64, np.float32))
        add(builder, "overflow", np.zeros(1, np.float32))
        overflow = {"overflow": "overflow"}
        add(builder, "steps", np.full(1, 8, np.int32))
        add(builder, "bad", np.array([1, np.nan if skips else 0, -3], np.float32))
        for number, name in enumerate(("bad", "g") if kind == "ordinary" else ("bad",)):
            found = {"gradient": name, "overflow": "overflow"}
            builder.add_host_call("find_overflow", found, is_first=int(not number))
    shared = {**overflow, **({"scale": "scale"} if dynamic else {})}
    for name, function in (("p", "adamw"), ("q", "sgd"), ("r", "sgd")):
        add(builder, name, numbers(kind, 2, *shape))
        roles = {"parameter": name, "gradient": "g", **shared}
        if function == "adamw":
            roles |= {role: add(builder, role, abs(numbers(kind, 3, *shape))) for role in ("first", "second")}
            roles["corrections"] = add(builder, "corrections", np.array([0.1, 0.25], np.float32))
            corrections = {"corrections": "corrections", **overflow}
            builder.add_host_call("update_corrections", corrections, **round_parameters(**CORRECTIONS))
            builder.add_host_call("adamw", roles, **round_parameters(**ADAMW, gradient_scale=0.5))
            continue
        momentum = 0.9 if name == "q" else 0.0
        if momentum:
            roles["velocity"] = add(builder, "velocity", numbers(kind, 4, *shape))
        settings = {"rate": 0.1, "momentum": momentum, "weight_decay": 0.01, "gradient_scale": 0.5}
        builder.add_host_call("sgd", roles, **round_parameters(**settings))
    if dynamic:
        for interval in (9, 9, 1):
            scaling = {"scale": "scale", "good_steps": "steps", "overflow": "overflow"}
            builder.add_host_call("update_scale", scaling, growth=2.0**63, backoff=0.5, interval=interval)
    require_equal(build(builder), tmp_path)


def test_square_roots(builder: PlanBuilder, tmp_path: Path) -> None:
    """The C's square roots are correctly rounded like NumPy's, for subnormals and every exponent."""
    bits = np.concatenate([np.arange(0, 0x7F800000, 0x7F800000 // 4000), np.arange(1, 1 << 23, 4099)])
    values = bits.astype(np.uint32).view(np.float32).reshape(-1, 1)
    count = len(values)
    add(builder, "p", np.zeros_like(values))
    add(builder, "g", np.zeros_like(values))
    add(builder, "first", np.ones_like(values))
    add(builder, "second", values)
    add(builder, "corrections", np.ones(2, np.float32))
    roles = {"parameter": "p", "gradient": "g", "first": "first", "second": "second", "corrections": "corrections"}
    settings = {**ADAMW, "rate": 1.0, "keep": 1.0, "beta2": 1.0, "beta1_rest": 0.0, "epsilon": 0.0}
    builder.add_host_call("adamw", roles, **round_parameters(**settings, gradient_scale=1.0))
    assert count > 6000
    require_equal(build(builder), tmp_path)


# Results


@pytest.mark.parametrize("norm", ["batch", "layer"])
def test_normalization_matches_pytorch(norm: str) -> None:
    """Values of magnitude 1 differ by at most 1e-5."""
    x = (torch.randn(SHAPE, generator=torch.Generator().manual_seed(0)) * 3 + 2).requires_grad_()
    gradient = torch.randn(SHAPE, generator=torch.Generator().manual_seed(1))
    module: Any = nn.BatchNorm2d(5, momentum=0.1) if norm == "batch" else nn.LayerNorm(6)
    with torch.no_grad():
        module.weight.copy_(torch.linspace(0.5, 1.5, len(module.weight)))
        module.bias.copy_(torch.linspace(-1, 1, len(module.bias)))
    values = {"x": x.detach().numpy(), "gradient": gradient.numpy()}
    values |= {name: getattr(module, name).detach().numpy().copy() for name in ("weight", "bias")}
    shape, more = (BATCH_NORM, RUNNING) if norm == "batch" else (LAYER_NORM, {})
    if norm == "batch":
        values |= {"running_mean": np.zeros(5, np.float32), "running_variance": np.ones(5, np.float32)}
    result = module(x)
    result.backward(gradient)
    assert x.grad is not None
    values |= compute("compute_statistics", values, **shape, epsilon=EPSILON, **more)
    found = compute("normalize", values, **shape)["result"].reshape(SHAPE)
    np.testing.assert_allclose(found, result.detach().numpy(), atol=1e-5)
    found = compute("normalize_backward", values, **shape)["result"].reshape(SHAPE)
    np.testing.assert_allclose(found, x.grad.numpy(), atol=1e-5)
    sums = compute("normalize_sums", values, **shape)
    np.testing.assert_allclose(sums["weight_gradient"], module.weight.grad.numpy(), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(sums["bias_gradient"], module.bias.grad.numpy(), rtol=1e-5, atol=1e-5)
    if norm == "batch":
        np.testing.assert_allclose(values["running_mean"], module.running_mean.numpy(), rtol=1e-5)
        np.testing.assert_allclose(values["running_variance"], module.running_var.numpy(), rtol=1e-5)


def test_gelu_matches_pytorch() -> None:
    x = torch.linspace(-6, 6, 1000, requires_grad=True)
    result = F.gelu(x)
    result.sum().backward()
    assert x.grad is not None
    values = {"x": x.detach().numpy(), "gradient": np.ones(1000, np.float32)}
    np.testing.assert_allclose(compute("gelu", values)["result"], result.detach().numpy(), atol=2e-6)
    np.testing.assert_allclose(compute("gelu_backward", values)["result"], x.grad.numpy(), atol=2e-6)
    exact = torch.special.ndtr(x.detach().double()).numpy()
    assert abs(normal(x.detach().numpy())[0] - exact).max() < 3e-7


def test_adamw_matches_pytorch() -> None:
    """After 20 steps parameters differ by at most 1e-6."""
    parameter = torch.randn(50, generator=torch.Generator().manual_seed(0)).requires_grad_()
    optimizer = torch.optim.AdamW([parameter], lr=1e-2, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.1)
    values = {"parameter": parameter.detach().numpy().copy(), "corrections": np.zeros(2, np.float32)}
    values |= {role: np.zeros(50, np.float32) for role in ("first", "second")}
    settings = {**ADAMW, "rate": 1e-2, "keep": 1 - 1e-3, "gradient_scale": 2.0**-10}
    for step in range(20):
        parameter.grad = torch.randn(50, generator=torch.Generator().manual_seed(step)) * 10.0 ** (step % 3 - 1)
        optimizer.step()
        values["gradient"] = parameter.grad.numpy() * np.float32(1024)
        values |= compute("update_corrections", values, **CORRECTIONS)
        values |= compute("adamw", values, **settings)
        np.testing.assert_allclose(values["parameter"], parameter.detach().numpy(), atol=1e-6)


def test_loss_scale_matches_grad_scaler() -> None:
    """The loss scale follows the rule of `torch.amp.GradScaler`."""
    parameter = torch.zeros(1, requires_grad=True)
    optimizer = torch.optim.SGD([parameter], lr=1.0)
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0, growth_interval=2)
    values: dict[str, Any] = {"scale": np.full(1, 8, np.float32), "good_steps": np.zeros(1, np.int32)}
    values["overflow"] = np.zeros(1, np.float32)
    for gradient in (1.0, 1.0, np.inf, 1.0, np.nan, np.nan, 1.0, 1.0, 1.0):
        scaler.scale(torch.zeros(1))
        parameter.grad = torch.full((1,), gradient)
        scaler.step(optimizer)
        scaler.update()
        values["gradient"] = np.full(1, gradient, np.float32)
        values |= compute("find_overflow", values, is_first=1)
        assert values["overflow"][0] == (not np.isfinite(gradient))
        values |= compute("update_scale", values, growth=2.0, backoff=0.5, interval=2)
        assert values["scale"][0] == scaler.get_scale()
