"""Test that a job's key covers everything that the answer depends on."""

from pathlib import Path
from typing import Any

import pytest

from tensordash import load_preset
from tensordash_sim.evaluation import Settings, evaluate
from tensordash_sim.evaluation import job as job_module
from tensordash_sim.evaluation.job import SimulationJob
from tensordash_sim.evaluation.measure import random_streams
from tensordash_storage.jobs import Runner

SETTINGS = Settings(scale="tiny")


def test_key_depends_on_parameters_trace_and_code(monkeypatch: pytest.MonkeyPatch) -> None:
    network = next(iter(SETTINGS.networks))
    job = SETTINGS.network_job(network, load_preset("paper"))
    moved = SimulationJob(job.kind, job.parameters, {"path": "elsewhere"})
    assert moved.key == job.key
    changes: list[dict[str, Any]] = [{"digest": "of another trace"}, {"step": -1}, {"row_order": "density"}]
    others = [SimulationJob(job.kind, {**job.parameters, **change}, job.places).key for change in changes]
    others.append(SETTINGS.network_job(network, load_preset("paper-depth2")).key)
    assert len({job.key, *others}) == 5
    monkeypatch.setattr(job_module, "_code", lambda: "other code")
    assert SimulationJob(job.kind, job.parameters).key != job.key


def test_a_trace_that_changed_is_refused() -> None:
    job = SETTINGS.network_job("digits", load_preset("paper"))
    with pytest.raises(ValueError, match=r"must be the trace [0-9a-f]+ ?.*, not "):
        SimulationJob(job.kind, {**job.parameters, "digest": "0"}, job.places).run()


def test_samples_differ_by_seed() -> None:
    answer = random_streams(**SETTINGS.random_job(load_preset("paper"), 0.5).parameters)
    assert len(set(answer["cycles"])) == len(answer["cycles"]) == 2


@pytest.mark.slow
def test_answers_are_independent_of_the_number_of_processes(tmp_path: Path) -> None:
    one, two = (list(evaluate(["fig15"], SETTINGS, tmp_path / str(n), Runner(n))) for n in (1, 2))
    assert one == two
