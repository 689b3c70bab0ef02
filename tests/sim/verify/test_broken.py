"""Test that each bench finds a deliberate fault in its Verilog."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from amaranth.hdl import Cat

from tensordash import TileConfig, generate
from tensordash.arithmetic.converter import Converter
from tensordash.block import placed
from tensordash.schedule import staging_buffer
from tensordash.schedule.row_scheduler import RowScheduler
from tensordash.schedule.scheduler import Scheduler
from tensordash.schedule.staging_ring import StagingRing
from tensordash.streams import block_quantiser, transposer
from tensordash.streams.axi_stream import AxiStreamTile
from tensordash.streams.feeder import Feeder
from tensordash.streams.ring_feeder import RingFeeder
from tensordash.tile.control import Control
from tensordash.tile.counters import Counters
from tensordash.tile.drain import Drain
from tensordash.tile.pe import PE
from tensordash_sim.verify import run_bench

from .conftest import CONFIG, FOR_SMALL, reports


@pytest.mark.slow  # For CI, the runs of the same benches in test_benches.py suffice.
@pytest.mark.parametrize("bench", ["scheduler", "staging_buffer", "transposer", "pe", "tile", "axi_stream"])
def test_sound_verilog_passes(bench, tmp_path):
    """As a control, run the bench with the same seed and effort on Verilog without a fault."""
    generate(CONFIG, tmp_path / "verilog")
    result = run_bench(bench, CONFIG, tmp_path / "verilog", tmp_path / "run", seed=7, effort=0.15, simulator=FOR_SMALL)
    assert result.passed, result.failures


@pytest.mark.sampled(2)
class TestScheduler:
    def test_wrong_priority(self, run_faulty):
        options = list(CONFIG.options)
        options[1], options[4] = options[4], options[1]
        failures = run_faulty("scheduler", TileConfig(rows=2, columns=1, connectivity=tuple(options)))
        assert reports(failures, "select is", "golden has")

    def test_wrong_priority_of_the_last_two(self, run_faulty):
        options = CONFIG.options
        failures = run_faulty(
            "scheduler", TileConfig(rows=2, columns=1, connectivity=(*options[:-2], options[-1], options[-2]))
        )
        assert reports(failures, "select is", "golden has")

    def test_advance_one_too_few(self, run_faulty, sabotage):
        sabotage(Scheduler, lambda self: self.advance[-1].eq(0))
        assert reports(run_faulty("scheduler"), "advance is 111", "golden has 4")

    def test_advance_one_too_many(self, run_faulty, sabotage):
        sabotage(Scheduler, lambda self: self.advance[1].eq(self.eligible[1]))
        assert reports(run_faulty("scheduler"), "advance is", "golden has 1")

    def test_ineligible_steps_are_drawn_from(self, run_faulty, sabotage):
        def assignments(self):
            dense, ahead = self.effectual[0], self.effectual[1]
            return [self.select[lane][1].eq(ahead[lane] & ~dense[lane]) for lane in range(self.connectivity.lanes)]

        sabotage(Scheduler, assignments)
        assert reports(run_faulty("scheduler"), "select is", "golden has")

    def test_one_consumed_bit_remains(self, run_faulty, sabotage):
        sabotage(Scheduler, lambda self: self.remaining[2][3].eq(self.effectual[2][3]))
        assert reports(run_faulty("scheduler"), "remaining is", "golden has")


class TestStagingBuffer:
    def test_wrong_refill_line(self, run_faulty, monkeypatch):
        original = staging_buffer.one_hot_mux

        def wrong(lines, sources):
            return original([lines[1], lines[0], *lines[2:]], sources)

        monkeypatch.setattr(staging_buffer, "one_hot_mux", wrong)
        assert reports(run_faulty("staging_buffer"), "golden has")

    def test_offered_steps_in_the_wrong_order(self, run_faulty, monkeypatch):
        original = staging_buffer.one_hot_mux

        def wrong(lines, sources):  # Offered steps come last.
            return original(lines, [*sources[:2], sources[3], sources[2]])

        monkeypatch.setattr(staging_buffer, "one_hot_mux", wrong)
        assert reports(run_faulty("staging_buffer"), "golden has")


class TestRing:
    CONFIG = TileConfig(
        rows=2, columns=1, depth=3, connectivity=((0, 0), (1, 1), (1, 0), (2, 0), (2, 1)), staging="ring"
    )

    @pytest.mark.slow
    @pytest.mark.parametrize("bench", ["staging_ring", "tile", "axi_stream"])
    def test_sound_verilog_passes(self, bench, tmp_path):
        generate(self.CONFIG, tmp_path / "verilog")
        result = run_bench(
            bench, self.CONFIG, tmp_path / "verilog", tmp_path / "run", seed=7, effort=0.15, simulator=FOR_SMALL
        )
        assert result.passed, result.failures

    def test_a_slot_shows_another(self, run_faulty, sabotage):
        sabotage(StagingRing, lambda self: self.window[0].eq(self.window[1]))
        assert reports(run_faulty("staging_ring", config=self.CONFIG), "slot 0 is", "golden has")

    def test_step_is_written_to_the_slot_of_its_age(self, run_faulty, sabotage):
        sabotage(Control, lambda self: self.write.eq(self.entering))
        assert reports(run_faulty("tile", config=self.CONFIG, only="random_traffic"), "golden has")

    def test_selections_are_not_turned(self, run_faulty, sabotage):
        sabotage(Control, lambda self: self.motion.oldest.eq(1))
        assert reports(run_faulty("tile", config=self.CONFIG, only="random_traffic"), "golden has")

    def test_beats_are_not_turned(self, run_faulty, sabotage):
        def assignments(self):
            return [step.eq(held) for step, held in zip(self.port.steps, self._held, strict=False)]

        sabotage(RingFeeder, assignments)
        assert reports(run_faulty("axi_stream", config=self.CONFIG), "golden has")


class TestTransposer:
    def test_orientation_is_not_toggled(self, run_faulty, sabotage):
        sabotage(transposer.Transposer, lambda self, inside: inside["by_column"].eq(0), domain="sync")
        assert reports(run_faulty("transposer"), "block is", "golden has")

    def test_ready_too_early(self, run_faulty, sabotage):
        sabotage(transposer.Transposer, lambda self: self.blocks.ready.eq(1))
        assert reports(run_faulty("transposer"), "golden has ready False")


def test_reset_of_a_pe_is_dropped(tmp_path):
    """After a reset of one cycle, the PE still adds its data and exceeds the range."""
    generate(CONFIG, tmp_path / "verilog")
    path = tmp_path / "verilog" / "tensordash.v"
    head, pe, rest = path.read_text(encoding="utf-8").partition("  tensordash_scheduled_pe pe_1_0 (")
    assert pe
    path.write_text(head + pe + rest.replace(".rst(rst)", ".rst(1'h0)", 1), encoding="utf-8")
    result = run_bench("tile", CONFIG, tmp_path / "verilog", tmp_path / "run", seed=7, effort=0.15, simulator=FOR_SMALL)
    assert reports(result.failures, "reset_before_an_overflow", "overflow is 1, golden has 0")


@pytest.mark.sampled(3)
class TestBlockQuantiser:
    CONFIG = TileConfig(rows=1, columns=1, lanes=8, format="fp4_e2m1", scale="e8m0", accumulator="hopper")

    @pytest.mark.parametrize(
        ("fault", "domain", "message"),
        [
            (lambda self, inside: inside["seen"].eq(0), "sync", "step is"),
            (lambda self, inside: inside["scale"].eq(127), "sync", "step is"),
            (lambda self, inside: inside["ahead"].eq(0), "sync", "golden has ready True"),
            (lambda self, inside: self.values.ready.eq(1), "comb", "golden has ready False"),
            (lambda self, inside: self._converters[7].scale.eq(0), "comb", "step is"),
            (lambda self, inside: self._converters[3].stochastic.eq(0), "comb", "step is"),
            (lambda self, inside: self._converters[3].random.eq(self._random.bits[2]), "comb", "step is"),
            (lambda self, inside: self._random.start.eq(0), "comb", "golden has valid False"),
            (lambda self, inside: self._random.step.eq(1), "comb", "step is"),
            (lambda self, inside: self._random.seed.eq(0), "comb", "step is"),
            (lambda self, inside: self._random.step.eq(self.rounding[0] & inside["moves_out"]), "comb", "step is"),
        ],
    )
    def test_faults(self, run_faulty, sabotage, fault, domain, message):
        sabotage(block_quantiser.BlockQuantiser, fault, domain=domain)
        assert reports(run_faulty("block_quantiser", config=self.CONFIG), message)

    def test_largest_is_an_infinity(self, run_faulty, monkeypatch):
        monkeypatch.setattr(
            Converter, "saturating", property(lambda self: False, lambda self, value: None), raising=False
        )
        config = replace(self.CONFIG, format="fp8_e4m3")
        assert reports(run_faulty("block_quantiser", config=config), "step is", "golden has")


def placed_original(block: Any, platform: Any) -> Any:
    """Place a component, or the original if a wrapper with other members replaces it."""
    return placed(getattr(block, "original", block), platform)


@pytest.mark.sampled(2)
class TestPE:
    def test_sign_of_a_lane_is_ignored(self, run_faulty, monkeypatch):
        original = PE.elaborate

        def broken(self, platform):
            first = self.multipliers[0]
            sign = first.product.shape()["sign"].offset
            unsigned = first.product.as_value() & ~(1 << sign)
            self.multipliers[0] = SimpleNamespace(original=first, a=first.a, b=first.b, product=unsigned)
            return original(self, platform)

        monkeypatch.setattr(PE, "elaborate", broken)
        monkeypatch.setattr("tensordash.tile.pe.placed", placed_original)
        assert reports(run_faulty("pe"), "block is", "golden has")

    def test_start_is_ignored(self, run_faulty, sabotage):
        sabotage(PE, lambda self: self.accumulator.sum.start.eq(0))
        run_faulty("pe")

    def test_start_is_ignored_now_and_then(self, run_faulty, sabotage):
        sabotage(PE, lambda self: self.accumulator.sum.start.eq(self.sum.start & ~self.sum.take))
        assert reports(run_faulty("pe"), "block is", "golden has")

    def test_hold_is_ignored(self, run_faulty, sabotage):
        sabotage(PE, lambda self: self.accumulator.sum.hold.eq(0))
        assert reports(run_faulty("pe"), "golden has")


@pytest.mark.sampled(3)
class TestTile:
    def test_consumed_bits_are_dropped(self, run_faulty, monkeypatch):
        original = RowScheduler.elaborate

        def broken(self, platform):
            inner = self.scheduler
            self.scheduler = SimpleNamespace(
                original=inner,
                effectual=inner.effectual,
                eligible=inner.eligible,
                select=inner.select,
                advance=inner.advance,
                remaining=inner.effectual,
            )
            return original(self, platform)

        monkeypatch.setattr(RowScheduler, "elaborate", broken)
        monkeypatch.setattr("tensordash.schedule.row_scheduler.placed", placed_original)
        assert reports(run_faulty("tile", only="random_traffic"), "golden has")

    def test_stream_boundary_is_ignored(self, run_faulty, sabotage):
        def assignments(self):
            return self.motion.eligible_next.eq(~0)

        sabotage(Control, assignments)
        assert reports(run_faulty("tile", only="random_traffic"), "golden has")

    def test_tile_follows_its_first_row(self, run_faulty, sabotage):
        sabotage(Control, lambda self: self.advance.eq(self.advances[0]), "_schedule")
        assert reports(run_faulty("tile", only="random_traffic"), "golden has")

    def test_output_does_not_wait(self, run_faulty, sabotage):
        sabotage(Drain, lambda self: self.free.eq(1))
        assert reports(run_faulty("tile", only="blocked"), "golden has")

    def test_counter_is_off_by_one(self, run_faulty, sabotage):
        sabotage(
            Counters, lambda self: self.counts.input_limited.eq(self.counts.input_limited + self.starved), domain="sync"
        )
        assert reports(run_faulty("tile", only="random_traffic"), "input_limited is", "golden has")

    def test_more_is_taken_than_offered(self, run_faulty, sabotage):
        sabotage(Control, lambda self: self.taken.eq(self.depth))
        assert reports(run_faulty("tile", only="random_traffic"), "taken is", "golden has")


@pytest.mark.sampled(3)
class TestAxiStream:
    SMALL = TileConfig(rows=1, columns=1, lanes=2, depth=3, connectivity=((0, 0), (1, 0), (2, 0)))

    @pytest.mark.parametrize("ring", [False, True])
    def test_null_beats_do_not_end_streams(self, ring, run_faulty, sabotage):
        sabotage(Feeder, lambda self: self._closes.eq(0))
        failures = run_faulty(
            "axi_stream", config=replace(self.SMALL, staging="ring" if ring else "shift"), only="null_beats"
        )
        assert reports(failures, "golden has")

    def test_a_step_is_offered_before_its_end_is_known(self, run_faulty, sabotage):
        def assignments(self):
            return [self._open.eq(0), self._known.eq(self._left + sum(self._enters))]

        sabotage(Feeder, assignments, domain="sync")
        assert reports(run_faulty("axi_stream", config=self.SMALL, only="null_beats"), "golden has")

    def test_wrong_beats_are_not_reported(self, run_faulty, sabotage):
        sabotage(Feeder, lambda self: self.wrong.eq(0))
        failures = run_faulty("axi_stream", config=self.SMALL, only="break_the_rules")
        assert reports(failures, "protocol_error is 0, golden has 1")
        assert len(failures) == 7  # one failure per kind of wrong beat

    def test_only_one_port_reports_wrong_beats(self, run_faulty, sabotage):
        def assignments(self):
            return self._wrong.eq((self._wrong | self.feeders[0].wrong) & ~self.clear)

        sabotage(AxiStreamTile, assignments, domain="sync")
        assert reports(
            run_faulty("axi_stream", config=self.SMALL, only="break_the_rules"), "protocol_error is 0, golden has 1"
        )

    def test_the_flag_is_not_cleared(self, run_faulty, sabotage):
        def assignments(self):
            return self._wrong.eq(self._wrong | Cat(feeder.wrong for feeder in self.feeders).any())

        sabotage(AxiStreamTile, assignments, domain="sync")
        assert reports(run_faulty("axi_stream", config=self.SMALL, only="agree"), "protocol_error is 1, golden has 0")

    def test_beats_are_lost_in_reset(self, run_faulty, sabotage):
        sabotage(Feeder, lambda self: self.s_axis.tready.eq(self._left <= self.depth))
        assert reports(run_faulty("axi_stream", config=self.SMALL, only="reset"), "tready is 1, golden has 0")

    def test_tkeep_is_ignored(self, run_faulty, sabotage):
        sabotage(Feeder, lambda self: self._present.eq(~0))
        assert reports(run_faulty("axi_stream", config=self.SMALL, only="traffic"), "golden has")

    def test_always_ready(self, run_faulty, sabotage):
        sabotage(Feeder, lambda self: self.s_axis.tready.eq(1))
        assert reports(run_faulty("axi_stream", config=self.SMALL, only="traffic"), "golden has")

    def test_last_is_lost(self, run_faulty, sabotage):
        sabotage(Feeder, lambda self: self.port.last.eq(0))
        assert reports(run_faulty("axi_stream", config=self.SMALL, only="traffic"), "golden has")
