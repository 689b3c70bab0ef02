"""Test that a soak of cores draws, runs and stores jobs, and finds broken cores."""

import json
import re
from collections import Counter
from dataclasses import replace
from itertools import islice
from random import Random

import pytest

from tensordash.configuration.descriptors import OPERATIONS, decode
from tensordash_sim.compiler.order import find_races
from tensordash_sim.golden.core.legal import Sequencer
from tensordash_sim.verify.core_library import core_states, verilog_of
from tensordash_sim.verify.programs.random_programs import random_program
from tensordash_sim.verify.soak import core_faults, cores
from tensordash_sim.verify.soak.core_coverage import CoreCoverage, state_points, universe
from tensordash_sim.verify.soak.core_draw import key_points
from tensordash_sim.verify.soak.core_faults import FAULTS, bits_in_turn
from tensordash_sim.verify.soak.cores import CoreCampaign, CoreGoals, draw_core_job, run_core_job
from tensordash_sim.verify.soak.program_variants import repeat_program, with_tokens
from tensordash_storage.jobs import Runner

from ..conftest import core_preset

HERE = Runner(workers=1)
LITTLE = CoreGoals(positions=1, descriptors=1, faults=40)


def job(goals: CoreGoals = LITTLE):
    return replace(draw_core_job(1, 0, goals), config=core_preset("core"))


def test_all_kinds_of_jobs_are_drawn():
    """Sixteen cores cover every value of every key."""
    drawn = [draw_core_job(7, index, LITTLE).config for index in range(16)]
    met = set().union(*map(key_points, drawn))
    assert met == key_points()
    assert len({config.digest for config in drawn}) == 16
    assert {(config.parts("a"), config.parts("b")) for config in drawn} > {(1, 1)}
    assert draw_core_job(7, 3, LITTLE) == draw_core_job(7, 3, LITTLE)


def test_every_descriptor_bit_is_fuzzed():
    goals = CoreGoals(positions=1, descriptors=1, faults=10_000).share(20)
    turns = [
        list(islice(bits_in_turn(draw_core_job(5, index, goals)), goals.faults * FAULTS["field fuzzed"][0] // 100))
        for index in range(20)
    ]
    assert len(set().union(*turns)) == 512 * len(OPERATIONS)


def test_superfluous_tokens_are_legal():
    """Superfluous tokens are legal and of all kinds, and replace no other token."""
    config, pairs = core_preset("core"), Counter()
    for seed in range(80):
        random = Random(seed)
        program = random_program(random, config).program.descriptors
        descriptors = with_tokens(random, config, repeat_program(config, program) if seed % 2 else program)
        assert not any(map(Sequencer(config).refusal, descriptors))
        assert not find_races(config, descriptors)
        coverage = CoreCoverage(config)
        coverage.descriptors(descriptors)
        pairs.update(coverage.counts["token"])
    assert len(pairs) >= 24
    assert set(pairs) <= set(universe()["token"])


def test_states_of_a_core():
    states = core_states(verilog_of(core_preset("core")))
    points = state_points(states)
    assert {"an error stands", "load runs", "output runs"} <= set(points)
    assert sum(point.startswith("load state") for point in points) >= 4
    assert sum(point.startswith("store state") for point in points) >= 4
    assert states[0].name == "reset"
    places = [bit for each in states for bit in range(each.low, each.low + each.width)]
    assert places == list(range(len(places)))


@pytest.mark.parametrize("positions", [1, pytest.param(5_000_000, marks=pytest.mark.slow)])
def test_core_matches_golden(positions):
    """Nightly tests include layers, whose tiling takes longer than their run."""
    record = run_core_job(job(CoreGoals(positions=positions, descriptors=300, faults=60)))
    assert record.failure == ""
    assert sum(record.faults.values()) == 60
    assert set(record.faults) == set(FAULTS)
    assert record.positions >= positions
    assert record.descriptors >= 300
    points = {group: {point for point, count in counts.items() if count} for group, counts in record.coverage.items()}
    assert len(points["error"]) > 4
    assert len(points["wrong answer"]) > 4
    assert len(points["soft reset"]) > 8
    assert sum(int(bits, 16).bit_count() for bits in record.bits.values()) == record.faults["field fuzzed"]
    states = state_points(core_states(verilog_of(core_preset("core"))))
    for group, met in points.items():
        assert met <= {*universe()[group], *states}, group


BROKEN = {
    "an error's index": ("failing memory", r"\.error_index\(sequencer__done\)", ".error_index(command_queue__head)"),
    "an answer to a write": ("failing memory", r"axi_bresp\[1\]", "1'h0"),
    "a reserved bit": (
        "field fuzzed",
        r"\(reserved \| was_reserved\) \? 3'd2",
        "(reserved | was_reserved) ? 3'd0",
    ),
    "strobes of a reset": (
        "soft reset",
        r"axi_wstrb = (beats_payload_strobe) & \{16\{passes\}\}",
        r"axi_wstrb = passes ? \1 : 16'hffff",
    ),
    "a reset that is too quick": ("soft reset", r"assign restart = halt & idle", "assign restart = halt"),
    "a reset without an end": (
        "soft reset",
        r"\.idle\(command_queue__idle & load__idle & store__idle\)",
        ".idle(1'h0)",
    ),
    "a write that is not waited for": (
        "silent memory",
        r"\.idle\(command_queue__idle & load__idle & store__idle\)",
        ".idle(1'h1)",
    ),
    "the ring's places": ("queue", "<< queue_size", "<< 4'hf"),
    "data of the other ID": (
        "legal",
        "first_rvalid = axi_rvalid & ~axi_rid & second_rready",
        "first_rvalid = axi_rvalid & second_rready",
    ),
}
"""Changes of the core by name, and the kind of job that finds each."""


@pytest.mark.slow
@pytest.mark.parametrize("name", BROKEN)
def test_broken_cores_are_found(name, monkeypatch):
    """Jobs of one kind find the change."""
    kind, right, wrong = BROKEN[name]
    text, count = re.subn(right, wrong, verilog_of(core_preset("core")))
    assert count == 1, name
    if kind == "legal":
        failure = run_core_job(job(CoreGoals(positions=1, descriptors=2000, faults=1)), text).failure
    else:
        monkeypatch.setattr(cores, "FAULTS", {kind: FAULTS[kind]})
        failure = run_core_job(job(CoreGoals(positions=1, descriptors=1, faults=400)), text).failure
        assert kind in failure, failure
    assert failure, name


def test_finished_jobs_are_stored(tmp_path, monkeypatch):
    """A failure names its job."""
    goals = CoreGoals(positions=2, descriptors=2, faults=6)
    monkeypatch.setattr(cores, "draw_core_job", lambda seed, index, share: replace(job(share), index=index))
    campaign = CoreCampaign(tmp_path, 1, 2, goals)
    assert [each.name for each in campaign.jobs] == ["1:0:1:1:3", "1:1:1:1:3"]
    ran = []

    def run(each):
        ran.append(each.index)
        found = dict.fromkeys(("programs", "descriptors", "positions", "cycles", "build_seconds", "seconds"), 1)
        difference = "byte 0x10 differs" if each.index else ""
        return cores.CoreRecord(
            index=each.index,
            digest="d",
            failure=difference,
            faults={"queue": 2},
            coverage={"error": {"read": 2}, "soft reset": {"load runs": each.index, "load state 5 of 6": 0}},
            bits={"end": "3" if each.index else "5"},
            **found,
        )

    monkeypatch.setattr(cores, "run_core_job", run)
    summary = campaign.run(HERE)
    assert summary.failures == {"1:1": "byte 0x10 differs"}
    assert summary.faults == {**dict.fromkeys(FAULTS, 0), "queue": 4}
    assert summary.bits == 3
    assert summary.counts["error"]["read"] == 4
    assert "read" not in summary.never["error"]
    assert "load state 5 of 6" in summary.never["soft reset"]
    assert "load runs" not in summary.never["soft reset"]
    assert json.loads(json.dumps(summary.to_json()))["faults"]["queue"] == 4
    assert CoreCampaign(tmp_path, 1, 2, goals).run(HERE) == summary
    assert ran == [0, 1]


@pytest.mark.parametrize(
    ("name", "change", "defined"),
    [
        ("multiply", {"steps": 65535, "a_streams": 1, "b_streams": 1}, True),  # An error ends the program early.
        ("multiply", {"steps": 65535, "a_streams": 4095}, False),
        ("multiply", {"steps": 1, "a_streams": 4, "b_streams": 4095, "fp32": 1, "stride": 4}, False),  # many results
        ("layout_a", {"steps": 65535, "streams": 4095}, False),
        ("store", {"memory": 0x1000}, False),  # The store overwrites the program.
        ("record", {"memory": 0x1001}, True),  # an error
        ("layout_b", {"wait": 0}, False),  # The layout precedes its operands.
    ],
)
def test_undefined_faults_are_excluded(name, change, defined):
    config = core_preset("core")
    descriptors = random_program(Random(2), config).program.descriptors
    place = next(k for k, bits in enumerate(descriptors) if decode(bits)[0] is OPERATIONS[name])
    changed = [*descriptors]
    changed[place] = core_faults.with_fields(descriptors[place], **change)
    assert core_faults.is_defined(config, changed, place, 0x1000) == defined


def test_program_without_an_end_is_excluded():
    config = core_preset("core")
    descriptors = random_program(Random(2), config).program.descriptors
    changed = [*descriptors[:-1], descriptors[-1] ^ 1]  # The last descriptor becomes a record.
    assert not core_faults.is_defined(config, changed, len(descriptors) - 1, 0x1000)


@pytest.mark.parametrize("drops", [False, True])
def test_misread_streams_are_excluded(drops):
    """A multiply of fewer steps reads the words of one layout, but not the streams."""
    config = replace(core_preset("core-drop"), drop_steps=drops)
    descriptors = random_program(Random(2), config).program.descriptors
    place = next(k for k, bits in enumerate(descriptors) if decode(bits)[0] is OPERATIONS["multiply"])
    steps = decode(descriptors[place])[1]["steps"]
    assert steps % config.tile.window_depth > 1
    changed = [*descriptors]
    changed[place] = core_faults.with_fields(descriptors[place], steps=steps - 1)
    assert core_faults.is_defined(config, descriptors, place, 0x1000)
    assert core_faults.is_defined(config, changed, place, 0x1000) == (not drops)
