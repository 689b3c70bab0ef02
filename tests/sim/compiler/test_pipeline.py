"""Compare the golden core's results for complete operations with PyTorch, and search their programs for races."""

import numpy as np
import pytest

from tensordash.configuration.core_config import CoreConfig
from tensordash_sim.compiler.images import TensorImage, expected
from tensordash_sim.compiler.layer import OPERANDS, Layer
from tensordash_sim.compiler.order import find_races
from tensordash_sim.compiler.pipeline import compile_problem
from tensordash_sim.compiler.problem import Problem
from tensordash_sim.compiler.program import ProgramError
from tensordash_sim.golden.core.golden_core import GoldenCore, Memory

CONFIG = CoreConfig.from_toml("", ["core.partial_sums=32", "core.buffer=32", "core.stream_buffer=4"])
CONFIGS = {
    "usual": CONFIG,
    "dense": CONFIG.baseline,
    "two regions": CoreConfig.from_toml("", ["core.regions=2"]),
    "more rows and columns": CoreConfig.from_toml("", ["tile.columns=8", "tile.rows=8"]),
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


def run(config, layer, operation, rows, *, seed=0, fp32=False, turned=False, zeros=0.5):
    """Return the golden core's result and PyTorch's."""
    rng = np.random.default_rng(seed)
    values = {}
    for name in OPERANDS[operation]:
        drawn = rng.standard_normal(layer.shape(name)).astype(np.float16)
        values[name] = np.where(rng.random(drawn.shape) < zeros, np.float16(0), drawn)
    image = TensorImage(config, Memory(1 << 18), layer, operation, values, fp32=fp32, turned=turned)
    problem = Problem(layer=layer, operation=operation, rows=rows, fp32=fp32, turned=turned)
    program = compile_problem(problem, config, image.tensors).descriptors
    assert find_races(config, program) == []
    outcome = GoldenCore(config, image.memory).run(program)
    assert (outcome.error, outcome.ends) == ("", 1)
    return image.result(), expected(layer, operation, values, fp32=fp32)


@pytest.mark.sampled(8)
@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("operation", OPERANDS)
def test_results_match_pytorch(name, operation):
    for rows in OPERANDS[operation]:
        found, reference = run(CONFIG, LAYERS[name], operation, rows, fp32=rows == "W")
        assert found.dtype == reference.dtype
        np.testing.assert_array_equal(found, reference)


@pytest.mark.sampled(8)
@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("operation", OPERANDS)
def test_transposed_results_match_pytorch(name, operation):
    """FP32 results may have positions in rows. Results out of order, as in a strided gradient, are an error."""
    rows = OPERANDS[operation][0]
    if operation == "WxG" and "stride" in name:
        with pytest.raises(ProgramError, match="turned must be false except for FP32 results of one group per block"):
            run(CONFIG, LAYERS[name], operation, rows, fp32=True, turned=True)
        return
    found, reference = run(CONFIG, LAYERS[name], operation, rows, fp32=True, turned=True)
    np.testing.assert_array_equal(found, reference)


@pytest.mark.sampled(3)
@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", CONFIGS)
def test_other_cores(name):
    layer = Layer(samples=1, channels=15, filters=17, size=(5, 9), kernel=(3, 3), padding=1)
    for operation, both in OPERANDS.items():
        for rows in both:
            np.testing.assert_array_equal(*run(CONFIGS[name], layer, operation, rows))


def test_layer_that_does_not_fit():
    small = CoreConfig.from_toml("", ["core.buffer=1", "core.stream_buffer=1"])
    layer = Layer(samples=1, channels=4, filters=4, size=(64, 64), kernel=(33, 33))
    with pytest.raises(ProgramError, match="AxW of Layer.*does not fit this core with any tiling"):
        compile_problem(Problem(layer=layer, operation="AxW", rows="A"), small)
