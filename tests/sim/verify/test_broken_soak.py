"""Test that a soak finds a fault, and that its printed command reproduces the fault."""

import json
import shlex

import pytest

from tensordash.schedule.step_select import StepSelect
from tensordash.tile.counters import Counters
from tensordash_cli.main import run
from tensordash_sim.verify.soak import run_job
from tensordash_sim.verify.soak.draw import draw_job

from .conftest import FOR_SMALL

SEED = 2532  # The first job is small: one PE and 4278 positions.


def call(arguments: str, capfd) -> tuple[int, str, str]:
    """Return the exit status, standard output and standard error of a command."""
    with pytest.raises(SystemExit) as stop:
        run(shlex.split(arguments))
    return int(stop.value.code or 0), *capfd.readouterr()


def test_a_campaign_of_sound_verilog(tmp_path, capfd):
    """Run a campaign by command line."""
    command = f"soak --seed {SEED} --positions 3000 -j 1 -o {tmp_path} --simulator {FOR_SMALL}"
    status, out, err = call(f"{command} --json", capfd)
    document = json.loads(out)
    assert (status, document["passed"], document["jobs"], document["failures"]) == (0, True, 1, {})
    assert document["positions"] == document["steps"] * 3 >= 3000
    assert document["coverage"]["tile"]["format of each side"] == 1
    assert document["lane_options"]["met"] > 12
    assert "[1/1] job 2532:0, 1x1 PEs of 3 lanes" in err
    assert json.loads((tmp_path / f"soak-{SEED}.json").read_text()) == document
    assert not list(tmp_path.glob("job-*"))
    # On the second run no job remains. Few positions do not cover everything.
    status, out, err = call(f"{command} --cover", capfd)
    assert status == 1
    assert "1 of 1 jobs are done" in err
    assert "points that can be reached were never met: tile: sparsity none" in err
    assert "never met, tile: sparsity none; sparsity both; " in out
    assert "0 jobs differ from golden" in out


def test_fault_is_found_and_replayed(tmp_path, capfd, sabotage):
    """The command that a campaign prints reports the same fault in the same cycle."""
    sabotage(
        Counters, lambda self: self.counts.input_limited.eq(self.counts.input_limited + self.starved), domain="sync"
    )
    status, out, err = call(f"soak --seed {SEED} --positions 1 -j 1 -o {tmp_path} --simulator {FOR_SMALL}", capfd)
    assert status == 1
    report = json.loads((tmp_path / f"soak-{SEED}.json").read_text())
    ((redrawn, failure),) = report["failures"].items()
    assert "golden has" in failure
    assert report["positions"] == 0
    assert err.strip().endswith(redrawn)
    assert f"FAILED: {failure}" in out
    assert (tmp_path / f"job-{SEED}-0" / "verilog" / "tensordash.v").exists()
    program, *arguments = shlex.split(redrawn)
    assert program == "tensordash"
    status, _, err = call(shlex.join(arguments), capfd)
    assert status == 1
    assert f"differ in job {SEED}:0: {failure}" in err


@pytest.mark.slow
def test_a_fault_of_scales_is_found(tmp_path, sabotage):
    """The fault gives promoted values the scale of the first step."""
    job = draw_job(11, 8)
    assert (job.config.scale, job.config.sparsity) == ("e4m3", "rows")
    assert run_job(job, tmp_path / "sound", simulator=FOR_SMALL).failure is None
    sabotage(StepSelect, lambda self: [self.steps[0].eq(self.select[0].any())])
    failure = run_job(job, tmp_path / "broken", simulator=FOR_SMALL).failure
    assert failure is not None
    assert "out_payload is" in failure
