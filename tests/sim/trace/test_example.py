"""Test that the trace in the package is valid, small, and equal to its script's recording."""

from pathlib import Path

import numpy as np
import pytest

from tensordash_cli.main import run
from tensordash_sim.trace import Trace, example_trace

SCRIPT = Path(__file__).parents[3] / "examples" / "digits_cnn.py"


def test_trace_is_valid_and_small():
    trace = Trace.open(example_trace())
    assert trace.complete
    assert trace.check() == 23
    assert sum(file.stat().st_size for file in trace.path.rglob("*") if file.is_file()) < 300_000
    for record in trace.records:
        for name in record.operands:
            assert np.isfinite(record.values(name)).all()
            np.testing.assert_array_equal(record.values(name) != 0, record.mask(name))
            if name == "G":  # G is scaled into fp16's range.
                assert 0.1 < np.abs(record.values(name)).max() < 1e4


def test_script_records_the_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Layers, shapes and types of the first step are equal. Values depend on the processor."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        run(["trace", str(SCRIPT), "-o", "run.trace", "--values", "--steps", "1", "--stop"])
    assert not ended.value.code
    found, shipped = Trace.open("run.trace"), Trace.open(example_trace())
    assert found.conditions["script"] == shipped.conditions["script"]
    for new, old in zip(found.records, shipped.records, strict=True):
        assert (new.layer, new.operation, new.geometry) == (old.layer, old.operation, old.geometry)
        assert {name: one.dtype for name, one in new.operands.items()} == dict.fromkeys(old.operands, "float16")
    assert found.steps[0].uncaptured == shipped.steps[0].uncaptured == ()
