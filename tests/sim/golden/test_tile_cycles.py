"""Compare the tile cycle by cycle with traces by hand from docs/tile.md."""

import numpy as np
import pytest

from tensordash import TileConfig
from tensordash_sim.golden import Offer, Producer, Tile, run_streams

ONE, ZERO = 0x3C00, 0x0000


def ones(ports, steps, lanes=4):
    return np.full((ports, steps, lanes), ONE, dtype=np.uint16)


def zeros(ports, steps, lanes=4):
    return np.zeros((ports, steps, lanes), dtype=np.uint16)


def streams_of_ones(config, lengths):
    return [(ones(config.columns, steps), ones(config.rows, steps)) for steps in lengths]


@pytest.mark.parametrize(
    ("sparsity", "pipeline", "latency"),
    [("rows", 1, 0), ("rows", 2, 1), ("rows", 3, 2), ("both", 2, 1), ("none", 1, 0), ("none", 2, 1), ("none", 3, 2)],
)
def test_latency(sparsity, pipeline, latency, drive):
    """A step is taken in cycle 0, scheduled in 1, accumulated in 1 + latency, and then passes block and register."""
    config = TileConfig(rows=1, columns=1, sparsity=sparsity, pipeline=pipeline)
    trace = drive(Tile(config), streams_of_ones(config, [1]))
    assert [outputs.taken for outputs in trace.outputs] == [1] + [0] * (latency + 3)
    flags = [outputs.schedule_made for outputs in trace.outputs]
    assert flags == [False, True] + [False] * (latency + 2)
    valid = [outputs.out_valid for outputs in trace.outputs]
    assert valid == [False] * (latency + 3) + [True]
    assert trace.blocks[0].view(np.float32).item() == 4.0


@pytest.mark.parametrize("sparsity", ["rows", "both", "none"])
def test_one_step_streams_take_one_cycle_each(sparsity, drive):
    config = TileConfig(rows=2, columns=2, out_rows=2, sparsity=sparsity)
    trace = drive(Tile(config), streams_of_ones(config, [1] * 50))
    flags = [outputs.schedule_made for outputs in trace.outputs]
    assert flags[1:51] == [True] * 50
    valid = [outputs.out_valid for outputs in trace.outputs]
    assert valid[valid.index(True) :] == [True] * 50
    assert not any(outputs.frozen for outputs in trace.outputs)


@pytest.mark.parametrize("lengths", [(3, 1, 2, 7, 1, 1, 1, 4, 5, 2), (4, 4, 4), (5, 5, 5), (6, 2, 9)])
def test_no_bubble_between_streams(lengths, drive):
    config = TileConfig(rows=2, columns=1, out_rows=2)
    for fill in (ones, zeros):
        streams = [(ones(1, steps), fill(2, steps)) for steps in lengths]
        tile = Tile(config)
        trace = drive(tile, streams)
        expected = sum(steps if fill is ones else -(-steps // 4) for steps in lengths)
        flags = [outputs.schedule_made for outputs in trace.outputs]
        assert flags[: expected + 1] == [False] + [True] * expected
        assert tile.counters.cycles == expected
        assert tile.counters.input_limited == 0


@pytest.mark.parametrize("steps", [1, 3, 4, 5, 8, 9, 16])
def test_zeros_take_a_cycle_for_each_full_window(steps):
    config = TileConfig()
    for signed_zero in (ZERO, 0x8000):
        result = run_streams([(ones(4, steps), zeros(4, steps) + np.uint16(signed_zero))], config)
        assert result.cycles.tolist() == [-(-steps // 4)]
        assert not result.c_bits.any()
        assert result.effectual.tolist() == [0]


def test_a_block_of_several_beats_holds_up_the_next(drive):
    """With two beats per block and streams of one step, the tile is frozen in every second cycle."""
    config = TileConfig(rows=2, columns=1)
    tile = Tile(config)
    trace = drive(tile, streams_of_ones(config, [1] * 4))
    shown = ["F" if out.frozen else "S" if out.schedule_made else "-" for out in trace.outputs]
    # Cycle 3: the second sum is due while the first block has two beats left and one of them moves.
    assert "".join(shown) == "-SSFSFSF----"
    valid = ["01"[out.out_valid] for out in trace.outputs]
    assert "".join(valid) == "000011111111"
    assert tile.counters.stall_output == 3
    # The window fills while the tile is frozen.
    assert [out.taken for out in trace.outputs][:5] == [1, 1, 1, 1, 0]


def test_frozen_without_latency(drive):
    """In the baseline with one stage, the next schedule is the due one."""
    config = TileConfig(rows=2, columns=1, pipeline=1, sparsity="none")
    trace = drive(Tile(config), streams_of_ones(config, [1] * 3))
    shown = ["F" if out.frozen else "S" if out.schedule_made else "-" for out in trace.outputs]
    assert "".join(shown) == "-SFSFS----"[: len(shown)]
    assert len(shown) == 9
    # A step that does not end its stream continues while the block is full.
    config = TileConfig(rows=2, columns=1, pipeline=1, sparsity="none")
    trace = drive(Tile(config), streams_of_ones(config, [1, 3]))
    assert [out.frozen for out in trace.outputs].count(True) == 0


def test_a_blocked_output_freezes_everything_but_the_window(drive):
    config = TileConfig(rows=1, columns=1, pipeline=3)
    tile = Tile(config)
    streams = streams_of_ones(config, [1, 2, 1, 3, 4, 4])
    a, b = (Producer([pair[side][0].tolist() for pair in streams]) for side in (0, 1))
    history = []
    for _ in range(40):
        outputs = tile.cycle([a.offer(4)], [b.offer(4)], out_ready=False)
        a.take(outputs.taken)
        b.take(outputs.taken)
        history.append(outputs)
    # Register, block and pipeline each hold a result, and the window is full.
    assert sum(out.advance for out in history) == 4 + 1
    assert sum(out.taken for out in history) == 4 + 1 + 4
    assert history[-1].frozen
    assert history[-1].out is not None
    assert [out.out for out in history if out.out_valid] == [history[-1].out] * sum(o.out_valid for o in history)
    frozen = sum(out.frozen for out in history[:-1])
    assert history[-1].counters.stall_output == frozen
    # No result is lost afterwards.
    sums = []
    for _ in range(60):
        outputs = tile.cycle([a.offer(4)], [b.offer(4)], out_ready=True)
        a.take(outputs.taken)
        b.take(outputs.taken)
        sums += [np.uint32(outputs.out.values[0][0]).view(np.float32)] if outputs.out else []
    assert sums == [4, 8, 4, 12, 16, 16]


def test_missing_steps_bound_the_advance(drive):
    """Zeros arrive one step per cycle: input limits AS to 1, except at the stream's end."""
    config = TileConfig(rows=1, columns=1)
    streams = [(ones(1, 4), zeros(1, 4))]
    tile = Tile(config)
    trace = drive(tile, streams, most=lambda port: 1)
    assert [out.advance for out in trace.outputs][:6] == [0, 1, 1, 1, 1, 0]
    assert (tile.counters.cycles, tile.counters.input_limited, tile.counters.steps) == (4, 3, 4)


def test_full_window_waits_for_the_steps(drive):
    config = TileConfig(rows=1, columns=1, full_window=True)
    tile = Tile(config)
    trace = drive(tile, [(ones(1, 6), zeros(1, 6))], most=lambda port: 1)
    # Four steps arrive in cycles 0 to 3, two more in 4 and 5. The last one ends the stream.
    assert [out.advance for out in trace.outputs][:8] == [0, 0, 0, 0, 4, 0, 2, 0]
    assert (tile.counters.cycles, tile.counters.input_limited) == (2, 0)


def test_taken_steps_are_limited_by_ports_and_room(nothing):
    config = TileConfig(rows=2, columns=1)
    tile = Tile(config)
    step = [[ONE] * 4] * 6
    few, many = Offer(step, 2), Offer(step, 6)
    assert tile.cycle([many], [many, nothing(config)[1][0]], True).taken == 0
    assert tile.cycle([many], [few, many], True).taken == 2
    assert tile.cycle([many], [many, many], True).taken == 3  # One step leaves, so that three fit.
    assert tile.cycle([many], [many, many], True).taken == 1


def test_last_counts_only_where_the_offer_is_used_up():
    """A port that offers more than is taken does not end its stream."""
    config = TileConfig(rows=1, columns=1)
    tile = Tile(config)
    step = [[ONE] * 4] * 4
    assert tile.cycle([Offer(step, 3, last=True)], [Offer(step, 2)], True).taken == 2
    assert tile.control.rows[0].ends == [False, False]
    assert tile.cycle([Offer(step, 1, last=True)], [Offer(step, 1, last=True)], True).taken == 1
    assert tile.control.rows[0].ends == [False, True]
    assert not tile.protocol_error


def test_offers_beyond_the_window_are_limited():
    """Of six steps offered with `last`, four count, and the mark applies to the fourth."""
    config = TileConfig(rows=1, columns=1)
    tile = Tile(config)
    six = Offer([[ONE] * 4] * 6, 6, last=True)
    assert tile.cycle([six], [six], True).taken == 4
    assert tile.control.rows[0].ends == [False, False, False, True]


def test_reset_clears_all_state(drive, operands):
    config = TileConfig(rows=2, columns=2)
    tile = Tile(config)
    streams = operands.streams(config, [5, 9, 3])
    expected = run_streams(streams, config).c_bits
    for cycles in range(12):
        for _ in range(cycles):
            offers = [Offer([[ONE] * 4] * 4, 4)] * 2
            tile.cycle(offers, offers, out_ready=False)
        tile.reset()
        trace = drive(tile, streams)
        np.testing.assert_array_equal(trace.blocks, expected)
        assert tile.counters.steps == 17
        tile.reset()


def test_invalid_offers():
    tile = Tile(TileConfig(rows=2, columns=1))
    with pytest.raises(ValueError, match="b must be rows=2 offers, not 1"):
        tile.cycle([Offer()], [Offer()], True)
    with pytest.raises(ValueError, match=r"a\[0\].available must be from 0 to its 0 steps, not 1"):
        tile.cycle([Offer((), 1)], [Offer(), Offer()], True)
    step = Offer([[ONE] * 3], 1)
    with pytest.raises(ValueError, match="a step must have lanes=4 values, not 3"):
        tile.cycle([step], [step, step], True)
