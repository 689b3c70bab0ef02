"""Jobs: kept once done, an interrupted run goes on, the same answers wherever they are worked out."""

import json
from pathlib import Path
from typing import Any

import pytest

from tensordash import TensorDashError, load_preset
from tensordash_sim.evaluation import Settings
from tensordash_sim.evaluation import job as job_module
from tensordash_sim.evaluation.job import Job, Store
from tensordash_sim.evaluation.measure import random_streams
from tensordash_sim.evaluation.run import run_jobs

SETTINGS = Settings(scale="tiny")
JOBS = [SETTINGS.random_job(load_preset("paper"), zeros) for zeros in (0.2, 0.5, 0.9)]


def test_answers_are_kept(tmp_path: Path) -> None:
    store, seen = Store(tmp_path), []
    first = run_jobs([*JOBS, JOBS[0]], store, progress=lambda *done: seen.append(done))
    assert seen == [(0, 3), (1, 3), (2, 3), (3, 3)], "equal jobs are one"
    seen.clear()
    assert run_jobs(JOBS, store, progress=lambda *done: seen.append(done)) == first
    assert seen == [(3, 3)]


def test_an_interrupted_run_goes_on(tmp_path: Path) -> None:
    store, seen = Store(tmp_path), []

    def interrupt(done: int, total: int) -> None:
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_jobs(JOBS, store, progress=interrupt)
    assert len(run_jobs(JOBS, store, progress=lambda *done: seen.append(done))) == 3
    assert seen == [(2, 3), (3, 3)]


def test_a_damaged_answer_is_worked_out_again(tmp_path: Path) -> None:
    store = Store(tmp_path)
    answers = run_jobs(JOBS[:1], store)
    (path,) = tmp_path.iterdir()
    path.write_text(path.read_text()[:20])
    assert run_jobs(JOBS[:1], store) == answers
    assert json.loads(path.read_text()) == answers[JOBS[0].key]


def test_a_key_is_of_parameters_trace_and_code(monkeypatch: pytest.MonkeyPatch) -> None:
    network = next(iter(SETTINGS.networks))
    job = SETTINGS.network_job(network, load_preset("paper"))
    moved = Job(job.kind, job.parameters, {"path": "elsewhere"})
    assert moved.key == job.key
    changes: list[dict[str, Any]] = [{"digest": "of another trace"}, {"step": -1}, {"row_order": "density"}]
    others = [Job(job.kind, {**job.parameters, **change}, job.places).key for change in changes]
    others.append(SETTINGS.network_job(network, load_preset("paper-depth2")).key)
    assert len({job.key, *others}) == 5
    monkeypatch.setattr(job_module, "_code", lambda: "other code")
    assert Job(job.kind, job.parameters).key != job.key


def test_a_trace_that_changed_is_refused() -> None:
    job = SETTINGS.network_job("digits", load_preset("paper"))
    with pytest.raises(ValueError, match=r"must be the trace [0-9a-f]+ ?.*, not "):
        Job(job.kind, {**job.parameters, "digest": "0"}, job.places).run()


def test_samples_differ_by_seed() -> None:
    answer = random_streams(**JOBS[1].parameters)
    assert len(set(answer["cycles"])) == len(answer["cycles"]) == 2


@pytest.mark.slow
def test_processes_give_the_same(tmp_path: Path) -> None:
    assert run_jobs(JOBS, Store(tmp_path / "a"), workers=2) == run_jobs(JOBS, Store(tmp_path / "b"))


@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # of Dask's own sockets and loops
def test_a_cluster_gives_the_same(tmp_path: Path) -> None:
    from distributed import LocalCluster

    jobs = [*JOBS, SETTINGS.network_job("digits", load_preset("paper"))]
    with LocalCluster(n_workers=2, threads_per_worker=2, processes=True, dashboard_address=None) as cluster:
        there = run_jobs(jobs, Store(tmp_path / "a"), cluster=cluster.scheduler_address)
    assert there == run_jobs(jobs, Store(tmp_path / "b"))


def test_no_cluster_there(tmp_path: Path) -> None:
    with pytest.raises(TensorDashError, match="--cluster must be the address of a Dask scheduler, not nonsense://"):
        run_jobs(JOBS, Store(tmp_path), cluster="nonsense://nowhere")
