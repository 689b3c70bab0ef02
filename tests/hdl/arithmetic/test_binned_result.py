"""Compare results of binned sums, for every top bin, with one rounding of the exact sum."""

import random

import pytest
from amaranth.sim import Simulator

from tensordash import TileConfig
from tensordash.arithmetic.binned_result import BinnedResult
from tensordash_sim.golden import BinnedAccumulator

CASES = {
    "bf16": {"format": "bf16", "accumulator": {"bins": 3}},
    "bf16, small bins": {"format": "bf16", "accumulator": {"bins": 3, "bin_bits": 8}, "headroom_bits": 0},
    "tf32, large bins": {"format": "tf32", "accumulator": {"bins": 4, "bin_bits": 29}, "headroom_bits": 3},
    "fp16": {"format": "fp16", "accumulator": {"bins": 3}},
    "fp16 with C": {"format": "fp16", "accumulator": {"bins": 3, "bin_bits": 11}, "initial": True},
    "fp4": {"format": "fp4_e2m1", "accumulator": {"bins": 3, "bin_bits": 8}},
    "MXFP8": {"format": "fp8_e4m3", "accumulator": {"bins": 3}, "scale": "e8m0"},
}


def draw_register(rng: random.Random, half: int) -> int:
    """Draw the value of a register: 0, an end of its range, a power of two, or a random number."""
    kind = rng.randrange(5)
    if kind == 0:
        return 0
    if kind == 1:
        return rng.choice((-half, half - 1, 1, -1))
    if kind == 2:
        return rng.choice((1, -1)) << rng.randrange(half.bit_length() - 1)
    return rng.randrange(-half, half) >> rng.randrange(half.bit_length())


@pytest.mark.parametrize("name", CASES)
def test_every_top_bin(name):
    config = TileConfig(**CASES[name])
    unit, golden, rng = BinnedResult(config.numerics), BinnedAccumulator(config), random.Random(name)
    half = 1 << (golden.width - 1)
    simulator = Simulator(unit)
    simulator.add_clock(1e-9)

    async def compare(context):
        for top in [*range(unit.shape.max_top + 1)] * max(6, 200 // (unit.shape.max_top + 1)):
            counting = range(max(0, top - golden.bins + 1), top + 1)
            golden.top, golden.sums = top, {k: draw_register(rng, half) for k in counting}
            if rng.random() < 0.5:  # halfway between two results, or near the middle
                golden.sums[top] = 1 << rng.randrange(half.bit_length() - 1)
                low = counting[0] if rng.random() < 0.5 else max(counting[-1] - 1, 0)
                golden.sums[low] = rng.choice((1, -1)) << rng.randrange(half.bit_length() - 1)
            # The bit of the top bin that is half of FP32's smallest subnormal.
            half_bit = -150 - golden.unit - top * golden.bin_bits
            if 0 <= half_bit < golden.width - 1 and top and rng.random() < 0.7:
                golden.sums = {top: 1 << half_bit, counting[0]: rng.choice((1, -1, 0))}
            golden.infinities = frozenset(rng.choice(((), (), (), (), (), (0,), (1,), (0, 1))))
            context.set(unit.sum.as_value(), golden.block_bits())
            context.set(unit.load, 1)
            await context.tick()
            context.set(unit.sum.as_value(), 0)
            context.set(unit.load, 0)
            await context.tick()
            found, expected = context.get(unit.value), golden.result_bits()
            assert found == expected, (top, golden.sums, hex(found), hex(expected))
            assert context.get(unit.non_finite) == (expected >> 23 & 0xFF == 0xFF)

    simulator.add_testbench(compare)
    simulator.run()
