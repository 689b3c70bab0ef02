"""Test that the proofs find faults inside the accumulator and the rounder in every bit of 16-bit sums.

`test_proofs.py` proves the sound components.
"""

import pytest

from tensordash import load_preset
from tensordash.arithmetic import rounder
from tensordash.arithmetic.accumulator import ExactAccumulator
from tensordash_formal.proof import Proof
from tensordash_formal.proofs.accumulator import PROOF as ACCUMULATOR
from tensordash_formal.proofs.rounder import PROOF as ROUNDER
from tensordash_formal.solver import Solver

from ..sim.verify.accumulator_faults import check_overflow_from, lose_top_of_first_shift, replace_top_by_sign
from ..sim.verify.conftest import sabotage

__all__ = ["sabotage"]

PAPER = load_preset("paper")


@pytest.fixture
def status(tmp_path):
    """Return the status of a proof, or of a claim in the first cycles."""

    def solve(proof: Proof, claim: str = "") -> str:
        harness = proof.build(PAPER)
        if claim:
            cells = [f"claim_{cell}" for cell in harness.claims[claim]]
            query = proof.query(harness, cells, "bmc", 3)
        else:
            query = proof.query(harness, harness.assertions, "prove", proof.depth)
        return Solver(tmp_path).solve(query).status

    return solve


class TestAccumulator:
    @pytest.mark.parametrize("result_bits", [91, 95])
    def test_upper_bits_replaced_by_the_sign(self, result_bits, status, sabotage):
        replace_top_by_sign(sabotage, result_bits)
        assert status(ACCUMULATOR) == "unknown"

    def test_overflow_of_one_sign_only(self, status, sabotage):
        def assignments(self, inside):
            grown = inside["grown"]
            return self.sum.overflow.eq(inside["counting"] & ~self.sum.hold & ~grown[-1] & grown[-2])

        sabotage(ExactAccumulator, assignments)
        assert status(ACCUMULATOR) == "unknown"

    def test_overflow_checks_one_bit_too_many(self, status, sabotage):
        check_overflow_from(sabotage, -2)
        assert status(ACCUMULATOR) == "unknown"


def test_upper_bits_lost_in_the_first_shift(status, monkeypatch):
    """The normaliser loses the top four bits after its first stage."""
    lose_top_of_first_shift(monkeypatch, rounder)
    assert status(ROUNDER, "the_result_is_a_normal_number") == "fail"
