"""Test that the tile's results depend only on the operands."""

from typing import Any

import numpy as np
import pytest

from tensordash import TileConfig, load_preset
from tensordash_sim.golden import Tile, matmul, matmul_exact, run_streams, schedule_stream

ODD: dict[str, Any] = {"lanes": 5, "depth": 3, "connectivity": [[0, 0], [2, -1], [1, 1], [1, 0]]}
CONFIGS = {
    "paper": load_preset("paper"),
    "recommended": load_preset("recommended", ["tile.rows=2", "tile.columns=3"]),
    "depth2": load_preset("paper-depth2", ["tile.rows=2", "tile.out_rows=2"]),
    "16lane": load_preset("paper-16lane", ["tile.rows=2", "tile.columns=2"]),
    "odd": TileConfig(rows=3, columns=2, out_rows=3, pipeline=1, **ODD),
    "full": TileConfig(rows=2, columns=2, full_window=True, pipeline=3),
    "both": TileConfig(rows=2, columns=3, sparsity="both"),
    "both-odd": TileConfig(rows=3, columns=1, sparsity="both", full_window=True, pipeline=1, **ODD),
    "dense": load_preset("dense"),
    "dense-1": TileConfig(rows=2, columns=2, sparsity="none", pipeline=1, out_rows=2),
    "one": TileConfig(rows=1, columns=1, pipeline=3),
}
every_config = pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS.keys())


@every_config
@pytest.mark.parametrize("density", [0.0, 0.3, 1.0])
def test_equal_to_the_baseline_and_to_mathematics(config, density, operands):
    for steps in (1, 6, 19):
        ((a, b),) = operands.streams(config, [steps], density)
        result = matmul(a, b, config)
        np.testing.assert_array_equal(result.c_bits, matmul_exact(a, b, config))
        np.testing.assert_array_equal(result.c_bits, matmul(a, b, config.baseline).c_bits)
        assert (result.protocol_error, result.non_finite, result.overflow) == (False, False, False)


@every_config
def test_sums_that_cancel(config, operands):
    """Every product except a tiny one also occurs with the other sign."""
    half = operands.finite((config.columns, 6, config.lanes), 1.0)
    a = np.concatenate([half, half], axis=1)
    half = operands.finite((config.rows, 6, config.lanes), 0.5)
    b = np.concatenate([half, half ^ 0x8000], axis=1)
    assert not matmul(a, b, config).c_bits.any()  # +0, not -0
    a[:, 3, 1], a[:, 9, 1], b[:, 3, 1], b[:, 9, 1] = 0x0003, 0x0001, 0x0001, 0x8001
    result = matmul(a, b, config)
    assert (result.c == np.float32(2 * 2.0**-48)).all()


@every_config
def test_infinities_and_nan(config, operands):
    for share in (0.003, 0.05):
        lengths = (1, 4, 9, 30)
        streams = operands.streams(config, lengths, share=share)
        result = run_streams(streams, config)
        for c_bits, (a, b) in zip(result.c_bits, streams, strict=True):
            np.testing.assert_array_equal(c_bits, matmul_exact(a, b, config))
        specials = any(((one & 0x7C00) == 0x7C00).any() for pair in streams for one in pair)
        assert result.non_finite == specials


def test_nan_times_a_skipped_zero_sets_the_flag_only():
    config = TileConfig(rows=1, columns=1)
    a, b = np.full((1, 1, 4), 0x3C00, np.uint16), np.full((1, 1, 4), 0x3C00, np.uint16)
    a[0, 0, 2], b[0, 0, 2] = 0x7E00, 0x8000
    skipped, dense = matmul(a, b, config), matmul(a, b, config.baseline)
    assert (skipped.c.item(), skipped.non_finite) == (3.0, True)
    assert (dense.c_bits.item(), dense.non_finite) == (0x7FC00000, True)


@every_config
@pytest.mark.parametrize("idle", [0.0, 0.6])
@pytest.mark.parametrize("busy", [0.0, 0.6])
def test_arrival_and_back_pressure_change_no_bit(config, idle, busy, operands, rng, drive):
    lengths = (1, 1, 7, 2, 1, 12, 4, 5)
    streams = operands.streams(config, lengths)
    tile = Tile(config)
    most = (lambda port: int(rng.integers(0, 6)) if rng.random() < idle else 99) if idle else (lambda port: 99)
    trace = drive(tile, streams, most, lambda: bool(rng.random() >= busy))
    for block, (a, b) in zip(trace.blocks, streams, strict=True):
        np.testing.assert_array_equal(block, matmul_exact(a, b, config))
    counters = tile.counters
    assert counters.steps == sum(lengths)
    assert counters.cycles + counters.stall_input + counters.stall_output == len(trace.outputs)
    assert counters.effectual == sum(effectual_count(config, a, b) for a, b in streams)
    assert not tile.protocol_error
    if config.needs_full_window or not idle:
        # With full windows, the number of cycles depends only on the operands.
        assert counters.cycles == sum(scheduled_cycles(config, a, b) for a, b in streams)
        assert counters.input_limited == 0
    else:
        # The scheduler is greedy, so that fewer available steps are mostly, but not always, slower.
        assert counters.cycles <= sum(lengths)


def marks(config, a, b):
    """Return the positions that each scheduler must serve, (schedulers, T, lanes)."""
    a_marks, b_marks = (a & 0x7FFF) != 0, (b & 0x7FFF) != 0
    if config.sparsity == "none":
        return np.ones_like(b_marks)
    if config.sparsity == "rows":
        return b_marks
    return (b_marks[:, None] & a_marks[None]).reshape(-1, *b.shape[1:])


def effectual_count(config, a, b):
    return int(marks(config, a, b).sum())


def scheduled_cycles(config, a, b):
    return len(schedule_stream(marks(config, a, b), config.options, config.window_depth))
