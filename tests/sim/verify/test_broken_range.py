"""Test that benches find faults that show only at the limits of a sum's range or beyond."""

import sys
from dataclasses import replace

import pytest
from amaranth.hdl import Cat

from tensordash import TileConfig, generate, load_preset
from tensordash.arithmetic.accumulator import ExactAccumulator
from tensordash.arithmetic.fused_accumulator import FusedAccumulator
from tensordash.arithmetic.integer_accumulator import IntegerAccumulator
from tensordash.arithmetic.rounder import Rounder
from tensordash.tile.drain import Drain
from tensordash.tile.pe import PE
from tensordash.tile.scheduled_pe import ScheduledPE
from tensordash.tile.tile import Tile
from tensordash_sim.verify import run_bench

from ...replaced_text import replace_in_file
from .accumulator_faults import check_overflow_from, lose_top_of_first_shift, replace_top_by_sign
from .conftest import FOR_SMALL, reports

PAPER = load_preset("paper")
SMALL = TileConfig(rows=2, columns=2, lanes=2, depth=2, connectivity=((0, 0), (1, 0), (1, 1)))
E5M2 = TileConfig(format="fp8_e5m2", headroom_bits=4)
INT8 = replace(SMALL, format="int8", initial=True)
BF16 = load_preset("paper-bf16")
OVERFLOW = "one_overflow$"
RANGE = f"ends_of_the_range|{OVERFLOW}|headroom"


@pytest.fixture
def run_quick(run_faulty):
    """Run the tests of a sum's range, which must find the fault."""

    def run(bench: str, config: TileConfig = SMALL, only: str = RANGE) -> tuple[str, ...]:
        return run_faulty(bench, config=config, effort=0.05, only=only)

    return run


@pytest.mark.slow  # For CI, the runs of the same benches in test_formats.py and test_benches.py suffice.
@pytest.mark.parametrize(
    ("bench", "config"), [("tile", E5M2), ("tile", SMALL), ("tile", INT8), ("pe", PAPER), ("pe", INT8), ("pe", BF16)]
)
def test_sound_verilog_passes(bench, config, verilog, tmp_path, monkeypatch):
    """As a control, run the bench on Verilog without a fault."""
    monkeypatch.setenv("COCOTB_TEST_FILTER", f"{RANGE}|overflow_of_c")
    result = run_bench(bench, config, verilog(config), tmp_path, seed=7, effort=0.05, simulator=FOR_SMALL)
    assert result.passed, result.failures


@pytest.mark.sampled(2)
class TestFlag:
    @pytest.mark.parametrize(
        ("config", "place"),
        [
            (PAPER, 15),
            pytest.param(E5M2, 0, marks=pytest.mark.slow),
            pytest.param(SMALL, 1, marks=pytest.mark.slow),
            (SMALL, 2),
        ],
        ids=["3_3-paper", "0_0-e5m2", "0_1-small", "1_0-small"],
    )
    def test_a_pe_is_not_wired(self, config, place, run_quick, sabotage):
        sabotage(Tile, lambda self: self._overflows[place].eq(0))
        assert reports(run_quick("tile", config, OVERFLOW), "overflow is 0, golden has 1")

    def test_a_pe_overflows_with_another(self, run_quick, sabotage):
        sabotage(Tile, lambda self: self._overflows[3].eq(self._overflows[0]))
        assert reports(run_quick("tile", SMALL, OVERFLOW), "overflow is 0, golden has 1")

    @pytest.mark.parametrize("component", [PE, ScheduledPE])
    def test_a_pe_never_overflows(self, component, run_quick, sabotage):
        sabotage(component, lambda self: self.sum.overflow.eq(0))
        assert reports(run_quick("tile", SMALL, OVERFLOW), "overflow is 0, golden has 1")

    def test_a_pe_alone_never_overflows(self, run_quick, sabotage):
        sabotage(PE, lambda self: self.sum.overflow.eq(0))
        assert reports(run_quick("pe"), "golden has overflow True")

    @pytest.mark.parametrize("place", [(0, 0), (0, 1)])
    def test_a_sum_with_c_is_not_wired(self, place, run_quick, sabotage):
        def assignments(self):
            others = [result.overflow for other, result in self._results.items() if other != place]
            return self.overflow.eq(self.moves & Cat(others).any())

        sabotage(Drain, assignments)
        assert reports(run_quick("tile", INT8, "overflow_of_c"), "overflow is 0, golden has 1")


@pytest.mark.sampled(2)
class TestOverflow:
    """Faults of the comparison that sets the flag."""

    @pytest.mark.parametrize("component", [ExactAccumulator, IntegerAccumulator])
    @pytest.mark.parametrize("sign", [0, 1])
    def test_overflow_of_one_sign_only(self, sign, component, run_quick, sabotage):
        def assignments(self, inside):
            grown = inside["grown"]
            left = grown[-1] ^ grown[-2]
            return self.sum.overflow.eq(inside["counting"] & ~self.sum.hold & left & (grown[-1] == sign))

        sabotage(component, assignments)
        assert reports(run_quick("pe", INT8 if component is IntegerAccumulator else SMALL), "golden has overflow True")

    def test_one_bit_too_few(self, run_quick, sabotage):
        check_overflow_from(sabotage, 0)
        assert reports(run_quick("tile", SMALL), "overflow is 0, golden has 1")

    @pytest.mark.parametrize("bench", ["pe", "tile"])
    def test_one_bit_too_many(self, bench, run_quick, sabotage):
        check_overflow_from(sabotage, -2)
        assert reports(
            run_quick(bench), "golden has overflow False" if bench == "pe" else "overflow is 1, golden has 0"
        )


@pytest.mark.sampled(3)
class TestTop:
    """Faults of the upper bits of a sum."""

    @pytest.mark.parametrize("bench", ["pe", "tile"])
    @pytest.mark.parametrize("result_bits", [91, 95])
    def test_top_bits_replaced_by_the_sign(self, result_bits, bench, run_quick, sabotage):
        replace_top_by_sign(sabotage, result_bits)
        assert reports(run_quick(bench), "golden has")

    @pytest.mark.parametrize("bench", ["pe", "tile"])
    def test_sign_from_the_bit_below(self, bench, run_quick, sabotage):
        sabotage(ExactAccumulator, lambda self, inside: inside["accumulated_next"].number[-1].eq(inside["grown"][-3]))
        assert reports(run_quick(bench), "golden has")

    def test_top_bits_lost_in_the_first_shift(self, run_quick, monkeypatch):
        """The fault is in the top four bits after the normaliser's first stage."""
        lose_top_of_first_shift(monkeypatch, sys.modules[Rounder.__module__])
        assert reports(run_quick("tile", SMALL, "headroom"), "out_payload is", "golden has")

    def test_fused_overflow_is_one_bit_late(self, run_quick, sabotage):
        """The fault makes 2**128 finite."""
        sabotage(FusedAccumulator, lambda self, inside: inside["overflow"].eq(inside["rounded"][23:] > 0xFF))
        assert reports(run_quick("pe", BF16), "block is", "golden has")


LATE = {
    "the number of an infinity counts": (" & ~products[91]", "", "golden has overflow False"),
    "the number of a NaN counts": (" & ~products[30]", "", "golden has overflow False"),
    "a product comes through a reset": ("    if (rst) active_2 <= 4'd0;\n", "", "came through a reset"),
}
"""Faults near the limit of an accumulator's range, which mutation testing found."""


@pytest.mark.parametrize("name", LATE)
def test_faults_near_the_limit_of_a_sum(name, tmp_path, monkeypatch):
    old, new, message = LATE[name]
    generate(PAPER, tmp_path / "verilog")
    replace_in_file(tmp_path / "verilog" / "tensordash.v", old, new)
    monkeypatch.setenv("COCOTB_TEST_FILTER", "at_the_ends")
    result = run_bench("pe", PAPER, tmp_path / "verilog", tmp_path, seed=7, effort=0.05, simulator=FOR_SMALL)
    assert any(message in failure for failure in result.failures)
