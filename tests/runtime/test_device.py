"""Test that a device gives its defined results on every backend and refuses other operands."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import ml_dtypes  # noqa: F401  registers bfloat16
import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch.nn.functional import conv1d, conv2d
from torch.nn.grad import conv1d_input, conv2d_input, conv2d_weight

from tensordash import load_preset
from tensordash.configuration.core_config import CoreConfig
from tensordash_runtime import Device, NoRoomError
from tensordash_runtime.values import plain
from tensordash_sim.evaluation.block_formats import BLOCK_FORMATS, quantise
from tensordash_sim.lowering import Convolution, MatrixProduct

from ..sim.lowering.geometries import convolution
from .rounding import round_operands

BACKENDS = ("emulator", "golden", "verilator")


@pytest.fixture(scope="module")
def verilator() -> Iterator[Device]:
    with Device("core", "verilator", memory_bytes=1 << 20, latency=(0, 30), pause=0.2, seed=3) as device:
        yield device


@pytest.fixture(params=BACKENDS)
def device(request: pytest.FixtureRequest) -> Iterator[Device]:
    if request.param == "verilator":
        yield request.getfixturevalue("verilator")
        return
    with Device("core", request.param) as core_device:
        yield core_device


SLOW_VERILOG = pytest.param(("core-bf16", "verilator"), marks=pytest.mark.slow)


@pytest.fixture(params=[*BACKENDS, ("core-bf16", "emulator"), ("core-bf16", "golden"), SLOW_VERILOG], ids=str)
def any_device(request: pytest.FixtureRequest) -> Iterator[Device]:
    """Return a device of each 16-bit format."""
    if request.param == "verilator":
        yield request.getfixturevalue("verilator")
        return
    preset, backend = request.param if isinstance(request.param, tuple) else ("core", request.param)
    with Device(preset, backend) as preset_device:
        yield preset_device


def type_of_operands(device: Device) -> torch.dtype:
    kind: torch.dtype = getattr(torch, device.types[0])
    return kind


def draw_operands(
    shape: tuple[int, ...], *, seed: int, zeros: float = 0.3, kind: torch.dtype = torch.float16
) -> torch.Tensor:
    random = torch.Generator().manual_seed(seed)
    values = torch.randn(shape, generator=random)
    return torch.where(torch.rand(shape, generator=random) < zeros, 0.0, values).to(kind)


@pytest.mark.parametrize(("n", "k", "m"), [(1, 1, 1), (5, 7, 3), (4, 8, 12), (17, 30, 9)])
def test_matrix_products(any_device: Device, n: int, k: int, m: int) -> None:
    kind = type_of_operands(any_device)
    a, b = draw_operands((n, k), seed=n, kind=kind), draw_operands((k, m), seed=k, kind=kind)
    expected = (a.double() @ b.double()).float().to(kind)
    assert torch.equal(any_device.matmul(a, b), expected)
    product = any_device.matmul(*(plain(each).view(any_device.types[0]) for each in (a, b)))
    assert isinstance(product, np.ndarray)
    assert np.array_equal(product, plain(expected))


@pytest.mark.parametrize("seed", [0, 2**32 - 1])
def test_stochastic_rounding(verilator: Device, seed: int) -> None:
    """All backends give the same bits; repeated operations differ; float32 results do not change."""
    config, (a, b) = verilator.config, (draw_operands((9, 30), seed=1), draw_operands((30, 7), seed=2))
    results = []
    for backend in BACKENDS:
        with Device(config, backend, memory_bytes=1 << 20, rounding="stochastic", rounding_seed=seed) as device:
            results.append([device.matmul(a, b) for _ in range(2)])
            assert torch.equal(device.matmul(a.float(), b.float()), verilator.matmul(a.float(), b.float()))
            assert device.operations == 3
    for first, second in results:
        assert torch.equal(first, results[0][0])
        assert torch.equal(second, results[0][1])
        assert not torch.equal(first, second)
    exact, gap = a.double() @ b.double(), 2.0**-10
    assert ((results[0][0].double() - exact).abs() <= exact.abs() * gap).all()


def test_results_of_a_beat_round_independently() -> None:
    """For remainders of one half, the number of values rounded up in a row or column is binomial over seeds."""
    count = 100
    a, b = np.ones((8, 2), np.float16), np.array([[1.0], [2.0**-11]], np.float16).repeat(8, 1)
    up = np.empty((count, 8, 8), bool)
    for seed in range(count):
        with Device("core", rounding="stochastic", rounding_seed=seed) as device:
            up[seed] = device.matmul(a, b) > 1
    expected = count * np.array([1, 4, 6, 4, 1]) / 16
    for sums in (up.reshape(count, 8, 2, 4).sum(3), up.reshape(count, 2, 4, 8).sum(2)):
        for group in sums.reshape(count, -1).T:
            found = np.bincount(group, minlength=5)
            assert ((found - expected) ** 2 / expected).sum() < 30


def test_operations_of_neighbouring_seeds_differ() -> None:
    """Operation n + 1 of seed 0 rounds differently from operation n of seed 1."""
    a, b = draw_operands((9, 30), seed=1), draw_operands((30, 7), seed=2)
    results = []
    for seed in (0, 1):
        with Device("core", rounding="stochastic", rounding_seed=seed) as device:
            results.append([device.matmul(a, b) for _ in range(3)])
    for first in results[0]:
        assert not any(torch.equal(first, second) for second in results[1])


def test_scales_that_are_rounded_up() -> None:
    """Values above the largest element at the lower scale do not saturate."""
    a, b = torch.full((1, 32), 511.0), torch.eye(32)
    with Device("mxfp8") as floor, Device(replace(load_preset("mxfp8"), scale_rounding="up")) as up:
        assert torch.equal(floor.matmul(a, b), torch.full((1, 32), 448.0))
        assert torch.equal(up.matmul(a, b), torch.full((1, 32), 512.0))


def test_rounding_toward_zero(verilator: Device) -> None:
    """On every backend magnitudes never grow, and float32 results do not change."""
    config, (a, b) = verilator.config, (draw_operands((9, 30), seed=1), draw_operands((30, 7), seed=2))
    exact = a.double() @ b.double()
    for backend in BACKENDS:
        with Device(config, backend, memory_bytes=1 << 20, rounding="zero") as device:
            found = device.matmul(a, b)
            assert torch.equal(device.matmul(a.float(), b.float()), exact.float())
        nearest = exact.float().half()
        gap = torch.nextafter(nearest, torch.zeros_like(nearest))
        assert torch.equal(found, torch.where(nearest.double().abs() > exact.abs(), gap, nearest))


def test_float32_operands_are_rounded_and_results_stay_float32(device: Device) -> None:
    a, b = draw_operands((5, 9), seed=1, kind=torch.float32), draw_operands((9, 6), seed=2, kind=torch.float32)
    product = device.matmul(a, b)
    assert product.dtype is torch.float32
    assert torch.equal(product, (a.half().double() @ b.half().double()).float())
    assert not torch.equal(product, (a.double() @ b.double()).float())
    assert not torch.equal(product, product.half().float())


SETTINGS: list[dict[str, Any]] = [
    {},
    {"stride": (2, 1), "padding": (0, 2)},
    {"padding": 2, "dilation": 2},
    {"stride": 2, "padding": 1, "groups": 2},
]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize("kind", [torch.float16, torch.float32])
def test_convolutions_and_their_gradients(device: Device, settings: dict[str, Any], kind: torch.dtype) -> None:
    a = draw_operands((2, 4, 6, 7), seed=1, zeros=0.5, kind=kind)
    w = draw_operands((6, 4 // settings.get("groups", 1), 3, 2), seed=2, kind=kind)
    wide_a, wide_w = a.half().double(), w.half().double()
    out = conv2d(wide_a, wide_w, **settings)
    g = draw_operands(tuple(out.shape), seed=3, zeros=0.7, kind=kind)
    wide_g = g.half().double()
    shape: Any = a.shape
    for found, expected in (
        (device.convolution(a, w, **settings), out),
        (device.convolution_input(a.shape, w, g, **settings), conv2d_input(shape, wide_w, wide_g, **settings)),
        (device.convolution_weight(a, w.shape, g, **settings), conv2d_weight(wide_a, w.shape, wide_g, **settings)),
    ):
        assert found.dtype is kind
        assert torch.equal(found, expected.float().to(kind))


def test_one_dimensional_convolution(device: Device) -> None:
    a, w = draw_operands((2, 3, 9), seed=1), draw_operands((5, 3, 3), seed=2)
    out = conv1d(a.double(), w.double(), stride=2, padding=1)
    assert torch.equal(device.convolution(a, w, stride=2, padding=1), out.float().half())
    g = draw_operands(tuple(out.shape), seed=3)
    expected = conv1d_input(a.shape, w.double(), g.double(), stride=2, padding=1)
    assert torch.equal(device.convolution_input(a.shape, w, g, stride=2, padding=1), expected.float().half())


def test_broadcast_batches_and_views(device: Device) -> None:
    a, b = draw_operands((3, 1, 5, 4), seed=1), draw_operands((2, 6, 4), seed=2)
    expected = (a.double() @ b.double().mT).float().half()
    assert torch.equal(device.matmul(a, b.mT), expected)
    assert np.array_equal(device.matmul(a.numpy(), b.numpy().swapaxes(1, 2)), expected.numpy())


def chosen(device: Device, a: torch.Tensor, b: torch.Tensor) -> str:
    from tensordash_sim.lowering import MatrixProduct

    layer = MatrixProduct(batch=1, samples=a.shape[0], in_features=a.shape[1], out_features=b.shape[0])
    executed = device.contract(layer, "AxW", {"A": a[None], "W": b[None]}).executed
    assert executed.zeros == {"A": (a == 0).double().mean(), "W": (b == 0).double().mean()}
    return executed.problem.rows


def test_the_sparser_operand_is_skipped() -> None:
    """-0 counts as a zero. A value that rounding flushes to zero does not."""
    dense, sparse = torch.ones(4, 8), torch.ones(5, 8)
    dense[0, :4] = 1e-30
    sparse[0, :2] = torch.tensor([1e-30, -0.0])
    with Device("core") as device:
        assert chosen(device, dense, sparse) == "W"
        assert chosen(device, sparse, dense) == "A"
        assert chosen(device, dense, dense[:3]) == "A"


def test_all_backends_agree_on_random_bit_patterns(verilator: Device) -> None:
    random = np.random.default_rng(0)
    for seed in range(5):
        n, k, m = random.integers(1, 9, 3)
        a, b = (random.integers(0, 1 << 16, shape).astype(np.uint16).view(np.float16) for shape in ((n, k), (k, m)))
        a[random.random(a.shape) < 0.5] = 0
        found: list[NDArray] = [verilator.matmul(a, b).view(np.uint16)]
        for backend in ("emulator", "golden"):
            with Device("core", backend) as device:
                found.append(device.matmul(a, b).view(np.uint16))
        assert np.array_equal(found[0], found[1]), seed
        assert np.array_equal(found[0], found[2]), seed


GROUPS = convolution(batch=2, channels=(6, 4), size=(5, 6), kernel=(2, 3), stride=(1, 2), padding=(1, 0), groups=2)
PRODUCTS = MatrixProduct(batch=2, samples=5, in_features=6, out_features=7)


def test_bias_relu_and_mask(any_device: Device) -> None:
    """Compare the output unit's operations on every backend. Groups have separate biases, a batch shares them."""
    kind = type_of_operands(any_device)
    geometries: list[Convolution | MatrixProduct] = [GROUPS, PRODUCTS]
    for seed, geometry in enumerate(geometries):
        a, w, g = (draw_operands(geometry.shapes[name], seed=seed + k, kind=kind) for k, name in enumerate("AWG"))
        filters = geometry.shapes["W"][-2 if isinstance(geometry, MatrixProduct) else 0]
        bias, mask = (
            draw_operands((filters,), seed=seed + 5, kind=kind),
            torch.where(draw_operands(a.shape, seed=seed + 6, kind=kind) == 0, -0.0, a),
        )
        if isinstance(geometry, MatrixProduct):
            sums, back = a.double() @ w.double().mT, g.double() @ w.double()
        else:
            settings = geometry.stride, geometry.padding, geometry.dilation, geometry.groups
            sums = conv2d(a.double(), w.double(), None, *settings)
            back = conv2d_input(a.shape, w.double(), g.double(), *settings)
        wide = bias.double() if isinstance(geometry, MatrixProduct) else bias.double()[:, None, None]
        forward = {"A": a, "W": w}
        for bias_values in (bias, bias.float()):
            done = any_device.contract(
                geometry, "AxW", forward, bias=bias_values, relu=True, mask=torch.where(g > 0, 0, g)
            )
            expected = (sums + wide).float().to(kind).relu()
            assert torch.equal(done.result, torch.where(g > 0, 0, torch.where(g == 0, 0, expected)))
            assert done.executed.problem.fused == ("bias", "relu", "mask")
        unrounded = any_device.contract(geometry, "AxW", forward, fp32=True, bias=bias).result
        assert torch.equal(unrounded, (sums + wide).float())
        masked = any_device.contract(geometry, "WxG", {"W": w, "G": g}, mask=mask).result
        assert torch.equal(masked, torch.where(mask == 0, 0, (back + 0.0).float().to(kind)))
        assert not torch.signbit(masked[mask == 0]).any()


@pytest.mark.parametrize(
    ("changed", "error", "message"),
    [
        ({"bias": torch.ones(3)}, ValueError, r"bias must have the shape \(7,\), not \(3,\)"),
        ({"bias": torch.ones(7).double()}, TypeError, "bias must be float16 or float32, not float64"),
        ({"bias": 1.0}, TypeError, "bias must be an array of NumPy or a tensor of PyTorch, not a float"),
        ({"mask": torch.ones(2, 5, 6).half()}, ValueError, r"mask must have the shape \(2, 5, 7\), not \(2, 5, 6\)"),
        ({"mask": torch.ones(2, 5, 7)}, TypeError, "mask must be float16, not float32"),
        ({"mask": torch.ones(2, 5, 7).half(), "fp32": True}, ValueError, "mask must be left out where results are"),
        ({"operation": "WxG", "bias": torch.ones(7)}, ValueError, "bias must be left out of WxG: only results of AxW"),
    ],
)
def test_invalid_biases_and_masks(changed: Any, error: type[Exception], message: str) -> None:
    tensors = {name: torch.ones(PRODUCTS.shapes[name]).half() for name in "AWG"}
    with Device("core") as device, pytest.raises(error, match=message):
        device.contract(PRODUCTS, **{"operation": "AxW", "operands": tensors, **changed})


@pytest.mark.parametrize("name", ["bias", "relu", "mask"])
def test_features_that_the_core_lacks(name: str) -> None:
    fused: Any = {"bias": torch.ones(7), "relu": True, "mask": torch.ones(2, 5, 7).half()}[name]
    tensors = {name: torch.ones(PRODUCTS.shapes[name]).half() for name in "AW"}
    with (
        Device(CoreConfig.from_toml("", [f"core.{name}=false"])) as device,
        pytest.raises(ValueError, match=f"{name} must be left out: core"),
    ):
        device.contract(PRODUCTS, "AxW", tensors, **{name: fused})


def test_masks_and_biases_need_memory() -> None:
    tensors = {name: torch.ones(PRODUCTS.shapes[name]).half() for name in "AW"}
    room = 2 * (60 + 84 + 70)
    every: list[Any] = [{"bias": torch.ones(7)}, {"mask": torch.ones(2, 5, 7).half()}]
    for more in every:
        with Device("core", memory_bytes=1 << 12) as device:
            device._memory_bytes = room
            device.contract(PRODUCTS, "AxW", tensors)
            with pytest.raises(NoRoomError, match=f"the memory {room}"):
                device.contract(PRODUCTS, "AxW", tensors, **more)


def test_formats_of_the_sides() -> None:
    """The row side of `core-fp8` has E5M2, for gradients."""
    layer = MatrixProduct(batch=1, samples=8, in_features=16, out_features=8)
    a, g = (
        draw_operands((1, 8, 16), seed=1, zeros=0.8, kind=torch.float32),
        draw_operands((1, 8, 8), seed=2, kind=torch.float32),
    )
    with Device("core-fp8") as device:
        done = device.contract(layer, "AxG", {"A": a, "G": g})
        wide_a, wide_g = round_operands(a, torch.float8_e4m3fn), round_operands(g, torch.float8_e5m2)
        assert done.executed.problem.rows == "G"
        assert torch.equal(done.result, (wide_g.mT @ wide_a).float())
        eight = device.matmul(a[0].to(torch.float8_e5m2), g[0].to(torch.float8_e4m3fn).mT.repeat(2, 1))
        assert eight.dtype is torch.float8_e4m3fn
        with pytest.raises(TypeError, match=r"both be float32, or float8_e4m3fn and float8_e5m2, not A float16 and W"):
            device.matmul(a[0].half(), a[0].half().mT)


def test_the_faster_operand_is_skipped() -> None:
    """W has more zeros, but one of four rows has none, so the device skips A's zeros."""
    layer = MatrixProduct(batch=1, samples=8, in_features=64, out_features=8)
    a, w = draw_operands((1, 8, 64), seed=1, zeros=0.5), torch.zeros((1, 8, 64)).half()
    w[:, ::4] = 1.0
    rows = {}
    # The second accumulator is fused: results depend on the row side, so a fixed rule chooses it.
    for preset, kind in (("core", torch.float16), ("paper-bf16", torch.bfloat16)):
        with Device(preset) as device:
            executed = device.contract(layer, "AxW", {"A": a.to(kind), "W": w.to(kind)}).executed
        rows[preset] = executed.problem.rows
        assert executed.zeros["W"] == 0.75 > executed.zeros["A"]
        assert executed.speedup > 1.5
    assert rows == {"core": "A", "paper-bf16": "A"}


def test_tile_without_a_core_matches_pytorch() -> None:
    a, b = draw_operands((5, 9), seed=1, kind=torch.bfloat16), draw_operands((9, 6), seed=2, kind=torch.bfloat16)
    with Device("paper-bf16") as device:
        assert device.types == ("bfloat16", "float32")
        assert torch.equal(device.matmul(a, b), (a.double() @ b.double()).float().bfloat16())


@pytest.mark.parametrize("preset", ["mxfp8", "mxfp4", "nvfp4"])
def test_a_tile_with_scales_quantises_float32(preset: str) -> None:
    """Sums use both operands after quantisation, and zeros are counted after quantisation."""
    fmt = BLOCK_FORMATS[{"mxfp8": "mxfp8_e4m3"}.get(preset, preset)]
    layer = MatrixProduct(batch=2, samples=8, in_features=80, out_features=6)
    a = draw_operands((2, 8, 80), seed=1, kind=torch.float32) * torch.rand((2, 8, 80)).exp2() ** 4
    w, g = draw_operands((2, 6, 80), seed=2, kind=torch.float32), draw_operands((2, 8, 6), seed=3, kind=torch.float32)
    with Device(preset) as device:
        assert device.types == ("float32",)
        for operation, (first, second), subscripts in (
            ("AxW", ({"A": a}, {"W": w}), "bnk,bfk->bnf"),
            ("WxG", ({"G": g}, {"W": w}), "bnk,bkc->bnc"),
            ("AxG", ({"G": g}, {"A": a}), "bkf,bkc->bfc"),
        ):
            done = device.contract(layer, operation, {**first, **second})
            terms = subscripts.split("->")[0].split(",")
            left = {
                name: quantise(tensor.numpy(), fmt, axis=term.index("k"))
                for (name, tensor), term in zip((*first.items(), *second.items()), terms, strict=True)
            }
            expected = np.einsum(subscripts, *left.values())
            assert done.result.dtype is torch.float32
            np.testing.assert_allclose(done.result, expected, rtol=1e-4, atol=1e-5 * np.abs(expected).max())
            for name, values in left.items():
                counts = done.executed.operands[name]
                assert counts.zeros + counts.flushed == np.count_nonzero(values == 0)
                assert counts.zeros == np.count_nonzero({**first, **second}[name] == 0)
                assert (counts.saturated, counts.exponent) == (None, 0)
            assert done.executed.problem.rows == ("A" if operation == "AxW" else "G")


def test_a_tile_with_scales_computes_convolutions() -> None:
    """Only gradients are rounded stochastically, with new bits in each operation. Fused operations are refused."""
    a, w = (
        draw_operands((2, 16, 6, 6), seed=1, kind=torch.float32),
        draw_operands((8, 16, 3, 3), seed=2, kind=torch.float32),
    )
    layer = convolution(batch=2, channels=(16, 8), size=(6, 6), kernel=(3, 3))
    g = conv2d(a, w)
    with Device("mxfp8", rounding="stochastic", rounding_seed=3) as device, Device("mxfp8") as nearest:
        assert (device.convolution(a, w) - g).abs().mean() < 0.05 * g.abs().mean()
        assert torch.equal(device.convolution(a, w), nearest.convolution(a, w))
        first, second = (device.convolution_weight(a, w.shape, g) for _ in range(2))
        assert not torch.equal(first, second)
        expected = conv2d_weight(a, w.shape, g)
        for gradient in (first, second, nearest.convolution_weight(a, w.shape, g)):
            assert (gradient - expected).abs().mean() < 0.05 * expected.abs().mean()
        for more in ({"relu": True}, {"bias": torch.zeros(8)}, {"mask": g}):
            with pytest.raises(ValueError, match=rf'tile.scale must be "none" for {next(iter(more))}, not "e8m0"'):
                device.contract(layer, "AxW", {"A": a, "W": w}, **more)
        with pytest.raises(TypeError, match=r"operands must both be float32, not A float16 and W float16"):
            device.convolution(a.half(), w.half())
        assert torch.isnan(device.matmul(torch.full((1, 3), torch.inf), torch.ones(3, 1))).all()
