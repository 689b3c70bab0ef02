"""Compute a device's results with PyTorch alone: float64 products of operands rounded to fp16."""

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

__all__ = ["Rounding", "round_operands"]

ATEN = torch.ops.aten


def round_operands(tensor: torch.Tensor, kind: torch.dtype = torch.float16) -> torch.Tensor:
    """Return operands in float64 as the device rounds them. It scales float32 tensors by a power of two."""
    wide = tensor.double()
    if tensor.dtype is not torch.float32 or not wide.any():
        return wide
    power = 2.0 ** torch.log2(torch.finfo(kind).max / wide.abs().max()).floor()
    return (wide * power).to(kind).double() / power


class Rounding(TorchDispatchMode):
    """Compute products in float64, round them to FP32, add biases in FP32, and round to the operands' type.

    float64 holds sums of a few products of ordinary fp16 values exactly, so that each sum is rounded once.
    """

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in (ATEN.mm.default, ATEN.bmm.default):
            x, y = args
            return func(round_operands(x), round_operands(y)).float().to(x.dtype)
        if func is ATEN.addmm.default:
            bias, x, y = args
            return ((round_operands(x) @ round_operands(y)).float() + bias.float()).to(x.dtype)
        if func is ATEN.convolution.default:
            x, w, bias, *settings = args
            result = func(round_operands(x), round_operands(w), None, *settings).float()
            if bias is not None:
                result = result + bias.float().reshape(-1, *[1] * (w.dim() - 2))
            return result.to(x.dtype)
        if func is ATEN.convolution_backward.default:
            g, x, w, sizes, *settings, (for_input, for_weight, for_bias) = args
            mask = [for_input, for_weight, False]
            gradients = func(round_operands(g), round_operands(x), round_operands(w), sizes, *settings, mask)
            gradients = [None if each is None else each.float().to(g.dtype) for each in gradients]
            if for_bias:
                gradients[2] = g.float().sum([k for k in range(g.dim()) if k != 1]).to(g.dtype)
            return gradients
        return func(*args, **(kwargs or {}))
