"""Test the chip of cores. tests/runtime/test_multicore.py compares it with Verilog."""

from dataclasses import replace

import numpy as np
import pytest

from tensordash.configuration.core_config import CoreConfig
from tensordash_sim.compiler.layer import OPERANDS, Layer
from tensordash_sim.compiler.problem import Problem
from tensordash_sim.performance.chip import simulate_cores

CONFIG = CoreConfig()
LAYER = Layer(samples=4, channels=16, filters=16, size=(8, 8), kernel=(3, 3), padding=1)


@pytest.mark.parametrize("operation", OPERANDS)
def test_more_zeros_and_more_cores_take_fewer_cycles(operation):
    rng = np.random.default_rng(0)
    rows, other = OPERANDS[operation]
    problem = Problem(layer=LAYER, operation=operation, rows=rows)
    cycles = {}
    for zeros in (0.0, 0.6):
        nonzero = {rows: rng.random(LAYER.shape(rows)) >= zeros, other: np.ones(LAYER.shape(other), np.bool_)}
        for cores in (1, 2):
            cycles[zeros, cores] = simulate_cores(problem, CONFIG, cores, nonzero=nonzero).cycles
    dense = simulate_cores(problem, CONFIG.baseline, 2, nonzero=nonzero)
    assert dense == simulate_cores(problem, CONFIG.baseline, 2)
    assert dense.cycles > cycles[0.6, 2]
    assert cycles[0.6, 1] < cycles[0.0, 1]
    assert cycles[0.6, 2] < cycles[0.0, 2] < cycles[0.0, 1]


def test_sharing_moves_each_value_once():
    problem = Problem(layer=LAYER, operation="AxW", rows="A")
    together, apart = (simulate_cores(problem, CONFIG, 4, shares=shares) for shares in (True, False))
    weights = 2 * LAYER.channels * LAYER.filters * LAYER.kernel[0] * LAYER.kernel[1]
    assert together.division.shared == "W"
    assert apart.traffic - together.traffic == 3 * weights
    assert together.cycles < apart.cycles


def test_an_operation_that_cannot_be_divided():
    problem = Problem(layer=replace(LAYER, samples=1, channels=1, filters=1), operation="AxW", rows="A")
    one, four = (simulate_cores(problem, CONFIG, cores) for cores in (1, 4))
    assert (four.division.count, four.cycles, four.traffic) == (1, one.cycles, one.traffic)
