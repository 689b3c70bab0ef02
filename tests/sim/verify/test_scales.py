"""Run benches on emitted Verilog of tiles with scales, without and with faults in the path of scales."""

from typing import Any

import pytest

from tensordash import TileConfig
from tensordash.arithmetic.fused_accumulator import FusedAccumulator
from tensordash.arithmetic.product_scaler import ProductScaler
from tensordash.arithmetic.scaled_accumulator import ScaledAccumulator
from tensordash.arithmetic.step_sums import StepSums
from tensordash.schedule.operand_flags import OperandFlags
from tensordash.schedule.step_select import StepSelect
from tensordash.streams.feeder import Feeder
from tensordash.tile.pe import PE
from tensordash.tile.tile import Tile

from .conftest import FOR_SMALL, reports

NVFP4: dict[str, Any] = {"format": "fp4_e2m1", "scale": "e4m3"}
MXFP8: dict[str, Any] = {"format": "fp8_e4m3", "scale": "e8m0", "accumulator": "hopper"}
MIXED = {"a": "fp8_e5m2", "b": "fp4_e2m1"}
CONFIGS = {
    "nvfp4-rows": TileConfig(**NVFP4, rows=2, columns=1),
    "nvfp4-rows-c": TileConfig(**NVFP4, rows=2, columns=1, initial=True, pipeline=3, headroom_bits=3),
    "nvfp4-ring-16": TileConfig(**NVFP4, rows=2, columns=1, lanes=16, depth=3, staging="ring", registered_ready=True),
    "nvfp4-both": TileConfig(**NVFP4, rows=1, columns=2, sparsity="both", pipeline=1),
    "nvfp4-none-c": TileConfig(**NVFP4, rows=2, columns=2, sparsity="none", initial=True, out_rows=2),
    "mxfp8-rows-c": TileConfig(**MXFP8, rows=2, columns=1, initial=True),
    "mxfp8-none": TileConfig(**MXFP8, rows=2, columns=1, sparsity="none", pipeline=3),
    "mxfp4-none": TileConfig(
        format="fp4_e2m1", scale="e8m0", accumulator="hopper", rows=1, columns=1, lanes=16, sparsity="none"
    ),
    "mxfp6-rows": TileConfig(format="fp6_e2m3", scale="e8m0", accumulator="volta", rows=1, columns=1, initial=True),
    "mxfp8-none-1": TileConfig(**MXFP8, rows=1, columns=1, sparsity="none", pipeline=1, initial=True),
    "mixed-both-c": TileConfig(
        **{**MXFP8, "format": MIXED}, rows=1, columns=2, sparsity="both", initial=True, pipeline=3
    ),
    "mixed-ring": TileConfig(**{**MXFP8, "format": MIXED}, rows=1, columns=2, staging="ring", pipeline=1),
    "after-rows": TileConfig(
        format="fp6_e3m2", scale="e8m0", accumulator="blackwell-fp8", rows=2, columns=1, initial=True
    ),
    "after-none": TileConfig(
        format="fp6_e2m3", scale="e8m0", accumulator="blackwell-fp8", rows=1, columns=1, sparsity="none", initial=True
    ),
    "low-zero-none": TileConfig(
        **{**MXFP8, "accumulator": {"fused": 24, "zero_exponent": -133}}, rows=1, columns=1, sparsity="none"
    ),
    "few-bits-rows": TileConfig(
        **{**MXFP8, "accumulator": {"fused": 16, "rounding": "nearest", "result_bits": 7}}, rows=1, columns=1
    ),
}
QUICK = {
    ("pe", "nvfp4-rows-c"),
    ("pe", "mxfp8-none-1"),
    ("pe", "mxfp4-none"),
    ("tile", "nvfp4-rows"),
    ("tile", "mxfp8-none"),
    ("axi_stream", "mixed-ring"),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("bench", "name"),
    [
        pytest.param(bench, name, marks=() if (bench, name) in QUICK else pytest.mark.slow)
        for name in CONFIGS
        for bench in ("pe", "tile", "axi_stream")
    ],
)
def test_scales(bench, name, check):
    check(bench, CONFIGS[name], effort=0.1, simulator=FOR_SMALL)


ROWS = CONFIGS["nvfp4-rows"]
MX = CONFIGS["mxfp8-rows-c"]
DENSE = CONFIGS["mxfp8-none-1"]


class TestBroken:
    def test_a_promoted_value_has_the_scale_of_the_first_step(self, run_faulty, sabotage):
        sabotage(StepSelect, lambda self: [self.steps[0].eq(self.select[0].any())])
        assert reports(
            run_faulty("tile", config=ROWS, only="traffic/idle=0.0/stall=0.0"), "out_payload is", "golden has"
        )

    def test_scales_do_not_advance(self, run_faulty, sabotage):
        sabotage(Tile, lambda self: self.scales["a", 0].refill[0][0].eq(1))
        assert reports(run_faulty("tile", config=MX, only="traffic/idle=0.0/stall=0.0"), "out_payload is")

    def test_scales_of_the_neighbour_row(self, run_faulty, sabotage):
        sabotage(Tile, lambda self: self.pes[0, 0].b_scales.eq(self.scales["b", 1].window))
        assert reports(
            run_faulty("tile", config=ROWS, only="traffic/idle=0.0/stall=0.0"), "out_payload is", "golden has"
        )

    def test_a_nan_scale_is_ignored(self, run_faulty, sabotage):
        sabotage(ProductScaler, lambda self: self.scaled[0].nan.eq(self.products[0].nan))
        assert reports(run_faulty("pe", config=MX, only="special_operands"), "block is", "golden has")

    @pytest.mark.slow
    def test_a_nan_scale_is_ignored_by_sums(self, run_faulty, sabotage):
        sabotage(ScaledAccumulator, lambda self, inside: inside["counts_0"].eq(self._active[0]))
        assert reports(run_faulty("pe", config=CONFIGS["nvfp4-rows-c"], only="special"), "golden has")

    @pytest.mark.slow
    def test_a_nan_scale_of_any_step_counts(self, run_faulty, sabotage):
        """No lane takes a pair from the step with the NaN scale."""
        sabotage(StepSums, lambda self: self.counted.eq(-1))
        assert reports(
            run_faulty("pe", config=CONFIGS["nvfp4-rows-c"], only="special_operands"), "block is", "golden has"
        )

    def test_a_nan_scale_is_not_noticed(self, run_faulty, sabotage):
        def assignments(self):
            return [self.non_finite.eq(0)] if self.scale is not None else []

        sabotage(OperandFlags, assignments)
        assert reports(run_faulty("tile", config=ROWS, only="special_values"), "non_finite is 0", "golden has 1")

    @pytest.mark.slow
    def test_a_zero_scale_is_multiplied(self, run_faulty, sabotage):
        def assignments(self):
            zeros = [self.steps[step][lane][:3] == 0 for step in range(self.depth) for lane in range(self.lanes)]
            lanes = self.lanes
            return [self.nonzero[i // lanes][i % lanes].eq(~zero & self.zeros) for i, zero in enumerate(zeros)]

        sabotage(OperandFlags, assignments)
        assert reports(run_faulty("tile", config=ROWS, only="traffic"), "golden has")

    @pytest.mark.slow
    def test_the_sign_of_a_scale_is_lost(self, run_faulty, sabotage):
        sabotage(ScaledAccumulator, lambda self, inside: inside["negative_0"].eq(0))
        assert reports(
            run_faulty("pe", config=CONFIGS["nvfp4-rows-c"], only="finite_operands"), "block is", "golden has"
        )

    @pytest.mark.slow
    def test_shared_scales_are_lost(self, run_faulty, sabotage):
        sabotage(FusedAccumulator, lambda self, inside: inside["level"].eq(inside["level"][1:]))
        assert reports(run_faulty("pe", config=DENSE, only="finite_operands"), "block is", "golden has")

    @pytest.mark.slow
    def test_a_nan_that_is_shared_is_ignored(self, run_faulty, sabotage):
        sabotage(PE, lambda self: self.accumulator.common.nan.eq(0) if self.shared else [])
        assert reports(run_faulty("pe", config=DENSE, only="special_operands"), "block is", "golden has")

    @pytest.mark.slow
    def test_scales_move_on_while_the_tile_is_frozen(self, run_faulty, sabotage):
        def assignments(self, inside):
            return inside["held_scales"].eq(inside["scale_products"])

        sabotage(PE, assignments, domain="sync")
        assert reports(
            run_faulty("pe", config=CONFIGS["nvfp4-rows-c"], only="finite_operands"), "block is", "golden has"
        )

    @pytest.mark.slow
    def test_beat_has_the_scale_of_the_next_step(self, run_faulty, sabotage):
        def assignments(self):
            return self.port.scales[0].eq(self.port.scales[1])

        sabotage(Feeder, assignments)
        assert reports(run_faulty("axi_stream", config=CONFIGS["mixed-ring"], only="traffic"), "golden has")
