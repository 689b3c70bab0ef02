"""Test that benches find faults in the hardware of fused accumulators."""

import re
from dataclasses import replace

import pytest
from amaranth.hdl import Mux

from tensordash import generate
from tensordash.arithmetic import float_sum, fused_accumulator, product_terms
from tensordash.arithmetic.addend_accumulator import AddendAccumulator
from tensordash.arithmetic.float_sum import shifted_right
from tensordash.arithmetic.fused_accumulator import FusedAccumulator
from tensordash.arithmetic.fused_initial_adder import FusedInitialAdder
from tensordash.arithmetic.fused_result import FusedResult
from tensordash.arithmetic.product_sum import ProductSum
from tensordash_sim.verify import run_bench

from .conftest import FOR_SMALL, reports
from .number_configs import AFTER, COARSE, HALF, LAST, LOW, NARROW, NEAREST, VOLTA


def shifted_right_unmarked(m, bits, distance, name, *, marked):
    """Shift, but leave no mark for the bits that are cut off."""
    return shifted_right(m, bits, distance, name)


@pytest.mark.sampled(5)
class TestFused:
    def test_a_small_difference_moves_up_too_far(self, tmp_path):
        """Mutation testing found this fault: the distance is compared without the largest step's part."""
        generate(VOLTA, tmp_path / "verilog")
        file = tmp_path / "verilog" / "tensordash.v"
        text = file.read_text()
        (taken,) = set(re.findall(r"\(limit\[3\] & ~\w+\)", text))
        file.write_text(text.replace(taken, "limit[3]"))
        settings = {"seed": 7, "effort": 0.05, "simulator": FOR_SMALL}
        result = run_bench("pe", VOLTA, tmp_path / "verilog", tmp_path / "run", **settings)
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

    def test_c_keeps_one_bit_more_than_results(self, run_quick, sabotage):
        sabotage(FusedAccumulator, lambda self, inside: inside["basis"].number[0].eq(self.sum.c[9]))
        assert reports(run_quick("pe", NARROW), "block is", "golden has")

    @pytest.mark.slow
    def test_results_are_one_place_too_low(self, run_quick, sabotage):
        def assignments(self, inside):
            return inside["value"].eq(
                Mux(self.load, self.sum.number << (22 - self.accumulator.result_bits), inside["value"])
            )

        sabotage(FusedResult, assignments, domain="sync")
        assert reports(run_quick("tile", NARROW, only="traffic"), "out_payload is", "golden has")

    @pytest.mark.parametrize("zero_exponent", [-133, *(pytest.param(e, marks=pytest.mark.slow) for e in (-131, -126))])
    def test_zero_has_a_wrong_exponent(self, zero_exponent, run_quick):
        accumulator = {"fused": 24, "zero_exponent": zero_exponent}
        assert reports(run_quick("pe", LOW, replace(LOW, accumulator=accumulator)), "block is", "golden has")

    @pytest.mark.slow
    def test_zero_has_an_exponent_like_other_numbers(self, run_quick, sabotage):
        sabotage(FusedAccumulator, lambda self, inside: inside["c_above"].eq(inside["c_level"] >= inside["level"]))
        assert reports(run_quick("pe", LOW), "block is", "golden has")


class TestResultsOfFP16:
    def test_numbers_beyond_the_range_are_not_infinite(self, run_quick, sabotage):
        sabotage(FusedAccumulator, lambda self, inside: inside["overflow"].eq(0))
        assert reports(run_quick("pe", HALF), "block is", "golden has")

    @pytest.mark.slow
    def test_a_zero_is_above_products_below_the_least_normal_number(self, run_quick, sabotage):
        sabotage(FusedAccumulator, lambda self, inside: inside["c_above"].eq(inside["c_level"] >= inside["level"]))
        cut = {"fused": 9, "result_bits": 10, "result_exponent_bits": 5}  # Products may exceed the results' range.
        assert reports(run_quick("pe", replace(HALF, accumulator=cut)), "block is", "golden has")

    @pytest.mark.slow
    @pytest.mark.parametrize("level", [111, 113])
    def test_accumulated_sum_has_a_wrong_exponent(self, level, run_quick, sabotage):
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
    def test_large_c_becomes_infinite_at_a_wrong_limit(self, least, run_quick, monkeypatch):
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
    def test_fused_addition_instead_of_addend_after(self, run_quick):
        assert reports(run_quick("pe", AFTER, replace(AFTER, accumulator="hopper")), "block is", "golden has")

    @pytest.mark.slow
    def test_rounded_toward_zero(self, run_quick, sabotage):
        sabotage(AddendAccumulator, lambda self, inside: inside["up"].eq(0))
        assert reports(run_quick("pe", AFTER), "block is", "golden has")

    def test_sticky_bit_is_missing(self, run_quick, monkeypatch):
        monkeypatch.setattr(float_sum, "shifted_right", shifted_right_unmarked)
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

    def test_sticky_bit_is_missing(self, run_quick, monkeypatch):
        monkeypatch.setattr(float_sum, "shifted_right", shifted_right_unmarked)
        assert reports(run_quick("tile", LAST, only="c_added_last"), "out_payload is", "golden has")

    def test_subnormal_c_has_an_exponent_too_low(self, run_quick, sabotage):
        sabotage(FusedInitialAdder, lambda self, inside: inside["added_level"][0].eq(inside["added"].number[10]))
        assert reports(run_quick("tile", LAST, only="c_added_last"), "out_payload is", "golden has")

    def test_large_c_is_not_infinite(self, run_quick, sabotage):
        sabotage(FusedInitialAdder, lambda self, inside: inside["added"].positive.eq(0))
        assert reports(run_quick("tile", LAST, only="c_added_last"), "out_payload is", "golden has")

    def test_the_sum_overflows_to_a_number(self, run_quick, sabotage):
        sabotage(FusedInitialAdder, lambda self, inside: inside["overflow"].eq(0))
        assert reports(run_quick("tile", LAST, only="c_added_last"), "out_payload is", "golden has")

    def test_total_does_not_wait(self, run_quick, sabotage):
        sabotage(FusedInitialAdder, lambda self, inside: inside["held"].eq(inside["added"]), domain="sync")
        assert reports(run_quick("tile", LAST, only="output_blocked|random_traffic"), "out_payload is", "golden has")
