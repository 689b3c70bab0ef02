"""Compare the Amaranth models in Amaranth's simulator with golden numbers and schedules."""

from itertools import product
from random import Random

import numpy as np
import pytest
from amaranth.hdl import Elaboratable, Module, Signal
from amaranth.sim import Simulator

from tensordash import Connectivity, Tile, TileConfig, load_preset
from tensordash.arithmetic.accumulator import ExactAccumulator
from tensordash.arithmetic.multiplier import Multiplier
from tensordash.arithmetic.rounder import Rounder
from tensordash.configuration.formats import FORMATS
from tensordash.schedule.scheduler import Scheduler
from tensordash_sim.golden import Kind, decode, matmul, round_fixed, schedule
from tensordash_sim.golden.dot import ExactAccumulator as GoldenAccumulator

FP16 = FORMATS["fp16"]
# Zeros, the ends of the subnormals and of the normals, one and its neighbours, infinities and NaN; both signs.
CORNERS = [
    sign | bits
    for sign in (0, 0x8000)
    for bits in (
        0,
        1,
        2,
        0x3FF,
        0x400,
        0x401,
        0x7FF,
        0x800,
        0x3BFF,
        0x3C00,
        0x3C01,
        0x7BFF,
        0x7C00,
        0x7C01,
        0x7E00,
        0x7FFF,
    )
]


def simulate(design, testbench, *, clocked: bool, limit: int) -> None:
    """Run a testbench to its end; a clocked one fails after `limit` cycles."""
    simulator = Simulator(design)
    finished = []

    async def main(ctx):
        await testbench(ctx)
        finished.append(True)

    simulator.add_testbench(main)
    if clocked:
        simulator.add_clock(1e-6)
        simulator.run_until(limit * 1e-6)
    else:
        simulator.run()
    assert finished, f"not done after {limit} cycles"


def number_of(bits: int) -> int:
    """Return a finite fp16 value in units of 2**-24."""
    value = decode(bits, FP16)
    return (-1) ** value.sign * value.significand << (value.exponent + 24)


class TestMultiplier:
    def check(self, pairs):
        design = Multiplier(a_format=FP16, b_format=FP16)
        nans = infinities = 0

        async def testbench(ctx):
            nonlocal nans, infinities
            for a_bits, b_bits in pairs:
                ctx.set(design.a.as_value(), a_bits)
                ctx.set(design.b.as_value(), b_bits)
                await ctx.delay(1e-9)
                found = ctx.get(design.product)
                a, b = decode(a_bits, FP16), decode(b_bits, FP16)
                kinds = {a.kind, b.kind}
                nan = Kind.NAN in kinds or kinds == {Kind.INFINITE, Kind.ZERO}
                infinite = Kind.INFINITE in kinds and not nan
                where = f"{a_bits:#06x} * {b_bits:#06x}"
                assert (found.nan, found.infinite) == (nan, infinite), where
                nans, infinities = nans + nan, infinities + infinite
                if not nan:
                    assert found.sign == a.sign ^ b.sign, where
                if not nan and not infinite:
                    value = (-1) ** found.sign * found.significand << found.shift
                    assert value == number_of(a_bits) * number_of(b_bits), where

        simulate(design, testbench, clocked=False, limit=0)
        return nans, infinities

    def test_products_of_corner_cases(self):
        nans, infinities = self.check(product(CORNERS, CORNERS))
        # NaN: 6 of the 32 patterns with any other, and 2 infinities with 2 zeros in either order.
        assert nans == 32 * 32 - 26 * 26 + 2 * 2 * 2
        assert infinities == 26 * 26 - 24 * 24 - 2 * 2 * 2

    def test_products_of_random_patterns(self):
        random = Random(1)
        self.check([(random.getrandbits(16), random.getrandbits(16)) for _ in range(5000)])


class TestScheduler:
    CONFIGS = {
        "paper": load_preset("paper"),
        "recommended": load_preset("recommended"),
        "paper-16lane": load_preset("paper-16lane"),
        "odd": TileConfig(lanes=5, depth=2, connectivity=((0, 0), (1, 2), (1, -1))),
        "dense": TileConfig(sparsity="none", lanes=6, depth=3),
    }

    @pytest.mark.parametrize("name", CONFIGS)
    def test_random_windows(self, name):
        config, random = self.CONFIGS[name], Random(name)
        lanes, depth = config.lanes, config.window_depth
        design = Scheduler(Connectivity(config.options, lanes=lanes, depth=depth))

        async def testbench(ctx):
            for _ in range(250):
                density = random.random()
                window = [[random.random() < density for _ in range(lanes)] for _ in range(depth)]
                eligible = random.randint(0, depth)
                ctx.set(design.effectual, [sum(bit << i for i, bit in enumerate(step)) for step in window])
                ctx.set(design.eligible, (1 << eligible) - 1)
                await ctx.delay(1e-9)
                expected = schedule(window, eligible, config.options)
                selected = [ctx.get(design.select[lane]) for lane in range(lanes)]
                assert selected == [0 if option is None else 1 << option for option in expected.options]
                remaining = [ctx.get(design.remaining[step]) for step in range(depth)]
                assert remaining == [sum(bit << i for i, bit in enumerate(step)) for step in expected.remaining]
                assert ctx.get(design.advance) == (1 << expected.advance) - 1

        simulate(design, testbench, clocked=False, limit=0)


def sums_for(width: int, random: Random) -> list[int]:
    """Return two's complement numbers of `width` bits that are hard to round."""
    top = width - 1
    sums = [0, 1, -1, 2, -2, 3, -3, (1 << top) - 1, -(1 << top), (1 << top) - 2, -(1 << top) + 1]
    for exponent in range(top):
        sums += [1 << exponent, -(1 << exponent), (1 << exponent) - 1, 1 - (1 << exponent), -(1 << exponent) - 1]
    for significand in ((1 << 23) + 1, (1 << 23) + 2, (1 << 24) - 1, (1 << 24) - 2, 1 << 23):
        # Exactly between two results, and next to it on both sides.
        for shift in (1, 2, 3, 7, 30, top - 25, top - 24):
            tie = (significand << shift) + (1 << (shift - 1))
            sums += [sign * (tie + off) for sign in (1, -1) for off in (-1, 0, 1)]
    for _ in range(1000):
        magnitude = random.getrandbits(random.randint(1, top))
        sums += [magnitude, -magnitude]
    return [number for number in sums if -(1 << top) <= number < 1 << top]


class TestRounder:
    @pytest.mark.parametrize("headroom_bits", [0, 1, 16, 47, 64])
    def test_sums(self, headroom_bits):
        design = Rounder(width=81 + headroom_bits, least_exponent=-48)
        width, least = design.width, -48
        assert (width, least) == (81 + headroom_bits, -48)
        sums = sums_for(width, Random(headroom_bits))

        async def testbench(ctx):
            ctx.set(design.load, 1)
            for number in sums:
                ctx.set(design.sum.number, number % (1 << width))
                await ctx.tick()
                found = ctx.get(design.value)
                expected = round_fixed(number, least)
                assert found == expected, f"{number:#x}: {found:#010x}, golden has {expected:#010x}"

        simulate(design, testbench, clocked=True, limit=len(sums) + 10)

    @pytest.mark.parametrize(
        ("positive", "negative", "expected"), [(1, 0, 0x7F800000), (0, 1, 0xFF800000), (1, 1, 0x7FC00000)]
    )
    def test_specials(self, positive, negative, expected):
        design = Rounder(width=97, least_exponent=-48)

        async def testbench(ctx):
            ctx.set(design.load, 1)
            for number in (0, 1, (1 << design.width) - 1, 1 << (design.width - 1), 0x123456789):
                ctx.set(design.sum, {"number": number, "positive": positive, "negative": negative})
                await ctx.tick()
                assert ctx.get(design.value) == expected

        simulate(design, testbench, clocked=True, limit=10)

    def test_holds_without_load(self):
        design = Rounder(width=97, least_exponent=-48)

        async def testbench(ctx):
            ctx.set(design.sum.number, 1 << 48)
            ctx.set(design.load, 1)
            await ctx.tick()
            ctx.set(design.load, 0)
            ctx.set(design.sum.number, 5 << 48)
            for _ in range(3):
                await ctx.tick()
                assert ctx.get(design.value) == 0x3F800000

        simulate(design, testbench, clocked=True, limit=10)


class TestExactAccumulator:
    @pytest.mark.sampled(1)
    @pytest.mark.parametrize(("stages", "headroom_bits"), [(1, 16), (2, 16), (1, 0), (2, 3)])
    def test_random_products(self, stages, headroom_bits):
        lanes, random = 3, Random(f"{stages} {headroom_bits}")
        design = ExactAccumulator(numerics=TileConfig(headroom_bits=headroom_bits).numerics, lanes=lanes, stages=stages)
        config = TileConfig(headroom_bits=headroom_bits)
        golden = GoldenAccumulator(config)
        overflows = blocks = 0

        def operand() -> int:
            return random.choice((random.getrandbits(16) & 0xBFFF, 0x7BFF, 0x7BFF, 0x0001, 0x8001))

        async def testbench(ctx):
            nonlocal overflows, blocks
            entering: list = [[]] * (stages - 1)
            expected = None
            for cycle in range(400):
                pairs = [(operand(), operand()) for _ in range(lanes)]
                active = random.getrandbits(lanes)
                start, take = cycle == stages - 1 or random.random() < 0.05, random.random() < 0.2
                for lane, (a, b) in enumerate(pairs):
                    left, right = decode(a, FP16), decode(b, FP16)
                    fields = {
                        "significand": left.significand * right.significand,
                        "shift": left.exponent + right.exponent + 48,
                        "sign": left.sign ^ right.sign,
                        "infinite": 0,
                        "nan": 0,
                    }
                    ctx.set(design.products[lane], fields)
                ctx.set(design.active, active)
                ctx.set(design.sum.start, start)
                ctx.set(design.sum.take, take)
                await ctx.delay(1e-7)
                if expected is not None:
                    assert ctx.get(design.sum.value.number) == expected % (1 << golden.width), f"cycle {cycle}"
                    assert not ctx.get(design.sum.value.positive) | ctx.get(design.sum.value.negative)
                entering.append([pair for lane, pair in enumerate(pairs) if active >> lane & 1])
                leaving = entering.pop(0)
                if cycle >= stages - 1:
                    overflow = golden.accumulate(leaving, start)
                    assert ctx.get(design.sum.overflow) == overflow, f"cycle {cycle}"
                    overflows += overflow
                    if take:
                        expected, blocks = golden.total, blocks + 1
                await ctx.tick()

        simulate(design, testbench, clocked=True, limit=1000)
        assert blocks > 30
        assert overflows or headroom_bits


class Stream(Elaboratable):
    """A design with a tile of one PE. A counter feeds it one stream at full rate."""

    def __init__(self, a: list[list[int]], b: list[list[int]]) -> None:
        self.steps = (a, b)
        self.tile = Tile(TileConfig(rows=1, columns=1))
        self.result = Signal(32)
        self.finished = Signal()

    def elaborate(self, platform):
        m = Module()
        m.submodules.tile = self.tile
        depth, length = self.tile.config.depth, len(self.steps[0])
        sent, left = Signal(range(length + 1)), Signal(range(length + 1))
        m.d.comb += left.eq(length - sent)
        with m.If(~self.finished):
            m.d.sync += sent.eq(sent + self.tile.a[0].taken)
        for port, steps in zip((self.tile.a[0], self.tile.b[0]), self.steps, strict=True):
            with m.If(left > depth):
                m.d.comb += port.available.eq(depth)
            with m.Else():
                m.d.comb += [port.available.eq(left), port.last.eq(left > 0)]
            with m.Switch(sent):
                for first in range(length):
                    with m.Case(first):
                        offered = steps[first : first + depth]
                        m.d.comb += [
                            port.steps[step][lane].eq(value)
                            for step, values in enumerate(offered)
                            for lane, value in enumerate(values)
                        ]
        m.d.comb += self.tile.out.ready.eq(1)
        with m.If(self.tile.out.valid):
            m.d.sync += [self.result.eq(self.tile.out.payload.values[0][0]), self.finished.eq(1)]
        return m


@pytest.mark.parametrize("density", [0.2, 0.6, 1.0])
def test_tile_within_another_design(density):
    random = Random(f"tile {density}")

    def operand() -> int:
        return random.getrandbits(16) & 0xBFFF if random.random() < density else 0

    length = 23
    a, b = ([[operand() for _ in range(4)] for _ in range(length)] for _ in range(2))
    golden = matmul(np.array([a], np.uint16), np.array([b], np.uint16), TileConfig(rows=1, columns=1))
    design = Stream(a, b)

    async def testbench(ctx):
        await ctx.tick().until(design.finished)
        assert ctx.get(design.result) == golden.c_bits[0][0]
        assert ctx.get(design.tile.cycles) == golden.counters.cycles
        assert ctx.get(design.tile.effectual) == golden.counters.effectual

    simulate(design, testbench, clocked=True, limit=length + 20)
    assert golden.counters.cycles < length or density == 1.0
