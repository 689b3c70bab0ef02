"""Compare cycle counts with the golden tile's counters, on random tiles and streams."""

import numpy as np
import pytest

from tensordash import TileConfig, load_preset
from tensordash.configuration.preset import preset_names
from tensordash_sim.cycles import Scheduler, count, pack
from tensordash_sim.golden import run_streams, schedule_stream

from .conftest import random_config, random_streams

CASES = 500
NIGHTLY_CASES = 10_000


def check_against_golden(seed: int, cases: int) -> None:
    for case in range(cases):
        rng = np.random.default_rng([seed, case])
        config = random_config(rng)
        streams = random_streams(rng, config)
        golden = run_streams([(a.astype(np.uint8), b.astype(np.uint8)) for a, b in streams], config).counters
        counted = count([b for _, b in streams], config, a=[a for a, _ in streams])
        shown = (golden.cycles, golden.steps, golden.effectual, golden.stall_output, golden.row_wait)
        assert (counted.cycles, counted.steps, counted.effectual, counted.stall_output, counted.row_wait) == shown, (
            f"case {case} of seed {seed}: {config}"
        )


def test_counts_match_the_golden_tile():
    check_against_golden(seed=20261121, cases=CASES)


@pytest.mark.slow
def test_counts_match_the_golden_tile_ten_thousand_times():
    check_against_golden(seed=1, cases=NIGHTLY_CASES)


@pytest.mark.parametrize("preset", preset_names())
def test_long_streams_of_every_preset(preset):
    config = load_preset(preset)
    rng = np.random.default_rng(5)
    mask = rng.random((config.rows, 400, config.lanes)) < 0.4
    counted = count([mask], config)
    if config.sparsity == "none":
        assert counted.cycles == 400
        return
    advances = schedule_stream(mask, config.options, config.depth)
    assert counted.cycles == len(advances)
    assert counted.row_wait == tuple(advances.sum(axis=0) - 400)


def test_streams_of_one_call_are_independent():
    config = TileConfig(rows=3, sparsity="both", columns=2)
    rng = np.random.default_rng(6)
    a, b = rng.random((20, 2, 33, 4)) < 0.5, rng.random((20, 3, 33, 4)) < 0.5
    together = Scheduler(config).schedule(pack(b), pack(a))
    alone = [count([one], config, a=[other]).cycles for one, other in zip(b, a, strict=True)]
    assert together.cycles.tolist() == alone


MASK = np.ones((4, 5, 4), dtype=bool)


@pytest.mark.parametrize(
    ("streams", "a", "message"),
    [
        ([], None, "at least one stream"),
        ([MASK.astype(int)], None, r"streams\[0\] must be an array of bool, not of int64"),
        ([MASK, MASK[:3]], None, r"streams\[1\] must have the shape \(rows = 4, T >= 1, lanes = 4\), not \(3, 5, 4\)"),
        ([MASK[:, :0]], None, r"not \(4, 0, 4\)"),
        ([MASK], None, "a must have the streams of the column side"),
        ([MASK], [MASK, MASK], "not 2"),
        ([MASK], [MASK[:, :4]], r"a\[0\] must have the 5 steps"),
    ],
)
def test_wrong_streams_are_named(streams, a, message):
    with pytest.raises(ValueError, match=message):
        count(streams, TileConfig(sparsity="both"), a=a)


def test_the_scheduler_of_both_sides_needs_both():
    words = np.ones((2, 4, 5), np.uint32)
    scheduler = Scheduler(TileConfig(sparsity="both"))
    with pytest.raises(ValueError, match="a must be given"):
        scheduler.schedule(words)
    with pytest.raises(ValueError, match="2 streams of 5 steps"):
        scheduler.schedule(words, words[:, :, :4])
