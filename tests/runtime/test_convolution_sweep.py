"""Compare plain and transposed convolutions, their gradients and traces with the definition."""

import random
from collections.abc import Iterator
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn import functional as F  # noqa: N812

import tensordash_runtime.compiled  # noqa: F401  registers the backend
from tensordash_runtime import Device, Run, offload
from tensordash_runtime.library import set_default_device
from tensordash_sim.trace import Record, Trace, record

from ..sim.lowering.reference import multiply_out
from .convolution_definition import Case, Results, by_definition

SEED = 20261125
OPERATIONS = {"y": ("AxW", "WxG"), "dx": ("WxG", "AxW"), "dw": ("AxG", "AxG")}
"""For each result, the operation of a plain and of a transposed convolution."""


def cases(dimensions: int, count: int, *, transposed: bool) -> Iterator[Case]:
    """Yield all settings for one dimension, or random pairs of settings for two."""
    draw = random.Random(SEED + dimensions + transposed)
    print(f"seed {SEED}")
    settings = [
        (stride, padding, dilation, extra)
        for stride, padding, dilation in product((1, 2, 3), (0, 1, 2), (1, 2, 3))
        for extra in (range(max(stride, dilation)) if transposed else [0])
    ]
    axes = [[one] for one in settings] if dimensions == 1 else [draw.choices(settings, k=2) for _ in range(count)]
    for chosen in axes:
        stride, padding, dilation, extra = zip(*chosen, strict=True)
        while True:
            case = Case(
                transposed=transposed,
                size=tuple(draw.randint(1, 5) for _ in chosen),
                kernel=tuple(draw.randint(1, 3) for _ in chosen),
                stride=stride,
                padding=padding,
                dilation=dilation,
                output_padding=extra,
                groups=draw.choice((1, 2)),
            )
            if min(case.result_size) > 0:
                break
        yield case


def convolve(case: Case, x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    settings: dict[str, Any] = {
        "stride": case.stride,
        "padding": case.padding,
        "dilation": case.dilation,
        "groups": case.groups,
    }
    if case.transposed:
        function: Any = (F.conv_transpose1d, F.conv_transpose2d)[len(case.size) - 1]
        settings["output_padding"] = case.output_padding
    else:
        function = (F.conv1d, F.conv2d)[len(case.size) - 1]
    result: torch.Tensor = function(x, w, **settings)
    return result


def operands(case: Case) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Draw input, weights and output gradient: small integers, half of them zeros."""
    generator = torch.Generator().manual_seed(SEED)

    def integers(*shape: int) -> torch.Tensor:
        drawn = torch.randint(-3, 4, shape, generator=generator) * torch.randint(0, 2, shape, generator=generator)
        return drawn.to(torch.float16)

    inputs, outputs = 2 * case.groups, 3
    x = integers(2, inputs, *case.size)
    first, second = (inputs, outputs) if case.transposed else (outputs * case.groups, inputs // case.groups)
    return x, integers(first, second, *case.kernel), integers(2, outputs * case.groups, *case.result_size)


def assert_equal(expected: Results, y: torch.Tensor, x: torch.Tensor, w: torch.Tensor) -> None:
    for name, found in (("y", y), ("dx", x.grad), ("dw", w.grad)):
        torch.testing.assert_close(
            found, getattr(expected, name).half(), rtol=0, atol=0, msg=f"{name} of {expected.case}"
        )


def check(cases: list[Case], device: Device, folder: Path) -> None:
    """Run and record forward and backward passes on the device, and compare them with the definition."""
    tensors = []
    with offload(device, strict=True) as run, record(folder / "run.trace", values=True):
        for case in cases:
            x, w, grad = operands(case)
            y = convolve(case, x.requires_grad_(), w.requires_grad_())
            y.backward(grad)
            tensors.append({"x": x, "w": w, "g": grad, "y": y})
    trace = Trace.open(folder / "run.trace")
    assert [missed for step in trace.steps for missed in step.uncaptured] == []
    recorded = list(trace.records)
    assert len(recorded) == len(run.contractions) == 3 * len(cases)
    for index, (case, found) in enumerate(zip(cases, tensors, strict=True)):
        x, w = found["x"], found["w"]
        expected = by_definition(case, x.detach(), w.detach(), found["g"])
        assert_equal(expected, found["y"], x, w)
        selection = slice(3 * index, 3 * index + 3)
        assert [each.macs for each in run.contractions[selection]] == [expected.macs] * 3, case
        check_records(case, recorded[selection], expected, found)


def check_records(case: Case, found: list[Record], expected: Results, tensors: dict[str, torch.Tensor]) -> None:
    """Check shapes, zeros, multiplications and products of all records."""
    names = {"A": "g", "W": "w", "G": "x"} if case.transposed else {"A": "x", "W": "w", "G": "g"}
    by_operation = {str(each.operation): each for each in found}
    for name, operations in OPERATIONS.items():
        entry = by_operation[operations[case.transposed]]
        assert entry.geometry.macs == expected.macs, case
        for letter, operand in entry.operands.items():
            assert operand.shape == tuple(tensors[names[letter]].shape)
            assert operand.nonzeros == int(tensors[names[letter]].count_nonzero())
        values = {letter: entry.values(letter).astype(int) for letter in entry.operands}
        product = torch.from_numpy(multiply_out(entry.geometry, entry.operation, values, lanes=4))
        assert torch.equal(product, getattr(expected, name)), case


@pytest.fixture(scope="module")
def device() -> Iterator[Device]:
    with Device("core") as core_device:
        yield core_device


@pytest.mark.parametrize("transposed", [False, True], ids=["plain", "transposed"])
@pytest.mark.parametrize(
    ("dimensions", "count"), [(1, 0), (2, 24), pytest.param(2, 1000, marks=pytest.mark.slow)], ids=["1d", "2d", "many"]
)
def test_results_gradients_and_traces(
    dimensions: int, count: int, transposed: bool, device: Device, tmp_path: Path
) -> None:
    check(list(cases(dimensions, count, transposed=transposed)), device, tmp_path)


BEYOND = (
    Case(True, (4,), (3,), (1,), (1,), (2,), (1,), 1),
    Case(True, (2, 3), (2, 3), (1, 2), (1, 2), (3, 2), (2, 1), 2),
    Case(True, (3, 2), (3, 1), (2, 1), (2, 0), (4, 3), (3, 2), 1),
)
"""Transposed convolutions with an `output_padding` of at least the stride."""


def test_programs_of_a_core(tmp_path: Path) -> None:
    with Device("core", "golden", memory_bytes=1 << 16) as device:
        check(list(BEYOND), device, tmp_path)


@pytest.mark.parametrize("case", BEYOND[:2])
def test_compiled(case: Case, device: Device) -> None:
    x, w, grad = operands(case)
    expected = by_definition(case, x, w, grad)
    run = Run(device)
    options: Any = {"device": device, "run": run}
    compiled = torch.compile(partial(convolve, case), backend="tensordash", options=options)
    y = compiled(x.requires_grad_(), w.requires_grad_())
    y.backward(grad)
    assert_equal(expected, y, x, w)
    assert [each.macs for each in run.contractions] == [expected.macs] * 3
    assert not run.missed


def test_custom_operation(device: Device) -> None:
    set_default_device(device)
    try:
        for case in list(cases(2, 4, transposed=False)):
            x, w, grad = operands(case)
            expected = by_definition(case, x, w, grad)
            settings = [list(each) for each in (case.stride, case.padding, case.dilation)]
            y = torch.ops.tensordash.convolution(x.requires_grad_(), w.requires_grad_(), *settings, case.groups)
            y.backward(grad)
            assert_equal(expected, y, x, w)
    finally:
        set_default_device(None)
