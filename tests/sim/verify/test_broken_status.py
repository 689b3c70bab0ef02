"""Test that benches find faults in a tile's status, output buffer and reset."""

from dataclasses import replace

import pytest

from tensordash import TileConfig
from tensordash.tile.control import Control
from tensordash.tile.drain import Drain
from tensordash.tile.initial_store import InitialStore
from tensordash.tile.output_buffer import OutputBuffer
from tensordash.tile.snapshot import Snapshot
from tensordash.tile.tile import Tile

from .conftest import CONFIG, reports

pytestmark = pytest.mark.sampled(6)

RING = TileConfig(rows=2, columns=1, depth=3, connectivity=((0, 0), (1, 1), (1, 0), (2, 0), (2, 1)), staging="ring")
COPIED = TileConfig(rows=2, columns=1, counters="snapshot")
BUFFERED = TileConfig(rows=2, columns=1, registered_ready=True)


def test_always_idle(run_faulty, sabotage):
    sabotage(Tile, lambda self: self.idle.eq(1))
    assert reports(run_faulty("tile", only="idle_between"), "idle is 1", "golden has 0")


def test_waiting_stream_counts_as_idle(run_faulty, sabotage):
    sabotage(Control, lambda self: self.empty.eq(~self._present[0]))
    assert reports(run_faulty("tile", only="idle_between"), "idle is 1", "golden has 0")


def test_beats_in_the_drain_count_as_idle(run_faulty, sabotage):
    sabotage(Drain, lambda self: self.empty.eq(self.free))
    assert reports(run_faulty("tile", only="idle_between"), "idle is 1", "golden has 0")


def test_beats_in_the_output_buffer_count_as_idle(run_faulty, sabotage):
    sabotage(OutputBuffer, lambda self: self.empty.eq(1))
    assert reports(run_faulty("tile", config=BUFFERED, only="idle_between"), "idle is 1", "golden has 0")


def test_waiting_c_counts_as_idle(run_faulty, sabotage):
    sabotage(InitialStore, lambda self: self.empty.eq(1))
    assert reports(
        run_faulty("tile", config=replace(CONFIG, initial=True), only="c_alone"), "idle is 1", "golden has 0"
    )


def test_a_special_result_of_one_column_is_dropped(run_faulty, sabotage):
    config = TileConfig(rows=1, columns=2)

    def first_column_only(self):
        return self.non_finite.eq(self.out.valid & self.out.ready & self._results[0, 0].non_finite)

    sabotage(Drain, first_column_only)
    failures = run_faulty("tile", config=config, only="special_results")
    assert reports(failures, "result_non_finite is 0", "golden has 1")


def test_special_result_counts_too_early(run_faulty, sabotage):
    sabotage(Drain, lambda self: self.non_finite.eq(self.out.valid & self._results[0, 0].non_finite))
    failures = run_faulty("tile", only="special_results")
    assert reports(failures, "result_non_finite is 1", "golden has 0")


@pytest.mark.parametrize("counter", ["stall_output", "row_wait"])
def test_a_snapshot_misses_a_counter(run_faulty, sabotage, counter):
    sabotage(Snapshot, lambda self: getattr(self.copied, counter).eq(0), domain="sync")
    assert reports(run_faulty("tile", config=COPIED, only="snapshots"), f"{counter} is", "golden has")


def test_clear_zeroes_the_snapshot(run_faulty, sabotage):
    sabotage(Tile, lambda self: self.copies.take.eq(self.snapshot | self.clear))
    assert reports(run_faulty("tile", config=COPIED, only="snapshots"), "is", "golden has")


def test_entry_line_of_the_oldest_step(run_faulty, sabotage):
    sabotage(Control, lambda self: self.entry_line.eq(self.motion.oldest))
    assert reports(run_faulty("tile", config=RING, only="random_traffic"), "entry_line is", "golden has")


def test_steps_are_taken_in_reset(run_faulty, sabotage):
    sabotage(Control, lambda self: self.taken.eq(sum(self.entering)))
    assert reports(run_faulty("tile", only="reset_anywhere"), "taken is", "golden has 0")


def test_c_is_taken_in_reset(run_faulty, sabotage):
    sabotage(InitialStore, lambda self, inside: self.c.ready.eq(inside["held"] != self.slots))
    failures = run_faulty("tile", config=replace(CONFIG, initial=True), only="reset_anywhere")
    assert reports(failures, "c_ready is 1", "golden has 0")


def test_the_buffer_holds_one_beat(run_faulty, sabotage):
    sabotage(OutputBuffer, lambda self: self.beats.ready.eq(~self.out.valid))
    assert reports(run_faulty("tile", config=BUFFERED, only="random_traffic"), "golden has")
