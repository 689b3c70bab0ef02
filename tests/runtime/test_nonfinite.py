"""Test that results with infinities and NaN do not depend on counts of zeros."""

import itertools
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.amp.grad_scaler import GradScaler
from torch.nn.functional import conv2d
from torch.nn.grad import conv2d_input, conv2d_weight

from tensordash import load_preset
from tensordash_runtime import Device, offload
from tensordash_sim.lowering import Convolution, MatrixProduct

from ..sim.lowering.geometries import convolution

LINEAR = MatrixProduct(batch=2, samples=5, in_features=6, out_features=3)
CONVOLUTION = convolution(batch=2, channels=(4, 2), size=(5, 6), kernel=(3, 2), stride=(2, 1), padding=(1, 2), groups=2)
"""Padding on all sides; a core pads the seven columns of results to eight."""
OPERATIONS = ("AxW", "WxG", "AxG")
Tensors = dict[str, torch.Tensor]


def draw_operands(geometry: Convolution | MatrixProduct, operation: str, seed: int, kind: torch.dtype) -> Tensors:
    """Draw values, half of them zeros."""
    random = torch.Generator().manual_seed(seed)
    return {
        name: (torch.randint(-2, 3, geometry.shapes[name], generator=random) * 0.5).relu().to(kind)
        for name in operation
        if name in "AWG"
    }


def compute_reference(geometry: Convolution | MatrixProduct, operation: str, tensors: Tensors) -> torch.Tensor:
    """Compute the operation with PyTorch in float64, which multiplies padding as zeros."""
    wide = {name: tensor.double() for name, tensor in tensors.items()}
    if isinstance(geometry, MatrixProduct):
        if operation == "WxG":
            return wide["G"] @ wide["W"]
        return wide["A"] @ wide["W"].mT if operation == "AxW" else wide["G"].mT @ wide["A"]
    settings = geometry.stride, geometry.padding, geometry.dilation, geometry.groups
    shapes: Any = geometry.shapes
    if operation == "WxG":
        return conv2d_input(shapes["A"], wide["W"], wide["G"], *settings)
    if operation == "AxW":
        return conv2d(wide["A"], wide["W"], None, *settings)
    return conv2d_weight(wide["A"], shapes["W"], wide["G"], *settings)


def check_operation(device: Device, geometry: Convolution | MatrixProduct, operation: str, tensors: Tensors) -> bool:
    """Require PyTorch's bits with either operand on the row side; return whether a result is not finite."""
    expected = compute_reference(geometry, operation, tensors).float()
    for rows in tensors:
        done = device.contract(geometry, operation, tensors, row_side=rows)
        assert done.executed.problem.rows == rows
        torch.testing.assert_close(done.result.float(), expected, rtol=0, atol=0, equal_nan=True)
        assert done.executed.non_finite
        assert len(done.executed.checks) in (2, 4)
    return not bool(torch.isfinite(expected).all())


@pytest.mark.parametrize("geometry", [LINEAR, CONVOLUTION], ids=["matmul", "convolution"])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_one_infinity_at_each_position(geometry: Convolution | MatrixProduct, operation: str) -> None:
    """Put an infinity among zeros in several places of each operand, in alternating types."""
    kinds, reached = itertools.cycle([torch.float16, torch.float32]), 0
    with Device("core") as device:
        for name in draw_operands(geometry, operation, 0, torch.float16):
            places = list(np.ndindex(*geometry.shapes[name]))
            for place in places[:: max(1, len(places) // 5)]:
                tensors = draw_operands(geometry, operation, sum(place), next(kinds))
                tensors[name][place] = torch.inf
                reached += check_operation(device, geometry, operation, tensors)
    assert reached >= 8  # Some infinities are multiplied only with padding.


@pytest.mark.parametrize("backend", ["emulator", "golden"])
@pytest.mark.parametrize(("preset", "kind"), [("core", torch.float16), ("core-bf16", torch.bfloat16)])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_infinities_and_nan_in_both_operands(backend: str, preset: str, kind: torch.dtype, operation: str) -> None:
    with Device(preset, backend) as device:
        for geometry in (LINEAR, CONVOLUTION):
            tensors = draw_operands(geometry, operation, 1, kind)
            first, second = tensors
            tensors[first].view(-1)[3] = -torch.inf
            tensors[first].view(-1)[-2] = torch.inf
            tensors[second].view(-1)[2] = torch.inf
            tensors[second].view(-1)[-1] = torch.nan
            assert check_operation(device, geometry, operation, tensors)


@pytest.mark.parametrize("change", ['tile.accumulator="hopper"', 'tile.sparsity="both"', 'tile.sparsity="none"'])
def test_other_tiles(change: str) -> None:
    tile = load_preset("paper", ["tile.format=fp16", change])
    with Device(tile) as device:
        for operation in OPERATIONS:
            tensors = draw_operands(CONVOLUTION, operation, 2, torch.float16)
            for name, value in zip(tensors, (torch.inf, -torch.inf), strict=True):
                tensors[name].view(-1)[5] = value
            assert check_operation(device, CONVOLUTION, operation, tensors)


@pytest.mark.parametrize("preset", ["mxfp8", "nvfp4"])
def test_tiles_with_scales(preset: str) -> None:
    """On both sides, each result with a non-finite factor is NaN. No other result changes."""
    tensors = draw_operands(LINEAR, "AxW", 3, torch.float32)
    tensors["W"][0, 1, 2] = torch.inf
    finite = {**tensors, "W": tensors["W"].nan_to_num(posinf=0.0)}
    with Device(preset) as device:
        for rows in "AW":
            result = device.contract(LINEAR, "AxW", tensors, row_side=rows).result
            expected = device.contract(LINEAR, "AxW", finite, row_side=rows).result
            expected[0, :, 1] = torch.nan
            torch.testing.assert_close(result, expected, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize(("preset", "kind"), [("core", torch.float16), ("core-bf16", torch.bfloat16)])
def test_bias_relu_and_mask_after_infinities(preset: str, kind: torch.dtype) -> None:
    a, w = torch.ones(1, 3, 2), torch.ones(1, 4, 2)
    a[0, 0, 0], a[0, 1, 0] = torch.inf, -torch.inf
    bias = torch.tensor([1.0, -torch.inf, torch.nan, 0.0])
    layer = MatrixProduct(batch=1, samples=3, in_features=2, out_features=4)
    expected = (a.double() @ w.double().mT + bias).relu().float()
    with Device(preset) as device:
        for rows in "AW":
            done = device.contract(layer, "AxW", {"A": a, "W": w}, bias=bias, relu=True, row_side=rows)
            torch.testing.assert_close(done.result, expected, rtol=0, atol=0, equal_nan=True)
        mask = torch.zeros(1, 3, 4).to(kind)
        mask[0, 0, 1:] = 1
        result = device.contract(layer, "AxW", {"A": a.to(kind), "W": w.to(kind)}, mask=mask).result
    assert result.tolist() == [[[0, torch.inf, torch.inf, torch.inf], [0] * 4, [0] * 4]]


def test_infinity_times_zero_is_nan_despite_other_zeros() -> None:
    a = np.zeros((4, 16), np.float16)
    a[0, 0], a[:, 1] = np.inf, 1
    for dense, backend in itertools.product((False, True), ("emulator", "golden")):
        b = np.zeros((16, 4), np.float16)
        b[1] = 1
        b[2:] = dense
        with Device("core", backend) as device:
            result = device.matmul(a, b)
        assert np.isnan(result[0]).all()
        assert (result[1:] == 1).all()


def test_fp8_keeps_infinities() -> None:
    """E4M3 has no infinities, but infinite float32 operands on either side still give infinite results."""
    a, b = torch.ones(3, 4), torch.ones(4, 2)
    for operand in (a, b):
        operand[0, 0] = torch.inf
        with Device("core-fp8") as device:
            for side in "ab":
                assert torch.equal(device.matmul(a, b, row_side=side), a @ b)
        operand[0, 0] = 1


@pytest.mark.parametrize("place", ["A", "W", "G"])
def test_gradient_scaler_detects_infinities(place: str) -> None:
    """The infinity is multiplied only by zeros. GradScaler skips the step, and the run counts the contractions."""
    torch.manual_seed(0)
    first = nn.Conv2d(1, 2, 3, padding=1, bias=False)
    model = nn.Sequential(first, nn.Flatten(), nn.Linear(32, 2, bias=False))
    optimizer, scaler = torch.optim.SGD(model.parameters(), lr=0.1), GradScaler("cpu", init_scale=4.0)
    x = torch.zeros(1, 1, 4, 4)
    x[0, 0, 0, 0] = torch.inf if place == "A" else 1
    if place == "W":
        with torch.no_grad():
            first.weight[0, 0, 0, 0] = torch.inf
    before = [parameter.detach().clone() for parameter in model.parameters()]
    with Device("core") as device, offload(device, model=model, strict=True, flush_limit=0.5) as run:
        loss = model(x).square().sum() * (torch.inf if place == "G" else 1)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    assert scaler.get_scale() == 2.0
    for parameter, old in zip(model.parameters(), before, strict=True):
        assert torch.equal(parameter, old)
    assert 0 < run.totals().non_finite <= len(run.contractions)
    assert f"warning: {run.totals().non_finite} of {len(run.contractions)} contractions had non-finite" in str(run)
    document = run.to_json()
    assert document["totals"]["non_finite"] == sum(each["non_finite"] for each in document["contractions"])


def test_cycles_of_checks_count() -> None:
    a, b = torch.ones(8, 32), torch.ones(32, 8)
    with Device("core") as device, offload(device) as run:
        a @ b
        a[0, 0] = torch.inf
        a @ b
    plain, checked_one = run.contractions
    assert len(checked_one.executed.checks) == 2
    assert run.cycles(checked_one)[0] > 2.5 * run.cycles(plain)[0]
    assert run.cycles(checked_one)[1] == run.cycles(plain)[1]
    assert run.traffic(checked_one) > 2.5 * run.traffic(plain)
    assert device.operations == 2


@pytest.mark.parametrize("preset", ["core-fp8", "paper-bf16", "mxfp8", "nvfp4"])
def test_zeros_do_not_choose_formats_or_sides(preset: str) -> None:
    """An operand with 90% zeros stays on its side, whatever its role."""
    random = np.random.default_rng(3)
    layer = MatrixProduct(batch=1, samples=8, in_features=64, out_features=8)
    with Device(preset) as device:
        for operation, rows in (("AxW", "A"), ("WxG", "G"), ("AxG", "G")):
            names = [name for name in operation if name in "AWG"]
            tensors = {name: random.standard_normal(layer.shapes[name]).astype(np.float32) for name in names}
            for name in names:
                sparse = {**tensors, name: np.where(random.random(layer.shapes[name]) < 0.9, 0, tensors[name])}
                for each in (tensors, sparse):
                    assert device.contract(layer, operation, each).executed.problem.rows == rows


def test_results_of_mixed_formats_are_independent_of_zeros() -> None:
    random = np.random.default_rng(3)
    a, b = random.standard_normal((8, 64)).astype(np.float32), random.standard_normal((64, 8)).astype(np.float32)
    with Device("core-fp8") as device:
        before = device.matmul(a, b)
        b[0, 0] = 0
        assert np.array_equal(before[:, 1:], device.matmul(a, b)[:, 1:])


def test_row_side_argument() -> None:
    a, b = torch.randn(4, 8), torch.randn(8, 5)
    image, kernel = torch.randn(1, 2, 6, 6), torch.randn(3, 2, 3, 3)
    with Device("core-fp8") as device:
        default, first, second = (device.matmul(a, b, row_side=side) for side in (None, "a", "b"))
        assert torch.equal(default, first)
        assert not torch.equal(first, second)
        forward = [device.convolution(image, kernel, row_side=side) for side in (None, "a", "w")]
        assert torch.equal(forward[0], forward[1])
        assert not torch.equal(forward[1], forward[2])
        g = forward[0]
        back = [device.convolution_input(image.shape, kernel, g, row_side=side) for side in (None, "g", "w")]
        assert torch.equal(back[0], back[1])
        assert not torch.equal(back[1], back[2])
        weight = [device.convolution_weight(image, kernel.shape, g, row_side=side) for side in (None, "g", "a")]
        assert torch.equal(weight[0], weight[1])
        assert not torch.equal(weight[1], weight[2])
        with pytest.raises(ValueError, match="row_side must be one of a, b, not 'A'"):
            device.matmul(a, b, row_side="A")
        with pytest.raises(ValueError, match="row_side must be A for these operands, not 'W'"):
            device.matmul(a.to(torch.float8_e5m2), b.to(torch.float8_e4m3fn), row_side="b")
