"""Test `tensordash inspect`."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tensordash_sim.lowering import MatrixProduct
from tensordash_sim.trace import Trace, TraceWriter

from ..sim.lowering.geometries import convolution
from .called import call_text as call

CONVOLUTION = convolution(batch=2, channels=(4, 6), size=(5, 5), kernel=(3, 3), stride=(2, 2), padding=(1, 0), groups=2)
LINEAR = MatrixProduct(batch=1, samples=2, in_features=4, out_features=3)


@pytest.fixture
def trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    with TraceWriter("run.trace", conditions={"model": "small [cnn]", "seed": "1"}) as writer:
        with writer.step(5, epoch=2) as step:
            shapes = CONVOLUTION.shapes
            a, g = np.ones(shapes["A"], np.float16), np.ones(shapes["G"], np.float16)
            a[0] = -0.0
            g[:, :3] = 0
            step.record("conv1", "AxW", CONVOLUTION, {"A": a, "W": np.ones(shapes["W"])})
            step.record("conv1", "AxG", CONVOLUTION, {"A": a, "G": g})
            step.add_uncaptured("aten::_fused_rnn of layer gru")
        with writer.step(6) as step:
            step.record("fc", "WxG", LINEAR, {"W": np.eye(3, 4)[np.newaxis], "G": np.ones((1, 2, 3), bool)})
    return Path("run.trace")


def test_calls_of_a_layer_share_a_line(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "run.trace"
    with TraceWriter(path) as writer, writer.step(0) as step:
        for a in (np.zeros((1, 2, 4), bool), np.ones((1, 2, 4), bool)):
            step.record("cell", "AxW", LINEAR, {"A": a, "W": np.ones((1, 3, 4), bool)})
    out = call(f"inspect {path}", capfd)
    (line,) = (line.split() for line in out.splitlines() if line.startswith("cell"))
    assert line == ["cell", "AxW", "x2", "matrix", "product", "A", "1x2x4", "50.0%", "W", "1x3x4", "0.0%"]
    assert len(json.loads(call(f"inspect {path} --json", capfd))["steps"][0]["records"]) == 2


def test_table(trace: Path, capfd: pytest.CaptureFixture[str]) -> None:
    lines = call("inspect run.trace", capfd).splitlines()
    assert lines[0].startswith("run.trace: 2 steps, 3 records, masks, 0.0 MB on disk")
    assert lines[1:3] == ["model     small [cnn]", "seed      1"]
    assert lines[4] == f"digest    {Trace.open(trace).digest}"
    assert lines[5:] == [
        "",
        "step 5 (epoch 2)",
        "layer  operation  geometry                                          left       zeros  right      zeros",
        "conv1  AxW        convolution 3x3, stride 2, padding 1x0, groups 2  A 2x4x5x5  50.0%  W 6x2x3x3   0.0%",
        "conv1  AxG        convolution 3x3, stride 2, padding 1x0, groups 2  A 2x4x5x5  50.0%  G 2x6x3x2  50.0%",
        "not captured: aten::_fused_rnn of layer gru",
        "",
        "step 6",
        "layer  operation  geometry        left     zeros  right    zeros",
        "fc     WxG        matrix product  W 1x3x4  75.0%  G 1x2x3   0.0%",
        "",
        "zeros over all records: A 50.0%, G 46.2%, W 7.5%",
    ]


def test_json(trace: Path, capfd: pytest.CaptureFixture[str]) -> None:
    document = json.loads(call("inspect run.trace --check --json", capfd))
    assert document["checked_arrays"] == 5
    assert document["complete"]
    assert document["conditions"] == {"model": "small [cnn]", "seed": "1"}
    assert document["bytes"] == sum(file.stat().st_size for file in trace.rglob("*") if file.is_file())
    assert [step["index"] for step in document["steps"]] == [5, 6]
    record = document["steps"][1]["records"][0]
    assert record["geometry"] == LINEAR.to_json()
    assert record["operands"]["W"] == {
        "shape": [1, 3, 4],
        "dtype": "float64",
        "nonzeros": 3,
        "zeros": 0.75,
        "values": False,
    }


def test_nothing_recorded(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with TraceWriter(tmp_path / "run.trace") as writer:
        assert "The recording was interrupted, or still runs" in call(f"inspect {tmp_path}/run.trace", capfd)
        with writer.step(0):
            pass
    assert "no records" in call(f"inspect {tmp_path}/run.trace --check", capfd)
    assert json.loads(call(f"inspect {tmp_path}/run.trace --json", capfd))["zeros"] == {}


def test_damage(trace: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert "All 5 arrays are sound." in call("inspect run.trace --check", capfd)
    record = list(Trace.open(trace).records)[1]
    (record.arrays / f"mask-{record.operands['G'].mask}" / "c" / "0").unlink()
    call("inspect run.trace", capfd)
    for option in ("", " --json"):
        complaint = call(f"inspect run.trace --check{option}", capfd, status=2)
        assert complaint.startswith("tensordash: run.trace: step 5, layer conv1, AxG, operand G: mask: ")
    (trace / "index.json").write_text("{")
    assert "index.json is not valid JSON" in call("inspect run.trace", capfd, status=2)


def test_help_does_not_import_zarr() -> None:
    code = """
import sys
from tensordash_cli.main import run
for arguments in (["--help"], ["inspect", "--help"]):
    try:
        run(arguments)
    except SystemExit as stop:
        assert not stop.code
sys.exit("zarr" in sys.modules)
"""
    assert subprocess.run([sys.executable, "-c", code], stdout=subprocess.DEVNULL).returncode == 0
