"""Test that float32 operands are scaled by powers of two and rounded, and that losses are counted."""

import json
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import nn

import tensordash_runtime.compiled  # noqa: F401  registers the backend
from tensordash import load_preset
from tensordash.configuration.core_config import CoreConfig
from tensordash_runtime import Device, OffloadError, RoundingError, Run, offload
from tensordash_runtime.operands import Operand
from tensordash_sim.emulator import decode, encode
from tensordash_sim.lowering import Convolution, MatrixProduct

from ..sim.lowering.geometries import convolution

LAYER = MatrixProduct(batch=1, samples=4, in_features=8, out_features=4)


@pytest.fixture(scope="module")
def verilator() -> Iterator[Device]:
    with Device("core", "verilator", memory_bytes=1 << 20) as device:
        yield device


def power(values: NDArray[np.float32], most: float) -> int:
    """Return the largest p with ``max |values| * 2**p <= most``, by trying all of them."""
    largest = np.abs(values[np.isfinite(values)].astype(np.float64)).max(initial=0.0)
    return max(p for p in range(-400, 400) if largest * 2.0**p <= most) if largest else 0


def compute_reference(a: NDArray[np.float32], b: NDArray[np.float32], preset: str = "core") -> NDArray[np.float32]:
    """Compute a product by the definition in docs/runtime.md, in float64: scale, round, and sum exactly."""
    kind, most = {"core": (torch.float16, 65504.0), "core-bf16": (torch.bfloat16, 2.0**16)}[preset]
    powers = [power(each, most) for each in (a, b)]
    rounded = [
        np.ldexp(torch.from_numpy(np.ldexp(each.astype(np.float64), p)).to(kind).double().numpy(), -p)
        for each, p in zip((a, b), powers, strict=True)
    ]
    with np.errstate(over="ignore"):
        return (rounded[0] @ rounded[1]).astype(np.float32)


def draw_operands(shape: tuple[int, ...], seed: int, size: float = 1.0) -> NDArray[np.float32]:
    values = np.random.default_rng(seed).standard_normal(shape) * size
    return values.astype(np.float32)


SIZES = [(1.0, 1.0), (1e-8, 1.0), (1e6, 1e6), (1e-37, 1e-8), (3e-41, 1e30), (1e-40, 1e-3), (1e19, 1e19), (1e30, 1e30)]
"""Magnitudes of both operands: descriptors hold some of the powers of two, and the runtime applies the rest."""


@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_products_of_any_size(verilator: Device, sizes: tuple[float, float]) -> None:
    a, b = draw_operands((5, 9), 1, sizes[0]), draw_operands((9, 6), 2, sizes[1])
    a[0, 0] = 0
    expected = compute_reference(a, b)
    with np.errstate(over="ignore", invalid="ignore"):
        plain = (torch.from_numpy(a) @ torch.from_numpy(b)).numpy()
    if np.isfinite(plain).all():
        np.testing.assert_allclose(expected, plain, atol=max(2.0**-9 * float(np.abs(plain).max()), 2.0**-145))
    for device in (
        Device("core"),
        Device("core", "golden"),
        verilator,
        Device(CoreConfig.from_toml("", ["core.scale=false"])),
    ):
        assert np.array_equal(device.matmul(a, b), expected), device.backend


@pytest.mark.parametrize("scale", [-128, 127, -129, 128])
def test_powers_beyond_the_range_of_descriptors(verilator: Device, scale: int) -> None:
    """The runtime applies powers beyond a descriptor's range, with the same results."""
    a, b = draw_operands((5, 9), 3), draw_operands((9, 6), 4)
    powers = {"A": -scale // 2, "W": -scale - (-scale // 2)}
    a, b = (np.ldexp(each, -powers[name]).astype(np.float32) for each, name in ((a, "A"), (b, "W")))
    found = []
    for device in (Device("core", scaling=powers), Device("core", "golden", scaling=powers)):
        found.append(device.matmul(a, b))
    verilator.scaling = powers
    found.append(verilator.matmul(a, b))
    verilator.scaling = "auto"
    for each in found:
        assert np.array_equal(each, found[0])
    with np.errstate(over="ignore", under="ignore"):
        np.testing.assert_allclose(found[0], (a.astype(float) @ b).astype(np.float32), rtol=0.02, atol=2.0**scale / 50)


GROUPS = convolution(batch=2, channels=(4, 6), size=(5, 6), kernel=(3, 2), stride=(2, 1), padding=(1, 2), groups=2)


@pytest.mark.parametrize("geometry", [GROUPS, MatrixProduct(batch=3, samples=5, in_features=6, out_features=7)])
@pytest.mark.parametrize("operation", ["AxW", "WxG", "AxG"])
def test_groups_and_batches(geometry: Convolution | MatrixProduct, operation: str) -> None:
    """Operands times a power of two give scaled results. Unscaled results would be zeros and infinities."""
    sizes = {"A": 2.0**40, "W": 2.0**-30, "G": 2.0**-60}
    tensors = {name: draw_operands(geometry.shapes[name], k) for k, name in enumerate("AWG") if name in operation}
    with Device("core") as device:
        plain = device.contract(geometry, operation, tensors).result
        wide = {name: each * np.float32(sizes[name]) for name, each in tensors.items()}
        factor = np.prod([sizes[name] for name in tensors])
        assert np.array_equal(device.contract(geometry, operation, wide).result, plain * np.float32(factor))
        assert np.any(plain)


def test_gradients_below_fp16() -> None:
    """Compare models with gradients of size 1e-8 and activations of 1e6 with float64."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 3, 1))
    for x_size, g_size in ((1.0, 1e-8), (1e6, 1e-12)):
        x, g = x_size * torch.rand(1, 3, 12, 12), g_size * torch.randn(1, 3, 12, 12)

        def step(kind: torch.dtype, x: torch.Tensor = x, g: torch.Tensor = g) -> list[torch.Tensor]:
            model = net.to(kind)
            model.zero_grad()
            model(x.to(kind)).backward(g.to(kind))
            return [parameter.grad.double() for parameter in model.parameters() if parameter.grad is not None]

        right = step(torch.float64)
        with Device("core") as device, offload(device, model=net.float(), strict=True, flush_limit=1e-2) as run:
            gradients = step(torch.float32)
        for gradient, expected in zip(gradients, right, strict=True):
            assert (gradient - expected).norm() < 2e-3 * expected.norm()
        assert run.totals().saturated == 0


def test_the_largest_value_of_fp8_does_not_saturate() -> None:
    """E4M3 ends at 448, so 7 * 2**k keeps all bits after scaling. Every magnitude gives the same bits."""
    a = np.array([[7.0, 1.0, -0.5]], np.float32)
    for preset in ("core-fp8", load_preset("paper", ["tile.format=fp8_e4m3"])):
        with Device(preset) as device:
            for size in (1.0, 2.0**20, 2.0**-60, 2.0**100):
                layer = MatrixProduct(batch=1, samples=1, in_features=3, out_features=1)
                done = device.contract(layer, "AxW", {"A": a[None] * np.float32(size), "W": a[None]})
                assert done.result.item() == 50.25 * size
                assert done.executed.saturated == 0
            most = 448.0 if device.tile.b_format.name == "fp8_e4m3" else 57344.0
            assert done.executed.operands["A"].exponent == power(a * np.float32(size), most)


@pytest.mark.parametrize("accumulator", ["hopper", "volta-fp16"])
def test_fused_accumulators(accumulator: str) -> None:
    """Scaled operands give scaled results, narrow results included."""
    tile = load_preset("paper", ["tile.format=fp16", f"tile.accumulator={accumulator}"])
    a, b = draw_operands((4, 32), 1), draw_operands((32, 4), 2)
    with Device(tile) as device:
        plain = device.matmul(a, b)
        np.testing.assert_allclose(plain, a @ b, rtol=0.01, atol=0.05)
        assert np.array_equal(
            device.matmul(a * np.float32(2.0**60), b * np.float32(2.0**-20)), plain * np.float32(2.0**40)
        )


def test_powers_of_special_operands() -> None:
    fmt = load_preset("paper").a_format
    for values, expected in (
        ([0.0, -0.0], 0),
        ([np.inf, np.nan], 0),
        ([np.inf, 3.0], 14),
        ([65504.0], 0),
        ([65505.0], -1),
        ([2.0**-149], 164),
    ):
        operand = Operand("A", np.array(values, np.float32))
        assert operand.exponent(fmt, 16, "auto") == expected
    assert Operand("A", np.array([3.0], np.float16)).exponent(fmt, 16, "auto") == 0


COUNTED = np.array([[0.0, -0.0, 1e-9, 2.0**-25, 2.0**-24, 65519.0, 65520.0, -1e6]], np.float32)
"""Two zeros, two values that fp16 flushes (2**-25 is a tie, to even), and two above fp16's largest."""


def test_counts_of_a_small_example() -> None:
    layer = MatrixProduct(batch=1, samples=1, in_features=8, out_features=1)
    ones = np.ones((1, 1, 8), np.float32)
    with Device("core", scaling="none") as device:
        counts = device.contract(layer, "AxW", {"A": COUNTED[None], "W": ones}).executed.operands
    assert counts["A"].to_json() == {
        "values": 8,
        "zeros": 2,
        "flushed": 2,
        "saturated": 2,
        "non_finite": 0,
        "exponent": 0,
    }
    assert counts["W"].to_json() == {
        "values": 8,
        "zeros": 0,
        "flushed": 0,
        "saturated": 0,
        "non_finite": 0,
        "exponent": 0,
    }
    assert counts["A"].flushed_share == 2 / 6
    with Device("core") as device:  # 1e6 is below 65504 * 2**4; 2**-24 then becomes 2**-28, and is flushed.
        counts = device.contract(layer, "AxW", {"A": COUNTED[None], "W": ones}).executed.operands
    assert counts["A"].to_json() == {
        "values": 8,
        "zeros": 2,
        "flushed": 3,
        "saturated": 0,
        "non_finite": 0,
        "exponent": -4,
    }
    assert counts["W"].exponent == 15
    with Device("core") as device:  # Tensors of the operand type are not scaled.
        halves = {"A": COUNTED[None].clip(-6e4, 6e4).astype(np.float16), "W": ones.astype(np.float16)}
        counts = device.contract(layer, "AxW", halves).executed.operands
    assert (counts["A"].zeros, counts["A"].flushed, counts["A"].exponent, counts["W"].exponent) == (4, 0, 0, 0)


@pytest.fixture(scope="module")
def lossy() -> Run:
    """Return a dense product with many values that fp16 flushes, and one with a value that it saturates."""
    with Device("core", scaling="none") as device, offload(device) as run:
        (torch.full((16, 64), 1e-9) + torch.eye(16, 64)) @ torch.ones(64, 16)
        torch.full((4, 4), 1e6) @ torch.eye(4)
    return run


def test_flushed_zeros_do_not_raise_the_speedup(lossy: Run) -> None:
    first, second = lossy.contractions
    assert (first.executed.flushed, first.executed.saturated, second.executed.saturated) == (16 * 63, 0, 16)
    assert first.executed.problem.rows == "A"
    assert first.row_zeros == 0
    assert first.flushed_row_zeros == 63 / 64
    assert first.executed.speedup == 1
    assert first.executed.flushed_speedup > 3
    cycles, dense = lossy.cycles(first)
    assert dense <= cycles * 1.1
    assert lossy.flushed_cycles(first) < 0.9 * cycles
    totals = lossy.totals([first])
    assert totals.tile_speedup == 1 < totals.flushed_tile_speedup
    assert totals.speedup < totals.flushed_speedup
    assert (totals.zeros, totals.flushed_zeros) == (0, 63 / 64)


def test_measured_cycles_exclude_flushed_zeros(verilator: Device) -> None:
    run = Run(verilator)
    verilator.scaling = "none"
    with offload(verilator, run=run):
        (torch.full((16, 64), 1e-9) + torch.eye(16, 64)) @ torch.ones(64, 16)
        torch.eye(16, 64) @ torch.ones(64, 16)
        torch.ones(16, 64) @ torch.ones(64, 16)
    verilator.scaling = "auto"
    flushed, zeros, dense = run.contractions
    assert flushed.executed.cycles is not None
    assert run.flushed_cycles(flushed) == flushed.executed.cycles
    assert run.cycles(zeros)[0] == zeros.executed.cycles
    assert flushed.executed.cycles < 1.1 * run.cycles(zeros)[0]
    assert run.cycles(flushed)[0] == pytest.approx(run.cycles(dense)[0], rel=0.1)


def test_run_reports_flushed_and_saturated_values(lossy: Run, tmp_path: Path) -> None:
    text = str(lossy)
    assert "warning: rounding flushed 1,008 of 2,068 non-zero values to zero, at most 98.4% of A in " in text
    assert "warning: rounding saturated 16 finite values, most of them 16 of A in AxW of" in text
    assert "with flushed zeros the speedup is" in text
    document = json.loads(json.dumps(lossy.to_json()))
    assert [each["operands"]["A"]["flushed"] for each in document["contractions"]] == [1008, 0]
    totals = document["totals"]
    assert (totals["flushed"], totals["saturated"], totals["non_finite"]) == (1008, 16, 0)
    assert totals["speedup"] < totals["speedup_with_flushed"]
    assert totals["cycles"] > totals["cycles_with_flushed"]
    assert len(document["warnings"]) == 2
    lossy.page(tmp_path / "page.html")
    html = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert all(warning in unescape(html) for warning in document["warnings"])
    table = html.partition("Values that rounding flushed to zero or saturated")[2]
    assert "1,008" in table


def test_a_run_without_losses_has_no_warnings() -> None:
    with Device("core") as device, offload(device, strict=True) as run:
        torch.ones(4, 8) @ torch.ones(8, 4)
    assert run.warnings() == []
    assert "flushed" not in str(run)


def test_strict_refuses_losses() -> None:
    tiny = torch.full((2, 4), 1e-9) + torch.eye(2, 4)
    with Device("core", scaling="none") as device:
        losses = "rounding flushed 6 of 8 non-zero values of A in AxW of mm 1x2x4"
        with pytest.raises(RoundingError, match=losses), offload(device, strict=True):
            tiny @ torch.ones(4, 2)
        with (
            pytest.raises(RoundingError, match=r"a share above flush_limit = 0.7"),
            offload(device, strict=True, flush_limit=0.7),
        ):
            tiny @ torch.ones(4, 2)
        with offload(device, strict=True, flush_limit=0.75):
            tiny @ torch.ones(4, 2)
        losses = r"rounding saturated 8 of 8 values of A .* use scaling"
        with pytest.raises(OffloadError, match=losses), offload(device, strict=True, flush_limit=1.0):
            torch.full((2, 4), 1e6) @ torch.ones(4, 2)
        with pytest.raises(ValueError, match="flush_limit must be from 0 to 1, not 2"), offload(device, flush_limit=2):
            pass


FUSED = "bias", "relu"


@pytest.mark.parametrize(
    ("preset", "size", "fused"),
    [
        *(("core", size, fused) for size, fused in ((0.1, FUSED), (1e30, ()), (1e-30, ()))),
        *(("core-bf16", size, fused) for size, fused in ((0.1, FUSED), (1e26, FUSED), (1e30, ()), (1e-30, FUSED))),
    ],
)
def test_fused_biases(preset: str, size: float, fused: tuple[str, ...]) -> None:
    """A bias that scaled sums cannot hold exactly is added to the FP32 result."""
    a, w = draw_operands((1, 5, 9), 1), draw_operands((1, 4, 9), 2)
    layer = MatrixProduct(batch=1, samples=5, in_features=9, out_features=4)
    bias = draw_operands((4,), 3, size)
    a[0, 0] = 0
    for backend in ("emulator", "golden"):
        with Device(preset, backend) as device:
            done = device.contract(layer, "AxW", {"A": a, "W": w}, bias=bias, relu=True)
        assert done.executed.problem.fused == fused
        expected = np.maximum(compute_reference(a[0], w[0].T, preset).astype(np.float64) + bias, 0).astype(np.float32)
        np.testing.assert_allclose(done.result[0], expected, rtol=2.0**-22)
        assert np.array_equal(done.result[0, 0], np.maximum(bias, 0))


def test_compiled_models_are_scaled() -> None:
    torch._dynamo.reset()
    torch.manual_seed(0)
    last = nn.Linear(7, 3)
    model = nn.Sequential(nn.Linear(9, 7), nn.ReLU(), last)
    x = torch.randn(5, 9) * 1e6
    expected = model(x).detach()
    with Device("core") as device:
        run = Run(device)
        options: dict[str, Any] = {"device": device, "run": run, "strict": True, "flush_limit": 0.1}
        output = torch.compile(model, backend="tensordash", options=options)(x)
        output.sum().mul(1e-9).backward()
    torch._dynamo.reset()
    assert (output - expected).norm() < 2e-3 * expected.norm()
    assert {each.fused for each in run.contractions} >= {("bias", "relu"), ("bias",)}
    assert last.weight.grad is not None
    assert torch.isfinite(last.weight.grad).all()
    assert last.weight.grad.abs().max() > 0


@pytest.mark.parametrize(
    ("scaling", "error", "message"),
    [
        ("automatic", ValueError, 'scaling must be "auto", "none" or powers of two for A, W and G, not \'automatic\''),
        ({"B": 1}, ValueError, "for A, W and G, not for 'B'"),
        ({"A": 1.5}, ValueError, r"scaling\['A'\] must be an integer from -512 to 512, not 1.5"),
        ({"A": 513}, ValueError, r"scaling\['A'\] must be an integer from -512 to 512, not 513"),
    ],
)
def test_invalid_scalings(scaling: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        Device("core", scaling=scaling)


def test_encoding_with_a_scale_is_exact() -> None:
    """Compare every float32 exponent with NumPy's float64."""
    fmt = load_preset("paper").a_format
    values = np.ldexp(draw_operands((400,), 5).astype(np.float64), np.arange(-149, 251) % 250 - 124).astype(np.float32)
    for scale in (-130, -20, 0, 15, 120):
        with np.errstate(over="ignore"):
            expected = np.ldexp(values.astype(np.float64), scale).astype(np.float16)
        assert np.array_equal(decode(encode(values, fmt, scale), fmt), expected.astype(np.float32))
