"""The proofs look at every bit of the shipped sums: faults inside the accumulator and the rounder of 16-bit formats.

That sound ones pass is in `test_proofs.py`.
"""

import pytest
from amaranth.hdl import Cat, Mux

from tensordash import load_preset
from tensordash.arithmetic import normalizer, rounder
from tensordash.arithmetic.accumulator import ExactAccumulator
from tensordash_formal.proof import Proof
from tensordash_formal.proofs.accumulator import PROOF as ACCUMULATOR
from tensordash_formal.proofs.rounder import PROOF as ROUNDER
from tensordash_formal.solver import Solver

from ..sim.verify.conftest import Recorder, sabotage

__all__ = ["sabotage"]

PAPER = load_preset("paper")


@pytest.fixture
def status(tmp_path):
    """What a solver says of a proof, or what it finds of a claim in the first cycles."""

    def ask(proof: Proof, claim: str = "") -> str:
        harness = proof.build(PAPER)
        if claim:
            wanted = [f"claim_{cell}" for cell in harness.claims[claim]]
            query = proof.query(harness, wanted, "bmc", 3)
        else:
            query = proof.query(harness, harness.assertions, "prove", proof.depth, proof.engine)
        return Solver(tmp_path).solve(query).status

    return ask


class TestAccumulator:
    @pytest.mark.parametrize("kept", [91, 95])
    def test_upper_bits_are_the_sign(self, kept, status, sabotage):
        def assignments(self, inside):
            number = inside["accumulated"].number
            cut = Cat(number[:kept], number[-1].replicate(self.shape.width - kept))
            return inside["basis"].eq(Mux(self.sum.start, 0, cut).as_signed())

        sabotage(ExactAccumulator, assignments)
        assert status(ACCUMULATOR) == "unknown"

    def test_overflows_upwards_only(self, status, sabotage):
        def assignments(self, inside):
            grown = inside["grown"]
            return self.sum.overflow.eq(inside["counting"] & ~self.sum.hold & ~grown[-1] & grown[-2])

        sabotage(ExactAccumulator, assignments)
        assert status(ACCUMULATOR) == "unknown"

    def test_overflow_looks_at_one_bit_too_many(self, status, sabotage):
        def assignments(self, inside):
            top = inside["grown"][self.shape.width - 2 :]
            return self.sum.overflow.eq(inside["counting"] & ~self.sum.hold & ~(top.all() | ~top.any()))

        sabotage(ExactAccumulator, assignments)
        assert status(ACCUMULATOR) == "unknown"


def test_upper_bits_of_the_first_shift(status, monkeypatch):
    """The top four bits behind the normaliser's first stage."""
    original = normalizer.normalize

    def wrong(m, bits, *args, **kwargs):
        inside = Recorder()
        with monkeypatch.context() as within:
            within.setattr(normalizer, "Signal", inside)
            made = original(m, bits, *args, **kwargs)
        m.d.comb += inside.made[f"normal_{len(bits).bit_length() - 1}"][-4:].eq(0)
        return made

    monkeypatch.setattr(rounder, "normalize", wrong)
    assert status(ROUNDER, "the_result_is_a_normal_number") == "fail"
