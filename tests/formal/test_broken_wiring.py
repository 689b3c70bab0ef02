"""Test that the proofs find a fault of one PE, which a fault of a component cannot model.

`test_proofs.py` proves the sound tiles.
"""

import pytest
from amaranth.hdl import Cat

from tensordash import TileConfig
from tensordash.tile.drain import Drain
from tensordash.tile.tile import Tile
from tensordash_formal.proofs.tile_control import PROOF
from tensordash_formal.solver import Solver

SMALL = TileConfig(rows=2, columns=2, lanes=2, depth=2, connectivity=((0, 0), (1, 0), (1, 1)))
BOTH = TileConfig(rows=2, columns=1, lanes=2, depth=2, connectivity=((0, 0), (1, 0), (1, 1)), sparsity="both")
DENSE = TileConfig(rows=1, columns=2, lanes=2, sparsity="none")
INT8 = TileConfig(rows=2, columns=2, lanes=2, sparsity="none", format="int8", initial=True)
CLAIM = "overflow_is_right"


@pytest.fixture
def refuted(tmp_path):
    """Return whether a run violates the claim about the flag."""

    def is_refuted(config: TileConfig) -> bool:
        harness = PROOF.build(config)
        cells = [f"claim_{cell}" for cell in harness.claims[CLAIM]]
        answer = Solver(tmp_path).solve(PROOF.query(harness, cells, "bmc", 8))
        return bool(answer.failed)

    return is_refuted


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("config", "place"), [(SMALL, 3), (SMALL, 1), (BOTH, 0), (DENSE, 1)])
def test_a_pe_is_not_wired(config, place, refuted, monkeypatch):
    original = Tile.elaborate

    def wrong(self, platform):
        m = original(self, platform)
        m.d.comb += self._overflows[place].eq(0)
        return m

    monkeypatch.setattr(Tile, "elaborate", wrong)
    assert refuted(config)


@pytest.mark.slow
@pytest.mark.parametrize("place", [(0, 0), (0, 1)])
def test_a_sum_with_c_is_not_wired(place, refuted, monkeypatch):
    original = Drain.elaborate

    def wrong(self, platform):
        m = original(self, platform)
        others = [result.overflow for other, result in self._results.items() if other != place]
        m.d.comb += self.overflow.eq(self.moves & Cat(others).any())
        return m

    monkeypatch.setattr(Drain, "elaborate", wrong)
    assert refuted(INT8)


def test_a_sum_with_c_overflows_at_rest(refuted, monkeypatch):
    """The sum with the overflow has not left its register."""
    original = Tile.elaborate

    def wrong(self, platform):
        m = original(self, platform)
        m.d.comb += self.overflow.eq(self.flags.overflow | self.drain.overflow)
        return m

    monkeypatch.setattr(Tile, "elaborate", wrong)
    assert refuted(INT8)
