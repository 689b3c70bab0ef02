"""Test `connectivity = "auto"` for every number of lanes, depth and staging."""

from functools import cache

import pytest

from tensordash import Connectivity, TileConfig, load_preset
from tensordash.configuration.connectivity import PAPER_OPTIONS, SEARCHED, Option, auto_options
from tensordash.emission.verilog import render
from tensordash_sim.performance.explore import Structure, Workload, random_workload, start_options

SHAPES = [(lanes, depth, staging) for lanes in range(2, 33) for depth in range(2, 7) for staging in ("shift", "ring")]
ZEROS = (0.3, 0.5, 0.7, 0.9)
ROWS = 4
# Two of the 310 speedups are nearly equal, and differ by chance.
CHANCE = 0.998


def auto(lanes: int, depth: int, staging: str) -> TileConfig:
    return TileConfig(rows=ROWS, out_rows=ROWS, lanes=lanes, depth=depth, staging=staging, connectivity="auto")


@cache
def draw_options(lanes: int) -> list[Workload]:
    passes = max(4, 64 // lanes)
    return [random_workload(lanes, ROWS, zeros=zeros, passes=passes, steps=1000, seed=7) for zeros in ZEROS]


def speedup(structure: Structure, options: tuple[Option, ...]) -> float:
    config = structure.config(TileConfig(out_rows=ROWS), options)
    return sum(workload.speedup(config) for workload in draw_options(structure.lanes)) / len(ZEROS)


def test_every_shape_builds():
    for lanes, depth, staging in SHAPES:
        config = auto(lanes, depth, staging)
        connectivity = Connectivity(config.options, lanes=lanes, depth=depth)
        assert connectivity.rotation_invariant or staging == "shift"
        assert len(connectivity.sources(config.ring)) <= (8 if staging == "shift" else max(8, 2 * depth))
        assert sorted(lane for level in connectivity.levels for lane in level) == list(range(lanes))
        for level in connectivity.levels:
            reached = [position for lane in level for position in connectivity.positions(lane)]
            assert len(set(reached)) == len(reached)
        assert len(connectivity.levels) <= 7
        assert TileConfig.from_toml(config.to_toml()) == config


@pytest.mark.sampled(1)
@pytest.mark.parametrize("staging", ["shift", "ring"])
def test_no_slower_than_plain_options(staging):
    """Compare with options of a lane and its neighbours, oldest step first, over 30, 50, 70 and 90% zeros."""
    gains = {}
    for lanes, depth, _ in (shape for shape in SHAPES if shape[2] == staging):
        options = auto(lanes, depth, staging).options
        sources = len(Connectivity(options, lanes=lanes, depth=depth).sources(ring=staging == "ring"))
        structure = Structure(lanes, depth, ROWS, 4, sources, staging)
        gains[lanes, depth] = speedup(structure, options) / speedup(structure, start_options(structure))
    assert {shape: gain for shape, gain in gains.items() if gain < CHANCE} == {}
    assert sum(gains.values()) / len(gains) > {"shift": 1.02, "ring": 1.002}[staging]


def test_four_lanes_of_four_steps():
    """The search's best is faster than the paper's, and `recommended` for a ring."""
    structure = Structure(4, 4, ROWS, 4, 8)
    assert speedup(structure, auto(4, 4, "shift").options) > 1.02 * speedup(structure, PAPER_OPTIONS)
    assert auto(4, 4, "ring").options == load_preset("recommended").options


def test_every_entry_is_used():
    serving = {auto_options(lanes, depth, ring=False)[1:] for lanes in range(2, 33) for depth in range(2, 7)}
    assert serving == set(SEARCHED.values())


@pytest.mark.parametrize(("lanes", "depth", "staging"), [(2, 6, "shift"), (5, 3, "ring"), (8, 4, "shift")])
def test_verilog(lanes, depth, staging):
    config = TileConfig(rows=1, columns=1, format="int8", lanes=lanes, depth=depth, staging=staging)
    assert config.connectivity == "auto"
    assert "module tensordash_tile(" in render(config)["tensordash.v"]
