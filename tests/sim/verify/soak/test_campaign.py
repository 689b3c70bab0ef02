"""Test that campaigns store results, run the remaining jobs, and report differences."""

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from tensordash_sim.verify import SimulatorError
from tensordash_sim.verify.soak import Campaign, Record, Summary, campaign
from tensordash_sim.verify.soak.coverage import universe
from tensordash_sim.verify.soak.draw import REDRAW_OFFSET, draw_job
from tensordash_storage.jobs import Runner

POSITIONS = 10_000_000
HERE = Runner(workers=1)


def record(job, failure: str | None = None) -> Record:
    return Record(
        index=job.index,
        digest=job.config.digest,
        simulator="icarus",
        failure=failure,
        positions=0 if failure else job.positions,
        steps=job.steps,
        cycles=job.steps,
        build_seconds=1.0,
        seconds=1.0,
        coverage={"event": {"frozen": 1}},
        options=[[1, 0], [2, 3]],
    )


@pytest.fixture
def ran(monkeypatch):
    """Replace jobs by stubs that end immediately, `stop` or `fail`; return the indices of jobs that ran."""

    class RanJobs(list):
        stop: int | None = None
        fail: int | None = None

    jobs = RanJobs()

    def run(job, folder: Path, *, simulator: str) -> Record:
        folder.mkdir()
        if job.index == jobs.stop:
            raise KeyboardInterrupt
        jobs.append(job.index)
        return record(job, "cycle 3: taken is 1, golden has 0" if job.index == jobs.fail else None)

    monkeypatch.setattr(campaign, "run_job", run)
    return jobs


def test_interrupted_campaign_continues(tmp_path, ran):
    first = Campaign(tmp_path, 5, POSITIONS)
    assert len(first.jobs) >= 4
    ran.stop = 2
    with pytest.raises(KeyboardInterrupt):
        first.run(HERE)
    assert ran == [0, 1]
    ran.stop = None
    (tmp_path / "job-5-2").rmdir()  # The interrupted job left this folder.
    second = Campaign(tmp_path, 5, POSITIONS)
    console = Console(file=io.StringIO())
    summary = second.run(Runner(workers=1, console=console), describe=lambda job, found: f"{job.name} {found.index}")
    assert ran == [job.index for job in second.jobs]
    first_line, *lines = console.file.getvalue().splitlines()
    total = len(second.jobs)
    assert first_line == f"2 of {total} jobs are done"
    assert lines == [f"[{index + 1}/{total}] 5:{index} {index}" for index in ran[2:]]
    assert summary.positions == sum(job.positions for job in second.jobs) >= POSITIONS
    assert {json.loads(path.read_text())["index"] for path in second.store.folder.iterdir()} == set(ran)
    assert Campaign(tmp_path, 5, POSITIONS).run(HERE).to_json() == summary.to_json()
    assert len(ran) == len(second.jobs)


def test_larger_campaign_reuses_finished_jobs(tmp_path, ran):
    Campaign(tmp_path, 5, 1).run(HERE)
    assert ran == [0]
    Campaign(tmp_path, 5, POSITIONS).run(HERE)
    assert sorted(ran) == list(range(len(ran)))


def test_other_code_or_seed_restarts_the_campaign(tmp_path, ran, monkeypatch):
    Campaign(tmp_path, 5, 1).run(HERE)
    Campaign(tmp_path, 6, 1).run(HERE)
    monkeypatch.setattr(campaign, "code_digest", lambda: "0123456789abcdef")
    Campaign(tmp_path, 5, 1).run(HERE)
    assert ran == [0, 0, 0]


def test_remaining_jobs_run_after_a_difference(tmp_path, ran):
    ran.fail = 1
    summary = Campaign(tmp_path, 5, POSITIONS).run(HERE)
    assert summary.failures == {"tensordash soak --replay 5:1 --simulator icarus": "cycle 3: taken is 1, golden has 0"}
    assert not summary.to_json()["passed"]
    assert len(ran) == len(summary.records) > 2
    assert Campaign(tmp_path, 5, POSITIONS).run(HERE).failures == summary.failures


def test_summary_lists_uncovered_points(tmp_path, ran):
    done = Campaign(tmp_path, 5, 1).run(HERE)
    assert done.options == (3, 4)
    assert done.never["option of a lane"] == ["lane 0, option 1"]
    assert "frozen" not in done.never["event"]
    everything = {group: dict.fromkeys(points, 1) for group, points in universe().items()}
    full = Record(**{**done.records[0].to_json(), "coverage": everything, "options": [[1], [2]]})
    assert Summary(seed=5, records=(full,)).never == {}


def test_tile_with_untaken_options_is_rerun(tmp_path, ran, monkeypatch):
    """The campaign reruns only this tile until each option is taken. A later run continues."""

    def run(job, folder, *, simulator):
        folder.mkdir(exist_ok=True)
        found = Record(**{**record(job).to_json(), "options": [[1, 1], [2, 3]]})
        if job.index == 1 + REDRAW_OFFSET and ran.stop:
            raise KeyboardInterrupt
        ran.append(job.index)
        if job.index % REDRAW_OFFSET == 1:  # This tile has a third lane.
            found.options.append([5, 4 * (job.index > 2 * REDRAW_OFFSET)])
        return found

    monkeypatch.setattr(campaign, "run_job", run)
    ran.stop = 1
    with pytest.raises(KeyboardInterrupt):
        Campaign(tmp_path, 5, POSITIONS).run(HERE, cover=True)
    first, ran.stop = list(ran), None
    assert Campaign(tmp_path, 5, POSITIONS).run(HERE).never["option of a lane"] == ["lane 2, option 1"]
    assert ran == first, "only if it is asked"
    summary = Campaign(tmp_path, 5, POSITIONS).run(HERE, cover=True)
    assert ran == [*first, REDRAW_OFFSET + 1, 2 * REDRAW_OFFSET + 1]
    assert "option of a lane" not in summary.never
    redrawn = draw_job(5, REDRAW_OFFSET + 1)
    assert redrawn.config == draw_job(5, 1).config
    assert redrawn.steps >= draw_job(5, 1).steps
    assert summary.to_json()["jobs"] == len(ran)


def test_reruns_for_coverage_end(tmp_path, ran):
    """The summary reports an option that no lane ever takes."""
    jobs = len(Campaign(tmp_path, 5, POSITIONS).jobs)
    assert Campaign(tmp_path, 5, POSITIONS).run(HERE, cover=True).never["option of a lane"] == ["lane 0, option 1"]
    assert len(ran) == jobs * (1 + campaign.TURNS)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_job_that_cannot_run(workers, tmp_path):
    """The job's simulator is missing."""
    broken = Campaign(tmp_path, 126, POSITIONS)
    broken.simulator = "modelsim"
    with pytest.raises(SimulatorError, match=r"^soak job 126:\d could not run: simulator must be one of auto, icarus"):
        broken.run(Runner(workers=workers))
    assert not broken.store.folder.exists()
