"""Run recorded operands of a training step on the Verilog of sparse and dense tiles in every format."""

from typing import Any

import numpy as np
import pytest

from tensordash import TileConfig
from tensordash_sim.golden import matmul, matmul_exact
from tensordash_sim.trace import Trace, example_trace
from tensordash_sim.trace.layer_operands import layer_passes
from tensordash_sim.verify import Replayer

from .conftest import FOR_SMALL

CONFIGS: dict[str, dict[str, Any]] = {
    "fp16": {},
    "e4m3": {"format": "fp8_e4m3"},
    "e5m2": {"format": "fp8_e5m2"},
    "e4m3xe5m2": {"format": {"a": "fp8_e4m3", "b": "fp8_e5m2"}},
    "int8": {"format": "int8"},
    "bf16-volta": {"format": "bf16", "accumulator": "volta"},
    "e4m3-hopper": {"format": "fp8_e4m3", "accumulator": "hopper"},
}


AT_NIGHT = ("e4m3", "e5m2", "e4m3-hopper")
"""The mixed tile has both formats."""


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if name in AT_NIGHT else ()) for name in CONFIGS]
)
def test_verilog_equals_golden(name, tmp_path):
    """With an exact accumulator, sparse and dense results equal the correctly rounded dot product."""
    sparse = TileConfig(rows=2, columns=2, **CONFIGS[name])
    replayers = {
        config: Replayer(config, tmp_path / config.sparsity, simulator=FOR_SMALL)
        for config in (sparse, sparse.baseline)
    }
    for record in Trace.open(example_trace()).records:
        if record.layer != "CNN.conv2":
            continue
        ((a, b),) = layer_passes(record, sparse, sample=3, seed=0)
        exact = np.stack([matmul_exact(*pair, sparse) for pair in zip(a, b, strict=True)])
        cycles = []
        for config, replayer in replayers.items():
            found, golden = replayer.run(a, b), matmul(a, b, config)
            assert not found.mismatches
            np.testing.assert_array_equal(found.c_bits, golden.c_bits)
            np.testing.assert_array_equal(found.c, golden.c)
            np.testing.assert_array_equal(found.counters["cycles"], golden.cycles)
            if sparse.accumulator == "exact":
                np.testing.assert_array_equal(found.c_bits, exact)
            cycles.append(found.counters["cycles"].sum())
        assert cycles[0] < cycles[1]
