"""Test that benches find faults in formats, exact and integer accumulators, and the C input."""

import pytest
from amaranth.hdl import Const, Mux

from tensordash import generate
from tensordash.arithmetic.accumulator import ExactAccumulator
from tensordash.arithmetic.fused_accumulator import FusedAccumulator
from tensordash.arithmetic.fused_result import FusedResult
from tensordash.arithmetic.initial_adder import InitialAdder
from tensordash.arithmetic.integer_accumulator import IntegerAccumulator
from tensordash.arithmetic.integer_multiplier import IntegerMultiplier
from tensordash.arithmetic.integer_result import IntegerResult
from tensordash.layouts import FloatView
from tensordash.tile.initial_store import InitialStore
from tensordash.tile.tile import Tile
from tensordash_sim.verify import run_bench

from .conftest import FOR_SMALL, reports
from .number_configs import CONFIGS, E4M3, EXACT, INT8, NEAREST, VOLTA


@pytest.mark.slow  # For CI, the runs of the same benches in test_formats.py and test_benches.py suffice.
@pytest.mark.parametrize(("bench", "name"), [*(("pe", name) for name in CONFIGS), ("tile", "e4m3"), ("tile", "int8")])
def test_sound_verilog_passes(name, bench, tmp_path):
    """As a control, run the bench on Verilog without a fault."""
    config = CONFIGS[name]
    generate(config, tmp_path / "verilog")
    result = run_bench(bench, config, tmp_path / "verilog", tmp_path / "run", seed=7, effort=0.05, simulator=FOR_SMALL)
    assert result.passed, result.failures


WRAPPED = pytest.param("axi_stream", marks=pytest.mark.slow)
"""The wrapper does not depend on the numerics."""


@pytest.mark.sampled(5)
class TestC:
    @pytest.mark.parametrize("bench", ["tile", WRAPPED])
    @pytest.mark.parametrize("name", ["exact", "int8", "volta"])
    def test_c_is_not_added(self, name, bench, run_quick, sabotage):
        sabotage(InitialStore, lambda self: self.values.eq(0))
        assert reports(run_quick(bench, CONFIGS[name], only="traffic/idle=0.0/stall=0.0"), "golden has")

    def test_c_is_added_to_the_wrong_column(self, run_quick, sabotage):
        sabotage(Tile, lambda self: self.drain.c[0][0].eq(self.drain.c[0][1]))
        assert reports(run_quick("tile", EXACT, only="traffic"), "out_payload is", "golden has")

    def test_c_is_added_to_the_wrong_row(self, run_quick, sabotage):
        sabotage(Tile, lambda self: self.pes[0, 0].sum.c.eq(self.pes[1, 0].sum.c))
        assert reports(run_quick("tile", VOLTA, only="traffic"), "out_payload is", "golden has")

    def test_c_of_the_previous_stream(self, run_quick, sabotage):
        sabotage(InitialStore, lambda self, inside: inside["reading"].eq(inside["reading"]), domain="sync")
        assert reports(run_quick("tile", INT8, only="traffic"), "out_payload is", "golden has")

    def test_c_is_added_in_every_cycle(self, run_quick, sabotage):
        sabotage(FusedAccumulator, lambda self, inside: inside["basis"].number.eq(self.sum.c))
        assert reports(run_quick("pe", VOLTA), "block is", "golden has")

    def test_last_is_ignored(self, run_quick, sabotage):
        sabotage(InitialStore, lambda self: self.wrong_last.eq(0))
        assert reports(run_quick("tile", VOLTA, only="wrong_last"), "protocol_error is 0", "golden has 1")

    def test_last_is_required_on_every_beat(self, run_quick, sabotage):
        sabotage(InitialStore, lambda self: self.wrong_last.eq(self.c.valid & ~self.c.payload.last))
        assert reports(run_quick("tile", INT8, only="single_steps"), "protocol_error is 1", "golden has 0")

    @pytest.mark.parametrize("name", ["exact", "volta"])
    def test_store_is_one_beat_too_small(self, name, run_quick, sabotage):
        sabotage(InitialStore, lambda self, inside: self.c.ready.eq(inside["held"] < self.slots - 1))
        assert reports(run_quick("tile", CONFIGS[name], only="c_alone"), "c_ready is 0", "golden has 1")

    def test_always_ready(self, run_quick, sabotage):
        sabotage(InitialStore, lambda self: self.c.ready.eq(1))
        assert reports(run_quick("tile", VOLTA, only="c_alone"), "c_ready is 1", "golden has 0")

    def test_stream_does_not_wait(self, run_quick, sabotage):
        sabotage(InitialStore, lambda self: self.available.eq(1))
        assert reports(run_quick("tile", EXACT, only="c_alone"), "golden has")

    def test_nan_is_not_noticed(self, run_quick, sabotage):
        sabotage(InitialStore, lambda self: self.non_finite.eq(0))
        assert reports(run_quick("tile", VOLTA, only="c_alone|special"), "non_finite is 0", "golden has 1")

    def test_nan_is_an_infinity_to_the_adder(self, run_quick, sabotage):
        sabotage(InitialAdder, lambda self: self.total.positive.eq(0))
        assert reports(run_quick("tile", EXACT, only="c_alone"), "out_payload is", "golden has")

    def test_large_c_is_lost(self, run_quick, sabotage):
        sabotage(InitialAdder, lambda self: self.bypass.eq(0))
        assert reports(run_quick("tile", EXACT, only="traffic"), "out_payload is", "golden has")

    def test_minus_zero_is_kept(self, run_quick, sabotage):
        sabotage(
            FusedResult,
            lambda self, inside: inside["value"].eq(Mux(self.load, self.sum.number, inside["value"])),
            domain="sync",
        )
        assert reports(
            run_quick("tile", NEAREST, only="all_zeros"), "out_payload is ['0x80000000']", "golden has ['0x0']"
        )

    def test_c_does_not_leave_the_wrapper(self, run_quick, sabotage):
        sabotage(Tile, lambda self: self.c.ready.eq(0))
        assert reports(run_quick("axi_stream", INT8), "golden has")


class TestE4M3:
    def test_nan_is_an_infinity(self, run_quick, monkeypatch):
        monkeypatch.setattr(FloatView, "is_nan", property(lambda self: Const(0)))
        assert reports(run_quick("pe", E4M3), "block is", "golden has")

    def test_nan_is_not_noticed(self, run_quick, monkeypatch):
        monkeypatch.setattr(FloatView, "is_special", property(lambda self: Const(0)))
        assert reports(run_quick("tile", E4M3, only="c_alone|special"), "non_finite is 0", "golden has 1")

    def test_largest_binade_is_not_finite(self, run_quick, monkeypatch):
        monkeypatch.setattr(FloatView, "is_special", property(lambda self: self.exponent.all()))
        assert reports(run_quick("tile", E4M3, only="traffic"), "non_finite is 1", "golden has 0")

    def test_overflow_is_not_noticed(self, run_quick, sabotage):
        sabotage(ExactAccumulator, lambda self: self.sum.overflow.eq(0))
        assert reports(run_quick("tile", E4M3), "overflow is 0", "golden has 1")


class TestInt8:
    @pytest.mark.parametrize("bench", ["pe", "tile", WRAPPED])
    def test_sign_is_lost(self, bench, run_quick, sabotage):
        sabotage(IntegerMultiplier, lambda self: self.product.eq(self.a.as_unsigned() * self.b))
        assert reports(run_quick(bench, INT8), "golden has")

    def test_sum_is_not_sign_extended(self, run_quick, sabotage):
        sabotage(IntegerResult, lambda self, inside: inside["total"].eq(self.sum.as_unsigned() + self.c))
        assert reports(run_quick("tile", INT8, only="traffic"), "golden has")

    def test_most_negative_product_is_cut(self, run_quick, sabotage):
        sabotage(IntegerMultiplier, lambda self: self.product[-2].eq(self.product[-1]))
        assert reports(run_quick("pe", INT8), "block is", "golden has")

    @pytest.mark.parametrize("bench", ["pe", "tile"])
    def test_overflow_is_not_noticed(self, bench, run_quick, sabotage):
        sabotage(IntegerAccumulator, lambda self: self.sum.overflow.eq(0))
        failures = run_quick(bench, INT8)
        assert any("golden has overflow True" in line or "overflow is 0, golden has 1" in line for line in failures)

    def test_overflow_of_c_is_not_noticed(self, run_quick, sabotage):
        sabotage(IntegerResult, lambda self: self.overflow.eq(0))
        assert reports(run_quick("tile", INT8, only="largest"), "overflow is 0", "golden has 1")

    def test_overflow_of_c_at_rest(self, run_quick, sabotage):
        """The fault sets the flag before the sum leaves its register."""
        sabotage(Tile, lambda self: self.overflow.eq(self.flags.overflow | self.drain.overflow))
        assert reports(run_quick("tile", INT8, only="traffic"), "overflow is 1", "golden has 0")
