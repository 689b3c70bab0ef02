"""Mutants: made, found, proven equivalent, and reported where nothing finds them."""

import json

import pytest

from tensordash import TileConfig
from tensordash.schedule.scheduler import Scheduler
from tensordash_formal import mutation
from tensordash_formal.mutants import Mutants
from tensordash_formal.mutation import mutate
from tensordash_formal.solver import Solver
from tensordash_sim.verify import simulator_names

pytestmark = pytest.mark.skipif("icarus" not in simulator_names(), reason="mutants run on Icarus")
SMALL = TileConfig(rows=1, columns=1, lanes=2, depth=2, format="fp8_e4m3", connectivity=((0, 0), (1, 0), (1, 1)))


def test_mutants_are_found(tmp_path):
    seen = []
    report = mutate(
        SMALL,
        tmp_path,
        count=2,
        seed=1,
        effort=0.05,
        jobs=1,
        components=("scheduler", "transposer"),
        proofs=False,
        progress=lambda done, total: seen.append((done, total)),
    )
    assert report.counts()["total"] == {"bench": 2, "proof": 0, "equivalent": 0, "survives": 0}
    assert seen[-1] == (2, 2)
    assert all(each.by and each.line for each in report.fates)
    again = mutate(
        SMALL, tmp_path, count=2, seed=1, effort=0.05, jobs=1, components=("scheduler", "transposer"), proofs=False
    )
    assert again == report, "answers are kept"


def test_what_a_weak_bench_lets_pass_survives_or_is_found_by_a_proof(tmp_path, monkeypatch):
    """The same mutants, with a bench that never fails."""
    monkeypatch.setattr(mutation, "_run", lambda work, simulation, mutant: "")
    work = mutation._Work(config=SMALL, component="scheduler", count=2, seed=1, effort=0.05, proofs=False)
    fate = mutation._fate(work, tmp_path, 1)
    assert (fate.fate, fate.by) == ("survives", "")
    report = mutation.MutationReport(digest=SMALL.digest, seed=1, fates=(fate,))
    assert "survives: scheduler 1, tensordash_scheduler" in report.table()
    assert json.loads(json.dumps(report.to_json()))["counts"]["total"]["survives"] == 1


@pytest.mark.slow
def test_a_proof_finds_a_mutant(tmp_path):
    mutants = Mutants(SMALL, "scheduler", 2, 1, tmp_path)
    text = mutants.verilog(mutants.mutants[0])
    assert "scheduler" in mutation._refuting(SMALL, "tensordash_scheduler", text, Solver(tmp_path / "proofs"))
    sound = mutants.verilog(None)
    assert not list(mutation._refuting(SMALL, "tensordash_scheduler", sound, Solver(tmp_path / "proofs")))


def test_a_change_that_changes_nothing_is_equivalent(tmp_path):
    mutants = Mutants(SMALL, "scheduler", 2, 1, tmp_path)
    mutants.verilog = lambda mutant: mutants.text
    work = mutation._Work(config=SMALL, component="scheduler", count=2, seed=1, effort=0.05, proofs=False)
    assert mutation._without_bench(work, mutants, mutants.mutants[0], tmp_path)[0] == "equivalent"


def test_without_a_mutant_the_model_is_what_was_emitted(tmp_path):
    mutants = Mutants(SMALL, "tile", 6, 2, tmp_path)
    model = mutants.model()
    assert model.count("$value$plusargs") == 1
    assert {each.module for each in mutants.mutants} - {f"tensordash_{Scheduler.__name__.lower()}"}
    assert len(mutants.mutants) == 6
