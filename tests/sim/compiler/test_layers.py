"""Compare the golden core's and the Verilog's results for layers of all kinds with PyTorch."""

from dataclasses import replace
from math import prod
from random import Random

import ml_dtypes
import numpy as np
import pytest
import torch

from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.descriptors import decode
from tensordash.configuration.formats import FORMATS
from tensordash.configuration.preset import load_any_preset
from tensordash_sim.compiler.emission import emit
from tensordash_sim.compiler.images import (
    TensorImage,
    bit_patterns,
    expected,
    geometry_values,
    layer_values,
    side_formats,
)
from tensordash_sim.compiler.iteration_space import IterationSpace
from tensordash_sim.compiler.layer import OPERANDS, RESULTS, Layer
from tensordash_sim.compiler.order import find_races
from tensordash_sim.compiler.pipeline import compile_problem
from tensordash_sim.compiler.problem import Problem
from tensordash_sim.compiler.program import ProgramError
from tensordash_sim.compiler.schedule import schedule_tiling
from tensordash_sim.compiler.search import best_schedule
from tensordash_sim.golden import encode
from tensordash_sim.golden.core.golden_core import GoldenCore, Memory
from tensordash_sim.lowering.geometry import Convolution, MatrixProduct
from tensordash_sim.verify.programs.random_layers import LayerWork, random_work
from tensordash_sim.verify.verilated_core import VerilatedCore

from ..lowering.geometries import convolution

PRESETS = ["core", "core-dense", "core-wide", "core-fp8", "core-bf16", "core-drop"]
SIZE = 1 << 20


def preset(name: str) -> CoreConfig:
    config = load_any_preset(name)
    assert isinstance(config, CoreConfig)
    return config


def bits(values):
    return values.view({1: np.uint8, 2: np.uint16, 4: np.uint32}[values.dtype.itemsize])


def check(config, works, core=None, first_parts=(None,)):
    """Compare the golden core's result, and the Verilog's if `core` is given, with PyTorch's.

    Problems use the numbers of `first_parts` in turn; for None, the search chooses the number.
    """
    for place, (number, work) in enumerate(works):
        context = f"{number}: {work.operation} with {work.rows} on rows of {work.layer}, {', '.join(work.values)}"
        image = work.image(config, Memory(SIZE))
        schedule = best_schedule(work.space(config))
        if parts := first_parts[place % len(first_parts)]:
            schedule = schedule_tiling(schedule.space, replace(schedule.tiling, first_parts=parts))
        program = emit(schedule, image.tensors).descriptors
        assert find_races(config, program) == [], context
        if core is not None:
            core.memory[:SIZE] = np.frombuffer(image.memory.bytes, np.uint8)
            assert not core.run(program, SIZE).outcome.error, context
        assert not GoldenCore(config, image.memory).run(program).error, context
        if core is not None:
            assert core.memory[:SIZE].tobytes() == bytes(image.memory.bytes), context
        settings = {"config": config, "rows": work.rows, "fp32": work.fp32, "relu": work.relu}
        reference = expected(work.layer, work.operation, work.values, **settings)
        np.testing.assert_array_equal(bits(image.result()), bits(reference), err_msg=context)


def check_both(name, works, quick=False):
    """Compare with the Verilog too, if the core compiles in less than a minute."""
    if name in ("core", "core-dense"):
        with VerilatedCore(preset(name), SIZE + (1 << 18), quick=quick) as core:
            check(preset(name), works, core)
    else:
        check(preset(name), works)


def random_works(name, seeds):
    return ((seed, random_work(Random(seed), preset(name))) for seed in seeds)


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=() if name == "core" else pytest.mark.slow) for name in PRESETS],
)
def test_random_layers(name):
    """The Verilog of larger cores runs random layers in nightly tests, and random programs in its bench."""
    check_both(name, random_works(name, range(5 if name in ("core", "core-dense") else 30)), quick=name != "core")


@pytest.mark.parametrize("name", ["core", pytest.param("core-wide", marks=pytest.mark.slow), "core-fp8"])
def test_first_tile_is_loaded_in_parts(name):
    check(preset(name), random_works(name, range(200, 208 if name == "core" else 204)), first_parts=(2, 3, 5, 100))


@pytest.mark.slow
@pytest.mark.parametrize("name", PRESETS)
def test_many_random_layers(name):
    with VerilatedCore(preset(name), SIZE + (1 << 18)) as core:
        check(preset(name), random_works(name, range(1000, 1100)), core)
        check(preset(name), fused_works(preset(name)), core)


FUSED = [
    Layer(samples=2, channels=3, filters=6, size=(4, 7), kernel=(3, 2), padding=1, products=2),
    Layer(samples=2, channels=6, filters=3, size=(5, 6), kernel=(2, 2), stride=(2, 3), padding=1),
    Layer(samples=1, channels=70, filters=50, size=(2, 5), kernel=(3, 3), padding=1),  # a reduction in chunks
    Layer(samples=1, channels=9, filters=90, size=(3, 40)),  # results in many tiles
]


def fused_works(config):
    """Yield problems with every supported combination of bias, mask and ReLU."""
    rng = np.random.default_rng(0)
    for number, layer in enumerate(FUSED):
        for operation, operands in OPERANDS.items():
            rows = operands[number % 2]
            operand_values = {each: rng.standard_normal(layer.whole_shape(each)) for each in operands}
            values = {
                each: encode(operand_values[each], fmt) for each, fmt in side_formats(config, operation, rows).items()
            }
            mask = rng.standard_normal(layer.whole_shape(RESULTS[operation]))
            mask = np.where(rng.random(mask.shape) < 0.5, mask, np.copysign(0.0, mask))
            values["mask"] = encode(mask, config.tile.a_format)
            if operation == "AxW":
                values["bias"] = rng.standard_normal((layer.products, layer.filters)).astype(np.float32)
            yield (
                f"layer {number}",
                LayerWork(layer=layer, operation=operation, rows=rows, fp32=False, relu=number != 1, values=values),
            )


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", ["core", "core-wide", "core-fp8", "core-bf16"])
def test_fused_operations(name):
    check_both(name, fused_works(preset(name)))


LAYERS = {
    "many samples on one row": Layer(samples=1, channels=5, filters=3, size=(1, 1200)),
    "rows longer than a region": Layer(samples=1, channels=4, filters=2, size=(2, 700), kernel=(1, 3), padding=(0, 1)),
    "channels that fill up a step": Layer(samples=1, channels=24, filters=40, size=(2, 9)),
    "taps that fill up a step": Layer(samples=1, channels=3, filters=20, size=(5, 9), kernel=(2, 7)),
    "no tap meets most inputs": Layer(samples=1, channels=2, filters=5, size=(5, 9), stride=(3, 4), dilation=2),
    "nothing but padding": Layer(samples=1, channels=2, filters=3, size=(1, 1), kernel=(1, 1), stride=3, padding=1),
    "columns that only fill up": Layer(samples=1, channels=2, filters=3, size=(1, 9), kernel=(1, 2), stride=(1, 2)),
}


@pytest.mark.sampled(7)
@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("operation", OPERANDS)
def test_corners(name, operation):
    """Compare on the wide core, whose columns take four groups at a time. No other memory changes."""
    config, layer = preset("core-wide"), LAYERS[name]
    rng = np.random.default_rng(1)
    values = {each: rng.standard_normal(layer.shape(each)).astype(np.float16) for each in OPERANDS[operation]}
    for rows in OPERANDS[operation]:
        image = TensorImage(config, Memory(SIZE), layer, operation, values)
        image.memory.bytes[image.end :] = b"\x55" * (SIZE - image.end)
        golden = GoldenCore(config, image.memory)
        golden.buffer[:] = 0x7E00  # Power-up values may be NaN.
        problem = Problem(layer=layer, operation=operation, rows=rows)
        program = compile_problem(problem, config, image.tensors).descriptors
        assert find_races(config, program) == []
        assert not golden.run(program).error
        assert golden.counts.non_finite == 0  # No result contains a power-up value, whether stored or not.
        np.testing.assert_array_equal(bits(image.result()), bits(expected(layer, operation, values)))
        assert set(image.memory.bytes[image.end :]) == {0x55}


@pytest.mark.parametrize("operation", OPERANDS)
def test_masks_of_unused_positions(operation):
    """The program loads each result's mask once. Counts do not depend on the buffer's unused parts."""
    config, layer = preset("core-wide"), Layer(samples=2, channels=20, filters=21, size=(3, 9))
    rng, left = np.random.default_rng(0), set()
    values = {each: rng.standard_normal(layer.shape(each)).astype(np.float16) for each in OPERANDS[operation]}
    for each in values.values():
        each[rng.random(each.shape) < 0.1] = np.inf
    values["mask"] = np.zeros(layer.shape(RESULTS[operation]), np.float16)
    for rows in OPERANDS[operation]:
        for had in (0, 0x3C00):
            image = TensorImage(config, Memory(SIZE), layer, operation, values)
            problem = Problem(layer=layer, operation=operation, rows=rows, mask=True)
            space = IterationSpace(problem=problem, core=config)
            program = emit(best_schedule(space), image.tensors).descriptors
            moved = [decode(bits) for bits in program]
            first, last = image.tensors["mask"], image.tensors["result"]
            loads = [fields for each, fields in moved if each.name == "load" and first <= fields["memory"] < last]
            own = [fields for fields in loads if fields["count_1"] == 1 or fields["stride_1"]]  # Skip padding.
            assert sum(prod(fields[f"count_{k}"] for k in range(4)) for fields in own) == space.result_layout.size
            golden = GoldenCore(config, image.memory)
            golden.buffer[:] = had
            assert not golden.run(program).error
            assert not image.result().any()
            left.add((rows, golden.counts.zeros, golden.counts.non_finite))
    assert len(left) == 2


@pytest.mark.parametrize(
    ("layer", "reached"),
    [
        (LAYERS["columns that only fill up"], 8),
        (Layer(samples=1, channels=2, filters=3, size=(1, 2), stride=(1, 4)), 1),
    ],
)
def test_unused_positions_of_results_are_zero(layer, reached):
    """Positions after the last result are zero, even in phases of a strided gradient that have no result."""
    config, groups = preset("core"), -(-layer.size[1] // 4)
    values = {each: np.ones(layer.shape(each), np.float16) for each in OPERANDS["WxG"]}
    image = TensorImage(config, Memory(SIZE), layer, "WxG", values)
    problem = Problem(layer=layer, operation="WxG", rows="G")
    golden = GoldenCore(config, image.memory)
    golden.buffer[:] = 0x5555
    golden.run(compile_problem(problem, config, image.tensors).descriptors)
    left = np.frombuffer(image.memory.read(image.tensors["result"], groups * config.group_bytes), "<u2").reshape(-1, 4)
    assert left[:reached, :2].all()
    assert not left[reached:].any()
    assert not left[:, 2:].any()


GEOMETRIES = [
    convolution(
        batch=2, channels=(6, 4), size=(5, 7), kernel=(3, 2), stride=(6, 2), padding=(1, 0), dilation=(1, 2), groups=2
    ),
    convolution(batch=3, channels=(4, 4), size=(9,), kernel=(3,), stride=(2,), padding=(1,), dilation=(2,), groups=4),
    MatrixProduct(batch=3, samples=5, in_features=6, out_features=7),
    MatrixProduct(batch=1, samples=5, in_features=6, out_features=7),
]


@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_tensors_of_geometries(geometry):
    """Compare with PyTorch's operators on PyTorch's shapes, including autograd."""
    a, w = (torch.randn(geometry.shapes[name], dtype=torch.float64).half().double() for name in "AW")
    a.requires_grad_(), w.requires_grad_()
    if isinstance(geometry, MatrixProduct):
        result = a @ w.transpose(1, 2)
    else:
        settings = {name: getattr(geometry, name) for name in ("stride", "padding", "dilation", "groups")}
        result = (torch.nn.functional.conv1d if len(geometry.size) == 1 else torch.nn.functional.conv2d)(
            a, w, **settings
        )
    g = torch.randn_like(result).half().double()
    result.backward(g)
    tensors = {"A": a.detach(), "W": w.detach(), "G": g}
    layer = Layer.of(geometry)
    for operation, name, reference in (("AxW", "G", result.detach()), ("WxG", "A", a.grad), ("AxG", "W", w.grad)):
        values = {each: layer_values(geometry, each, tensors[each].half()) for each in OPERANDS[operation]}
        found = geometry_values(geometry, name, expected(layer, operation, values, fp32=True))
        np.testing.assert_allclose(found, reference.numpy(), rtol=1e-6, atol=1e-9)
        restored = geometry_values(geometry, name, layer_values(geometry, name, reference))
        assert torch.equal(restored, reference)
    with pytest.raises(ValueError, match=r"A must have the shape \(.*\), not \(1, 2\)"):
        layer_values(geometry, "A", np.zeros((1, 2)))


def test_layers_of_geometries():
    layer = Layer.of(GEOMETRIES[0])
    assert (layer.channels, layer.filters, layer.products) == (3, 2, 2)
    assert (layer.stride, layer.padding, layer.dilation) == ((6, 2), (1, 0), (1, 2))
    assert Layer.of(GEOMETRIES[2]).whole_shape("A") == (3, 1, 6, 1, 5)
    usual = {"batch": 1, "in_channels": 1, "out_channels": 1, "size": (9,), "kernel": (1,), "groups": 1}
    with pytest.raises(ValueError, match=r"stride\[1\] must be an integer from 1 to 4, not 5"):
        Layer.of(Convolution(**usual, stride=(5,), padding=(0,), dilation=(1,)))


@pytest.mark.parametrize(
    ("field", "value", "error", "context"),
    [
        ("stride", 5, ValueError, r"stride\[1\] must be an integer from 1 to 4, not 5"),
        ("stride", (0, 1), ValueError, r"stride\[0\] must be an integer from 1 to 16384, not 0"),
        ("padding", (1, -1), ValueError, r"padding\[1\] must be an integer from 0 to 16384, not -1"),
        (
            "dilation",
            (1, 1, 1),
            TypeError,
            r"dilation must be a pair of integers, of rows and columns, not \(1, 1, 1\)",
        ),
        ("size", 4, TypeError, "size must be a pair of integers, of rows and columns, not 4"),
        ("samples", 0, ValueError, "samples must be an integer from 1 to 1048576, not 0"),
        ("products", True, TypeError, "products must be an integer from 1 to 1048576, not True"),
        ("kernel", (9, 9), ValueError, r"size \+ padding at both ends must be at least the kernel's reach of 9, not 4"),
        ("end_padding", (0, 1), ValueError, r"end_padding\[1\] must be an integer from -4 to 0, not 1"),
    ],
)
def test_wrong_layers(field, value, error, context):
    with pytest.raises(error, match=context):
        Layer(**{"samples": 1, "channels": 1, "filters": 1, "size": (4, 4), field: value})


def test_bit_patterns():
    """Bit patterns, and values of ml_dtypes and PyTorch, give the same bits."""
    values = np.array([[0.0, -0.0, 1.5, -3.0]])
    for name, of_numpy, of_torch in (
        ("fp16", np.float16, torch.float16),
        ("bf16", ml_dtypes.bfloat16, torch.bfloat16),
        ("fp8_e4m3", ml_dtypes.float8_e4m3fn, torch.float8_e4m3fn),
        ("fp8_e5m2", ml_dtypes.float8_e5m2, torch.float8_e5m2),
    ):
        reference = encode(values, FORMATS[name])
        for source in (reference, values.astype(of_numpy), torch.as_tensor(values).to(of_torch)):
            np.testing.assert_array_equal(bit_patterns(source, FORMATS[name]), reference)
        for wrong in (values, torch.as_tensor(values), values.astype(np.int16), [1.0]):
            with pytest.raises(TypeError, match="^W must be .*float.* or uint"):
                bit_patterns(wrong, FORMATS[name], name="W")


def test_wrong_images():
    config, layer = preset("core-fp8"), Layer(samples=1, channels=2, filters=3, size=(1, 4))
    values = {"A": np.zeros(layer.shape("A"), np.uint8), "W": np.zeros(layer.shape("W"), np.uint8)}
    with pytest.raises(ValueError, match="rows must be one of A, W, not ''"):
        TensorImage(config, Memory(SIZE), layer, "AxW", values)
    wrong = values | {"W": np.zeros((2, 3, 1, 1), np.uint8)}
    with pytest.raises(ValueError, match=r"W must have the shape \(3, 2, 1, 1\), not \(2, 3, 1, 1\)"):
        TensorImage(config, Memory(SIZE), layer, "AxW", wrong, rows="A")
    with pytest.raises(TypeError, match="bias must be float32, not float64"):
        TensorImage(config, Memory(SIZE), layer, "AxW", values | {"bias": np.zeros(3)}, rows="A")
    with pytest.raises(ValueError, match=r"mask must have the shape \(1, 3, 1, 4\), not \(1, 2, 1, 4\)"):
        TensorImage(config, Memory(SIZE), layer, "AxW", values | {"mask": values["A"]}, rows="A")
    with pytest.raises(ValueError, match="memory must have room for A, 64 bytes from 0x1000 on"):
        TensorImage(config, Memory(1 << 12), layer, "AxW", values, rows="A")


@pytest.mark.parametrize(
    ("fields", "message", "core"),
    [
        ({"operation": "WxG", "rows": "G", "bias": True}, "a bias can be added to results of AxW", {}),
        ({"relu": True}, "core.relu must be true for results with a relu, not false", {"relu": False}),
        ({"bias": True}, "core.bias must be true for results with a bias", {"bias": False}),
        ({"mask": True}, "core.mask must be true for results with a mask", {"mask": False}),
        ({"mask": True, "fp32": True}, "a mask must have the format of its results, which is not", {}),
        ({"rows": "G"}, "rows must be one of A, W, not 'G'", {}),
        ({"operation": "WxA"}, "operation must be one of AxW, WxG, AxG, not 'WxA'", {}),
    ],
)
def test_wrong_problems(fields, message, core):
    layer = Layer(samples=1, channels=2, filters=3, size=(1, 4))
    problem = Problem(**{"layer": layer, "operation": "AxW", "rows": "A", **fields})
    with pytest.raises(ProgramError, match=message):
        IterationSpace(problem=problem, core=CoreConfig(**core))
