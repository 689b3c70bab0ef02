"""Test that the flags of empty steps are those of zeros, whatever the steps' values are."""

import random

import pytest

from tensordash import TileConfig
from tensordash.configuration.formats import FORMATS
from tensordash.schedule.operand_flags import OperandFlags
from tensordash.tile.tile import Tile

from .arithmetic.test_binned_adder import simulate

LANES, DEPTH = 4, 4
VALUES = {"zero": 0, "minus zero": 0x8000, "one": 0x3C00, "subnormal": 1, "infinity": 0xFC00, "nan": 0x7E00}


@pytest.mark.parametrize("zeros", [True, False])
def test_flags(zeros: bool) -> None:
    rng = random.Random(0)
    dut = OperandFlags(fmt=FORMATS["fp16"], lanes=LANES, depth=DEPTH, zeros=zeros, empty=True)

    async def check(context):
        for _ in range(300):
            empty = rng.getrandbits(DEPTH)
            names = [[rng.choice(list(VALUES)) for _ in range(LANES)] for _ in range(DEPTH)]
            context.set(dut.empty, empty)
            for step, values in enumerate(names):
                for lane, name in enumerate(values):
                    context.set(dut.steps[step][lane], VALUES[name])
            for step, values in enumerate(names):
                shows = not empty >> step & 1
                nonzero = [shows and zeros and "zero" not in name for name in values]
                assert [bool(context.get(dut.nonzero[step][lane])) for lane in range(LANES)] == nonzero
                special = shows and any(name in ("infinity", "nan") for name in values)
                assert bool(context.get(dut.non_finite) >> step & 1) == special

    simulate(dut, check)


@pytest.mark.parametrize("sparsity", ["none", "both"])
def test_only_side_b_of_a_tile_that_skips_its_zeros_has_empty_steps(sparsity: str) -> None:
    with pytest.raises(ValueError, match=f"^sparsity must be rows where steps can be empty, not {sparsity}$"):
        Tile(TileConfig(sparsity=sparsity), empty_steps=True)
