"""Tests of the PE's bench for binned accumulators: which bins count, and the limits of each bin's register."""

from random import Random

import cocotb

from tensordash import TileConfig
from tensordash.configuration.formats import FloatFormat
from tensordash.configuration.numerics import Binned
from tensordash_sim.golden import FP32, BinnedAccumulator
from tensordash_sim.verify.pe_bench import Bench, Entry
from tensordash_sim.verify.random_values import largest, random_value
from tensordash_sim.verify.registers import set_bins

IDLE = (0, 0, False)


async def started(dut, name: str) -> Bench | None:
    """Return the bench after reset, or None for other accumulators."""
    bench = Bench(dut, name)
    await bench.start()
    return bench if isinstance(bench.config.numerics.accumulator, Binned) else None


def pair_at(config: TileConfig, random: Random, place: int) -> tuple[int, int] | None:
    """Return operands whose product's highest place is `place` places above the least product's, or None.

    Significands are odd or all ones, so that every digit has ones at its ends.
    """
    a_format, b_format = config.a_format, config.b_format
    assert isinstance(a_format, FloatFormat)
    assert isinstance(b_format, FloatFormat)
    most = a_format.largest >> a_format.fraction_bits, b_format.largest >> b_format.fraction_bits
    if not 0 <= place <= sum(most) - 2:
        return None
    a_field = random.randint(max(1, place + 2 - most[1]), min(most[0], place + 1))
    made = []
    for fmt, field in ((a_format, a_field), (b_format, place + 2 - a_field)):
        fraction = random.choice(((1 << fmt.fraction_bits) - 1, random.getrandbits(fmt.fraction_bits) | 1))
        sign = random.getrandbits(1) << (fmt.width - 1)
        made.append(sign | min(field << fmt.fraction_bits | fraction, fmt.largest))
    return made[0], made[1]


def places_of(config: TileConfig) -> int:
    """Return the number of places that the highest bit of a product can have, without scales."""
    formats = [fmt for fmt in (config.a_format, config.b_format) if isinstance(fmt, FloatFormat)]
    return sum((fmt.largest >> fmt.fraction_bits) - 1 for fmt in formats) + 1


@cocotb.test()
async def bins_move(dut) -> None:
    """Add a term to a sum of two terms that is up to six bins above or below, for every place of a bin."""
    bench = await started(dut, "bins move")
    if bench is None:
        return
    config, random = bench.config, bench.random
    accumulator = config.numerics.accumulator
    assert isinstance(accumulator, Binned)
    places, nothing = places_of(config), [Entry()] * config.stages
    for distance in range(-accumulator.bins - 2, accumulator.bins + 3):
        for offset in range(0, accumulator.bin_bits, 1 if bench.effort >= 0.5 else 5):
            first = random.randrange(places)
            second = first // accumulator.bin_bits * accumulator.bin_bits + distance * accumulator.bin_bits + offset
            pairs = [pair_at(config, random, place) for place in (first, first - random.randrange(40), second)]
            lane = random.randrange(config.lanes)
            for pair in pairs:
                lanes = [IDLE] * config.lanes
                if pair is not None:
                    lanes[lane] = (*pair, True)
                entry = bench.scaled(Entry(tuple(lanes), first=pair is pairs[0], last=pair is pairs[-1]))
                await bench.cycle(entry, c=0)
            together = [(*pair, True) for pair in pairs if pair is not None][: config.lanes]
            lanes = [*together, *[IDLE] * (config.lanes - len(together))]
            random.shuffle(lanes)
            await bench.cycle(bench.scaled(Entry(tuple(lanes), first=True, last=True)), c=0)
            for entry in nothing:
                await bench.cycle(entry)


@cocotb.test()
async def zeros_have_no_bin(dut) -> None:
    """Check that a zero of either sign and side, times the largest number, does not affect small terms."""
    bench = await started(dut, "zeros")
    if bench is None:
        return
    config, random = bench.config, bench.random
    for lane in range(config.lanes):
        for zero_first in (False, True):
            for sign in (0, 1):
                fmt, other = (config.a_format, config.b_format)[:: -1 if zero_first else 1]
                zero = sign << (fmt.width - 1)
                pair = (largest(other), zero) if zero_first else (zero, largest(other))
                small = pair_at(config, random, 0)
                assert small is not None
                lanes = [(*small, True)] * config.lanes
                lanes[lane] = (*pair, True)
                for entry in (bench.scaled(Entry(tuple(lanes), first=True, last=True)), *[Entry()] * config.stages):
                    await bench.cycle(entry, c=sign << 31)


@cocotb.test()
async def c_is_a_term(dut) -> None:
    """Apply C in every place, with a product up to 80 places above or below it, or without one."""
    bench = await started(dut, "c is a term")
    if bench is None or not bench.has_c:
        return
    config, random = bench.config, bench.random
    golden = bench.golden
    assert isinstance(golden, BinnedAccumulator)
    accumulator = config.numerics.accumulator
    assert isinstance(accumulator, Binned)
    a_format, b_format = config.a_format, config.b_format
    assert isinstance(a_format, FloatFormat)
    assert isinstance(b_format, FloatFormat)
    least_place = 3 - a_format.bias - b_format.bias
    for field in range(0, FP32.exponent_range + 1, 1 if bench.effort >= 0.5 else 3):
        c = random.getrandbits(1) << 31 | field << FP32.fraction_bits
        c |= random.choice((0, (1 << FP32.fraction_bits) - 1, random.getrandbits(FP32.fraction_bits)))
        near = field - FP32.bias - least_place + random.randint(-80, 80)
        lanes = [IDLE] * config.lanes
        pair = pair_at(config, random, near)
        if pair is not None:
            lanes[random.randrange(config.lanes)] = (*pair, True)
        for entry in (bench.scaled(Entry(tuple(lanes), first=True, last=True)), *[Entry()] * (config.stages - 1)):
            await bench.cycle(entry, c=c)
    await bench.cycle(Entry())


@cocotb.test()
async def ends_of_bins(dut) -> None:
    """Set each bin to a limit of its register, and add products that exceed the limit or do not."""
    bench = await started(dut, "ends of bins")
    if bench is None:
        return
    config, random, golden = bench.config, bench.random, bench.golden
    assert isinstance(golden, BinnedAccumulator)
    half, nothing = 1 << (golden.width - 1), Entry()
    found = set()
    for place in range(golden.bins):
        for end in (-half, -half + 1, half - 2, half - 1) * max(2, round(8 * bench.effort)):
            pairs = [pair_at(config, random, random.randrange(places_of(config))) for _ in range(config.lanes)]
            if random.random() < 0.5:
                pairs = pairs[:1] * config.lanes
            final = bench.scaled(Entry(tuple((*pair, True) for pair in pairs if pair is not None), last=True))
            for entry in (Entry(first=True), *[nothing] * (config.stages - 1)):
                await bench.cycle(entry)
            alone = BinnedAccumulator(config)
            alone.accumulate(final.pairs, first=True)
            top = max(0, alone.top + random.choice((0, 0, 1, -1)))
            counting = range(max(0, top - golden.bins + 1), top + 1)
            here = top - golden.bins + 1 + place
            sums = {k: random.randrange(-half, half) for k in counting}
            if here in sums:
                sums[here] = end
            set_bins(dut.accumulator, golden, top, sums)
            before = bench.overflows
            for entry in (final, *[nothing] * config.stages):
                await bench.cycle(entry)
            if bench.overflows > before:
                found.add((place, end > 0))
    assert len(found) > 1


@cocotb.test()
async def reset_of_digits(dut) -> None:
    """Check that a reset drops digits in flight: nothing is added to bins at their limits."""
    bench = await started(dut, "reset of digits")
    if bench is None or bench.config.stages == 1:
        return
    config, golden = bench.config, bench.golden
    assert isinstance(golden, BinnedAccumulator)
    high = random_value(bench.random, config.a_format, exponents=(0, 0)) & ((1 << (config.a_format.width - 1)) - 1)
    await bench.reset_in_flight(high, active=(1 << config.lanes) - 1)
    alone = BinnedAccumulator(config)
    top = alone._bin_of(0) if alone.unit < 0 else 0
    half = 1 << (golden.width - 1)
    set_bins(dut.accumulator, golden, top, dict.fromkeys(range(max(0, top - golden.bins + 1), top + 1), half - 1))
    await bench.require_no_overflow("a product came through a reset")
