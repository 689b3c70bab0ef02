"""Test results, gradients and traces of grouped products in mixtures of experts."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.checkpoint import checkpoint

from tensordash_runtime import Device, offload
from tensordash_sim.trace import Trace, record

from ..sim.lowering.reference import multiply_out

ENDS = [3, 3, 8, 14]
"""Ends of four groups. The second is empty, and the last two of 16 rows or columns are in no group."""
FORMS: dict[str, tuple[tuple[int, ...], tuple[int, ...], list[int] | None]] = {
    "3d x 3d": ((4, 8, 16), (4, 16, 24), None),
    "2d x 3d": ((16, 16), (4, 16, 24), ENDS),
    "3d x 2d": ((4, 8, 16), (16, 16), ENDS),
    "2d x 2d": ((8, 16), (16, 24), ENDS),
}


def integers(*shape: int, seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.randint(-3, 4, shape, generator=generator) * torch.randint(0, 2, shape, generator=generator)
    return drawn.to(torch.float16).requires_grad_()


def offsets(ends: list[int] | None) -> torch.Tensor | None:
    return None if ends is None else torch.tensor(ends, dtype=torch.int32)


def by_groups(x: torch.Tensor, y: torch.Tensor, ends: list[int] | None) -> torch.Tensor:
    """Compute a grouped product by its definition in float64. Values outside of all groups are zero."""
    x, y = x.double(), y.double()
    if ends is None:
        return torch.stack([x[group] @ y[group] for group in range(len(x))])
    bounds = list(zip([0, *ends], ends, strict=False))
    if x.dim() == y.dim() == 2:
        return torch.stack([x[:, begin:end] @ y[begin:end] for begin, end in bounds])
    if x.dim() == 2:
        parts = [x[begin:end] @ y[group] for group, (begin, end) in enumerate(bounds)]
        return torch.cat([*parts, torch.zeros(len(x) - ends[-1], y.shape[-1], dtype=torch.float64)])
    parts = [x[group] @ y[:, begin:end] for group, (begin, end) in enumerate(bounds)]
    return torch.cat([*parts, torch.zeros(x.shape[1], y.shape[1] - ends[-1], dtype=torch.float64)], -1)


@pytest.mark.parametrize("form", FORMS)
def test_results_gradients_and_records(form: str, device: Device, tmp_path: Path) -> None:
    left, right, ends = FORMS[form]
    x, y = integers(*left, seed=1), integers(*right, seed=2)
    a, b = (each.detach().double().requires_grad_() for each in (x, y))
    expected = by_groups(a, b, ends)
    grad = integers(*expected.shape, seed=3).detach()
    expected.backward(grad.double())
    with offload(device, strict=True) as run, record(tmp_path / "run.trace", values=True):
        product = torch.nn.functional.grouped_mm(x, y, offs=offsets(ends))
        product.backward(grad)
    assert torch.equal(product.double(), expected)
    for actual, reference in ((x.grad, a.grad), (y.grad, b.grad)):
        assert actual is not None
        assert reference is not None
        assert torch.equal(actual.double(), reference)
    groups = 1 if ends is None else 3
    operations = [each.operation for each in run.contractions]
    assert sorted(operations) == sorted(groups * ["AxW", "AxG", "WxG"])
    macs = 4 * 8 * 16 * 24 if ends is None else {"3d x 2d": 8 * 16, "2d x 3d": 16 * 24, "2d x 2d": 8 * 24}[form] * 14
    assert sum(each.macs for each in run.contractions) == 3 * macs
    check_records(Trace.open(tmp_path / "run.trace"), operations, macs, expected)


def check_records(trace: Trace, operations: list[str], macs: int, expected: torch.Tensor) -> None:
    assert [missed for step in trace.steps for missed in step.uncaptured] == []
    entries = list(trace.records)
    assert [str(entry.operation) for entry in entries] == operations
    assert sum(entry.geometry.macs for entry in entries) == 3 * macs
    total = 0
    for entry in entries:
        values = {name: entry.values(name).astype(int) for name in entry.operands}
        if str(entry.operation) == "AxW":
            total += multiply_out(entry.geometry, entry.operation, values, lanes=4).sum()
    assert total == expected.sum()


def test_unsupported_dtype_runs_in_pytorch(device: Device) -> None:
    x, y = (integers(*shape, seed=4).detach().bfloat16() for shape in ((16, 16), (4, 16, 24)))
    with offload(device) as run:
        product = torch._grouped_mm(x, y, offs=offsets([3, 3, 8, 16]))
    assert torch.equal(product.double(), by_groups(x, y, [3, 3, 8, 16]).bfloat16().double())
    assert [each.macs for each in run.missed] == [rows * 16 * 24 for rows in (3, 5, 8)]
    assert run.contractions == []


@pytest.mark.parametrize(
    ("shapes", "ends", "more", "message"),
    [
        (((16, 16), (4, 16, 24)), [3, 3, 16], {}, "matrix batch sizes have to match"),
        (((16, 16), (4, 16, 24)), None, {}, "Have to provide offsets"),
        (((16, 16), (4, 16, 24)), ENDS, {"bias": torch.ones(24).half()}, "Bias not supported"),
        (((16, 16), (4, 16, 24)), ENDS, {"out_dtype": torch.float32}, "output dtype must match"),
    ],
)
def test_invalid_arguments_raise_the_error_of_pytorch(
    shapes: Any, ends: list[int] | None, more: dict[str, Any], message: str, device: Device
) -> None:
    x, y = (integers(*shape, seed=5).detach() for shape in shapes)
    with offload(device), pytest.raises(RuntimeError, match=message):
        torch._grouped_mm(x, y, offs=offsets(ends), **more)


@pytest.mark.parametrize("reentrant", [False, True])
def test_a_checkpoint_repeats_every_group(reentrant: bool, device: Device) -> None:
    x, y = integers(16, 16, seed=6), integers(4, 16, 24, seed=7)

    def expert(x: torch.Tensor) -> torch.Tensor:
        first: torch.Tensor = torch._grouped_mm(x, y, offs=offsets(ENDS)).relu()
        return torch._grouped_mm(first, y.mT.contiguous(), offs=offsets(ENDS)).square()

    with offload(device, strict=True) as run:
        checkpoint(expert, x, use_reentrant=reentrant).backward(torch.ones(16, 16).half())
    forward = [each.layer for each in run.contractions if each.operation == "AxW"]
    assert len(forward) == 12
    assert forward[:6] == forward[6:]
    gradients = [each.operation for each in run.contractions if each.operation != "AxW"]
    assert sorted(gradients) == sorted(6 * ["AxG", "WxG"])


def mixtral() -> Any:
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    return transformers.MixtralForCausalLM(
        transformers.MixtralConfig(
            vocab_size=64,
            hidden_size=32,
            intermediate_size=48,
            num_hidden_layers=1,
            num_attention_heads=4,
            num_key_value_heads=2,
            num_local_experts=4,
            num_experts_per_tok=2,
        )
    )


def test_a_mixture_trains(device: Device) -> None:
    model, tokens = mixtral(), torch.arange(16).reshape(2, 8)
    plain = mixtral()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with offload(device, model=model, strict=True) as run:
        loss = model(input_ids=tokens, labels=tokens).loss
        loss.backward()
        optimizer.step()
    expected = plain(input_ids=tokens, labels=tokens).loss
    expected.backward()
    torch.testing.assert_close(loss, expected, rtol=1e-3, atol=1e-3)
    for actual, reference in zip(model.parameters(), plain.parameters(), strict=True):
        assert actual.grad is not None
        assert reference.grad is not None
        assert (actual.grad - reference.grad).norm() <= 0.01 * reference.grad.norm()
    assert run.summary.startswith("100% of ")
    experts = {key: totals.macs for key, totals in run.by_layer().items() if "experts" in key[0]}
    layers = ("model.layers.0.mlp.experts.gate_up_proj", 2 * 32 * 48), ("model.layers.0.mlp.experts.down_proj", 32 * 48)
    assert experts == {
        (layer, operation): 16 * 2 * size for layer, size in layers for operation in ("AxW", "AxG", "WxG")
    }
