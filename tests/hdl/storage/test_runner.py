"""Test jobs: each runs once, interrupted runs continue, and exceptions are reported."""

import io
import json
import math
import os
import signal
import sys
import threading
import time
from dataclasses import dataclass

import pytest
from rich.console import Console

from tensordash_cli.main import run
from tensordash_storage import jobs as jobs_module
from tensordash_storage.jobs import AnswerStore, Job, JobError, Runner

ONE_PROCESS = Runner(workers=1)
JOBS = [Job(str(n), math.factorial, (n,), size=n) for n in (3, 4, 5)]
EXPECTED = {"3": 6, "4": 24, "5": 120}
WHERE = pytest.mark.parametrize("runner", [ONE_PROCESS, Runner(workers=2)], ids=["one process", "two processes"])


@pytest.fixture
def ran(monkeypatch):
    """Return the list of keys of the jobs that this process runs."""
    numbers = []
    monkeypatch.setattr(
        jobs_module, "_answer", lambda n, job: numbers.append(job.key) or (n, job.function(*job.arguments))
    )
    return numbers


@WHERE
def test_every_answer_is_returned_and_stored(runner, tmp_path):
    store = AnswerStore(tmp_path / "made")
    assert dict(runner.run([*JOBS, JOBS[0]], store)) == EXPECTED
    assert {path.stem: json.loads(path.read_text()) for path in store.folder.iterdir()} == EXPECTED


def test_stored_answers_are_not_recomputed(ran, tmp_path):
    store = AnswerStore(tmp_path)
    assert dict(ONE_PROCESS.run(JOBS[:2], store)) == {"3": 6, "4": 24}
    assert list(ONE_PROCESS.run(reversed(JOBS), store)) == [("4", 24), ("3", 6), ("5", 120)]
    assert ran == ["3", "4", "5"]
    assert dict(ONE_PROCESS.run(JOBS)) == EXPECTED, "without a store all run"
    assert len(ran) == 6


@pytest.mark.parametrize("damage", ["", "{", "null", "[]", '"six"'])
def test_damaged_answer_is_recomputed(damage, ran, tmp_path):
    store = AnswerStore(tmp_path, read=lambda document: document + 0)
    dict(ONE_PROCESS.run(JOBS, store))
    (tmp_path / "4.json").write_text(damage)
    assert dict(ONE_PROCESS.run(JOBS, store)) == EXPECTED
    assert ran == ["3", "4", "5", "4"]
    assert json.loads((tmp_path / "4.json").read_text()) == 24


def test_an_answer_that_is_not_final_is_not_stored(ran, tmp_path):
    store = AnswerStore(tmp_path, is_final=lambda answer: answer != 24)
    for _ in range(2):
        assert dict(ONE_PROCESS.run(JOBS, store)) == EXPECTED
    assert ran == ["3", "4", "5", "4"]


@dataclass(frozen=True)
class Point:
    x: int
    y: int


def test_dataclasses_are_stored(tmp_path):
    store = AnswerStore(tmp_path, read=lambda document: Point(**document))
    for _ in range(2):
        assert dict(ONE_PROCESS.run([Job("a", Point, (1, 2))], store)) == {"a": Point(1, 2)}


@WHERE
def test_closed_run_continues(runner, ran, tmp_path):
    store = AnswerStore(tmp_path)
    answers = runner.run(JOBS, store)
    next(answers)
    next(answers)
    answers.close()
    stored = {path.stem for path in tmp_path.iterdir()}
    assert len(stored) == 2
    ran.clear()
    assert dict(ONE_PROCESS.run(JOBS, store)) == EXPECTED
    assert ran == [key for key in EXPECTED if key not in stored]


def test_interrupt_ends_processes_and_keeps_answers(tmp_path):
    """The interrupt comes as from Ctrl-C, while two processes wait."""
    store = AnswerStore(tmp_path)
    waiting = [Job(f"wait {n}", time.sleep, (600,)) for n in range(2)]
    begin = time.monotonic()
    answers = Runner(workers=2).run([*JOBS, *waiting], store)
    for _ in JOBS:
        next(answers)
    threading.Timer(1, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        next(answers)
    assert time.monotonic() - begin < 300
    assert {path.stem for path in tmp_path.iterdir()} == set(EXPECTED)


@WHERE
def test_an_exception_is_raised_and_earlier_answers_are_stored(runner, tmp_path):
    store = AnswerStore(tmp_path)
    with pytest.raises(ValueError, match="factorial"):
        dict(runner.run([*JOBS, Job("wrong", math.factorial, (-1,))], store))
    assert "wrong" not in {path.stem for path in tmp_path.iterdir()}
    if runner is ONE_PROCESS:
        assert len(list(tmp_path.iterdir())) == len(JOBS)


@pytest.mark.filterwarnings("default")  # The broken pool warns.
def test_a_process_that_ends_is_reported():
    with pytest.raises(JobError, match="a process ended while it ran a job"):
        dict(Runner(workers=2).run([*JOBS, Job("killed", os._exit, (3,))]))


def test_progress_counts_stored_answers(tmp_path):
    store, text = AnswerStore(tmp_path), io.StringIO()
    dict(ONE_PROCESS.run(JOBS[:1], store))
    shown = Runner(workers=1, console=Console(file=text))
    dict(shown.run(JOBS, store, describe=lambda job, answer: f"{job.key}! is [{answer}]"))
    assert text.getvalue().splitlines() == ["1 of 3 jobs are done", "[2/3] 4! is [24]", "[3/3] 5! is [120]"]
    terminal = Console(file=io.StringIO(), force_terminal=True)
    bars = Runner(workers=1, console=terminal).run(JOBS, store, title="numbers")
    next(bars)
    list(bars)
    assert "12/12" in terminal.file.getvalue()


def test_a_cluster_that_does_not_answer(tmp_path, monkeypatch):
    monkeypatch.setattr(jobs_module, "CONNECT_SECONDS", 1)
    for address in ("nonsense://nowhere", "tcp://127.0.0.1:9", "word"):
        with pytest.raises(JobError, match=f"--cluster must be the address of a Dask scheduler, not {address}: "):
            dict(Runner(cluster=address).run(JOBS))
    assert dict(Runner(cluster="word").run([])) == {}, "no job, no cluster"


def test_missing_dask(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ModuleNotFoundError, match="distributed"):  # the command line names the extra
        dict(Runner(cluster="tcp://127.0.0.1:9").run(JOBS))


COMMANDS = (
    "soak --positions 1",
    "soak --cores 1",
    "mutate --count 1 --component scheduler",
    "mutate --by-hand --name macro-memories-less-other-logic",
    "prove --preset dense",
    "explore --depth 2 --sources 3 --no-area",
    "evaluate fig15 --scale tiny --no-synth",
)


@pytest.mark.parametrize("command", COMMANDS)
def test_command_with_an_unreachable_cluster(command, tmp_path, capsys):
    """The command prints one line and exits with status 2."""
    with pytest.raises(SystemExit) as stop:
        run([*command.split(), "-o", str(tmp_path / "out"), "--cluster", "nonsense://nowhere"])
    error = capsys.readouterr().err
    assert stop.value.code == 2, error
    assert error.startswith("tensordash: --cluster must be the address of a Dask scheduler, not nonsense://nowhere: ")
    assert error.count("\n") == 1
