"""Test custom operations and the torch.compile backend: fake tensors, and gradients on the device."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn

import tensordash_runtime.compiled  # noqa: F401  registers the backend
from tensordash_runtime import Device, DeviceError, Run
from tensordash_runtime.library import convolution, matmul, set_default_device


@pytest.fixture
def device() -> Iterator[Device]:
    with Device("core") as core_device:
        set_default_device(core_device)
        yield core_device
    set_default_device(None)


def wide(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().half().double().requires_grad_()


def test_matrix_products(device: Device) -> None:
    a, b = torch.randn(3, 4, 5, requires_grad=True), torch.randn(5, 2, requires_grad=True)
    product = matmul(a, b)
    product.backward(torch.ones_like(product))
    x, y = wide(a), wide(b)
    expected = x @ y
    expected.backward(torch.ones_like(expected))
    assert x.grad is not None
    assert torch.equal(product, expected.float())
    assert torch.equal(a.grad, x.grad.float())  # type: ignore[arg-type]
    assert torch.allclose(b.grad, y.grad.float(), rtol=1e-6)  # type: ignore[union-attr, arg-type]


def test_convolutions(device: Device) -> None:
    a, w = torch.randn(2, 4, 6, 6, requires_grad=True), torch.randn(6, 2, 3, 3, requires_grad=True)
    settings: Any = [2, 1], [1, 0], [1, 1], 2
    result = convolution(a, w, *settings)
    result.backward(torch.ones_like(result))
    x, y = wide(a), wide(w)
    expected = torch.nn.functional.conv2d(x, y, None, *settings)
    expected.backward(torch.ones_like(expected))
    for found, reference in ((result, expected), (a.grad, x.grad), (w.grad, y.grad)):
        assert torch.equal(found, reference.float())  # type: ignore[arg-type, union-attr]


@pytest.mark.parametrize("which", ["matmul", "convolution"])
def test_operators_pass_opcheck(device: Device, which: str) -> None:
    """PyTorch checks that schema, fake tensors and autograd match the results."""
    arguments: Any = (torch.randn(2, 3, 4, requires_grad=True), torch.randn(4, 2, requires_grad=True))
    if which == "convolution":
        arguments = (torch.randn(1, 2, 5, 5, requires_grad=True), torch.randn(3, 2, 2, 2, requires_grad=True))
        arguments += ([1, 2], [0, 1], [2, 1], 1)
    tests = ("test_schema", "test_autograd_registration", "test_faketensor")
    torch.library.opcheck(getattr(torch.ops.tensordash, which).default, arguments, test_utils=tests)


def test_missing_default_device() -> None:
    with pytest.raises(DeviceError, match="there is no default device"):
        matmul(torch.ones(1, 1), torch.ones(1, 1))


def test_compiled(device: Device) -> None:
    torch.manual_seed(0)
    model, x = nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 2)), torch.randn(3, 6)
    model(x).sum().backward()
    expected = [parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None]
    model.zero_grad()
    run = Run(device)
    options: Any = {"device": device, "run": run, "strict": True, "count": False}
    torch.compile(model, backend="tensordash", options=options)(x).sum().backward()
    assert len(run.contractions) == 5
    assert run.totals().uncounted == 5
    gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    pairs = list(zip(gradients, expected, strict=True))
    assert all(torch.allclose(found, reference, rtol=1e-2, atol=1e-2) for found, reference in pairs)
    assert not all(torch.equal(found, reference) for found, reference in pairs)


def test_unknown_options(device: Device) -> None:
    compiled = torch.compile(nn.Linear(2, 2), backend="tensordash", options={"speed": 3})
    with pytest.raises(Exception, match="options must be device, run, strict, flush_limit, count and fuse, not speed"):
        compiled(torch.ones(1, 2))
