"""Test the scheduler: levels, invariants and recorded speeds."""

import numpy as np
import pytest

from tensordash import load_preset
from tensordash_sim.golden import levels, schedule, schedule_stream

PRESETS = ("paper", "recommended", "paper-16lane", "paper-depth2", "paper-depth3")
DIFFERENT_LEVELS = (((0, 0), (1, 0), (1, 1)), 5, 3)


def shapes():
    configs = [load_preset(name) for name in PRESETS]
    return [(config.options, config.lanes, config.depth) for config in configs] + [DIFFERENT_LEVELS]


def test_levels_of_the_paper():
    assert levels(load_preset("paper").options, 4) == ((0,), (1,), (2,), (3,))


def test_six_levels_of_sixteen_lanes():
    assert levels(load_preset("paper-16lane").options, 16) == (
        (0, 5, 10),
        (1, 6, 11),
        (2, 7, 12),
        (3, 8, 13),
        (4, 9, 14),
        (15,),
    )


def test_levels_wrap_around_an_odd_ring():
    # Lane 4 reaches lane 0, so it may share a level with neither lane 3 nor lane 0.
    assert levels(DIFFERENT_LEVELS[0], 5) == ((0, 2), (1, 3), (4,))


@pytest.mark.parametrize(("options", "lanes", "depth"), shapes())
def test_levels_hold_every_lane_once_and_are_free_of_conflicts(options, lanes, depth):
    found = levels(options, lanes)
    assert sorted(lane for level in found for lane in level) == list(range(lanes))
    for level in found:
        reached = [(step, (lane + offset) % lanes) for lane in level for step, offset in options]
        assert len(reached) == len(set(reached))


@pytest.mark.parametrize(("options", "lanes", "depth"), shapes())
def test_every_position_is_scheduled_at_most_once(options, lanes, depth, rng):
    for trial in range(300):
        effectual = rng.random((depth, lanes)) < (0.1, 0.5, 0.9)[trial % 3]
        eligible = int(rng.integers(1, depth + 1))
        result = schedule(effectual, eligible, options)
        selected = [position for position in result.selected if position is not None]
        assert len(set(selected)) == len(selected) == result.consumed
        remaining = effectual.copy()
        for step, lane in selected:
            assert step < eligible
            assert remaining[step, lane]
            remaining[step, lane] = False
        np.testing.assert_array_equal(result.remaining, remaining)
        for lane, (position, index) in enumerate(zip(result.selected, result.options, strict=True)):
            assert (position is None) == (index is None)
            if index is not None:
                step, offset = options[index]
                assert position == (step, (lane + offset) % lanes)
        # Step 0's own lanes always serve it, so that the tile is never slower than dense.
        assert not remaining[0].any()
        assert result.advance >= 1
        assert not remaining[: result.advance].any()
        assert result.advance == eligible or remaining[result.advance].any()
        # An idle lane has no remaining pair in its reach.
        for lane, position in enumerate(result.selected):
            if position is None:
                assert not any(remaining[s, (lane + o) % lanes] for s, o in options if s < eligible)


def test_every_paper_window_matches_priority_encoders():
    """With one lane per level, four consecutive priority encoders give the same 65,536 schedules."""
    options = load_preset("paper").options
    for pattern in range(1 << 16):
        effectual = [[bool(pattern >> (4 * step + lane) & 1) for lane in range(4)] for step in range(4)]
        left = pattern
        chosen = []
        for lane in range(4):
            bits = [4 * step + (lane + offset) % 4 for step, offset in options]
            chosen.append(next((index for index, bit in enumerate(bits) if left >> bit & 1), None))
            if chosen[-1] is not None:
                left &= ~(1 << bits[chosen[-1]])
        advance = 4 if left == 0 else ((left & -left).bit_length() - 1) // 4
        result = schedule(effectual, 4, options)
        assert (result.options, result.advance) == (tuple(chosen), advance)


def test_ineligible_steps_are_not_scheduled():
    result = schedule([[0, 0], [1, 1]], 1, ((0, 0), (1, 0)))
    assert result.selected == (None, None)
    assert result.remaining == ((False, False), (True, True))
    assert result.advance == 1


def test_no_schedule_without_eligible_steps():
    assert schedule([[1, 1]], 0, ((0, 0),)).consumed == 0
    assert schedule([], 0, ((0, 0),)).advance == 0
    with pytest.raises(ValueError, match="eligible_steps must be from 0 to the window's 1 steps, not 2"):
        schedule([[1, 1]], 2, ((0, 0),))


@pytest.mark.parametrize(
    ("preset", "rows", "speedups"),
    [
        ("paper", 1, {20: 1.25, 50: 1.92, 80: 3.45, 90: 3.90}),
        ("paper", 4, {20: 1.20, 50: 1.72, 80: 2.93, 90: 3.70}),
        ("recommended", 4, {20: 1.216, 50: 1.769, 80: 2.939, 90: 3.687}),
        ("paper-depth2", 4, {50: 1.44}),
        ("paper-depth3", 4, {50: 1.57}),
    ],
)
def test_speed_on_random_zeros(preset, rows, speedups, rng):
    """Separate code measured the speedups. For the paper's order and 4 rows they are close to Fig. 15 of the paper.

    For `recommended` they come from bench/connectivity_search.py, seeds 0 and 1.
    """
    config = load_preset(preset)
    for zeros, expected in speedups.items():
        effectual = rng.random((rows, 10_000, config.lanes)) >= zeros / 100
        advances = schedule_stream(effectual, config.options, config.depth)
        assert advances.min(axis=1).sum() == 10_000
        assert 10_000 / len(advances) == pytest.approx(expected, rel=0.02)


@pytest.mark.parametrize("steps", [1, 3, 4, 5, 8, 9])
def test_a_stream_of_zeros(steps):
    assert len(schedule_stream(np.zeros((2, steps, 4)), load_preset("paper").options, 4)) == -(-steps // 4)
