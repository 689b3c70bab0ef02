"""Benches find faults in a tile's status, output buffer and reset."""

from dataclasses import replace

import pytest

from tensordash import TileConfig
from tensordash.tile.control import Control
from tensordash.tile.drain import Drain
from tensordash.tile.initial_store import InitialStore
from tensordash.tile.output_buffer import OutputBuffer
from tensordash.tile.snapshot import Snapshot
from tensordash.tile.tile import Tile

from .conftest import CONFIG, says

pytestmark = pytest.mark.sampled(6)

RING = TileConfig(rows=2, columns=1, depth=3, connectivity=((0, 0), (1, 1), (1, 0), (2, 0), (2, 1)), staging="ring")
COPIED = TileConfig(rows=2, columns=1, counters="snapshot")
BUFFERED = TileConfig(rows=2, columns=1, registered_ready=True)


def test_always_idle(caught, sabotage):
    sabotage(Tile, lambda self: self.idle.eq(1))
    assert says(caught("tile", only="idle_between"), "idle is 1", "golden has 0")


def test_a_stream_that_waits_is_taken_for_idle(caught, sabotage):
    sabotage(Control, lambda self: self.empty.eq(~self._present[0]))
    assert says(caught("tile", only="idle_between"), "idle is 1", "golden has 0")


def test_beats_on_their_way_out_are_forgotten(caught, sabotage):
    sabotage(Drain, lambda self: self.empty.eq(self.free))
    assert says(caught("tile", only="idle_between"), "idle is 1", "golden has 0")


def test_beats_in_the_output_buffer_are_forgotten(caught, sabotage):
    sabotage(OutputBuffer, lambda self: self.empty.eq(1))
    assert says(caught("tile", config=BUFFERED, only="idle_between"), "idle is 1", "golden has 0")


def test_c_that_waits_is_forgotten(caught, sabotage):
    sabotage(InitialStore, lambda self: self.empty.eq(1))
    assert says(caught("tile", config=replace(CONFIG, initial=True), only="c_alone"), "idle is 1", "golden has 0")


def test_a_special_result_of_one_column_is_dropped(caught, sabotage):
    config = TileConfig(rows=1, columns=2)

    def first_column_only(self):
        return self.non_finite.eq(self.out.valid & self.out.ready & self._results[0, 0].non_finite)

    sabotage(Drain, first_column_only)
    failures = caught("tile", config=config, only="special_results")
    assert says(failures, "result_non_finite is 0", "golden has 1")


def test_a_special_result_counts_before_it_has_left(caught, sabotage):
    sabotage(Drain, lambda self: self.non_finite.eq(self.out.valid & self._results[0, 0].non_finite))
    failures = caught("tile", only="special_results")
    assert says(failures, "result_non_finite is 1", "golden has 0")


@pytest.mark.parametrize("counter", ["stall_output", "row_wait"])
def test_a_snapshot_misses_a_counter(caught, sabotage, counter):
    sabotage(Snapshot, lambda self: getattr(self.copied, counter).eq(0), domain="sync")
    assert says(caught("tile", config=COPIED, only="snapshots"), f"{counter} is", "golden has")


def test_clear_zeroes_the_snapshot(caught, sabotage):
    sabotage(Tile, lambda self: self.copies.take.eq(self.snapshot | self.clear))
    assert says(caught("tile", config=COPIED, only="snapshots"), "is", "golden has")


def test_entry_line_is_that_of_the_oldest_step(caught, sabotage):
    sabotage(Control, lambda self: self.entry_line.eq(self.motion.oldest))
    assert says(caught("tile", config=RING, only="random_traffic"), "entry_line is", "golden has")


def test_steps_are_taken_in_reset(caught, sabotage):
    sabotage(Control, lambda self: self.taken.eq(sum(self.entering)))
    assert says(caught("tile", only="reset_anywhere"), "taken is", "golden has 0")


def test_c_is_taken_in_reset(caught, sabotage):
    sabotage(InitialStore, lambda self, inside: self.c.ready.eq(inside["held"] != self.slots))
    failures = caught("tile", config=replace(CONFIG, initial=True), only="reset_anywhere")
    assert says(failures, "c_ready is 1", "golden has 0")


def test_the_buffer_holds_one_beat(caught, sabotage):
    sabotage(OutputBuffer, lambda self: self.beats.ready.eq(~self.out.valid))
    assert says(caught("tile", config=BUFFERED, only="random_traffic"), "golden has")
