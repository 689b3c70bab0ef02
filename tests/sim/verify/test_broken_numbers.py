"""Benches find faults in the hardware of formats, accumulators and the C input."""

import re
from dataclasses import replace

import pytest
from amaranth.hdl import Const, Mux

from tensordash import TileConfig, generate
from tensordash.arithmetic import float_sum, fused_accumulator, product_terms
from tensordash.arithmetic.accumulator import ExactAccumulator
from tensordash.arithmetic.addend_accumulator import AddendAccumulator
from tensordash.arithmetic.float_sum import shifted_right
from tensordash.arithmetic.fused_accumulator import FusedAccumulator
from tensordash.arithmetic.fused_initial_adder import FusedInitialAdder
from tensordash.arithmetic.fused_result import FusedResult
from tensordash.arithmetic.initial_adder import InitialAdder
from tensordash.arithmetic.integer_accumulator import IntegerAccumulator
from tensordash.arithmetic.integer_multiplier import IntegerMultiplier
from tensordash.arithmetic.integer_result import IntegerResult
from tensordash.arithmetic.product_sum import ProductSum
from tensordash.layouts import FloatView
from tensordash.tile.initial_store import InitialStore
from tensordash.tile.tile import Tile
from tensordash_sim.verify import run_bench

from .conftest import FOR_SMALL, reports

EXACT = TileConfig(rows=2, columns=2, initial=True)
E4M3 = TileConfig(rows=1, columns=1, format="fp8_e4m3", headroom_bits=3)
INT8 = TileConfig(rows=2, columns=1, format="int8", headroom_bits=5, initial=True)
VOLTA = TileConfig(rows=2, columns=1, format="bf16", accumulator="volta", initial=True)
NEAREST = TileConfig(rows=1, columns=1, accumulator={"fused": 23, "rounding": "nearest"}, initial=True)
COARSE = TileConfig(rows=1, columns=1, format="fp8_e4m3", accumulator={"fused": 8}, initial=True)
AFTER = TileConfig(rows=1, columns=1, format="bf16", accumulator="blackwell-fp8", initial=True)
NARROW = TileConfig(rows=1, columns=1, format="fp8_e4m3", accumulator="hopper-fp8", initial=True)
LAST = TileConfig(rows=2, columns=1, accumulator="blackwell-fp16", initial=True)
HALF = TileConfig(rows=1, columns=1, accumulator="hopper-fp16", initial=True)
LOW = TileConfig(rows=1, columns=1, format="bf16", accumulator={"fused": 24, "zero_exponent": -132}, initial=True)
CONFIGS = {"exact": EXACT, "e4m3": E4M3, "int8": INT8, "volta": VOLTA, "nearest": NEAREST, "coarse": COARSE}
CONFIGS |= {"last": LAST, "after": AFTER, "narrow": NARROW, "half": HALF, "low": LOW}


@pytest.mark.slow  # For CI, the runs of the same benches in test_formats.py and test_benches.py suffice.
@pytest.mark.parametrize(("bench", "name"), [*(("pe", name) for name in CONFIGS), ("tile", "e4m3"), ("tile", "int8")])
def test_sound_verilog_passes(name, bench, tmp_path):
    """As a control, run the bench on Verilog without a fault."""
    config = CONFIGS[name]
    generate(config, tmp_path / "verilog")
    result = run_bench(bench, config, tmp_path / "verilog", tmp_path / "run", seed=7, effort=0.05, simulator=FOR_SMALL)
    assert result.passed, result.failures


@pytest.fixture
def run_quick(run_faulty):
    """Run a bench or one of its tests with little stimulus, which must find the fault."""
    return lambda bench, config, emitted=None, only="": run_faulty(
        bench, emitted, config=config, effort=0.05, only=only
    )


WRAPPED = pytest.param("axi_stream", marks=pytest.mark.slow)
"""The wrapper does not depend on the numerics."""


@pytest.mark.sampled(5)
class TestC:
    @pytest.mark.parametrize("bench", ["tile", WRAPPED])
    @pytest.mark.parametrize("name", ["exact", "int8", "volta"])
    def test_not_added(self, name, bench, run_quick, sabotage):
        sabotage(InitialStore, lambda self: self.values.eq(0))
        assert reports(run_quick(bench, CONFIGS[name], only="traffic/idle=0.0/stall=0.0"), "golden has")

    def test_added_to_the_wrong_column(self, run_quick, sabotage):
        sabotage(Tile, lambda self: self.drain.c[0][0].eq(self.drain.c[0][1]))
        assert reports(run_quick("tile", EXACT, only="traffic"), "out_payload is", "golden has")

    def test_added_to_the_wrong_row(self, run_quick, sabotage):
        sabotage(Tile, lambda self: self.pes[0, 0].sum.c.eq(self.pes[1, 0].sum.c))
        assert reports(run_quick("tile", VOLTA, only="traffic"), "out_payload is", "golden has")

    def test_of_the_stream_before(self, run_quick, sabotage):
        sabotage(InitialStore, lambda self, inside: inside["reading"].eq(inside["reading"]), domain="sync")
        assert reports(run_quick("tile", INT8, only="traffic"), "out_payload is", "golden has")

    def test_added_in_every_cycle(self, run_quick, sabotage):
        sabotage(FusedAccumulator, lambda self, inside: inside["basis"].number.eq(self.sum.c))
        assert reports(run_quick("pe", VOLTA), "block is", "golden has")

    def test_last_is_ignored(self, run_quick, sabotage):
        sabotage(InitialStore, lambda self: self.wrong_last.eq(0))
        assert reports(run_quick("tile", VOLTA, only="wrong_last"), "protocol_error is 0", "golden has 1")

    def test_last_is_wanted_on_every_beat(self, run_quick, sabotage):
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

    def test_stays_at_the_wrapper(self, run_quick, sabotage):
        sabotage(Tile, lambda self: self.c.ready.eq(0))
        assert reports(run_quick("axi_stream", INT8), "golden has")


@pytest.mark.sampled(5)
class TestFused:
    def test_a_small_difference_moves_up_too_far(self, tmp_path):
        """Mutation testing found this fault: the distance is compared without the largest step's part."""
        generate(VOLTA, tmp_path / "verilog")
        file = tmp_path / "verilog" / "tensordash.v"
        text = file.read_text()
        (taken,) = set(re.findall(r"\(limit\[3\] & ~\w+\)", text))
        file.write_text(text.replace(taken, "limit[3]"))
        how = {"seed": 7, "effort": 0.05, "simulator": FOR_SMALL}
        result = run_bench("pe", VOLTA, tmp_path / "verilog", tmp_path / "run", **how)
        assert reports(result.failures, "block is", "golden has")
        assert [failure.partition(":")[0] for failure in result.failures] == ["small_differences"]

    def test_one_fraction_bit_too_few(self, run_quick):
        assert reports(run_quick("pe", VOLTA, replace(VOLTA, accumulator={"fused": 22})), "block is", "golden has")

    def test_one_fraction_bit_too_many(self, run_quick):
        assert reports(run_quick("pe", VOLTA, replace(VOLTA, accumulator="ampere")), "block is", "golden has")

    @pytest.mark.parametrize("term", ["aligned_1", "term_0", "c_aligned"])
    def test_alignment_off_by_one(self, term, run_quick, monkeypatch):
        def wrong(m, bits, distance, name):
            return shifted_right(m, bits, distance + 1 if name == term else distance, name)

        for module in (fused_accumulator, product_terms):
            monkeypatch.setattr(module, "shifted_right", wrong)
        assert reports(run_quick("pe", VOLTA), "block is", "golden has")

    @pytest.mark.parametrize(("expected", "emitted"), [("zero", "nearest"), ("nearest", "zero")])
    def test_wrong_rounding(self, expected, emitted, run_quick):
        configs = [
            replace(NEAREST, accumulator={"fused": 23, "rounding": rounding}) for rounding in (expected, emitted)
        ]
        assert reports(run_quick("pe", *configs), "block is", "golden has")

    def test_never_rounds_up(self, run_quick, sabotage):
        sabotage(FusedAccumulator, lambda self, inside: inside["up"].eq(0))
        assert reports(run_quick("pe", VOLTA), "block is", "golden has")

    def test_exponent_of_a_zero_product_counts(self, run_quick, sabotage):
        sabotage(FusedAccumulator, lambda self, inside: inside["counted_0"].eq(self.active[0] & ~self.sum.hold))
        assert reports(run_quick("pe", COARSE), "block is", "golden has")

    def test_subnormal_c_has_an_exponent_too_low(self, run_quick, sabotage):
        sabotage(FusedAccumulator, lambda self, inside: inside["c_level"].eq(inside["basis"].number[23:-1]))
        assert reports(run_quick("pe", VOLTA), "block is", "golden has")

    def test_adds_without_an_active_lane(self, run_quick, sabotage):
        sabotage(FusedAccumulator, lambda self, inside: inside["marks"].counting.eq(1), domain="sync")
        assert reports(run_quick("pe", COARSE), "block is", "golden has")

    def test_overflow_is_not_infinite(self, run_quick, sabotage):
        sabotage(FusedAccumulator, lambda self, inside: inside["overflow"].eq(0))
        assert reports(run_quick("pe", VOLTA), "block is", "golden has")

    @pytest.mark.parametrize("sign", ["positive", "negative"])
    def test_special_mark_is_lost(self, sign, run_quick, sabotage):
        sabotage(FusedAccumulator, lambda self: getattr(self.sum.value, sign).eq(0))
        assert reports(run_quick("pe", VOLTA), "block is", "golden has")

    def test_nan_of_an_exact_accumulator(self, run_quick, sabotage):
        sabotage(
            FusedResult,
            lambda self, inside: self.value.eq(Mux(inside["value"] == 0x7FFFFFFF, 0x7FC00000, inside["value"])),
        )
        assert reports(run_quick("tile", VOLTA, only="c_alone|special"), "out_payload is", "0x7fffffff")


class TestFusedOptions:
    @pytest.mark.slow
    @pytest.mark.parametrize("accumulator", [{"fused": 12, "result_bits": 13}, {"fused": 14, "result_bits": 13}])
    def test_wrong_fraction_bits_of_few_result_bits(self, accumulator, run_quick):
        assert reports(run_quick("pe", NARROW, replace(NARROW, accumulator=accumulator)), "block is", "golden has")

    def test_c_keeps_a_bit_that_results_have_not(self, run_quick, sabotage):
        sabotage(FusedAccumulator, lambda self, inside: inside["basis"].number[0].eq(self.sum.c[9]))
        assert reports(run_quick("pe", NARROW), "block is", "golden has")

    @pytest.mark.slow
    def test_results_stand_one_place_too_low(self, run_quick, sabotage):
        def assignments(self, inside):
            return inside["value"].eq(
                Mux(self.load, self.sum.number << (22 - self.accumulator.result_bits), inside["value"])
            )

        sabotage(FusedResult, assignments, domain="sync")
        assert reports(run_quick("tile", NARROW, only="traffic"), "out_payload is", "golden has")

    @pytest.mark.parametrize("zero_exponent", [-133, *(pytest.param(e, marks=pytest.mark.slow) for e in (-131, -126))])
    def test_a_zero_counts_as_another_exponent(self, zero_exponent, run_quick):
        accumulator = {"fused": 24, "zero_exponent": zero_exponent}
        assert reports(run_quick("pe", LOW, replace(LOW, accumulator=accumulator)), "block is", "golden has")

    @pytest.mark.slow
    def test_a_zero_counts_as_any_number_does(self, run_quick, sabotage):
        sabotage(FusedAccumulator, lambda self, inside: inside["c_above"].eq(inside["c_level"] >= inside["level"]))
        assert reports(run_quick("pe", LOW), "block is", "golden has")


class TestResultsOfFP16:
    def test_numbers_beyond_the_range_are_no_infinities(self, run_quick, sabotage):
        sabotage(FusedAccumulator, lambda self, inside: inside["overflow"].eq(0))
        assert reports(run_quick("pe", HALF), "block is", "golden has")

    @pytest.mark.slow
    def test_a_zero_is_above_products_below_the_least_normal_number(self, run_quick, sabotage):
        sabotage(FusedAccumulator, lambda self, inside: inside["c_above"].eq(inside["c_level"] >= inside["level"]))
        cut = {"fused": 9, "result_bits": 10, "result_exponent_bits": 5}  # Products may exceed the results' range.
        assert reports(run_quick("pe", replace(HALF, accumulator=cut)), "block is", "golden has")

    @pytest.mark.slow
    @pytest.mark.parametrize("level", [111, 113])
    def test_what_was_accumulated_stands_at_another_exponent(self, level, run_quick, sabotage):
        def assignments(self, inside):
            field = inside["basis"].number[10:-1]
            return inside["c_level"].eq(Mux(field == 0, 1, field) + level)

        sabotage(FusedAccumulator, assignments)
        assert reports(run_quick("pe", HALF), "block is", "golden has")

    def test_a_subnormal_c_is_moved_one_place_too_far(self, run_quick, monkeypatch):
        def wrong(m, bits, distance, name):
            return shifted_right(m, bits, distance + (distance != 0) if name == "c_cut" else distance, name)

        monkeypatch.setattr(fused_accumulator, "shifted_right", wrong)
        assert reports(run_quick("pe", HALF), "block is", "golden has")

    @pytest.mark.slow
    @pytest.mark.parametrize("least", [142, 144, 255])
    def test_a_large_c_becomes_an_infinity_elsewhere(self, least, run_quick, monkeypatch):
        cut = fused_accumulator._as_fp16

        def wrong(m, fraction, field, accumulator):
            return cut(m, fraction, field, accumulator)[0], field >= least

        monkeypatch.setattr(fused_accumulator, "_as_fp16", wrong)
        assert reports(run_quick("pe", HALF), "block is", "golden has")

    def test_subnormal_results_are_lost(self, run_quick, sabotage):
        def assignments(self, inside):
            field = self.sum.number[10:-1]
            return inside["exponent"].eq(Mux(field.any(), field + 112, 0))

        sabotage(FusedResult, assignments)
        assert reports(run_quick("tile", HALF), "out_payload is", "golden has")


class TestAddendAfter:
    @pytest.mark.slow
    def test_inside(self, run_quick):
        assert reports(run_quick("pe", AFTER, replace(AFTER, accumulator="hopper")), "block is", "golden has")

    @pytest.mark.slow
    def test_rounded_toward_zero(self, run_quick, sabotage):
        sabotage(AddendAccumulator, lambda self, inside: inside["up"].eq(0))
        assert reports(run_quick("pe", AFTER), "block is", "golden has")

    def test_what_is_cut_off_leaves_no_mark(self, run_quick, monkeypatch):
        def wrong(m, bits, distance, name, *, marked):
            return shifted_right(m, bits, distance, name)

        monkeypatch.setattr(float_sum, "shifted_right", wrong)
        assert reports(run_quick("pe", AFTER), "block is", "golden has")

    @pytest.mark.slow
    def test_sign_of_the_other_number(self, run_quick, sabotage):
        sabotage(AddendAccumulator, lambda self, inside: inside["far_sign"].eq(inside["near_sign"]))
        assert reports(run_quick("pe", AFTER), "block is", "golden has")

    @pytest.mark.slow
    def test_subnormal_number_has_an_exponent_too_low(self, run_quick, sabotage):
        sabotage(AddendAccumulator, lambda self, inside: inside["added_level"][0].eq(inside["added"].number[23]))
        assert reports(run_quick("pe", AFTER), "block is", "golden has")

    def test_products_round_to_nearest(self, run_quick):
        accumulator = {"fused": 25, "rounding": "nearest", "addend": "after"}
        assert reports(run_quick("pe", AFTER, replace(AFTER, accumulator=accumulator)), "block is", "golden has")

    def test_sum_of_products_is_not_infinite(self, run_quick, sabotage):
        sabotage(ProductSum, lambda self, inside: inside["overflow"].eq(0))
        assert reports(run_quick("pe", AFTER), "block is", "golden has")

    @pytest.mark.slow
    def test_adds_while_the_tile_is_frozen(self, run_quick, sabotage):
        one_stage = replace(AFTER, pipeline=1)
        sabotage(AddendAccumulator, lambda self: self.product_sum.active.eq(self.active))
        assert reports(run_quick("pe", one_stage), "block is", "golden has")


@pytest.mark.sampled(2)
class TestAddendLast:
    def test_rounded_toward_zero(self, run_quick, sabotage):
        sabotage(FusedInitialAdder, lambda self, inside: inside["up"].eq(0))
        assert reports(run_quick("tile", LAST, only="c_added_last"), "out_payload is", "golden has")

    def test_what_is_cut_off_leaves_no_mark(self, run_quick, monkeypatch):
        def wrong(m, bits, distance, name, *, marked):
            return shifted_right(m, bits, distance, name)

        monkeypatch.setattr(float_sum, "shifted_right", wrong)
        assert reports(run_quick("tile", LAST, only="c_added_last"), "out_payload is", "golden has")

    def test_subnormal_c_has_an_exponent_too_low(self, run_quick, sabotage):
        sabotage(FusedInitialAdder, lambda self, inside: inside["added_level"][0].eq(inside["added"].number[10]))
        assert reports(run_quick("tile", LAST, only="c_added_last"), "out_payload is", "golden has")

    def test_large_c_is_no_infinity(self, run_quick, sabotage):
        sabotage(FusedInitialAdder, lambda self, inside: inside["added"].positive.eq(0))
        assert reports(run_quick("tile", LAST, only="c_added_last"), "out_payload is", "golden has")

    def test_the_sum_overflows_to_a_number(self, run_quick, sabotage):
        sabotage(FusedInitialAdder, lambda self, inside: inside["overflow"].eq(0))
        assert reports(run_quick("tile", LAST, only="c_added_last"), "out_payload is", "golden has")

    def test_total_does_not_wait(self, run_quick, sabotage):
        sabotage(FusedInitialAdder, lambda self, inside: inside["held"].eq(inside["added"]), domain="sync")
        assert reports(run_quick("tile", LAST, only="output_blocked|random_traffic"), "out_payload is", "golden has")


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
