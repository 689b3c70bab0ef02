"""Whole operations: the golden core's results are PyTorch's, and programs leave no order open."""

from random import Random

import numpy as np
import pytest
import torch

from tensordash.configuration.core_config import CoreConfig
from tensordash_sim.core.choice import best_blocking
from tensordash_sim.core.contraction import Contraction
from tensordash_sim.core.golden import GoldenCore, Memory
from tensordash_sim.core.images import TensorImage, expected
from tensordash_sim.core.layer import OPERANDS, Layer
from tensordash_sim.core.order import races
from tensordash_sim.core.program import ProgramError
from tensordash_sim.lowering.geometry import Convolution, MatrixProduct

CONFIG = CoreConfig.from_toml("", ["core.partial_sums=32", "core.buffer=32", "core.stream_buffer=4"])
CONFIGS = {
    "usual": CONFIG,
    "dense": CONFIG.baseline,
    "more columns": CoreConfig.from_toml("", ["tile.columns=8"]),
    "8 lanes": CoreConfig.from_toml("", ["tile.lanes=8", "tile.rows=8", "tile.columns=8"]),
}
LAYERS = {
    "3x3, padding": Layer(samples=2, channels=5, filters=6, size=(7, 7), kernel=(3, 3), padding=1),
    "3x3, stride 2": Layer(samples=2, channels=8, filters=9, size=(9, 10), kernel=(3, 3), stride=2, padding=1),
    "1x1, stride 2: most of the gradient is zero": Layer(samples=1, channels=8, filters=9, size=(5, 10), stride=2),
    "5x4, stride 3": Layer(samples=1, channels=9, filters=8, size=(11, 9), kernel=(5, 4), stride=3, padding=2),
    "stride 4, more than the kernel": Layer(samples=1, channels=4, filters=4, size=(9, 9), kernel=(2, 2), stride=4),
    "a reduction in chunks": Layer(samples=1, channels=60, filters=8, size=(4, 6), kernel=(3, 3), padding=1),
    "a matrix product": Layer(samples=1, channels=32, filters=16, size=(1, 18)),
}


def run(config, layer, operation, rows, *, seed=0, fp32=False, zeros=0.5):
    """The result as the golden core has it, and as PyTorch."""
    rng = np.random.default_rng(seed)
    values = {}
    for name in OPERANDS[operation]:
        drawn = rng.standard_normal(layer.shape(name)).astype(np.float16)
        values[name] = np.where(rng.random(drawn.shape) < zeros, np.float16(0), drawn)
    image = TensorImage(config, Memory(1 << 18), layer, operation, values, fp32=fp32)
    work = Contraction(config=config, layer=layer, operation=operation, tensors=image.tensors, rows=rows, fp32=fp32)
    program = work.program(best_blocking(work)).descriptors
    assert races(config, program) == []
    outcome = GoldenCore(config, image.memory).run(program)
    assert (outcome.error, outcome.ends) == ("", 1)
    return image.result(), expected(layer, operation, values, fp32=fp32)


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("operation", OPERANDS)
def test_results_are_pytorch_s(name, operation):
    for rows in OPERANDS[operation]:
        got, wanted = run(CONFIG, LAYERS[name], operation, rows, fp32=rows == "W")
        assert got.dtype == wanted.dtype
        np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("name", CONFIGS)
def test_other_cores(name):
    layer = Layer(samples=1, channels=16, filters=16, size=(5, 9), kernel=(3, 3), padding=1)
    if name == "more columns":  # 8 columns take channels in eights
        cases = [("AxW", "A"), ("WxG", "G"), ("AxG", "A")]
    else:
        cases = [(operation, rows) for operation, both in OPERANDS.items() for rows in both]
    for operation, rows in cases:
        np.testing.assert_array_equal(*run(CONFIGS[name], layer, operation, rows))


@pytest.mark.parametrize("seed", range(12))
def test_random_layers(seed):
    random = Random(seed)
    kernel = random.randint(1, 4), random.randint(1, 4)
    layer = Layer(
        samples=random.randint(1, 3),
        channels=random.randint(1, 20),
        filters=random.randint(1, 20),
        size=(random.randint(4, 9), random.randint(4, 11)),
        kernel=kernel,
        stride=random.randint(1, 4),
        padding=random.randint(0, 4),
    )
    operation = random.choice(list(OPERANDS))
    np.testing.assert_array_equal(*run(CONFIG, layer, operation, random.choice(OPERANDS[operation]), seed=seed))


def test_what_does_not_fit():
    image = {"A": 0, "W": 0, "result": 0}
    small = CoreConfig.from_toml("", ["core.buffer=1", "core.stream_buffer=1"])
    work = Contraction(
        config=small,
        layer=Layer(samples=1, channels=4, filters=4, size=(64, 64), kernel=(33, 33)),
        operation="AxW",
        tensors=image,
        rows="A",
    )
    with pytest.raises(ProgramError, match="AxW of Layer.*does not fit this core, however it is cut"):
        best_blocking(work)
    with pytest.raises(ProgramError, match="rows must be one of A, W, not 'G'"):
        Contraction(config=small, layer=work.layer, operation="AxW", tensors=image, rows="G")
    with pytest.raises(ProgramError, match="operation must be one of AxW, WxG, AxG, not 'WxA'"):
        Contraction(config=small, layer=work.layer, operation="WxA", tensors=image, rows="G")
    wide = Contraction(
        config=CONFIGS["more columns"],
        layer=Layer(samples=1, channels=4, filters=4, size=(8, 8)),
        operation="AxW",
        tensors=image,
        rows="A",
    )
    with pytest.raises(ProgramError, match="streams of the column side must come in multiples of 2, not 1"):
        best_blocking(wide)


def test_layers_of_traces():
    usual = {"batch": 2, "in_channels": 4, "out_channels": 8, "size": (5, 7), "kernel": (3, 3), "groups": 1}
    same = {"stride": (2, 2), "padding": (1, 1), "dilation": (1, 1)}
    layer = Layer.of(Convolution(**usual, **same))
    assert (layer.shape("G"), layer.stride, layer.padding) == ((2, 8, 3, 4), 2, 1)
    assert Layer.of(MatrixProduct(batch=1, samples=9, in_features=3, out_features=5)).shape("A") == (1, 3, 1, 9)
    for name, wrong in (("dilation", (2, 2)), ("stride", (1, 2)), ("padding", (0, 1))):
        with pytest.raises(ValueError, match=f"a core's convolution must have {name} "):
            Layer.of(Convolution(**usual, **{**same, name: wrong}))
    with pytest.raises(ValueError, match="a core's matrix product must have batch = 1, not 3"):
        Layer.of(MatrixProduct(batch=3, samples=9, in_features=3, out_features=5))


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("stride", 5, "stride must be an integer from 1 to 4, not 5"),
        ("samples", 0, "samples must be an integer from 1 to 65536, not 0"),
        ("kernel", (9, 9), r"size must be at least the kernel's with padding, \(9, 9\), not \(4, 4\)"),
    ],
)
def test_wrong_layers(field, value, said):
    with pytest.raises(ValueError, match=said):
        Layer(**{"samples": 1, "channels": 1, "filters": 1, "size": (4, 4), field: value})


def test_expected_is_pytorch_s_gradient():
    """The references themselves, against autograd."""
    layer = LAYERS["3x3, stride 2"]
    a, w = (torch.randn(layer.shape(name), dtype=torch.float64, requires_grad=True) for name in "AW")
    made = torch.nn.functional.conv2d(a, w, stride=2, padding=1)
    g = torch.randn_like(made)
    made.backward(g)
    values = {"A": a.detach().numpy(), "W": w.detach().numpy(), "G": g.numpy()}
    for operation, wanted in (("AxW", made), ("WxG", a.grad), ("AxG", w.grad)):
        got = expected(layer, operation, values, fp32=True)
        np.testing.assert_array_equal(got, wanted.detach().numpy().astype(np.float32))
