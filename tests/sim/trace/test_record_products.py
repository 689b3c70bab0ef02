"""Compare products of recorded operands with PyTorch's outputs and gradients."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

from .recording import close, results, single_result, traced, uncaptured

pytestmark = pytest.mark.filterwarnings("ignore:.*(padding='same'|LSTM with projections)")
Arguments = dict[str, Any]


@pytest.fixture(autouse=True)
def float64() -> Any:
    torch.manual_seed(0)
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def zeroed(*shape: int) -> Any:
    """Return a leaf tensor with zeros in half of its values."""
    return torch.randn(shape).relu_().requires_grad_()


def backward(y: torch.Tensor) -> None:
    """Run the backward pass with a gradient for y that has about half zeros and distinct other values."""
    (y.relu() * torch.arange(1, y.numel() + 1).reshape(y.shape).to(y.dtype)).sum().backward()


def forward_and_backward(path: Path, run: Callable[[], torch.Tensor], model: nn.Module | None = None) -> Any:
    """Return the output, the products of the recorded operands, and the trace."""
    outputs = []

    def step() -> None:
        outputs.append(run())
        backward(outputs[0])

    trace = traced(path, step, model=model)
    return outputs[0].detach(), results(trace), trace


def check_layer(path: Path, layer: Any, x: Any, forward: str = "AxW", to_input: str = "WxG") -> None:
    y, found, _ = forward_and_backward(path, lambda: layer(x), layer)
    name = type(layer).__name__
    bias = 0 if layer.bias is None else layer.bias.reshape(-1, *[1] * (layer.weight.dim() - 2))
    whole, product = y - bias, single_result(found, name, forward)
    if whole.numel() != product.size:  # Output padding exceeds all taps.
        inside = tuple(slice(extent) for extent in product.shape)
        assert whole.abs().sum().item() == pytest.approx(whole[inside].abs().sum().item(), abs=1e-9)
        whole = whole[inside]
    close(product, whole)
    close(single_result(found, name, to_input), x.grad)
    close(single_result(found, name, "AxG"), layer.weight.grad)
    assert sum(map(len, found.values())) == 3


CONVOLUTIONS: dict[str, tuple[Callable[..., nn.Module], Arguments, tuple[int, ...]]] = {
    "1d": (nn.Conv1d, {"kernel_size": 3}, (2, 4, 9)),
    "1d strided, dilated": (nn.Conv1d, {"kernel_size": 3, "stride": 2, "dilation": 2, "padding": 1}, (2, 4, 10)),
    "1d same, even": (nn.Conv1d, {"kernel_size": 2, "padding": "same"}, (2, 4, 6)),
    "1d of one sample": (nn.Conv1d, {"kernel_size": 3}, (4, 9)),
    "2d": (nn.Conv2d, {"kernel_size": 3, "padding": 1}, (2, 4, 5, 6)),
    "2d without bias": (nn.Conv2d, {"kernel_size": (3, 2), "bias": False}, (2, 4, 5, 6)),
    "2d strided": (nn.Conv2d, {"kernel_size": 3, "stride": (2, 3), "padding": (1, 0)}, (2, 4, 7, 8)),
    "2d dilated": (nn.Conv2d, {"kernel_size": (2, 3), "dilation": (3, 1), "padding": (0, 2)}, (1, 4, 7, 5)),
    "2d grouped": (nn.Conv2d, {"kernel_size": 3, "groups": 2, "padding": 1}, (2, 4, 4, 5)),
    "2d depthwise": (nn.Conv2d, {"kernel_size": 3, "groups": 4, "stride": 2, "padding": 1}, (2, 4, 6, 5)),
    "2d circular": (nn.Conv2d, {"kernel_size": 3, "padding": 1, "padding_mode": "circular"}, (2, 4, 4, 5)),
    "2d pointwise": (nn.Conv2d, {"kernel_size": 1}, (2, 4, 4, 5)),
}


@pytest.mark.parametrize("case", CONVOLUTIONS)
def test_convolution(case: str, tmp_path: Path) -> None:
    kind, arguments, shape = CONVOLUTIONS[case]
    layer: Any = kind(4, 8, **arguments)
    if arguments.get("padding_mode") or arguments.get("padding") == "same":
        layer = nn.Sequential(layer)  # The module pads the product's input.
        x = zeroed(*shape)
        y, found, _ = forward_and_backward(tmp_path, lambda: layer(x), layer)
        close(single_result(found, "0", "AxW"), y - layer[0].bias.reshape(-1, *[1] * (len(shape) - 2)))
        close(single_result(found, "0", "AxG"), layer[0].weight.grad)
    else:
        check_layer(tmp_path, layer, zeroed(*shape))


TRANSPOSED: dict[str, tuple[Callable[..., nn.Module], Arguments, tuple[int, ...]]] = {
    "1d": (nn.ConvTranspose1d, {"kernel_size": 3}, (2, 4, 5)),
    "2d": (nn.ConvTranspose2d, {"kernel_size": 3, "stride": 2, "padding": 1}, (2, 4, 3, 4)),
    "2d output padding": (
        nn.ConvTranspose2d,
        {"kernel_size": (3, 2), "stride": (2, 3), "output_padding": (1, 2), "groups": 2},
        (2, 4, 3, 2),
    ),
    "1d beyond all taps": (nn.ConvTranspose1d, {"kernel_size": 2, "dilation": 3, "output_padding": 2}, (2, 4, 5)),
}


@pytest.mark.parametrize("case", TRANSPOSED)
def test_transposed_convolution(case: str, tmp_path: Path) -> None:
    kind, arguments, shape = TRANSPOSED[case]
    check_layer(tmp_path, kind(4, 6, **arguments), zeroed(*shape), forward="WxG", to_input="AxW")


@pytest.mark.parametrize("shape", [(6,), (3, 6), (2, 3, 6), (2, 2, 3, 6)])
@pytest.mark.parametrize("out", [4, 6])
@pytest.mark.parametrize("bias", [True, False])
def test_linear(shape: tuple[int, ...], out: int, bias: bool, tmp_path: Path) -> None:
    layer = nn.Linear(6, out, bias=bias)
    x = zeroed(*shape)
    y, found, _ = forward_and_backward(tmp_path, lambda: layer(x), layer)
    close(single_result(found, "Linear", "AxW"), (y - (layer.bias if bias else 0)).reshape(-1, out))
    close(single_result(found, "Linear", "WxG"), x.grad.reshape(-1, 6))
    close(single_result(found, "Linear", "AxG"), layer.weight.grad)


def test_linear_of_an_input_that_is_not_contiguous(tmp_path: Path) -> None:
    layer, x = nn.Linear(5, 4, bias=False), zeroed(3, 2, 5)
    y, found, _ = forward_and_backward(tmp_path, lambda: layer(x.transpose(0, 1)), layer)
    close(single_result(found, "Linear", "AxW"), y.reshape(-1, 4))
    close(single_result(found, "Linear", "WxG"), x.grad.transpose(0, 1).reshape(-1, 5))
    close(single_result(found, "Linear", "AxG"), layer.weight.grad)


def test_square_layer_with_ambiguous_shapes(tmp_path: Path) -> None:
    layer, x = nn.Linear(4, 4, bias=False), zeroed(4, 4)
    y, found, _ = forward_and_backward(tmp_path, lambda: layer(x), layer)
    close(single_result(found, "Linear", "AxW"), y)
    close(single_result(found, "Linear", "WxG"), x.grad)
    close(single_result(found, "Linear", "AxG"), layer.weight.grad)


def test_only_gradients_that_are_computed(tmp_path: Path) -> None:
    layers = nn.Sequential(nn.Conv1d(2, 3, 2), nn.Flatten(), nn.Linear(9, 2))
    layers[2].weight.requires_grad_(False)
    found = results(traced(tmp_path, lambda: backward(layers(torch.randn(2, 2, 4))), model=layers))
    assert list(found) == [("0", "AxW"), ("2", "AxW"), ("2", "WxG"), ("0", "AxG")]


PAIRS: dict[str, tuple[Callable[[torch.Tensor, torch.Tensor], torch.Tensor], tuple[int, ...], tuple[int, ...]]] = {
    "mm": (torch.mm, (3, 4), (4, 5)),
    "square mm": (torch.mm, (4, 4), (4, 4)),
    "mm of a transpose": (lambda a, b: a @ b.t(), (3, 4), (5, 4)),
    "mm, both transposed": (lambda a, b: a.t() @ b.t(), (4, 4), (4, 4)),
    "bmm": (torch.bmm, (2, 3, 4), (2, 4, 5)),
    "square bmm": (lambda a, b: torch.bmm(a, b.mT), (2, 3, 3), (2, 3, 3)),
    "baddbmm": (lambda a, b: torch.baddbmm(torch.zeros(2, 3, 5), a, b), (2, 3, 4), (2, 4, 5)),
    "addmm": (lambda a, b: torch.addmm(torch.zeros(3, 5), a, b), (3, 4), (4, 5)),
    "matmul of four dimensions": (torch.matmul, (2, 2, 3, 4), (2, 2, 4, 5)),
    "einsum": (lambda a, b: torch.einsum("bik,bjk->bij", a, b), (2, 3, 4), (2, 5, 4)),
}


@pytest.mark.parametrize("case", PAIRS)
def test_product_of_two_activations(case: str, tmp_path: Path) -> None:
    multiply, of_a, of_b = PAIRS[case]
    a, b = zeroed(*of_a), zeroed(*of_b)
    y, layers, trace = forward_and_backward(tmp_path, lambda: multiply(a, b))
    found = {operation: arrays for (_, operation), arrays in layers.items()}
    assert not uncaptured(trace)
    ((forward,), (to_a,), (to_b,)) = found["AxW"], found["WxG"], found["AxG"]
    # b may be transposed. For two square operands, either name is right.
    matches(forward, y)
    matches(to_a, a.grad)
    matches(to_b, b.grad)


def matches(array: np.ndarray, tensor: torch.Tensor) -> None:
    flat = tensor.detach().reshape(-1, *tensor.shape[-2:]) if tensor.dim() > 2 else tensor.detach()[None]
    ways = [way.numpy() for way in (flat, flat.mT) if way.shape == array.shape]
    assert any(np.allclose(array, way, rtol=1e-11, atol=1e-11) for way in ways)


def test_product_of_a_tensor_with_its_transpose(tmp_path: Path) -> None:
    x = zeroed(4, 4)
    y, found, _ = forward_and_backward(tmp_path, lambda: x @ x.t())
    close(single_result(found, "mm0", "AxW"), y)
    close(single_result(found, "mm0", "WxG") + single_result(found, "mm0", "AxG"), x.grad)


@pytest.mark.parametrize("case", ["mm", "bmm", "addmm", "baddbmm"])
def test_product_of_a_tensor_with_itself(case: str, tmp_path: Path) -> None:
    """Both gradients have the same operands, and differ only in their order."""
    x = zeroed(4, 4)
    left, right = x.view(4, 4), x.view(4, 4)  # They share memory, but have separate gradients.
    left.retain_grad()
    right.retain_grad()
    run: dict[str, Callable[[], torch.Tensor]] = {
        "mm": lambda: left @ right,
        "bmm": lambda: torch.bmm(left[None], right[None]),
        "addmm": lambda: torch.addmm(torch.zeros(4, 4), left, right),
        "baddbmm": lambda: torch.baddbmm(torch.zeros(1, 4, 4), left[None], right[None]),
    }
    _, found, _ = forward_and_backward(tmp_path, run[case])
    name = "bmm0" if "bmm" in case else "mm0"
    close(single_result(found, name, "WxG"), left.grad)
    close(single_result(found, name, "AxG"), right.grad.t())


def test_second_backward_pass_of_a_product_of_a_tensor_with_itself(tmp_path: Path) -> None:
    """The first pass computes only the right gradient. The second pass computes the right gradient first."""
    x, gradients = zeroed(4, 4), (zeroed(4, 4).detach(), zeroed(4, 4).detach())
    left, right = x.view(4, 4), x.view(4, 4)

    def run() -> None:
        y = left @ right
        torch.autograd.grad(y, right, gradients[0], retain_graph=True)
        y.backward(gradients[1])

    found = results(traced(tmp_path, run))
    (to_left,), to_right = found["mm0", "WxG"], found["mm0", "AxG"]
    close(to_left, gradients[1] @ right.t())
    assert len(to_right) == 2
    for array, gradient in zip(to_right, gradients, strict=True):
        close(array, (left.t() @ gradient).t())


def test_parameter_on_the_left(tmp_path: Path) -> None:
    class Left(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.mixing = nn.Parameter(torch.randn(5, 4))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.mixing @ x

    layer, x = Left(), zeroed(4, 3)
    y, found, _ = forward_and_backward(tmp_path, lambda: layer(x), layer)
    close(single_result(found, "Left.mixing", "AxW"), y.t())
    close(single_result(found, "Left.mixing", "WxG"), x.grad.t())
    close(single_result(found, "Left.mixing", "AxG"), layer.mixing.grad)


def test_addbmm(tmp_path: Path) -> None:
    a, b = zeroed(2, 3, 4), zeroed(2, 4, 5)
    y, found, _ = forward_and_backward(tmp_path, lambda: torch.addbmm(torch.zeros(3, 5), a, b))
    close(single_result(found, "bmm0", "AxW").sum(0), y)
    close(single_result(found, "bmm0", "WxG"), a.grad)
    close(single_result(found, "bmm0", "AxG"), b.grad.mT)


def test_vectors(tmp_path: Path) -> None:
    a, b = zeroed(3, 4), zeroed(4)
    y, found, trace = forward_and_backward(tmp_path, lambda: a @ b)
    close(single_result(found, "mv0", "AxW"), y)
    close(single_result(found, "mv0", "AxG"), b.grad)
    assert uncaptured(trace) == ["aten::mv (gradients without sums: products of vectors, mv0)"]
    trace = traced(tmp_path, lambda: torch.dot(b, b.detach()).backward())
    assert single_result(results(trace), "dot0", "AxW").item() == pytest.approx(b.square().sum().item())
    assert uncaptured(trace) == ["aten::dot (gradients without sums: products of vectors, dot0)"]


HALF = torch.rand(5, 7, generator=torch.Generator().manual_seed(1)) > 0.5
ATTENTIONS: dict[str, Arguments] = {
    "plain": {},
    "causal": {"is_causal": True},
    "scaled": {"scale": 0.5},
    "mask": {"attn_mask": HALF | torch.eye(5, 7, dtype=torch.bool)},
    "row masked whole": {"attn_mask": torch.arange(5)[:, None].expand(5, 7) > 0},
    "added mask": {"attn_mask": HALF.double()},
    "shared heads": {"enable_gqa": True},
}


@pytest.mark.parametrize("case", ATTENTIONS)
@pytest.mark.parametrize("backend", ["fused", "math"])
def test_attention(case: str, backend: str, tmp_path: Path) -> None:
    heads = 2 if case == "shared heads" else 4
    q, k, v = zeroed(2, 4, 5, 3), zeroed(2, heads, 7, 3), zeroed(2, heads, 7, 3)

    def run() -> torch.Tensor:
        chosen = [nn.attention.SDPBackend.FLASH_ATTENTION, nn.attention.SDPBackend.EFFICIENT_ATTENTION]
        with nn.attention.sdpa_kernel([nn.attention.SDPBackend.MATH] if backend == "math" else chosen):
            return F.scaled_dot_product_attention(q, k, v, **ATTENTIONS[case])

    y, found, trace = forward_and_backward(tmp_path, run)
    assert not uncaptured(trace)
    qk, pv = ("attention0/qk", "attention0/pv") if backend == "fused" else ("bmm0", "bmm1")
    close(single_result(found, pv, "AxW").reshape(y.shape), y)
    if backend == "math":  # This backend first multiplies both by the scale's square root.
        assert {operation for _, operation in found} == {"AxW", "WxG", "AxG"}
        assert sum(map(len, found.values())) == 6
        return
    close(single_result(found, qk, "WxG").reshape(q.shape), q.grad)
    close(single_result(found, qk, "AxG").reshape(k.shape), k.grad)
    close(single_result(found, pv, "AxG").reshape(2, heads, 3, 7), v.grad.mT)


@pytest.mark.parametrize("need_weights", [True, False])
def test_multihead_attention(need_weights: bool, tmp_path: Path) -> None:
    layer: Any = nn.MultiheadAttention(4, 2, batch_first=True)
    x = zeroed(3, 5, 4)
    run = lambda: layer(x, x, x, need_weights=need_weights)[0]  # noqa: E731
    y, found, trace = forward_and_backward(tmp_path, run, layer)
    close(single_result(found, "MultiheadAttention.in_proj_weight", "AxG"), layer.in_proj_weight.grad)
    by_place = (5, 3, 4)  # The result has the layer's shape.
    close(single_result(found, "MultiheadAttention.in_proj_weight", "WxG").reshape(by_place), x.grad.transpose(0, 1))
    close(single_result(found, "out_proj", "AxG"), layer.out_proj.weight.grad)
    close(single_result(found, "out_proj", "AxW").reshape(by_place), (y - layer.out_proj.bias).transpose(0, 1))
    inner = ("bmm0", "bmm1") if need_weights else ("attention0/qk", "attention0/pv")
    for part in inner:
        for operation in ("AxW", "WxG", "AxG"):
            single_result(found, f"MultiheadAttention/{part}", operation)
    assert not uncaptured(trace)


def test_complete_networks(tmp_path: Path) -> None:
    cnn = (
        nn.Sequential(
            nn.Conv2d(2, 4, 3, padding=1),
            nn.BatchNorm2d(4),
            nn.ReLU(),
            nn.Conv2d(4, 4, 3, stride=2),
            nn.ReLU(inplace=True),
        )
        .append(nn.Flatten())
        .append(nn.Linear(16, 3))
    )
    transformer = nn.TransformerEncoderLayer(4, 2, dim_feedforward=6, dropout=0.1, batch_first=True)
    for model, x in ((cnn, torch.randn(2, 2, 6, 6)), (transformer, torch.randn(2, 3, 4))):
        trace = traced(tmp_path, partial(lambda model, x: backward(model(x)), model, x), model=model)
        assert not uncaptured(trace)
        found = results(trace)
        for path, weight in model.named_parameters():
            if weight.dim() > 1:
                close(sum(found[path.removesuffix(".weight"), "AxG"]), weight.grad)
