"""Test that the search draws passes of the trace, keeps faster patterns, and stores results."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tensordash import TileConfig, load_preset
from tensordash_sim.cycles import count, pack
from tensordash_sim.performance.chip import ChipConfig, Machine, simulate_operation
from tensordash_sim.performance.explore import (
    Campaign,
    Structure,
    Workload,
    pareto_front,
    plot_front,
    sample_workload,
    search,
    start_options,
    write_uniform_zeros,
)
from tensordash_sim.trace import Trace, example_trace

PAPER = load_preset("paper")
STRUCTURE = Structure(lanes=4, depth=3, rows=2, columns=2, sources=4)


@pytest.fixture(scope="module")
def trace() -> Trace:
    return Trace.open(example_trace())


@pytest.fixture(scope="module")
def clustered() -> Workload:
    """Return zeros in every other lane, for which only options to the side help."""
    words = np.full((8, 2, 50), 0b0101, np.uint32)
    return Workload(words=[words], weights=[np.ones(8)])


@pytest.mark.parametrize("row_order", ["natural", "density"])
def test_all_passes_match_the_cycles_of_the_trace(trace, row_order):
    """Compare with a single tile's cycles, operation by operation."""
    machine = Machine(PAPER, ChipConfig(tiles=1), row_order=row_order)
    for record in list(trace.records)[:4]:
        masks = {name: record.mask(name) for name in (record.operation.left, record.operation.right)}
        result = simulate_operation(record.geometry, record.operation, masks, machine)
        workload = sample_workload([record], PAPER, row_order=row_order, row_steps=1 << 40, seed=0)
        # The tolerance covers the cycles of the first and the last result.
        assert workload.speedup(PAPER) == pytest.approx(result.compute_speedup, rel=1e-3)


def test_sampled_passes_represent_all(trace):
    every, some = (
        sample_workload(trace.records, PAPER, row_order="natural", row_steps=steps, seed=3) for steps in (1 << 40, 2000)
    )
    assert sum(map(len, some.words)) < sum(map(len, every.words)) / 4
    assert sum(each.sum() for each in some.weights) == pytest.approx(sum(each.sum() for each in every.weights))
    assert some.speedup(PAPER) == pytest.approx(every.speedup(PAPER), rel=0.05)


def test_workload_speedup_matches_its_streams(clustered):
    config = replace(PAPER, rows=2, columns=1)
    stream = np.tile(np.array([True, False, True, False]), (2, 50, 1))
    assert clustered.speedup(config) == pytest.approx(count([stream], config).speedup)


def test_dropped_steps_count_as_streams_without_them():
    config = replace(PAPER, rows=2, columns=1)
    stream = np.zeros((2, 64, 4), np.bool_)
    stream[:, ::8] = True  # In each bank but the first one, all steps are empty.
    workload = Workload(words=[pack(stream)[None]], weights=[np.ones(1)])
    assert workload.speedup(config, drop_steps=True) == count([stream], config, drop_steps=True).speedup == 8
    assert workload.speedup(config) == count([stream], config).speedup == 4
    found = search(Structure(4, 4, 2, 1, 8), PAPER, [workload], tries=2, seed=0, drop_steps=True)
    assert found.speedup >= 8


def test_uniform_zeros_have_their_density(tmp_path: Path):
    trace = write_uniform_zeros(tmp_path, 0.9, seed=3)
    (record,) = trace.records
    assert record.operands["A"].zeros == pytest.approx(0.9, abs=0.001)
    assert record.operands["W"].zeros == 0
    assert write_uniform_zeros(tmp_path, 0.9, seed=3).digest == trace.digest
    assert write_uniform_zeros(tmp_path, 0.9, seed=4).digest != trace.digest


def test_search_finds_useful_options(clustered):
    found = search(STRUCTURE, PAPER, [clustered], starts=[((0, 0), (1, 0), (2, 0), (2, 2))], tries=200, seed=1)
    assert found.options[0] == (0, 0)
    assert found.speedup >= found.start
    assert any(abs(offset) == 1 for _, offset in found.options)
    assert found.speedup == clustered.speedup(STRUCTURE.config(PAPER, found.options)) == pytest.approx(2, rel=0.03)


def test_the_same_seed_finds_the_same(trace):
    workload = sample_workload(
        trace.records, STRUCTURE.config(PAPER, ((0, 0),)), row_order="natural", row_steps=500, seed=0
    )
    first, second, other = (search(STRUCTURE, PAPER, [workload], tries=30, seed=seed) for seed in (5, 5, 6))
    assert first == second
    assert first.speedup > first.start
    assert other.options != first.options or other.speedup == first.speedup


@pytest.mark.parametrize(("lanes", "depth", "options"), [(2, 2, 3), (4, 4, 8), (16, 3, 8), (5, 2, 4), (32, 2, 2)])
def test_starts_are_valid(lanes, depth, options):
    structure = Structure(lanes=lanes, depth=depth, rows=1, columns=1, sources=options)
    chosen = start_options(structure)
    assert len(chosen) == options
    assert structure.config(PAPER, chosen).options == chosen


@pytest.mark.parametrize(("lanes", "depth", "sources"), [(2, 2, 4), (4, 4, 8), (4, 4, 4), (16, 3, 9), (4, 3, 12)])
def test_search_keeps_rings(lanes, depth, sources):
    """All tried patterns have the same lane offsets at every step, which a ring requires."""
    structure = Structure(lanes=lanes, depth=depth, rows=1, columns=1, sources=sources, staging="ring")
    words = np.random.default_rng(0).integers(0, 1 << lanes, (4, 1, 40), np.uint32)
    base = structure.config(PAPER, start_options(structure))
    assert structure.fits(base)
    found = search(structure, PAPER, [Workload(words=[words], weights=[np.ones(4)])], tries=40, seed=2)
    assert structure.fits(structure.config(PAPER, found.options))


def test_impossible_structures_are_detected():
    assert not Structure(lanes=4, depth=3, rows=1, columns=1, sources=8, staging="ring").is_possible
    assert Structure(lanes=2, depth=2, rows=1, columns=1, sources=3).is_possible
    assert not Structure(lanes=2, depth=2, rows=1, columns=1, sources=4).is_possible


def test_campaign_results_are_stored(trace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def campaign(tries: int) -> Campaign:
        return Campaign(
            base=TileConfig(),
            known={"paper": PAPER},
            traces=[trace],
            row_steps=200,
            tries=tries,
            seed=0,
            folder=tmp_path,
        )

    tried: list[int] = []

    def count_tries(*arguments, tries: int, **others):
        tried.append(tries)
        return search(*arguments, tries=tries, **others)

    monkeypatch.setattr("tensordash_sim.performance.explore.campaign.search", count_tries)
    structure = Structure(lanes=4, depth=4, rows=4, columns=4, sources=8)
    (first,) = campaign(5).find([(structure, "natural")])
    assert campaign(5).find([(structure, "natural")] * 2) == [first, first]
    assert tried == [5]
    campaign(6).find([(structure, "natural")])
    assert tried == [5, 6]
    (paper,) = campaign(5).presets([first])
    assert paper.config.options == PAPER.options
    ((totals,),) = campaign(5).simulate([paper])
    assert 1 < totals["compute_speedup"] < 4
    assert "dropped_speedup" not in totals
    dropping = replace(campaign(5), drop_steps=True)
    assert dropping.find([(structure, "natural")])  # Its options may differ, so it is another search.
    assert tried == [5, 6, 5]
    ((totals_of_dropping,),) = dropping.simulate([paper])
    assert totals_of_dropping["dropped_speedup"] > totals_of_dropping["compute_speedup"] == totals["compute_speedup"]


def test_the_front_is_drawn(tmp_path: Path):
    pytest.importorskip("matplotlib")
    points = [(1.1, 1.5), (1.2, 1.4), (1.3, 1.9)]
    assert pareto_front(points) == [True, False, True]
    plot_front(["small", "beaten", "fast"], points, tmp_path / "front")
    drawn = (tmp_path / "front.svg").read_text()
    assert "small" in drawn
    assert "beaten" not in drawn
    assert (tmp_path / "front.png").stat().st_size > 1000
