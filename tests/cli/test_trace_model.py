"""Test `tensordash trace --model`, and commands that read its trace."""

import json
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tensordash_sim.networks import NAMES
from tensordash_sim.networks.zeros import CLAIMS
from tensordash_sim.trace import Trace

from .called import call


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("os.fsync", lambda descriptor: None)  # It takes a tenth of a second on a busy disk.
    return tmp_path


def cells(table: str) -> list[list[str]]:
    lines = table.splitlines()
    return [[cell.strip() for cell in line.split("  ") if cell.strip()] for line in lines]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", NAMES)
def test_zeros_and_cycles_of_every_network(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    document = json.loads(call(f"trace --model {name} --scale tiny -o run.trace --json", capfd)[0])
    assert document["steps"] == [0]
    assert document["uncaptured"] == {}
    assert document["conditions"]["model"] == name
    shares = {(row["tensor"], row["layers"]): row["zeros"] for row in document["zeros"]}
    assert len(shares) == len(CLAIMS[name])
    assert None not in shares.values(), "a claim names layers that the network lacks"
    totals = json.loads(call("simulate run.trace --json", capfd)[0])["totals"]
    assert set(totals) == {"AxW", "WxG", "AxG", "all"}
    assert 1 <= totals["all"]["compute_speedup"] <= totals["all"]["ideal_speedup"]
    if name in ("resnet50-sparse", "gpt"):
        (pruned,) = (share for (tensor, _), share in shares.items() if tensor == "W")
        assert pruned == pytest.approx({"gpt": 0.875, "resnet50-sparse": 0.9}[name], abs=0.01)
    shutil.rmtree("run.trace")


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_small_scale_is_for_small_machines(name: str, folder: Path) -> None:
    """A step is trained and recorded within three minutes, and its trace can be simulated."""
    began = time.monotonic()
    command = [sys.executable, "-c", "from tensordash_cli.main import run; run()"]
    traced = [*command, "trace", "--model", name, "--scale", "small", "-o", "run.trace"]
    output = subprocess.run(traced, check=True, capture_output=True, text=True, timeout=180).stdout
    assert "zeros  in" in output
    assert time.monotonic() - began < 180
    output = subprocess.run([*command, "simulate", "run.trace"], check=True, capture_output=True, text=True).stdout
    assert "total" in output


def test_printed_zeros_match_the_operands(capfd: pytest.CaptureFixture[str]) -> None:
    out, _ = call("trace --model ncf --scale tiny -o run.trace", capfd)
    table = {tuple(row[:2]): row[2] for row in cells(out) if row and row[0] in "AWG"}
    gradients = [record.operands["G"] for record in Trace.open("run.trace").records if record.operation == "AxG"]
    zeros = 1 - sum(each.nonzeros for each in gradients) / sum(each.size for each in gradients)
    assert table["G", "all layers"] == f"{zeros:.1%}"
    assert table["A", "first layer"] == "0.0%"


def test_selected_steps(capfd: pytest.CaptureFixture[str]) -> None:
    """The command records steps 3 and 5 of the network's training."""
    out, _ = call("trace --model gpt --scale tiny --after 3 --steps 2 --every 2 --seed 5 -o a.trace --json", capfd)
    document = json.loads(out)
    assert document["steps"] == [3, 5]
    assert document["conditions"]["seed"] == "5"
    call("trace --model gpt --scale tiny --steps 6 --seed 5 -o b.trace", capfd)
    sampled, complete = Trace.open("a.trace"), Trace.open("b.trace")
    assert [[record.operands for record in step.records] for step in sampled.steps] == [
        [record.operands for record in complete.steps[index].records] for index in (3, 5)
    ]


def test_settings_and_layers(capfd: pytest.CaptureFixture[str]) -> None:
    call("trace --model gpt --scale tiny --set sparsity=0.5 --layer *.up --values -o run.trace", capfd)
    trace = Trace.open("run.trace")
    assert {record.layer for record in trace.records} == {"blocks.0.up", "blocks.1.up"}
    weights = next(trace.records).values("W")
    assert (weights == 0).mean() == pytest.approx(0.5, abs=0.01)


def test_list(capfd: pytest.CaptureFixture[str]) -> None:
    out, _ = call("trace --list", capfd)
    assert [line.split()[0] for line in out.splitlines()[::2]] == list(NAMES)
    assert set(json.loads(call("trace --list --json", capfd)[0])) == set(NAMES)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("", "give one of SCRIPT.py, --model and --list, not none"),
        ("--model gpt", "-o RUN.trace is missing"),
        ("--model gpx -o run.trace", "model must be one of bert, .*, not 'gpx'"),
        ("--model gpt --scale big -o run.trace", "scale must be one of full, small, tiny, not 'big'"),
        ("--model gpt --scale full -o run.trace", "scale of gpt must be small or tiny, not full"),
        ("--model gpt --set sparsity=2 -o run.trace", "sparsity must be a number from 0 to below 1, not 2"),
        ("--model gpt --set sparsity -o run.trace", "--set must be KEY=VALUE, not 'sparsity'"),
        (
            "--model gpt --set depth=2 -o run.trace",
            "an option of gpt must be one of sparsity, activation, activation_penalty, not depth",
        ),
        ("--model ncf --set depth=2 -o run.trace", "an option of ncf must be absent, not depth"),
        ("--model ncf --stop -o run.trace", "--stop does not go with --model"),
        ("train.py --after 2 -o run.trace", "--after does not go with SCRIPT.py"),
        ("train.py --model ncf -o run.trace", "give one of .* not SCRIPT.py and --model"),
        ("--list -o run.trace", "--output does not go with --list"),
        ("--model ncf --steps 0 -o run.trace", "--steps.*must be an integer of at least 1, not .0."),
        ("--model ncf --scale tiny --layer conv* -o run.trace", "layers must match one of layers.0, .*, not only conv"),
    ],
)
def test_invalid_arguments(arguments: str, message: str, capfd: pytest.CaptureFixture[str], folder: Path) -> None:
    status = 1 if "--layer" in arguments else 2
    out, err = call(f"trace {arguments}", capfd, status)
    assert out == ""
    (line,) = err.splitlines()[-1:]
    assert re.search(message, line), line
    assert "Traceback" not in err
    assert not list(folder.iterdir())


def test_existing_trace_is_not_overwritten(capfd: pytest.CaptureFixture[str]) -> None:
    call("trace --model ncf --scale tiny -o run.trace", capfd)
    before = Trace.open("run.trace").digest
    _, err = call("trace --model ncf --scale tiny --seed 1 -o run.trace", capfd, 2)
    assert "run.trace" in err
    assert Trace.open("run.trace").digest == before
    call("trace --model ncf --scale tiny --layer conv* -o run.trace --overwrite", capfd, 1)  # records nothing
    assert Trace.open("run.trace").digest == before
    call("trace --model ncf --scale tiny --seed 1 -o run.trace --overwrite", capfd)
    assert Trace.open("run.trace").digest != before


def test_interrupted(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    from tensordash_sim.networks.training import Training

    step = Training.step

    def interrupted(training: Training) -> float:
        if training.steps == 2:
            raise KeyboardInterrupt
        return step(training)

    monkeypatch.setattr(Training, "step", interrupted)
    _, err = call("trace --model ncf --scale tiny --steps 4 -o run.trace", capfd, 130)
    assert "run.trace holds 2 of 4 steps" in err
    trace = Trace.open("run.trace")
    assert len(trace.steps) == 2
    assert not trace.complete
