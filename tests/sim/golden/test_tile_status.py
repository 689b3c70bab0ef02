"""Test the tile's counters and sticky flags."""

import numpy as np
import pytest

from tensordash import TileConfig
from tensordash_sim.golden import COUNTER_LIMIT, Counters, Offer, Tile, run_streams

ONE, MAX, INF, NAN = 0x3C00, 0x7BFF, 0x7C00, 0x7E00
ONES = [[ONE] * 4] * 4


def test_a_row_of_zeros_waits_for_a_dense_row():
    config = TileConfig(rows=2, columns=1)
    a = np.full((1, 8, 4), ONE, np.uint16)
    b = np.stack([np.zeros((8, 4), np.uint16), a[0]])
    result = run_streams([(a, b)], config)
    # There are eight schedules. Row 0 could advance 4 steps in the first five, and 3, 2 and 1 in the others.
    assert result.row_wait.tolist() == [[5 * 3 + 2 + 1 + 0, 0]]
    assert result.counters.row_wait == (18, 0)
    assert (result.cycles.item(), result.effectual.item()) == (8, 32)


def test_counters_with_both_sides_sparse(operands):
    """A row's AS is the minimum over its two PEs. Each PE counts its own positions."""
    config = TileConfig(rows=2, columns=2, sparsity="both")
    a, b = np.zeros((2, 8, 4), np.uint16), np.full((2, 8, 4), ONE, np.uint16)
    a[1] = ONE
    b[1] = 0
    result = run_streams([(a, b)], config)
    assert result.cycles.item() == 8  # PE (0, 1) is dense.
    assert result.effectual.item() == 32
    assert result.row_wait.tolist() == [[0, 18]]
    assert result.c.tolist() == [[[0.0, 32.0], [0.0, 0.0]]]


def test_counters_of_the_baseline():
    config = TileConfig(rows=2, columns=3, sparsity="none")
    zeros = [np.zeros((ports, 5, 4), np.uint16) for ports in (3, 2)]
    result = run_streams([(zeros[0], zeros[1])], config)
    assert result.counters.cycles == result.counters.steps == 5
    assert result.counters.effectual == 5 * 2 * 4
    assert result.counters.input_limited == 0
    assert result.counters.row_wait == (0, 0)


def test_counters_saturate():
    config = TileConfig(rows=1, columns=1)
    tile = Tile(config)
    near = COUNTER_LIMIT - 1
    tile.counters = Counters(near, near, near, near, near, near, (near,))
    offer = [Offer(ONES, 4)]
    for _ in range(6):
        tile.cycle(offer, offer, True)
    assert tile.counters == Counters(
        cycles=COUNTER_LIMIT,
        steps=COUNTER_LIMIT,
        effectual=COUNTER_LIMIT,
        stall_input=COUNTER_LIMIT,
        stall_output=near,
        input_limited=near,
        row_wait=(near,),
    )


def test_counters_show_the_cycles_before_this_one():
    config = TileConfig(rows=1, columns=1)
    tile = Tile(config)
    offer = [Offer(ONES, 4)]
    seen = [tile.cycle(offer, offer, True).counters for _ in range(3)]
    assert [one.stall_input for one in seen] == [0, 1, 1]
    assert [one.cycles for one in seen] == [0, 0, 1]


def test_clear_has_priority_over_events():
    config = TileConfig(rows=1, columns=1)
    tile = Tile(config)
    bad = [Offer([[NAN] * 4], 1, last=True)]
    tile.cycle(bad, [Offer(ONES, 1)], True, clear=True)
    assert (tile.non_finite, tile.protocol_error) == (False, False)
    tile.cycle(bad, [Offer(ONES, 1)], True)
    assert tile.non_finite
    assert tile.protocol_error
    tile.cycle([Offer()], [Offer()], True, clear=True)
    assert tile.counters == Counters(row_wait=(0,))
    assert (tile.non_finite, tile.protocol_error) == (False, False)


@pytest.mark.parametrize("early", ["a0", "a1", "b0", "b1"])
def test_ports_that_disagree_on_the_end(early):
    config = TileConfig(rows=2, columns=2)
    tile = Tile(config)
    offers = {name: Offer(ONES, 2, last=name == early) for name in ("a0", "a1", "b0", "b1")}
    a, b = [offers["a0"], offers["a1"]], [offers["b0"], offers["b1"]]
    first = tile.cycle(a, b, True)
    second = tile.cycle([Offer()] * 2, [Offer()] * 2, True)
    assert (first.protocol_error, second.protocol_error) == (False, True)
    assert tile.protocol_error
    assert tile.datapath.pipeline[0] is not None
    # Any port ends the stream: one schedule, of at most two steps, is marked as the last.
    for _ in range(3):
        tile.cycle([Offer()] * 2, [Offer()] * 2, True)
    assert tile.control.rows[0].present == 0
    assert tile.control.first


def test_no_protocol_error_without_a_taken_step():
    config = TileConfig(rows=1, columns=1)
    tile = Tile(config)
    tile.cycle([Offer(ONES, 0, last=True)], [Offer(ONES, 4)], True)
    tile.cycle([Offer(ONES, 3, last=True)], [Offer(ONES, 0, last=True)], True)
    assert not tile.protocol_error
    assert tile.control.rows[0].present == 0


@pytest.mark.parametrize("special", [INF, 0xFC00, NAN, 0x7C01])
@pytest.mark.parametrize("sparsity", ["none", "rows", "both"])
@pytest.mark.parametrize("side", ["a", "b"])
def test_the_flag_of_non_finite_values(special, sparsity, side):
    """The flag is set when the step enters, not when it is offered, even if the other operand is zero."""
    config = TileConfig(rows=1, columns=1, sparsity=sparsity)
    tile = Tile(config)
    depth = config.window_depth
    bad = Offer([[ONE] * 4] * (depth - 1) + [[0, 0, 0, special]], depth)
    good = Offer([[0] * 4] * depth, depth)
    a, b = (bad, good) if side == "a" else (good, bad)
    if depth > 1:
        fewer = Offer(good.steps, depth - 1)
        tile.cycle([a if side == "a" else fewer], [fewer if side == "a" else b], True)
        assert not tile.non_finite
        tile.reset()
    assert not tile.cycle([a], [b], True).non_finite
    assert tile.cycle([Offer()], [Offer()], True).non_finite


def test_the_flag_of_overflow():
    """The flag is set when the overflowing sum is accumulated, `latency` cycles after its schedule."""
    config = TileConfig(rows=1, columns=2, headroom_bits=0, pipeline=3)
    tile = Tile(config)
    big, small = Offer([[MAX] * 4], 1, last=True), Offer([[ONE] * 4], 1, last=True)
    seen = [tile.cycle([small, big], [big], True).overflow]
    seen += [tile.cycle([Offer()] * 2, [Offer()], True).overflow for _ in range(6)]
    # The step is taken in cycle 0, scheduled in 1 and accumulated in 3.
    assert seen == [False] * 4 + [True] * 3
    assert tile.overflow


def test_overflow_wraps_in_the_result():
    config = TileConfig(rows=1, columns=1, headroom_bits=0)
    one = np.full((1, 1, 4), MAX, np.uint16)
    result = run_streams([(one, one)], config)
    product = 65504**2 * 2**48
    wrapped = (4 * product + 2**80) % 2**81 - 2**80
    assert result.overflow
    assert result.c.item() == np.float32(wrapped / 2**48)
