"""Compare merged binned sums and added biases with the golden core's sums."""

import random
from collections import Counter

import pytest
from amaranth.hdl import Cat, Module, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In
from amaranth.sim import Simulator

from tensordash import TileConfig
from tensordash.arithmetic.binned_adder import BinnedAdder
from tensordash.arithmetic.binned_bias import BinnedBias
from tensordash_sim.golden import BinnedAccumulator

from .test_binned_result import draw_register

CASES = {
    "bf16": {"format": "bf16", "accumulator": {"bins": 3}},
    "bf16-small-bins": {"format": "bf16", "accumulator": {"bins": 3, "bin_bits": 8}, "headroom_bits": 0},
    "tf32-4-bins": {"format": "tf32", "accumulator": {"bins": 4, "bin_bits": 13}, "headroom_bits": 3},
    "fp16": {"format": "fp16", "accumulator": {"bins": 3}},
    "fp16-odd-bins": {"format": "fp16", "accumulator": {"bins": 3, "bin_bits": 11}, "headroom_bits": 12},
    "fp8": {"format": "fp8_e4m3", "accumulator": {"bins": 4, "bin_bits": 9}},
}
SIGNS = ((), (), (), (), (), (), (0,), (1,), (0, 1))


class BiasedAdder(wiring.Component):
    """An adder and a bias aligner, wired as in the core's row adder."""

    def __init__(self, config: TileConfig) -> None:
        self.adder = BinnedAdder(numerics=config.numerics, biased=True)
        self.aligner = BinnedBias(config.numerics)
        super().__init__({"value": In(32), "enable": In(1), "is_second": In(1)})

    def elaborate(self, platform):
        m = Module()
        m.submodules.adder, m.submodules.aligner = self.adder, self.aligner
        m.d.comb += [
            self.aligner.value.eq(self.value),
            self.aligner.enable.eq(self.enable),
            Value.cast(self.adder.bias).eq(Value.cast(self.aligner.aligned)),
            self.adder.carry.eq(self.aligner.carry),
            self.adder.second_pass.eq(self.is_second),
        ]
        return m

    def set_inputs(self, context, sums, *, is_second, add, enable, value):
        """Set `sum`, `earlier`, `partial` and all other inputs in one step of the simulator."""
        adder = self.adder
        ports = (adder.sum, adder.earlier, adder.partial, self.is_second, adder.add, self.enable, self.value)
        values = (*(each.block_bits() for each in sums), is_second, add, enable, value)
        bits = at = 0
        for port, each in zip(ports, values, strict=True):
            bits |= each << at
            at += len(Value.cast(port))
        context.set(Cat(*(Value.cast(port) for port in ports)), bits)


def draw_sum(rng: random.Random, config: TileConfig, top: int) -> BinnedAccumulator:
    """Draw a sum with this top bin. Many registers are near the ends of their range."""
    accumulator = BinnedAccumulator(config)
    half = 1 << (accumulator.width - 1)
    accumulator.top = top
    bins = range(max(0, top - accumulator.bins + 1), top + 1)
    accumulator.sums = {k: draw_register(rng, half) for k in bins}
    accumulator.infinities = frozenset(rng.choice(SIGNS))
    return accumulator


def copy_of(config: TileConfig, sums: BinnedAccumulator) -> BinnedAccumulator:
    copy = BinnedAccumulator(config)
    copy.top, copy.sums, copy.infinities = sums.top, dict(sums.sums), sums.infinities
    return copy


def simulate(dut, check) -> None:
    simulator = Simulator(dut)
    simulator.add_testbench(check)
    simulator.run()


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", CASES)
def test_merged_sums_match_golden(name):
    """For every pair of top bins, add to the sum or to an earlier total, or add nothing."""
    config, rng, seen = TileConfig(**CASES[name]), random.Random(name), Counter()
    dut = BiasedAdder(config)
    golden = BinnedAccumulator(config)

    async def check(context):
        adder = dut.adder
        tops = range(golden.max_top + 1)
        near = [(a, b) for a in tops for b in tops if abs(a - b) <= golden.bins]
        for top, other_top in [*((a, b) for a in tops for b in tops), *near * max(1, 2500 // len(near))]:
            left, right, unused = (draw_sum(rng, config, each) for each in (top, other_top, other_top))
            is_second, add = rng.random() < 0.3, rng.random() < 0.8
            sums = (unused, left, right) if is_second else (left, unused, right)
            dut.set_inputs(context, sums, is_second=is_second, add=add, enable=False, value=rng.getrandbits(32))
            merged = copy_of(config, left)
            overflow = merged.merge(right) if add else False
            found = context.get(Value.cast(adder.total)), context.get(adder.overflow)
            assert found == (merged.block_bits(), overflow), (top, other_top, left.sums, right.sums, is_second, add)
            seen["overflow" if overflow else "none"] += 1
            seen[f"distance {min(abs(top - other_top), golden.bins)}"] += 1

    simulate(dut, check)
    assert seen["overflow"] > 50
    assert all(seen[f"distance {k}"] for k in range(min(golden.bins, golden.max_top) + 1)), seen


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", ["fp16-odd-bins", *(name for name in CASES if name != "fp16-odd-bins")])
def test_added_biases_match_golden(name):
    """Add biases of every exponent to sums with every top bin."""
    config, rng, seen = TileConfig(**CASES[name]), random.Random(name), Counter()
    dut = BiasedAdder(config)
    golden = BinnedAccumulator(config)
    fractions = (0, 1, (1 << 23) - 1, 1 << 22)

    async def check(context):
        adder = dut.adder
        for field in [*range(256)] * 12:
            bias = rng.getrandbits(1) << 31 | field << 23
            bias |= rng.choice((rng.choice(fractions), rng.getrandbits(23)))
            near = (max(field, 1) - 127 - golden.unit) // golden.bin_bits
            top = rng.choice((rng.randint(0, golden.max_top), max(0, min(near + rng.randint(-4, 4), golden.max_top))))
            left, is_second = draw_sum(rng, config, top), rng.random() < 0.5
            unused = draw_sum(rng, config, rng.randint(0, golden.max_top))
            sums = (unused, left, unused) if is_second else (left, unused, unused)
            dut.set_inputs(context, sums, is_second=is_second, add=False, enable=True, value=bias)
            biased = copy_of(config, left)
            overflow = biased.add_bias(bias)
            found = context.get(Value.cast(adder.total)), context.get(adder.overflow)
            assert found == (biased.block_bits(), overflow), (hex(bias), top, left.sums, is_second)
            seen["overflow"] += overflow
            seen["infinity"] += biased.infinities != left.infinities and field < 255
            seen["raised"] += biased.top > left.top

    simulate(dut, check)
    assert seen["overflow"] > 20
    assert seen["raised"] > 20
    assert (seen["infinity"] > 20) == (config.a_format.exponent_bits < 8)
