"""Test that dropped steps lose no effectual position, and compare cycles with golden."""

import numpy as np
import pytest

from tensordash import TileConfig, load_preset
from tensordash_sim.cycles import Scheduler, count, drop_empty_steps, pack, random_counts, schedule_without_empty_steps
from tensordash_sim.golden import schedule_stream

from .conftest import random_config
from .dropping_reference import deal


@pytest.mark.parametrize("seed", range(60))
def test_streams_take_the_cycles_of_golden(seed: int) -> None:
    rng = np.random.default_rng([20261127, seed])
    config = random_config(rng)
    config = TileConfig(
        **{name: getattr(config, name) for name in ("rows", "columns", "lanes", "depth", "connectivity")}
    )
    streams, steps = int(rng.integers(1, 6)), int(rng.integers(1, 70))
    masks = rng.random((streams, config.rows, steps, config.lanes)) < rng.choice([0, 0.01, 0.1, 0.5, 1])
    scheduled, lengths = schedule_without_empty_steps(Scheduler(config), pack(masks))
    for k, mask in enumerate(masks):
        left = deal(mask, config.window_depth)
        advances = schedule_stream(left, config.options, config.depth)
        assert lengths[k] == left.shape[1]
        assert scheduled.cycles[k] == len(advances)
        assert scheduled.advances[k].tolist() == advances.sum(axis=0).tolist()


@pytest.mark.parametrize("share", [0.0, 0.02, 0.3, 1.0])
def test_steps_keep_their_banks_and_order(share: float) -> None:
    rng = np.random.default_rng(3)
    words = np.where(rng.random((7, 3, 101)) < share, rng.integers(1, 16, (7, 3, 101)), 0).astype(np.uint32)
    left, lengths = drop_empty_steps(words, depth=4)
    for stream, after, length in zip(words, left, lengths, strict=True):
        assert not after[:, length:].any()
        for bank in range(4):
            full = stream[:, bank::4]
            full = full[:, full.any(axis=0)]
            places = after[:, bank::4]
            assert np.array_equal(places[:, : full.shape[1]], full)
            assert not places[:, full.shape[1] :].any()


def test_dense_stream_takes_the_same_cycles() -> None:
    mask = np.ones((4, 33, 4), np.bool_)
    assert count([mask], TileConfig(), drop_steps=True) == count([mask], TileConfig())


def test_an_empty_stream_takes_one_cycle() -> None:
    counts = count([np.zeros((4, 33, 4), np.bool_)], TileConfig(), drop_steps=True)
    assert (counts.cycles, counts.steps, counts.effectual) == (1, 33, 0)


def test_random_zeros_exceed_a_speedup_of_four() -> None:
    counts = random_counts(load_preset("recommended"), zeros=0.98, steps=128_000, length=128, drop_steps=True)
    assert 10.5 < counts.speedup < 11.5


@pytest.mark.parametrize("sparsity", ["none", "both"])
def test_other_tiles_are_refused(sparsity: str) -> None:
    mask = np.ones((4, 3, 4), np.bool_)
    with pytest.raises(ValueError, match=f'tile.sparsity must be "rows" to drop empty steps, not "{sparsity}"'):
        count([mask], TileConfig(sparsity=sparsity), a=[mask], drop_steps=True)


def test_whole_words_add_empty_steps() -> None:
    """A core reads as many steps of each bank. The paces add up to these steps."""
    rng = np.random.default_rng(7)
    masks = rng.random((9, 4, 50, 4)) < 0.02
    masks[3] = False
    scheduler, words = Scheduler(TileConfig()), pack(masks)
    scheduled, lengths = schedule_without_empty_steps(scheduler, words, has_whole_words=True, paces=True)
    plain, least = schedule_without_empty_steps(scheduler, words)
    assert (lengths % 4 == 0).all()
    assert (least <= lengths).all()
    assert (lengths < least + 4).all()
    assert scheduled.paces.sum(axis=1).tolist() == lengths.tolist()
    assert np.count_nonzero(scheduled.paces, axis=1).tolist() == scheduled.cycles.tolist()
    assert (plain.cycles <= scheduled.cycles).all()
    assert plain.paces.shape == (9, 0)
