"""Test `tensordash trace` on scripts."""

import json
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from tensordash_sim.trace import Trace

from .called import call as call_both

SCRIPT = """
import argparse
import sys
from pathlib import Path

import torch

import helper

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--fail", type=int)
    parser.add_argument("--exit", type=int)
    options = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = helper.Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(options.steps):
        optimizer.zero_grad()
        loss = model(torch.randn(4, 2, 6, 6)).square().mean()
        loss.backward()
        if step == options.fail:
            raise ValueError("no luck")
        optimizer.step()
        print("step", step)
    with torch.no_grad():
        model(torch.randn(1, 2, 6, 6))
    torch.save(model.state_dict(), "weights.pt")
    assert Path(__file__).name == "train.py"
    if options.exit is not None:
        sys.exit(options.exit)
"""
HELPER = """
from torch import nn


class Net(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Conv2d(2, 4, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(144, 3))
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("os.fsync", lambda descriptor: None)  # It takes a tenth of a second on a busy disk.
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts/train.py").write_text(SCRIPT)
    (tmp_path / "scripts/helper.py").write_text(HELPER)
    return tmp_path


def call(arguments: str, capfd: pytest.CaptureFixture[str], status: int = 0) -> tuple[str, str]:
    before = sys.argv, sys.path[:]
    out, err = call_both(arguments, capfd, status)
    assert (sys.argv, sys.path) == before
    sys.modules.pop("helper", None)
    return out, err


def test_script_and_commands_on_its_trace(capfd: pytest.CaptureFixture[str]) -> None:
    out, _ = call("trace scripts/train.py -o run.trace", capfd)
    assert out == "step 0\nstep 1\nstep 2\nrun.trace: 3 steps, 2 layers, 15 records\n"
    trace = Trace.open("run.trace")
    assert trace.complete
    assert trace.conditions["script"] == "train.py"
    out, _ = call("simulate run.trace --json", capfd)
    operations = json.loads(out)["operations"]
    assert [(entry["layer"], entry["operation"]) for entry in operations[:5]] == [
        ("Net.0", "AxW"),
        ("Net.3", "AxW"),
        ("Net.3", "WxG"),
        ("Net.3", "AxG"),
        ("Net.0", "AxG"),
    ]


def test_recording_does_not_change_the_script(capfd: pytest.CaptureFixture[str], folder: Path) -> None:
    import torch

    subprocess.run([sys.executable, "scripts/train.py", "--steps", "5"], check=True, capture_output=True)
    expected = torch.load("weights.pt")
    Path("weights.pt").unlink()
    call("trace scripts/train.py -o run.trace --values -- --steps 5", capfd)
    found = torch.load("weights.pt")
    assert all(torch.equal(expected[key], found[key]) for key in expected)
    assert Trace.open("run.trace").conditions["arguments"] == "--steps 5"
    assert next(Trace.open("run.trace").records).values("A").shape == (4, 2, 6, 6)


def test_sampling(capfd: pytest.CaptureFixture[str]) -> None:
    out, err = call("trace scripts/train.py -o run.trace --every 2 --steps 2 --layer *.3 --json -- --steps 7", capfd)
    document = json.loads(out)
    assert document["steps"] == [0, 2]
    assert document["layers"] == ["Net.3"]
    assert document["records"] == 6
    assert "step 6" in err
    out, _ = call("trace scripts/train.py -o run.trace --overwrite --steps 1 --stop", capfd)
    assert out == "run.trace: 1 step, 2 layers, 5 records\n"
    assert Trace.open("run.trace").complete


def test_example(capfd: pytest.CaptureFixture[str]) -> None:
    example = Path(__file__).parents[2] / "examples/record_your_model.py"
    runpy.run_path(str(example), run_name="__main__")
    trace = Trace.open("run.trace")
    assert [step.index for step in trace.steps] == [0, 10, 20]
    assert {record.layer for record in trace.records} == {"0", "2", "5"}
    out, _ = call(f"trace {example} -o twice.trace --steps 1 --stop", capfd)  # The script itself records in this block.
    assert out == "twice.trace: 1 step, 3 layers, 8 records\n"


def test_script_that_fails(capfd: pytest.CaptureFixture[str]) -> None:
    out, err = call("trace scripts/train.py -o run.trace -- --fail 2", capfd, status=1)
    assert out == "step 0\nstep 1\n"
    first, *_, last = err.splitlines()
    assert first == "Traceback (most recent call last):"
    assert "runpy" not in err
    assert last == "tensordash: scripts/train.py failed: ValueError: no luck; run.trace holds 2 steps"
    assert [step.index for step in Trace.open("run.trace").steps] == [0, 1]
    _, err = call("trace scripts/train.py -o first.trace -- --fail 0", capfd, status=1)
    assert err.endswith("tensordash: scripts/train.py failed: ValueError: no luck; nothing was recorded\n")
    assert not Path("first.trace").exists()
    _, err = call("trace scripts/train.py -o exit.trace -- --exit 4", capfd, status=1)
    assert err == "tensordash: scripts/train.py ended with exit status 4; exit.trace holds 3 steps\n"
    call("trace scripts/train.py -o zero.trace -- --exit 0", capfd)
    _, err = call("trace scripts/train.py -o none.trace --layer fc*", capfd, status=1)
    assert err == (
        "tensordash: scripts/train.py has run, and layers must match one of Net.0, Net.3, not only fc*; "
        "nothing was recorded\n"
    )


FAULTS = """
import os
import resource
import signal
import sys

import torch

model = torch.nn.Linear(64, 64)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    if step == 2 and sys.argv[1] == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if step == 2 and sys.argv[1] == "full":
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))
    if step == 2 and sys.argv[1] == "interrupt":
        os.kill(os.getpid(), signal.SIGTERM)
    model(torch.randn(64, 64)).square().sum().backward()
    optimizer.step()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="signals and limits")
@pytest.mark.parametrize(
    ("fault", "status", "message"),
    [
        ("kill", -9, ""),
        (
            "full",
            2,
            r"tensordash: run\.trace: recording failed in step 2: .*File too large.*; it holds 2 complete steps\n",
        ),
        ("interrupt", 130, r"run\.trace holds 2 steps\n+tensordash: interrupted\n"),
    ],
)
def test_failed_scripts_leave_complete_steps(fault: str, status: int, message: str, folder: Path) -> None:
    (folder / "faults.py").write_text(FAULTS)
    program = [sys.executable, "-c", "from tensordash_cli.main import run; run()"]
    done = subprocess.run(
        [*program, "trace", "faults.py", "-o", "run.trace", "--values", "--", fault], capture_output=True, text=True
    )
    assert done.returncode == status, done.stderr
    assert re.fullmatch(message, done.stderr), done.stderr
    trace = Trace.open("run.trace")
    assert not trace.complete
    assert [step.index for step in trace.steps] == [0, 1]
    assert trace.check()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("trace", "SCRIPT.py"),
        ("trace scripts/train.py", "-o"),
        ("trace none.py -o run.trace", "SCRIPT must be a file, and this does not exist: none.py"),
        ("trace scripts -o run.trace", "SCRIPT must be a file: scripts"),
        ("trace scripts/train.py -o scripts", "scripts exists already"),
        ("trace scripts/train.py -o run.trace --steps 0", "--steps"),
        ("trace scripts/train.py -o run.trace --stop", "--stop needs --steps"),
    ],
)
def test_invalid_arguments(arguments: str, message: str, capfd: pytest.CaptureFixture[str]) -> None:
    out, err = call(arguments, capfd, status=2)
    assert out == ""
    assert err.count("\n") == 1
    assert message in err
    assert not Path("run.trace").exists()
