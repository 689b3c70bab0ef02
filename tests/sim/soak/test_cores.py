"""Soak of cores: jobs that are drawn, run, kept, and found to differ where a core is broken."""

import json
from dataclasses import replace

import pytest

from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.preset import load_any_preset
from tensordash.emission.core_files import core_verilog
from tensordash_sim.soak import cores
from tensordash_sim.soak.cores import CoreCampaign, draw_core_job, run_core_job


def job(programs: int):
    """A job on the preset, which other tests have built."""
    config = load_any_preset("core")
    assert isinstance(config, CoreConfig)
    return replace(draw_core_job(1, 0, programs), config=config)


def test_jobs_are_of_all_kinds():
    drawn = [draw_core_job(7, index, 1).config for index in range(200)]
    for name in ("lanes", "rows", "columns", "sparsity", "window_depth", "pipeline"):
        assert len({getattr(each.tile, name) for each in drawn}) > 1, name
    for name in set(CoreConfig.__dataclass_fields__) - {"tile"}:
        assert len({getattr(each, name) for each in drawn}) > 1, name
    assert draw_core_job(7, 3, 1) == draw_core_job(7, 3, 1)


def test_a_core_does_what_golden_does():
    record = run_core_job(job(20))
    assert record.failure == ""
    assert record.programs == 20
    assert record.faults > 5
    assert record.positions > 100_000
    assert len(record.outcomes) > 2, "errors of several kinds"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "right", "wrong"),
    [
        ("an error's index", ".error_index(sequencer__done)", ".error_index(command_queue__head)"),
        ("strobes", "axi_wstrb = beats_payload[143:128] & {16{passes}}", "axi_wstrb = 16'hffff"),
        ("data of the other ID", "first_rvalid = _04_ & second_rready", "first_rvalid = axi_rvalid & second_rready"),
        ("what hangs", "assign registers__idle = ", "assign registers__idle = 1'h0 & "),
    ],
)
def test_what_is_broken_is_found(name, right, wrong):
    text = core_verilog(job(1).config)
    assert text.count(right) == 1, name
    assert run_core_job(job(150), text.replace(right, wrong)).failure, name


def test_what_is_done_is_kept(tmp_path, monkeypatch):
    """And a failure is told with the job that it is of."""
    monkeypatch.setattr(cores, "draw_core_job", lambda seed, index, programs: replace(job(programs), index=index))
    campaign = CoreCampaign(tmp_path, 1, 2, 3)
    ran = []

    def execute(each, place):
        ran.append(each.index)
        found = dict.fromkeys(("programs", "descriptors", "positions", "cycles", "faults", "seconds"), 1)
        said = "byte 0x10 differs" if each.index else ""
        return cores.CoreRecord(index=each.index, digest="d", failure=said, outcomes={"read": 2}, **found)

    monkeypatch.setattr(campaign, "_execute", execute)
    summary = campaign.run()
    assert summary.failures == {"1:1": "byte 0x10 differs"}
    assert summary.outcomes == {"read": 4}
    assert json.loads(json.dumps(summary.to_json()))["faults"] == 2
    again = CoreCampaign(tmp_path, 1, 2, 3)
    assert not again.left
    assert again.run() == summary
    assert ran == [0, 1]
