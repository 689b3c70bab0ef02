"""Test several cores on the emitted Verilog by their bench: results, shared reads, and the end of sharing."""

import numpy as np
import pytest

from tensordash.configuration.core_config import CoreConfig
from tensordash_sim.compiler.layer import OPERANDS, Layer
from tensordash_sim.verify.simulators import simulator_names

BENCH = "system"
needs_verilator = pytest.mark.skipif("verilator" not in simulator_names(), reason="Verilator is not installed")
pytestmark = needs_verilator
CONFIG = CoreConfig.from_toml("[core]\nbuffer = 8\nstream_buffer = 4\npartial_sums = 16\nregions = 2\nwindow = 8")
LAYER = Layer(samples=2, channels=8, filters=16, size=(6, 6), kernel=(3, 3), padding=1)


@pytest.mark.parametrize("operation", ["AxW", "AxG"])
def test_parts_equal_pytorch_and_share_reads(bench, operation):
    rng = np.random.default_rng(1)
    values = {
        name: np.where(rng.random(LAYER.shape(name)) < 0.5, 0, rng.standard_normal(LAYER.shape(name))).astype(
            np.float16
        )
        for name in OPERANDS[operation]
    }
    whole = bench.Workload("layer", LAYER, operation, OPERANDS[operation][0], values)
    parts = [bench.part(whole, core, 2) for core in range(2)]
    (shared,) = values.keys() - {bench.divided(whole, 2)}
    apart, together = (bench.run_parts(CONFIG, parts, shared, shares=way, quick=True) for way in (False, True))
    beats = -(-values[shared].size * 2 // 16)
    assert apart["beats"] - together["beats"] >= beats
