"""Test NVFP4 operands in a core's memory: equal bits on all backends and on the tile with scales."""

from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch.nn.functional import conv2d
from torch.nn.grad import conv2d_input, conv2d_weight

from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.formats import FORMATS, SCALES, FloatFormat
from tensordash.configuration.preset import load_any_preset
from tensordash_runtime import Device, DeviceError, Recipe, offload
from tensordash_sim.compiler.layer import OPERANDS
from tensordash_sim.golden.block_scales import quantise_blocks, scale_values
from tensordash_sim.lowering import Geometry, MatrixProduct
from tensordash_sim.verify.simulators import simulator_names

from ..sim.lowering.geometries import convolution

PRESET = "core-nvfp4"
ALL = Recipe(bf16_layers=())
LAYER = MatrixProduct(batch=1, samples=40, in_features=70, out_features=24)
IMAGE = convolution(batch=2, channels=(20, 6), size=(7, 18), kernel=(3, 3), padding=(1, 1), stride=(2, 2))
ELEMENTS = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])
needs_verilator = pytest.mark.skipif("verilator" not in simulator_names(), reason="Verilator is not installed")


def draw(rng: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.float32]:
    values = (rng.standard_normal(shape) * np.exp2(rng.integers(-5, 5, shape))).astype(np.float32)
    values[rng.random(shape) < 0.3] = 0
    return values


def operands(geometry: Geometry, operation: str, seed: int = 0) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    tensors = {name: draw(rng, geometry.shapes[name]) for name in "AWG"}
    return {name: tensors[name] for name in OPERANDS[operation]}


def random_layer(seed: int) -> MatrixProduct:
    rng = np.random.default_rng(seed)
    samples, inputs, outputs = (int(rng.integers(1, most)) for most in (70, 90, 50))
    return MatrixProduct(batch=int(rng.choice([1, 1, 3])), samples=samples, in_features=inputs, out_features=outputs)


def dequantise(values: NDArray[np.float32], axis: int) -> NDArray[np.float64]:
    """Quantise a tensor to NVFP4 with blocks along an axis, and return what its elements and scales stand for."""
    fmt, scale = FORMATS["fp4_e2m1"], SCALES["e4m3"]
    assert isinstance(fmt, FloatFormat)
    blocks = quantise_blocks(np.moveaxis(values, axis, -1), fmt, scale)
    numbers = np.concatenate([ELEMENTS, -ELEMENTS])[blocks.bits]
    factors = np.repeat(scale_values(blocks.scales, scale), 16, axis=-1)[..., : numbers.shape[-1]]
    return np.moveaxis(numbers * factors * float(np.float32(blocks.tensor)), -1, axis)


# The tile with scales


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("rounding", ["stochastic", "nearest"])
def test_linear_layers_have_the_tiles_bits(seed: int, rounding: str) -> None:
    """The core's exact sums of fp16 products are the tile's sums of elements and scales."""
    layer = random_layer(seed)
    recipe = Recipe(square_blocks=seed % 2 == 0, hadamard=seed % 3 > 0, bf16_layers=(), seed=seed)
    settings: dict[str, Any] = {"recipe": recipe, "rounding": rounding, "rounding_seed": seed}
    with Device(PRESET, **settings) as core, Device("nvfp4", **settings) as tile:
        for operation in OPERANDS:
            tensors = operands(layer, operation, seed)
            done, expected = (device.contract(layer, operation, tensors) for device in (core, tile))
            assert np.array_equal(done.result, expected.result)
            assert done.executed.operands == expected.executed.operands  # zeros and flushed values


@pytest.mark.parametrize("operation", OPERANDS)
@pytest.mark.parametrize("hadamard", [True, False])
def test_values_that_are_not_finite_give_the_tiles_results(operation: str, hadamard: bool) -> None:
    tensors = operands(LAYER, operation)
    first, second = tensors.values()
    first[0, 3, 2] = np.inf
    second[0, 1, 1] = np.nan
    recipe = Recipe(hadamard=hadamard, bf16_layers=())
    with Device(PRESET, recipe=recipe) as core, Device("nvfp4", recipe=recipe) as tile:
        done, expected = (device.contract(LAYER, operation, tensors) for device in (core, tile))
    assert np.isnan(done.result).any()
    assert np.isfinite(done.result).any()
    assert np.array_equal(done.result, expected.result, equal_nan=True)
    assert done.executed.checks


# Backends


@pytest.mark.parametrize("geometry", [LAYER, IMAGE, random_layer(3)])
def test_golden_core_has_the_emulators_bits(geometry: Geometry) -> None:
    with Device(PRESET, recipe=ALL) as emulator, Device(PRESET, "golden", recipe=ALL, memory_bytes=1 << 20) as golden:
        for operation in OPERANDS:
            tensors = operands(geometry, operation)
            expected, done = (each.contract(geometry, operation, tensors) for each in (emulator, golden))
            assert np.array_equal(done.result, expected.result)
            assert done.executed.problem.nvfp4


@needs_verilator
def test_verilog_has_the_emulators_bits() -> None:
    with Device(PRESET, recipe=ALL) as emulator, Device(PRESET, "verilator", recipe=ALL, quick=True) as verilog:
        for geometry in (LAYER, IMAGE):
            for operation in OPERANDS:
                tensors = operands(geometry, operation)
                expected, done = (each.contract(geometry, operation, tensors) for each in (emulator, verilog))
                assert np.array_equal(done.result, expected.result)
                assert emulator.expectations is not None
                cycles = emulator.expectations.cycles_of(expected.executed)
                assert cycles == pytest.approx(done.executed.cycles, rel=0.1)
                assert emulator.expectations.traffic(done.executed.problem) == done.executed.traffic


@needs_verilator
@pytest.mark.slow
def test_two_cores_have_the_emulators_bits() -> None:
    wide = MatrixProduct(batch=1, samples=64, in_features=96, out_features=40)
    with Device(PRESET, recipe=ALL) as emulator, Device(PRESET, "verilator", cores=2, recipe=ALL, quick=True) as cores:
        for geometry in (LAYER, IMAGE, wide):
            for operation in OPERANDS:
                tensors = operands(geometry, operation)
                expected, done = (each.contract(geometry, operation, tensors) for each in (emulator, cores))
                assert np.array_equal(done.result, expected.result)


# What is quantised, and how


@pytest.mark.parametrize("operation", OPERANDS)
def test_blocks_of_convolutions_lie_along_the_reduced_axis_of_the_tensor(operation: str) -> None:
    axes = {"AxW": {"A": 1, "W": 1}, "WxG": {"W": 0, "G": 1}, "AxG": {"A": -1, "G": -1}}[operation]
    tensors = operands(IMAGE, operation)
    exact = {name: torch.from_numpy(dequantise(tensors[name], axis)) for name, axis in axes.items()}
    how: dict[str, Any] = {"stride": IMAGE.stride, "padding": IMAGE.padding, "dilation": IMAGE.dilation}
    if operation == "AxW":
        expected = conv2d(exact["A"], exact["W"], **how)
    elif operation == "WxG":
        expected = conv2d_input(IMAGE.shapes["A"], exact["W"], exact["G"], **how)
    else:
        expected = conv2d_weight(exact["A"], IMAGE.shapes["W"], exact["G"], **how)
    with Device(PRESET, recipe=ALL, rounding="nearest") as device:
        done = device.contract(IMAGE, operation, tensors)
    np.testing.assert_allclose(done.result, expected.numpy(), rtol=3e-7, atol=1e-12 * float(expected.abs().max()))
    for name, each in exact.items():
        counts = done.executed.operands[name]
        assert counts.zeros == np.count_nonzero(tensors[name] == 0)
        assert counts.zeros + counts.flushed == int((each == 0).sum())
        assert counts.saturated is None


def test_layers_in_bf16_run_in_the_cores_format() -> None:
    values = operands(LAYER, "AxG")
    with Device(PRESET, recipe=Recipe(bf16_layers=("*.down",))) as device, Device(PRESET) as plain:
        down, up = (device.contract(LAYER, "AxG", values, layer=name) for name in ("b.down", "b.up"))
        expected = plain.contract(LAYER, "AxG", values)
    assert np.array_equal(down.result, expected.result)
    assert down.executed.operands == expected.executed.operands
    assert not down.executed.problem.nvfp4
    assert not np.array_equal(up.result, expected.result)


def test_operands_of_the_cores_format_run_plain() -> None:
    """Their results are rounded to nearest: with a recipe, `rounding` applies to quantised gradients."""
    values = {name: each.astype(np.float16) for name, each in operands(LAYER, "WxG").items()}
    with Device(PRESET, recipe=ALL) as device, Device(PRESET) as plain:
        done, expected = (each.contract(LAYER, "WxG", values) for each in (device, plain))
    assert done.result.dtype == np.float16
    assert np.array_equal(done.result, expected.result)
    mixed = {"W": values["W"], "G": values["G"].astype(np.float32)}
    with Device(PRESET, recipe=ALL) as device, pytest.raises(TypeError, match="operands must both be float32"):
        device.contract(LAYER, "WxG", mixed)


def test_scaling_does_not_apply() -> None:
    tensors = operands(LAYER, "AxW")
    with Device(PRESET, recipe=ALL, scaling={"A": 3}) as scaled, Device(PRESET, recipe=ALL, scaling="none") as plain:
        one, other = (each.contract(LAYER, "AxW", tensors) for each in (scaled, plain))
    assert np.array_equal(one.result, other.result)
    assert one.executed.operands["A"].exponent == 0


def test_the_host_adds_biases_after_the_scales() -> None:
    tensors, bias = operands(LAYER, "AxW"), draw(np.random.default_rng(5), (24,))
    with Device(PRESET, recipe=ALL) as device:
        sums = device.contract(LAYER, "AxW", tensors).result
        biased = device.contract(LAYER, "AxW", tensors, bias=bias, relu=True)
        positive = device.contract(LAYER, "AxW", tensors, relu=True).result
        with pytest.raises(ValueError, match="mask must be left out where results are float32"):
            device.contract(LAYER, "AxW", tensors, mask=np.ones(sums.shape, np.float16))
    assert np.array_equal(biased.result, np.maximum(sums + bias, np.float32(0)))
    assert np.array_equal(positive, np.maximum(sums, np.float32(0)))
    assert not biased.executed.problem.bias


def test_records_count_both_kinds_of_zeros_and_the_bytes() -> None:
    """Values far below their block's largest become zero. Loads move half of fp16's bytes."""
    tensors = operands(LAYER, "AxW")
    tensors["A"][:, :, 1::2] *= np.float32(1e-4)
    with Device(PRESET, recipe=ALL) as device, Device(PRESET) as plain:
        done, other = (each.contract(LAYER, "AxW", tensors, row_side="A") for each in (device, plain))
        assert device.expectations is not None
        quantised, fp16 = (device.expectations.traffic(each.executed.problem) for each in (done, other))
    assert done.executed.speedup == other.executed.speedup
    assert done.executed.flushed_speedup > 1.2 * done.executed.speedup
    assert done.executed.operands["A"].flushed > other.executed.operands["A"].flushed == 0
    results = 4 * 40 * 24 + 32
    assert fp16 - results == 2 * (quantised - results)


# Devices


def test_network_trains_in_float32_tensors() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(32, 48), torch.nn.ReLU(), torch.nn.Linear(48, 16))
    x = torch.from_numpy(draw(np.random.default_rng(0), (32, 32)))
    with Device(PRESET, recipe=Recipe(bf16_layers=("2",))) as device, offload(device, model=model) as run:
        model(x).sum().backward()
        assert device.types == ("float32", "float16")
    assert run.missed == []
    assert {(each.layer, each.executed.problem.nvfp4) for each in run.contractions} == {("0", True), ("2", False)}
    assert run.totals().cycles > 0


def test_a_core_without_stochastic_rounding_rounds_gradients_on_the_host() -> None:
    config = load_any_preset(PRESET, ["core.stochastic=false"])
    tensors = operands(LAYER, "AxG")
    results = []
    for each in (config, PRESET):
        with Device(each, "golden", recipe=ALL, memory_bytes=1 << 20) as device:
            results.append(device.contract(LAYER, "AxG", tensors).result)
    assert np.array_equal(*results)


def test_wrong_settings_are_refused() -> None:
    with pytest.raises(ValueError, match="rounding must be nearest or stochastic for a tile with scales, and with a"):
        Device(PRESET, recipe=ALL, rounding="zero")
    with pytest.raises(ValueError, match=r"recipe must be left out for a core with core.nvfp4 = false"):
        Device(CoreConfig(), recipe=ALL)


def test_operands_that_do_not_fit_are_refused() -> None:
    layer = MatrixProduct(batch=1, samples=64, in_features=64, out_features=4)
    tensors = operands(layer, "AxW")
    message = "out of device memory: operands and result have 5376 bytes"
    with Device(PRESET, recipe=ALL, memory_bytes=1 << 12) as device, pytest.raises(DeviceError, match=message):
        device.contract(layer, "AxW", tensors)


@needs_verilator
@pytest.mark.slow
def test_training_steps_have_the_emulators_bits() -> None:
    """Two steps of the small GPT by `tensordash train`'s trainer, on the emulator and on the Verilog."""
    from tensordash_runtime.tasks import load_task
    from tensordash_runtime.training import Trainer

    weights = []
    for backend in ("emulator", "verilator"):
        task = load_task("gpt", 1)
        with Device(PRESET, backend, recipe=Recipe(bf16_layers=task.bf16_layers), rounding_seed=1) as device:
            trainer = Trainer(task, device)
            run = trainer.train(2)
        assert {each.executed.problem.nvfp4 for each in run.contractions} == {True, False}
        weights.append(torch.cat([each.detach().flatten() for each in trainer.model.parameters()]))
    assert torch.equal(*weights)
    initial = load_task("gpt", 1).model.parameters()
    assert not torch.equal(weights[0], torch.cat([each.detach().flatten() for each in initial]))
