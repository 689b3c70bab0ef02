"""Test that draws of campaigns are valid and repeatable, cover every kind, and are not too large."""

from collections import Counter
from random import Random

import pytest

from tensordash import TileConfig
from tensordash.configuration.config import MAX_INPUT_BITS
from tensordash_sim.verify.soak.coverage import Coverage, universe
from tensordash_sim.verify.soak.draw import (
    MAX_LARGE_POSITIONS,
    MAX_MULTIPLIERS,
    MAX_PES,
    MAX_POSITIONS,
    connectivity_style,
    draw_job,
    jobs_for,
)
from tensordash_sim.verify.soak.stimulus import (
    ARRIVALS,
    STALLS,
    ZEROS,
    draw_arrival,
    draw_inputs,
    draw_stalls,
    zero_mask,
)

JOBS = [draw_job(7, index) for index in range(300)]


def test_jobs_depend_only_on_seed_and_number():
    assert [draw_job(7, index) for index in range(20)] == JOBS[:20]
    assert draw_job(8, 0) != draw_job(7, 0)
    assert draw_job(7, 1).name == "7:1"


def test_every_kind_of_tile_is_drawn():
    met = Counter(point for job in JOBS for point in Coverage(job.config).counts["tile"])
    assert set(met) == set(universe()["tile"])


def test_no_tile_has_a_large_share():
    jobs = list(jobs_for(7, 10**8))
    total = sum(job.positions for job in jobs)
    assert total >= 10**8 > total - jobs[-1].positions
    assert max(job.positions for job in jobs) <= MAX_POSITIONS < total / 20
    assert all(job.steps * job.config.multipliers == job.positions for job in jobs)


def test_large_tiles_are_drawn_with_a_small_share():
    jobs = [draw_job(7, index) for index in range(1200)]
    large = [
        job
        for job in jobs
        if job.config.rows * job.config.columns > MAX_PES or job.config.multipliers > MAX_MULTIPLIERS
    ]
    assert len(jobs) / 128 < len(large) < len(jobs) / 32
    assert max(job.positions for job in large) <= MAX_LARGE_POSITIONS
    assert sum(job.positions for job in large) < sum(job.positions for job in jobs) / 100
    assert max(job.config.multipliers for job in large) > 4096
    assert {max(job.config.rows for job in large), max(job.config.columns for job in large)} == {16, 32}
    assert max(job.config.input_bits for job in large) > MAX_INPUT_BITS / 2


def test_a_campaign_with_more_positions_begins_with_the_same_jobs():
    few, many = list(jobs_for(3, 1)), list(jobs_for(3, 10**7))
    assert many[: len(few)] == few
    assert len(many) > len(few) == 1


def test_styles_of_options():
    styles = Counter(connectivity_style(job.config) for job in JOBS)
    assert min(styles[style] for style in ("paper", "any", "rotation-invariant", "dense")) > 10
    ring = TileConfig(depth=3, connectivity=((0, 0), (1, 1), (2, -3)))  # With four lanes, 1 and -3 are the same offset.
    assert connectivity_style(ring) == "rotation-invariant"


@pytest.mark.parametrize("style", ZEROS)
def test_zeros(style):
    masks = [zero_mask(Random(seed), style, 12, 5) for seed in range(40)]
    assert all(len(mask) == 12 and all(len(step) == 5 for step in mask) for mask in masks)
    values = [value for mask in masks for step in mask for value in step]
    if style in ("all", "none"):
        assert set(values) == {style == "none"}
        return
    assert 0.1 < sum(values) / len(values) < 0.9
    if style == "steps":
        assert all(len(set(step)) == 1 for mask in masks for step in mask)
    if style == "lone":
        assert all(sum(step) in (1, 4) for mask in masks for step in mask)
    if style == "lanes":  # Empty lanes stay empty.
        assert any(not any(step[lane] for step in mask) for mask in masks for lane in range(5))


@pytest.mark.parametrize("initial", [False, True])
def test_inputs_have_the_shapes_of_the_ports(initial):
    config = TileConfig(rows=3, columns=2, format="int8", initial=initial)
    inputs = draw_inputs(Random(1), config, [4, 1])
    assert [[len(stream) for stream in port] for port in inputs.b] == [[4, 1]] * 3
    assert [[len(stream) for stream in port] for port in inputs.a] == [[4, 1]] * 2
    assert {len(step) for port in inputs.a + inputs.b for stream in port for step in stream} == {4}
    assert [[len(row) for row in block] for block in inputs.c] == ([[2, 2, 2]] * 2 if initial else [])
    assert {side: len(styles) for side, styles in inputs.styles.items()} == {"a": 2, "b": 2}


def test_inputs_of_a_tile_with_scales():
    config = TileConfig(format="fp6_e3m2", accumulator="volta", scale="e8m0", rows=2, columns=1)
    inputs = draw_inputs(Random(1), config, [40, 3])
    steps = [step for port in inputs.a + inputs.b for stream in port for step in stream]
    assert {len(step) for step in steps} == {5}
    assert len({step[-1] for step in steps}) > 10
    assert max(bits for step in steps for bits in step[:4]) < 64


@pytest.mark.parametrize("kind", ARRIVALS)
def test_arrival(kind):
    config = TileConfig()
    arrival = draw_arrival(Random(2), kind, config)
    offered = Counter(arrival.most(4) for _ in range(4000))
    assert max(offered) == (1 if kind == "single" else 4)
    if kind in ("eager", "bursts"):
        assert set(offered) == ({4} if kind == "eager" else {0, 4})
    if kind in ("jitter", "scarce"):
        assert set(offered) == {0, 1, 2, 3, 4}


@pytest.mark.parametrize("kind", STALLS)
def test_stalls(kind):
    shares = [draw_stalls(Random(seed), kind, TileConfig())() for seed in range(50)]
    assert all(0 <= share <= 1 for share in shares)
    assert (max(shares) > 0) == (kind != "none")
