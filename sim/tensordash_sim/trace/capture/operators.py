"""ATen operations that multiply and accumulate: captured ones, and name patterns of those that are only noted."""

import re
from collections.abc import Container
from math import prod
from typing import Any, NamedTuple

import torch

from ...lowering import Convolution
from ...lowering.geometry import Axis

__all__ = [
    "CONVOLUTION",
    "CONVOLUTION_BACKWARD",
    "COPIES",
    "MATRIX_PRODUCTS",
    "Convolved",
    "convolution_axes",
    "convolution_macs",
    "factors",
    "multiplies",
    "name_of",
]

MATRIX_PRODUCTS = {
    "aten::mm": 0,
    "aten::addmm": 1,
    "aten::_addmm_activation": 1,
    "aten::bmm": 0,
    "aten::baddbmm": 1,
    "aten::addbmm": 1,
    "aten::mv": 0,
    "aten::addmv": 1,
    "aten::dot": 0,
    "aten::vdot": 0,
}
"""Position of the first factor among the arguments. Variants that are in place or have `out` share it."""

CONVOLUTION = "aten::convolution"
CONVOLUTION_BACKWARD = "aten::convolution_backward"

COPIES = {"aten::_to_copy", "aten::clone"}
"""Operations whose result holds the values of their first argument; autocast makes such copies of parameters."""

_MULTIPLIES = re.compile(
    r"(?:^|_)(?:[a-z0-9]*mm|[a-z0-9]*matmul|[a-z0-9]*gemm|(?:add)?mv|v?dot|ger|addr|[a-z0-9]*outer)(?:$|_)"
    r"|conv(?!ert)|(?:^|_)(?:rnn|lstm|gru)|attention|attn|(?:^|_)linear|bilinear|trilinear|einsum|embedding_bag|cdist|euclidean_dist"
)
_DOES_NOT = re.compile(
    r"upsample|interpolate|multilinear_|linear_combination|_dense_backward|masked_scale|_thnn_fused"
    r"|prepack|unpack|_reorder_|flatten_weight|conv(_transpose)?\dd_(stride|padding|dilation|groups|transpose|output_padding)$"
)


def multiplies(name: str) -> bool:
    """Return whether an operation multiplies and accumulates, judged by its name.

    Examples
    --------
    >>> [multiplies(f"aten::{name}") for name in ("conv3d", "_sparse_addmm", "mkldnn_rnn_layer", "_int_mm", "cdist")]
    [True, True, True, True, True]
    >>> [multiplies(f"aten::{name}") for name in ("lgamma", "upsample_bilinear2d", "mul", "linspace", "norm")]
    [False, False, False, False, False]
    """
    base = name.partition("::")[2]
    return bool(_MULTIPLIES.search(base)) and not _DOES_NOT.search(base)


def factors(name: str, args: Any) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the factors of a matrix product, first as passed, then as (b, p, q) and (b, q, r)."""
    begin = MATRIX_PRODUCTS[name]
    left, right = args[begin : begin + 2]
    x = left[None] if left.dim() == 1 else left
    y = right[:, None] if right.dim() == 1 else right
    return (left, right, x, y) if x.dim() == 3 else (left, right, x[None], y[None])


def convolution_axes(inputs: torch.Tensor, weight: torch.Tensor, settings: Any) -> list[Axis]:
    """Return the dimensions of a convolution.

    For a transposed convolution, they belong to the convolution whose input gradient it computes.

    Parameters
    ----------
    inputs, weight : torch.Tensor
        Input and weight.
    settings : sequence
        Arguments from `stride` to `groups`.
    """
    stride, padding, dilation, transposed, output_padding, _ = settings
    dimensions = weight.dim() - 2
    every = (each if len(each) > 1 else list(each) * dimensions for each in (stride, padding, dilation, output_padding))
    axes = []
    for size, taps, step, pad, apart, extra in zip(inputs.shape[2:], weight.shape[2:], *every, strict=True):
        if not transposed:
            axes.append(Axis(size, taps, step, pad, apart))
            continue
        made = (size - 1) * step - 2 * pad + apart * (taps - 1) + 1 + extra
        # With equal padding at both ends, the convolution would have too many outputs.
        axes.append(Axis(made, taps, step, pad, apart, pad - (extra if extra >= step else 0)))
    return axes


def convolution_macs(inputs: torch.Tensor, weight: torch.Tensor, settings: Any) -> int:
    """Return the number of multiplications of a convolution in any number of dimensions, without the padding's."""
    inside = prod(axis.pairs_inside for axis in convolution_axes(inputs, weight, settings))
    return inputs.shape[0] * weight.shape[0] * weight.shape[1] * inside


class Convolved(NamedTuple):
    """A convolution as it is recorded.

    A transposed convolution computes the input gradient of a convolution, and is recorded as that convolution: its
    input is G, and its output is A.
    """

    geometry: Convolution
    transposed: bool

    @classmethod
    def of(cls, inputs: torch.Tensor, weight: torch.Tensor, settings: Any) -> "Convolved":
        """Build from a convolution's input and weight, and its arguments from `stride` to `groups`."""
        *_, transposed, _, groups = settings
        size, kernel, stride, padding, dilation, ends = zip(*convolution_axes(inputs, weight, settings), strict=True)
        geometry = Convolution(
            batch=inputs.shape[0],
            in_channels=weight.shape[1] * groups,
            out_channels=weight.shape[0],
            size=size,
            kernel=kernel,
            stride=stride,
            padding=padding,
            dilation=dilation,
            groups=groups,
            end_padding=ends if transposed else None,
        )
        return cls(geometry, transposed)

    def operands(self, inputs: torch.Tensor, weight: torch.Tensor, grad: torch.Tensor) -> dict[str, torch.Tensor]:
        """Return the tensors by operand name. `inputs` has the input's shape, and `grad` the output's."""
        a, g = (grad, inputs) if self.transposed else (inputs, grad)
        return {"A": a, "W": weight, "G": g}


def name_of(func: Any, handled: Container[str]) -> str:
    """Return the name of an operation that multiplies or copies; an empty string for other operations.

    An in-place operation has the name of its out-of-place variant, if there is a handler for that variant.
    """
    name = str(getattr(getattr(func, "_schema", None), "name", func))
    if name.endswith("_") and name[:-1] in handled:
        name = name[:-1]
    return name if name in COPIES or name in handled or multiplies(name) else ""
