"""ATen operations that multiply and add up: those that are captured, and the names of those that are not."""

import re
from collections.abc import Container
from typing import Any, NamedTuple

import torch

from ...lowering import Convolution

__all__ = [
    "CONVOLUTION",
    "CONVOLUTION_BACKWARD",
    "COPIES",
    "MATRIX_PRODUCTS",
    "Convolved",
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
"""Where their two factors begin; variants that write to their first argument or to `out` have the same."""

CONVOLUTION = "aten::convolution"
CONVOLUTION_BACKWARD = "aten::convolution_backward"

COPIES = {"aten::_to_copy", "aten::clone"}
"""Operations whose result holds the values of their first argument; autocast makes such copies of parameters."""

_MULTIPLIES = re.compile(
    r"(?:^|_)(?:[a-z0-9]*mm|[a-z0-9]*matmul|[a-z0-9]*gemm|(?:add)?mv|v?dot|ger|addr|[a-z0-9]*outer)(?:$|_)"
    r"|conv(?!ert)|(?:^|_)(?:rnn|lstm|gru)|attention|attn|(?:^|_)linear|bilinear|trilinear|einsum|embedding_bag|cdist|euclidean_dist"
)
_DOES_NOT = re.compile(r"upsample|interpolate|multilinear_|linear_combination|_dense_backward|masked_scale")


def multiplies(name: str) -> bool:
    """Whether the name of an operation says that it multiplies and adds up.

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
    """Factors of a matrix product, as they are, and shaped (b, p, q) and (b, q, r)."""
    begin = MATRIX_PRODUCTS[name]
    left, right = args[begin : begin + 2]
    x = left[None] if left.dim() == 1 else left
    y = right[:, None] if right.dim() == 1 else right
    return (left, right, x, y) if x.dim() == 3 else (left, right, x[None], y[None])


class Convolved(NamedTuple):
    """A convolution's arguments, or those of its gradients.

    A transposed convolution is what computes the input gradient of a convolution. It is recorded as just that
    convolution: what goes into it is G, and what comes out is A.
    """

    geometry: Convolution
    transposed: bool

    @classmethod
    def of(cls, given: torch.Tensor, weight: torch.Tensor, settings: Any) -> "Convolved":
        """From a convolution's input and weight, and its arguments from `stride` to `groups`."""
        stride, padding, dilation, transposed, output_padding, groups = settings
        dimensions = weight.dim() - 2
        kernel = tuple(weight.shape[2:])
        stride, padding, dilation, output_padding = (
            tuple(entries) * (dimensions if len(entries) == 1 else 1)
            for entries in (stride, padding, dilation, output_padding)
        )
        size, end_padding = tuple(given.shape[2:]), None
        if transposed:
            size = tuple(
                (out - 1) * step - 2 * pad + apart * (taps - 1) + 1 + extra
                for out, step, pad, apart, taps, extra in zip(
                    size, stride, padding, dilation, kernel, output_padding, strict=True
                )
            )
            # More would let the convolution have more outputs than there are.
            end_padding = tuple(
                pad - (extra if extra >= step else 0)
                for pad, extra, step in zip(padding, output_padding, stride, strict=True)
            )
        outer, inner = weight.shape[0], weight.shape[1] * groups
        geometry = Convolution(
            batch=given.shape[0],
            in_channels=inner,
            out_channels=outer,
            size=size,
            kernel=kernel,
            stride=stride,
            padding=padding,
            dilation=dilation,
            groups=groups,
            end_padding=end_padding,
        )
        return cls(geometry, transposed)

    def operands(self, given: torch.Tensor, weight: torch.Tensor, grad: torch.Tensor) -> dict[str, torch.Tensor]:
        """The tensors by the names that they have in the convolution; `given` and `grad` are input and its like."""
        a, g = (grad, given) if self.transposed else (given, grad)
        return {"A": a, "W": weight, "G": g}


def name_of(func: Any, handled: Container[str]) -> str:
    """The name of an operation that is to be looked at; nothing if it does not multiply.

    One that writes to its first operand goes by the name of the one that does not, if that is handled.
    """
    name = str(getattr(getattr(func, "_schema", None), "name", func))
    if name.endswith("_") and name[:-1] in handled:
        name = name[:-1]
    return name if name in COPIES or name in handled or multiplies(name) else ""
