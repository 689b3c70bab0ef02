"""Compare the emitted Verilog's speedups on random zeros with the paper's (Fig. 15, four rows)."""

from pathlib import Path

import numpy as np
import pytest

from tensordash import load_preset
from tensordash_sim.verify import Replayer

STEPS = 10_000


@pytest.fixture(scope="module")
def replayer(tmp_path_factory: pytest.TempPathFactory) -> Replayer:
    folder: Path = tmp_path_factory.mktemp("replay")
    return Replayer(load_preset("paper"), folder)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("zeros", "speedup"), [(0.2, 1.20), (0.5, 1.72), (0.8, 2.93), (0.9, 3.70)])
def test_speedup(zeros: float, speedup: float, replayer: Replayer) -> None:
    random = np.random.default_rng(0)
    b = np.where(random.random((4, STEPS, 4)) < zeros, 0, random.integers(1, 8, (4, STEPS, 4))).astype(np.float16)
    a = random.integers(-8, 9, (4, STEPS, 4)).astype(np.float16)
    result = replayer.run(a, b)
    assert not result.mismatches
    np.testing.assert_array_equal(result.c, np.einsum("ctl,rtl->rc", a.astype(float), b.astype(float)))
    assert STEPS / int(result.counters["cycles"]) == pytest.approx(speedup, rel=0.02)
