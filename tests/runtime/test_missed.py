"""Test that a run lists the products that did not run on the device, and prints their share first."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import flop_registry, register_flop_formula

from tensordash_runtime import Device, offload
from tensordash_runtime.macs import count_macs
from tensordash_sim.trace.capture.call import Call


def flash(q: torch.Tensor) -> torch.Tensor:
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        return F.scaled_dot_product_attention(q, q, q)


def fused_lstm(x: torch.Tensor) -> None:
    enabled = torch._C._get_mkldnn_enabled()
    torch._C._set_mkldnn_enabled(True)
    try:
        nn.LSTM(4, 5)(x)
    finally:
        torch._C._set_mkldnn_enabled(enabled)


def sparse(*shape: int, zeros: int) -> torch.Tensor:
    """Return a sparse tensor of ones whose first elements are absent."""
    flat = torch.ones(shape).flatten()
    flat[:zeros] = 0
    return flat.reshape(shape)


X, Y = torch.ones(5, 6), torch.ones(6, 7)
MISSED: dict[str, tuple[Callable[[], Any], int]] = {
    "another type": (lambda: X.double() @ Y.double(), 5 * 6 * 7),
    "complex": (lambda: X.to(torch.complex64) @ Y.to(torch.complex64), 5 * 6 * 7),
    "integers": (lambda: torch._int_mm(torch.ones(32, 16).char(), torch.ones(16, 24).char()), 32 * 16 * 24),
    "addmm": (lambda: torch.addmm(torch.ones(7).double(), X.double(), Y.double()), 5 * 6 * 7),
    "dot": (lambda: torch.dot(X[0].int(), X[1].int()), 6),
    "mv": (lambda: torch.mv(X.double(), Y[:, 0].double()), 5 * 6),
    "sparse times dense": (lambda: sparse(5, 6, zeros=4).to_sparse() @ Y, 26 * 7),
    "compressed rows": (lambda: torch.mm(sparse(5, 6, zeros=4).to_sparse_csr(), Y), 26 * 7),
    "dense times sparse": (lambda: torch.mm(X, sparse(6, 7, zeros=9).to_sparse_csc()), 5 * 33),
    "sparse times sparse": (lambda: sparse(5, 6, zeros=6).to_sparse() @ sparse(6, 7, zeros=7).to_sparse(), 4 * 5 * 7),
    "sampled": (lambda: torch.sparse.sampled_addmm(sparse(5, 7, zeros=3).to_sparse_csr(), X, Y), 32 * 6),
    "three dimensions": (lambda: F.conv3d(torch.ones(1, 2, 4, 4, 4), torch.ones(3, 2, 3, 3, 3), padding=1), 6000),
    "transposed": (lambda: F.conv_transpose3d(torch.ones(2, 2, 2, 2, 2), torch.ones(2, 3, 2, 2, 2)), 2 * 8 * 2 * 3 * 8),
    "distances": (lambda: torch.cdist(torch.ones(3, 6), torch.ones(4, 6), p=1.0), 3 * 4 * 6),
    "embedding": (lambda: F.embedding_bag(torch.tensor([[1, 2, 3]]), torch.ones(5, 4)), 3 * 4),
    "outer": (lambda: torch.addr(torch.zeros(6, 7), X[0], Y[0]), 6 * 7),
    "attention": (lambda: flash(torch.ones(1, 2, 8, 4)), 2 * 8 * 8 * 4 * 2),
    "fused LSTM": (lambda: fused_lstm(torch.ones(3, 2, 4)), 3 * 2 * 4 * 5 * (4 + 5)),
}


@pytest.mark.filterwarnings("ignore:Sparse .* tensor support:UserWarning")
@pytest.mark.parametrize("case", MISSED)
def test_multiplications_are_counted(case: str, device: Device) -> None:
    compute, macs = MISSED[case]
    with offload(device) as run:
        compute()
    assert [each.macs for each in run.missed] == [macs]
    assert run.share == 0
    assert run.summary.startswith("0.0% of ")


def test_gradients_are_counted(device: Device) -> None:
    x, w = torch.ones(1, 2, 4, 4, 4), torch.ones(3, 2, 3, 3, 3, requires_grad=True)
    with offload(device) as run:
        F.conv3d(x, w).sum().backward()
        F.conv3d(x.requires_grad_(), w).sum().backward()
    forward = 8 * 3 * 2 * 27
    assert [each.macs for each in run.missed] == [forward, forward, forward, 2 * forward]


def test_scaled_groups_are_counted() -> None:
    """This processor may have no kernel for the operation, so the test constructs the call."""
    operation = torch.ops.aten._scaled_grouped_mm.default
    x, y = torch.ones(16, 32, dtype=torch.float8_e4m3fn), torch.ones(2, 32, 24, dtype=torch.float8_e4m3fn)
    scales, ends = torch.ones(16), torch.tensor([3, 10], dtype=torch.int32)
    call = Call(operation, (x, y, scales, scales, ends), {}, torch.empty(16, 24), name="aten::_scaled_grouped_mm")
    assert count_macs(call) == 10 * 32 * 24


@torch.library.custom_op("tensordash_tests::mm_of_powers", mutates_args=())
def mm_of_powers(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Multiply in a custom operation whose Python kernel calls PyTorch."""
    return torch.mm(x * x, y)


@torch.library.custom_op("tensordash_tests::opaque_mm", mutates_args=())
def opaque_mm(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Multiply in a custom operation whose kernel does not call PyTorch."""
    return torch.from_numpy(x.numpy() @ y.numpy())


@torch.library.custom_op("tensordash_tests::opaque_gemm", mutates_args=())
def opaque_gemm(x: torch.Tensor) -> torch.Tensor:
    """Multiply in a custom operation whose shapes are not those of a product."""
    return torch.from_numpy((x.numpy() @ x.numpy().T).sum(0))


def test_operations_of_other_libraries(device: Device) -> None:
    x = torch.arange(30.0).reshape(5, 6)
    with offload(device, strict=True) as run:
        product = torch.ops.tensordash_tests.mm_of_powers(x, Y)
    assert torch.equal(product, (x * x).half().float() @ Y)
    assert [each.macs for each in run.contractions] == [5 * 6 * 7]
    with offload(device) as run:
        torch.ops.tensordash_tests.opaque_mm(X, Y)
    assert [each.macs for each in run.missed] == [5 * 6 * 7]


def test_products_inside_composite_operations_run(device: Device) -> None:
    """The device runs products inside the kernels of operations that it does not run as a unit."""
    generator = torch.Generator().manual_seed(0)
    x, y, weight = (
        torch.randint(-3, 4, shape, generator=generator).float() for shape in ((5, 2, 4), (4, 6), (3, 4, 6))
    )
    bias = torch.zeros(6)
    compute: list[Callable[[], torch.Tensor]] = [
        lambda: torch.conv_tbc(x, weight, bias, 1),
        lambda: F.bilinear(x[:, 0], y.T[:5], torch.ones(7, 4, 4)),
        lambda: torch._foreach_mm([x[:, 0]], [y])[0],
    ]
    for each in compute:
        expected = each()
        with offload(device, strict=True) as run:
            assert torch.equal(each(), expected)
        assert run.contractions


def test_unknown_multiplications_are_reported(device: Device) -> None:
    with offload(device) as run:
        X @ Y
        torch.ops.tensordash_tests.opaque_gemm(X)
    assert [each.macs for each in run.missed] == [None]
    assert run.share is None
    first = str(run).splitlines()[0]
    assert first == "At most 100% of 210 MACs ran on core (emulator): unknown MACs of 1 missed operations are left out"
    assert run.to_json()["totals"]["unknown"] == 1
    register_flop_formula(torch.ops.tensordash_tests.opaque_gemm)(lambda shape, **_: 2 * shape[0] ** 2 * shape[1])
    try:
        with offload(device) as run:
            torch.ops.tensordash_tests.opaque_gemm(X)
    finally:
        del flop_registry[torch.ops.tensordash_tests.opaque_gemm]
    assert [each.macs for each in run.missed] == [5 * 5 * 6]


def test_share_is_printed_first(device: Device, tmp_path: Path) -> None:
    with offload(device) as run:
        torch.ones(40, 50) @ torch.ones(50, 60)
        torch.ones(4, 5).double() @ torch.ones(5, 6).double()
    line = "99.9% of 120 k MACs ran on core (emulator)"
    assert str(run).splitlines()[0] == line
    totals = json.loads(json.dumps(run.to_json()))["totals"]
    assert (totals["macs"], totals["missed_macs"], totals["unknown"]) == (120_000, 120, 0)
    assert totals["share"] == run.share == 120_000 / 120_120
    run.page(tmp_path / "run.html")
    assert line in (tmp_path / "run.html").read_text(encoding="utf-8")


def test_share_below_one_is_not_rounded_to_100_percent(device: Device) -> None:
    with offload(device) as run:
        torch.ones(100, 100) @ torch.ones(100, 200)
        torch.dot(X[0].double(), X[1].double())
    assert run.summary == "99.9% of 2.00 M MACs ran on core (emulator)"
