"""Custom operations of PyTorch, ``tensordash::matmul`` and ``tensordash::convolution``, on the default device."""

from typing import Any

import torch
from torch import Tensor

from .device import Device
from .errors import DeviceError

__all__ = ["convolution", "default_device", "matmul", "set_default_device"]

_default: list[Device] = []


def set_default_device(device: Device | None) -> None:
    """Set the device of custom operations and of ``torch.compile(backend="tensordash")``; None removes it."""
    _default[:] = [] if device is None else [device]


def default_device() -> Device:
    """Return the device of custom operations.

    Raises
    ------
    DeviceError
        If no default device is set.
    """
    if not _default:
        raise DeviceError("there is no default device: call set_default_device(Device(...)) first")
    return _default[0]


@torch.library.custom_op("tensordash::matmul", mutates_args=())
def matmul(a: Tensor, b: Tensor) -> Tensor:
    """Return the matrix product of (..., n, k) and (..., k, m); its gradients run on the device, too.

    Examples
    --------
    >>> with Device("core") as device:
    ...     set_default_device(device)
    ...     torch.ops.tensordash.matmul(torch.ones(2, 3), torch.ones(3, 2))
    tensor([[3., 3.],
            [3., 3.]])
    >>> set_default_device(None)
    """
    result: Tensor = default_device().matmul(a, b)
    return result


@matmul.register_fake
def _(a: Tensor, b: Tensor) -> Tensor:
    batch = torch.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    return a.new_empty((*batch, a.shape[-2], b.shape[-1]))


def _matmul_gradients(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None]:
    a, b = ctx.saved_tensors
    for_a, for_b = ctx.needs_input_grad
    # Gradients are left factors, whose side has the format with the wider range. Sums are over broadcast axes.
    grad_a = matmul(grad, b.mT).sum_to_size(a.shape) if for_a else None
    grad_b = matmul(grad.mT, a).mT.sum_to_size(b.shape) if for_b else None
    return grad_a, grad_b


def _save_factors(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
    ctx.save_for_backward(*inputs)


matmul.register_autograd(_matmul_gradients, setup_context=_save_factors)


@torch.library.custom_op("tensordash::convolution", mutates_args=())
def convolution(
    a: Tensor, w: Tensor, stride: list[int], padding: list[int], dilation: list[int], groups: int
) -> Tensor:
    """Return a convolution without bias; its gradients run on the device, too.

    `a` is (samples, channels, [y,] x), and `w` is (filters, channels / groups, [y,] x). Lists have one value per
    dimension.
    """
    result: Tensor = default_device().convolution(a, w, tuple(stride), tuple(padding), tuple(dilation), groups)
    return result


@convolution.register_fake
def _(a: Tensor, w: Tensor, stride: list[int], padding: list[int], dilation: list[int], groups: int) -> Tensor:
    size = (
        (extent + 2 * pad - apart * (taps - 1) - 1) // step + 1
        for extent, taps, step, pad, apart in zip(a.shape[2:], w.shape[2:], stride, padding, dilation, strict=True)
    )
    return a.new_empty((a.shape[0], w.shape[0], *size))


@torch.library.custom_op("tensordash::convolution_input", mutates_args=())
def _convolution_input(
    shape: list[int], w: Tensor, g: Tensor, stride: list[int], padding: list[int], dilation: list[int], groups: int
) -> Tensor:
    settings = tuple(stride), tuple(padding), tuple(dilation), groups
    result: Tensor = default_device().convolution_input(tuple(shape), w, g, *settings)
    return result


@_convolution_input.register_fake
def _(shape: list[int], w: Tensor, g: Tensor, *settings: Any) -> Tensor:
    return g.new_empty(shape)


@torch.library.custom_op("tensordash::convolution_weight", mutates_args=())
def _convolution_weight(
    a: Tensor, shape: list[int], g: Tensor, stride: list[int], padding: list[int], dilation: list[int], groups: int
) -> Tensor:
    settings = tuple(stride), tuple(padding), tuple(dilation), groups
    result: Tensor = default_device().convolution_weight(a, tuple(shape), g, *settings)
    return result


@_convolution_weight.register_fake
def _(a: Tensor, shape: list[int], g: Tensor, *settings: Any) -> Tensor:
    return a.new_empty(shape)


def _convolution_gradients(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
    a, w = ctx.saved_tensors
    for_a, for_w, *_ = ctx.needs_input_grad
    grad_a = _convolution_input(list(a.shape), w, grad, *ctx.settings) if for_a else None
    grad_w = _convolution_weight(a, list(w.shape), grad, *ctx.settings) if for_w else None
    return grad_a, grad_w, None, None, None, None


def _save_operands(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    a, w, *ctx.settings = inputs
    ctx.save_for_backward(a, w)


convolution.register_autograd(_convolution_gradients, setup_context=_save_operands)
