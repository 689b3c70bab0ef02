"""Test that `offload` gives exact results, lists other products, and restores PyTorch at its end."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.amp.grad_scaler import GradScaler
from torch.nn import functional as F  # noqa: N812
from torch.nn.attention import SDPBackend, sdpa_kernel

from tensordash_runtime import Device, DeviceError, OffloadError, Run, offload

from .rounding import Rounding


class Network(nn.Module):
    """A plain and a transposed convolution, an LSTM, attention and linear layers."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(2, 4, 3, stride=2, padding=1, groups=2)
        self.lstm = nn.LSTM(16, 8, batch_first=True, bidirectional=True)
        self.attention = nn.MultiheadAttention(16, 2, batch_first=True)
        self.up = nn.ConvTranspose1d(16, 4, 3, stride=2, output_padding=1)
        self.out = nn.Linear(16, 3)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        features = self.conv(images).relu().flatten(2)
        states, _ = self.lstm(features)
        attended, _ = self.attention(states, states, states, need_weights=False)
        places = F.scaled_dot_product_attention(attended, states, features, is_causal=True)
        scores: torch.Tensor = self.out(places.mean(1)) + self.up(attended.mT).mean((1, 2))[:, None]
        return scores


def seeded(make: Callable[[], nn.Module]) -> nn.Module:
    torch.manual_seed(0)
    return make()


def images() -> torch.Tensor:
    return torch.randn(2, 2, 8, 8, generator=torch.Generator().manual_seed(1))


def gradients(model: nn.Module, autocast: bool) -> list[torch.Tensor]:
    with torch.autocast("cpu", torch.float16, enabled=autocast):
        loss = model(images()).float().square().mean()
    model.zero_grad()
    loss.backward()
    return [loss.detach(), *(parameter.grad for parameter in model.parameters() if parameter.grad is not None)]


def rounded_gradients(model: nn.Module, autocast: bool) -> list[torch.Tensor]:
    enabled = torch._C._get_mkldnn_enabled()
    torch._C._set_mkldnn_enabled(False)
    try:
        with sdpa_kernel(SDPBackend.MATH), Rounding():
            return gradients(model, autocast)
    finally:
        torch._C._set_mkldnn_enabled(enabled)


@pytest.mark.parametrize("autocast", [False, True])
def test_losses_and_gradients_are_bit_identical(device: Device, autocast: bool) -> None:
    model = seeded(Network)
    with offload(device, model=model, strict=True) as run:
        results = gradients(model, autocast)
    expected = rounded_gradients(model, autocast)
    assert len(results) == len(expected) > 10
    assert all(map(torch.equal, results, expected))
    assert not all(map(torch.equal, results, gradients(model, autocast)))
    layers = {each.layer for each in run.contractions}
    assert {"conv", "lstm.weight_hh_l0_reverse", "attention.in_proj_weight", "attention/bmm0", "up", "out"} <= layers
    assert run.missed == []
    assert {each.operation for each in run.contractions} == {"AxW", "WxG", "AxG"}


def test_on_the_golden_core() -> None:
    model = seeded(lambda: nn.Sequential(nn.Conv2d(2, 3, 3), nn.ReLU(), nn.Flatten(), nn.Linear(108, 2)))
    with Device("core", "golden") as device, offload(device, strict=True):
        results = gradients(model, autocast=True)
    assert all(map(torch.equal, results, rounded_gradients(model, autocast=True)))


def labels(run: Run) -> list[tuple[str, str]]:
    return [(each.layer, each.operation) for each in run.contractions]


def test_names_roles_and_steps(device: Device) -> None:
    model = seeded(lambda: nn.Sequential(nn.Conv2d(2, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 2)))
    optimizer, scaler = torch.optim.SGD(model.parameters(), lr=0.1), GradScaler("cpu", init_scale=2.0)
    step = [("0", "AxW"), ("3", "AxW"), ("3", "WxG"), ("3", "AxG"), ("0", "AxG")]
    with offload(device, model=model) as run:
        for k in range(2):
            loss = model(images()).square().mean()
            scaler.scale(loss * (torch.inf if k else 1)).backward()
            scaler.step(optimizer)
            scaler.update()
        with torch.no_grad():
            model(images())
    assert sorted(labels(run)[:5]) == sorted(step)
    assert sorted(labels(run)) == sorted([*step, *step, *step[:2]])
    assert [each.step for each in run.contractions] == [0] * 5 + [1] * 5 + [2] * 2
    assert run.steps == 2
    assert run.totals().macs == 2 * 2 * (2 * 2 * 9 * 36 * 4 + 3 * 144 * 2) + 2 * (2 * 9 * 36 * 4 + 144 * 2)


def test_labels_without_a_model(device: Device) -> None:
    with offload(device) as run:
        nn.Sequential(nn.Linear(3, 2))(torch.ones(4, 3))
        torch.ones(4, 3) @ torch.ones(3, 2)
        (torch.ones(2, 4, 3, requires_grad=True) @ torch.ones(2, 3, 5)).sum().backward()
    assert labels(run) == [("Sequential.0", "AxW"), ("mm 1x2x3", "AxW"), ("bmm 2x5x3", "AxW"), ("bmm 2x5x3", "WxG")]


def half(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).half()


def exact(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return (x.double() @ y.double()).float()


def test_products_with_addends(device: Device) -> None:
    x, y, c = half(4, 6, seed=1), half(6, 5, seed=2), half(4, 5, seed=3)
    bx, by = half(3, 4, 6, seed=4), half(3, 6, 5, seed=5)
    image, kernel, bias = half(1, 2, 5, 5, seed=6), half(2, 3, 3, 3, seed=7), half(3, seed=8)
    with offload(device, strict=True) as run:
        results = [
            torch.addmm(c, x, y),
            torch.addmm(c, x, y, alpha=0.3, beta=0.7),
            torch.addmm(torch.full_like(c, torch.nan), x, y, beta=0),
            c.clone().addmm_(x, y),
            torch.mm(x, y, out=torch.empty_like(c)),
            torch.baddbmm(c, bx, by),
            torch.addbmm(c, bx, by),
            torch.mv(x, y[:, 0]),
            torch.addmv(c[:, 0], x, y[:, 0]),
            torch.dot(x[0], y[:, 0]),
            torch._addmm_activation(c[0], x, y),
            F.conv_transpose2d(image, kernel, bias, stride=2, output_padding=1),
            F.conv_transpose2d(image, kernel, bias, dilation=2, output_padding=1),  # Some results have no tap.
            torch.einsum("bij,bjk->bik", bx, by),
        ]
    wide = F.conv_transpose2d(image.double(), kernel.double(), stride=2, output_padding=1).float()
    apart = F.conv_transpose2d(image.double(), kernel.double(), dilation=2, output_padding=1).float()
    expected = [
        exact(x, y) + c.float(),
        exact(x, y) * 0.3 + c.float() * 0.7,
        exact(x, y),
        exact(x, y) + c.float(),
        exact(x, y),
        exact(bx, by) + c.float(),
        exact(bx.transpose(0, 1).reshape(4, -1), by.reshape(-1, 5)) + c.float(),
        exact(x, y[:, 0]),
        exact(x, y[:, 0]) + c[:, 0].float(),
        exact(x[0], y[:, 0]),
        (exact(x, y) + c[0].float()).relu(),
        wide + bias.float()[:, None, None],
        apart + bias.float()[:, None, None],
        exact(bx, by),
    ]
    for k, (found, reference) in enumerate(zip(results, expected, strict=True)):
        assert torch.equal(found, reference.half()), k
    assert len(run.contractions) == len(results)


def test_inference_mode(device: Device) -> None:
    model = seeded(Network).eval()
    with offload(device, strict=True) as run, torch.inference_mode():
        output = model(images())
    with offload(device), torch.no_grad():
        assert torch.equal(model(images()), output)
    assert len(run.contractions) > 10


@pytest.mark.filterwarnings("ignore:Using `torch.compile.module.`")
def test_compiled(device: Device) -> None:
    model = seeded(lambda: nn.Sequential(nn.Conv2d(2, 3, 3), nn.ReLU(), nn.Flatten(), nn.Linear(108, 2)))
    with offload(device, strict=True) as run:
        results = gradients(torch.compile(model, backend="aot_eager"), autocast=False)  # type: ignore[arg-type]
    assert all(map(torch.equal, results, rounded_gradients(model, autocast=False)))
    assert len(run.contractions) == 5
    # Outside of `offload`, PyTorch compiles a function again that it compiled inside.
    graphs: list[Any] = []

    def backend(graph: torch.fx.GraphModule, _: Any) -> Callable[..., Any]:
        graphs.append(graph)
        return graph.forward

    torch.compile(model, backend=backend)(images())
    assert len(graphs) == 1


CASES: list[tuple[Callable[[], Any], str]] = [
    (lambda: torch.ones(2, 2).double() @ torch.ones(2, 2).double(), "both be float32, or float16 and float16, not A"),
    (lambda: torch.ones(2, 2).int() @ torch.ones(2, 2).int(), "not A int32 and W int32"),
    (lambda: nn.Conv3d(1, 1, 2)(torch.ones(1, 1, 3, 3, 3)), "aten::convolution .* a convolution in 3 dimensions"),
    (
        lambda: torch.cdist(torch.ones(2, 3), torch.ones(2, 3), p=1.0),
        "aten::_cdist_forward .* no program for this operation",
    ),
    (lambda: torch.ones(2, 2, dtype=torch.complex64) @ torch.ones(2, 2, dtype=torch.complex64), "complex64"),
    (lambda: torch.sparse.mm(torch.eye(2).to_sparse(), torch.ones(2, 2)), "tensors are sparse_coo"),
    (lambda: F.conv2d(torch.ones(1, 1, 1, 9), torch.ones(1, 1, 1, 2), stride=5), r"stride\[1\] must be"),
    (lambda: torch.ones(17, 10**6) @ torch.ones(10**6, 17), "289,000,000 MACs: out of device memory"),
]


@pytest.mark.parametrize(("compute", "reason"), CASES)
def test_missed_operations_are_listed(device: Device, compute: Callable[[], Any], reason: str) -> None:
    torch.manual_seed(0)
    expected = compute()
    torch.manual_seed(0)
    with offload(device) as run:
        assert torch.equal(compute(), expected)
    (missed,) = run.missed
    assert run.contractions == []
    with pytest.raises(OffloadError, match=reason) as raised, offload(device, strict=True):
        compute()
    assert str(raised.value) == str(missed)
    assert "did not run on the device" in str(missed)


def test_missed_operations_of_a_backward_pass(device: Device) -> None:
    """No program supports the stride: PyTorch runs both passes, and the run lists each."""
    x, w = torch.randn(1, 1, 1, 9, requires_grad=True), torch.randn(1, 1, 1, 2, requires_grad=True)
    with offload(device) as run:
        F.conv2d(x, w, stride=5).sum().backward()
    assert [each.operation for each in run.missed] == ["AxW", "WxG", "AxG"]
    assert [each.macs for each in run.missed] == [4, 4, 4]
    assert x.grad is not None
    assert w.grad is not None
    assert torch.equal(x.grad.flatten(), _spread(w))
    assert torch.equal(w.grad.flatten(), x.detach().flatten()[[0, 1]] + x.detach().flatten()[[5, 6]])
    assert run.share == 0


def _spread(w: torch.Tensor) -> torch.Tensor:
    spread = torch.zeros(9)
    spread[0:2] = spread[5:7] = w.detach().flatten()
    return spread


def test_pytorch_settings_are_restored(device: Device) -> None:
    def state() -> tuple[Any, ...]:
        backends = torch.backends
        sdp = backends.cuda.flash_sdp_enabled(), backends.cuda.math_sdp_enabled()
        return (*sdp, torch._C._get_mkldnn_enabled(), backends.mha.get_fastpath_enabled(), GradScaler.step)

    def fail() -> None:
        during.append(state())
        raise KeyError

    before, during = state(), list[Any]()
    with pytest.raises(KeyError), offload(device):
        fail()
    assert during != [before]
    assert state() == before
    assert torch._C._len_torch_dispatch_stack() == 0


def test_a_closed_device() -> None:
    device = Device("core")
    device.close()
    with pytest.raises(DeviceError, match="closed"), offload(device):
        pass


def test_activation_checkpointing(device: Device) -> None:
    from torch.utils.checkpoint import checkpoint

    model = seeded(lambda: nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4)))
    x = torch.randn(2, 4)
    with offload(device, strict=True, model=model) as run:
        checkpoint(model, x, use_reentrant=False).sum().backward()
    forward, backward = [("0", "AxW"), ("2", "AxW")], [("2", "WxG"), ("2", "AxG"), ("0", "AxG")]
    assert sorted(set(labels(run))) == sorted(forward + backward)
    assert labels(run).count(("0", "AxW")) == 2  # The checkpoint computes the product again.
