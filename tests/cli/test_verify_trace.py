"""Test that `tensordash verify --trace` runs a recorded layer on the emitted Verilog."""

import json
from pathlib import Path

import numpy as np
import pytest

from tensordash_sim.lowering import MatrixProduct
from tensordash_sim.trace import Trace, TraceWriter

from .called import FAST_SIMULATOR, run_command


@pytest.fixture
def trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    layer = MatrixProduct(batch=1, samples=9, in_features=30, out_features=5)
    rng = np.random.default_rng(0)
    a, w = (rng.normal(size=layer.shapes[name]) * (rng.random(layer.shapes[name]) < 0.4) for name in "AW")
    with TraceWriter(tmp_path / "run.trace", values=True) as writer, writer.step(0) as step:
        step.record("fc", "AxW", layer, {"A": a, "W": w})
        step.record("fc", "WxG", layer, {"W": w != 0, "G": rng.random(layer.shapes["G"]) < 0.5})
    monkeypatch.chdir(tmp_path)
    return "run.trace"


def call(arguments: str, capfd: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    return run_command(f"verify {arguments}", capfd)


@pytest.mark.parametrize(
    ("arguments", "passes", "values"),
    [("--op AxW", 6, True), ("--op WxG --set tile.sparsity=both --sample 3", 3, False)],
)
def test_a_layer(arguments, passes, values, trace, capfd):
    tile = f"--set tile.rows=3 --set tile.initial=true --simulator {FAST_SIMULATOR}"
    status, out, _ = call(f"--trace {trace} --layer fc {arguments} {tile} --json", capfd)
    document = json.loads(out)
    assert status == 0
    assert document["equal_to_golden"]
    assert (document["passes"], document["values"]) == (passes, values)
    assert document["cycles"] < document["steps"]


def test_scale_is_printed(trace, capfd):
    """For 8-bit formats, the output has the factor of values before rounding."""
    tile = f"--set tile.rows=1 --set tile.columns=1 --set tile.format=int8 --simulator {FAST_SIMULATOR} --sample 1"
    status, out, _ = call(f"--trace {trace} --layer fc --op AxW {tile} --json", capfd)
    document = json.loads(out)
    assert status == 0
    record = next(iter(Trace.open(trace).records))
    for name, scale in document["scales"].items():
        largest = np.abs(record.values(name)).max()
        assert largest * scale <= 127 < 2 * largest * scale
    status, out, _ = call(f"--trace {trace} --layer fc --op AxW {tile}", capfd)
    sides = document["sides"]
    assert f"{sides['row']} on the row side, {sides['column']} on the column side" in out
    for name, scale in document["scales"].items():
        assert f"{name} scaled by 2^{int(np.log2(scale))} and rounded to int8" in out
    _, out, _ = call(f"--trace {trace} --layer fc --op AxW {tile.replace('int8', 'fp16')}", capfd)
    assert "rounded to fp16" in out
    assert "scaled" not in out
