"""Compare cycle counts with the cycle counter of the emitted Verilog."""

import numpy as np
import pytest

from tensordash import load_preset
from tensordash_sim.cycles import count
from tensordash_sim.golden.quantization import non_zeros
from tensordash_sim.trace import Trace, example_trace
from tensordash_sim.trace.layer_operands import layer_passes
from tensordash_sim.verify import Replayer

from ..verify.conftest import FOR_SMALL
from .conftest import random_config, random_mask

COUNTERS = ("cycles", "steps", "effectual")
SEED = 20261121


@pytest.mark.parametrize("preset", ["paper", pytest.param("paper-16lane", marks=pytest.mark.slow)])
def test_recorded_operands(preset, tmp_path):
    config = load_preset(preset)
    replayer = Replayer(config, tmp_path)
    for record in Trace.open(example_trace()).records:
        if record.layer != "CNN.conv2":
            continue
        ((a, b),) = layer_passes(record, config, sample=16, seed=0)
        result = replayer.run(a, b)
        found = result.counters
        counts = [count([block], config) for block in non_zeros(b, config.b_format)]
        for name in COUNTERS:
            assert found[name].tolist() == [getattr(one, name) for one in counts], (record, name)
        assert result.row_wait.tolist() == [list(one.row_wait) for one in counts]


def check_random_tile(number: int, tmp_path) -> None:
    rng = np.random.default_rng([SEED, number])
    config = random_config(rng)
    steps = int(rng.integers(1, 25))
    a, b = (
        np.stack([random_mask(rng, ports, steps, config.lanes) for _ in range(6)])
        for ports in (config.columns, config.rows)
    )
    result = Replayer(config, tmp_path, simulator=FOR_SMALL).run(a.astype(np.uint8), b.astype(np.uint8))
    counts = [count([block], config, a=[side]) for side, block in zip(a, b, strict=True)]
    for name in COUNTERS:
        expected = [getattr(one, name) for one in counts]
        assert result.counters[name].tolist() == expected, f"{name}, tile {number} of seed {SEED}: {config}"
    assert result.row_wait.tolist() == [list(one.row_wait) for one in counts]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("number", range(4))
def test_random_tiles(number, tmp_path):
    check_random_tile(number, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("number", range(4, 50))
def test_more_random_tiles(number, tmp_path):
    check_random_tile(number, tmp_path)
