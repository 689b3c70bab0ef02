"""Bench of the PE, whose sums are compared with the golden accumulator bit by bit."""

from dataclasses import replace

import cocotb

from tensordash.configuration.formats import FloatFormat
from tensordash.configuration.numerics import Binned, Exact, Fused
from tensordash_sim.golden import FP32, ExactAccumulator, IntegerAccumulator, make_accumulator
from tensordash_sim.verify.benches.pe_bins import (
    bins_move,
    c_is_a_term,
    ends_of_bins,
    reset_of_digits,
    zeros_have_no_bin,
)
from tensordash_sim.verify.benches.pe_fused import powers_of_two, small_differences
from tensordash_sim.verify.pe_bench import Bench, Entry
from tensordash_sim.verify.random_values import (
    EXPONENTS,
    largest,
    largest_scale,
    random_value,
    scale_of_one,
    signed_value,
    special_values,
    zeros,
)
from tensordash_sim.verify.registers import near_the_ends, set_sum

__all__ = [
    "bins_move",
    "c_is_a_term",
    "ends_of_bins",
    "powers_of_two",
    "reset_of_digits",
    "small_differences",
    "zeros_have_no_bin",
]

IDLE_SPECIALS = 0.3


async def run(dut, name: str, specials: float, extreme: bool = False) -> None:
    """Run streams of random operands with idle lanes, empty cycles and holds."""
    bench = Bench(dut, name)
    await bench.start()
    config, random = bench.config, bench.random
    formats = config.a_format, config.b_format
    (operand_exponents, c_exponents), density = EXPONENTS[0], 1.0

    def operand(fmt) -> int:
        if extreme:
            return largest(fmt)
        if random.random() < density:
            return random_value(random, fmt, specials, operand_exponents)
        return random.choice(zeros(fmt))

    begun = False
    for _ in range(max(600, round(800 * bench.effort))):
        first = not begun or (not extreme and random.random() < 0.2)
        if first:
            (operand_exponents, c_exponents), density = random.choice(EXPONENTS), random.choice((0.5, 0.95))
        share = 0.7 if random.random() < 0.8 else 0.0
        lanes = tuple((operand(formats[0]), operand(formats[1]), random.random() < share) for _ in range(config.lanes))
        # Operands of an idle lane must not matter, even if they are infinity or NaN.
        lanes = tuple(
            (a, b, True) if counts else (random_value(random, formats[0], IDLE_SPECIALS), b, False)
            for a, b, counts in lanes
        )
        # The largest operands have the largest scales.
        entering = bench.scaled(Entry(lanes, first, random.random() < 0.3), specials, neutral=False)
        if extreme and bench.scale is not None:
            entering = replace(entering, scales=((largest_scale(bench.scale),) * 2,) * bench.steps)
        hold = random.random() < 0.2
        c = random_value(random, FP32, specials, c_exponents) if random.random() < 0.7 else random.choice(zeros(FP32))
        await bench.cycle(entering, hold=hold, c=c)
        begun |= not hold
    assert bench.blocks > 0
    accumulator = config.numerics.accumulator
    if extreme and isinstance(accumulator, Exact) and accumulator.headroom_bits <= 8:  # one sum, never cleared
        assert bench.overflows


@cocotb.test()
async def finite_operands(dut) -> None:
    """Accumulate finite operands of all kinds."""
    await run(dut, "finite", 0.0)


@cocotb.test()
async def special_operands(dut) -> None:
    """Accumulate operands with some NaN and infinities."""
    await run(dut, "special", 0.02)


@cocotb.test()
async def largest_operands(dut) -> None:
    """Accumulate the largest products, up to the accumulator's upper limit."""
    await run(dut, "largest", 0.0, extreme=True)


@cocotb.test()
async def nan_scales(dut) -> None:
    """Apply a NaN scale on one side at each step of the window, with extreme scales on the other side."""
    bench = Bench(dut, "NaN scales")
    await bench.start()
    config, random, scale = bench.config, bench.random, bench.scale
    if scale is None:
        return
    one = scale_of_one(scale)
    for step in range(bench.steps):
        for other in (0, 1, one, scale.nan - 1, scale.nan):
            for pair in ((scale.nan, other), (other, scale.nan)):
                lanes = tuple(
                    (random_value(random, config.a_format), random_value(random, config.b_format), True)
                    for _ in range(config.lanes)
                )
                scales = [(one, one)] * bench.steps
                scales[step] = pair
                final = Entry(lanes, True, True, tuple(scales), (step,) * config.lanes)
                for entering in (final, *[Entry()] * config.stages):
                    await bench.cycle(entering)


@cocotb.test()
async def special_c(dut) -> None:
    """Apply each kind of infinity and NaN as C; two NaN have their payload in the lowest bit only."""
    bench = Bench(dut, "special C")
    await bench.start()
    for c in (0x7F800000, 0xFF800000, 0x7F800001, 0xFF800001, 0x7FC00000, 0xFFFFFFFF) * bench.has_c:
        for entering in (bench.scaled(Entry(first=True, last=True)), *[Entry()] * bench.config.stages):
            await bench.cycle(entering, c=c)


@cocotb.test()
async def ends_of_the_range(dut) -> None:
    """Set sums near the accumulator's limits, and in every binade of its headroom."""
    bench = Bench(dut, "ends")
    await bench.start()
    config, random = bench.config, bench.random
    if isinstance(config.numerics.accumulator, Binned):
        return
    exact = isinstance(config.numerics.accumulator, Exact)
    nothing = Entry()
    for sign in (0, 1) * max(1, round(2 * bench.effort)):
        # All products have one sign. For a fused accumulator, they are near the last place of its largest numbers.
        accumulator = config.numerics.accumulator
        last = FP32.fraction_bits - accumulator.result_bits if isinstance(accumulator, Fused) else 0
        exponents = random.choice(EXPONENTS)[0] if exact else (50 + last // 2, 53 + last // 2)
        sides = [(a, b) for a in (0, 1) for b in (0, 1) if a ^ b == sign]
        lanes = []
        for _ in range(config.lanes):
            a, b = random.choice(sides)
            lanes.append(
                (
                    signed_value(random, config.a_format, a, exponents),
                    signed_value(random, config.b_format, b, exponents),
                    True,
                )
            )
        final = bench.scaled(Entry(tuple(lanes), last=True))
        alone = make_accumulator(config)
        alone.accumulate(final.pairs, first=True)
        added = alone.total if isinstance(alone, ExactAccumulator | IntegerAccumulator) else 0
        before = bench.overflows
        for number in near_the_ends(random, config, bench.golden, added):
            for entering in (replace(final, first=True, last=False), *[nothing] * (config.stages - 1)):
                await bench.cycle(entering)
            set_sum(dut.accumulator, bench.golden, number)
            for entering in (final, *[nothing] * config.stages):
                await bench.cycle(entering)
        assert not exact or bench.overflows > before


@cocotb.test()
async def c_at_the_ends(dut) -> None:
    """Apply C near the largest and the least numbers of a result, with one product or none."""
    bench = Bench(dut, "c at the ends")
    await bench.start()
    config, random, accumulator = bench.config, bench.random, bench.config.numerics.accumulator
    if not bench.has_c:
        return
    exponent_bits, result_bits = FP32.exponent_bits, FP32.fraction_bits
    if isinstance(accumulator, Fused):
        exponent_bits, result_bits = accumulator.result_exponent_bits, accumulator.result_bits
    most = 1 << (exponent_bits - 1)
    least = 2 - most - result_bits
    for exponent in (*range(least - 2, 5 - most), *range(most - 2, most + 2)):
        # The highest one in the fraction of a subnormal FP32 number defines its exponent.
        field, down = max(0, exponent + FP32.bias), max(0, 1 - FP32.bias - exponent)
        if field > FP32.largest >> FP32.fraction_bits or down > FP32.fraction_bits:
            continue
        top = 1 << (FP32.fraction_bits - down)
        for fraction in (0, top - 1, random.randrange(top)):
            sign = random.getrandbits(1) << 31
            c = sign | field << FP32.fraction_bits | fraction | (top if down else 0)
            ordinary = [(random_value(random, config.a_format), 0, False)] * config.lanes
            if random.getrandbits(1):
                ordinary[0] = (random_value(random, config.a_format), random_value(random, config.b_format), True)
            for entering in (bench.scaled(Entry(tuple(ordinary), first=True, last=True)), *[Entry()] * config.stages):
                await bench.cycle(entering, c=c)


@cocotb.test()
async def specials_at_the_ends(dut) -> None:
    """Check that an infinity or NaN in each lane adds no number to a sum at the accumulator's limit."""
    bench = Bench(dut, "specials at the ends")
    await bench.start()
    config, random = bench.config, bench.random
    if not isinstance(bench.golden, ExactAccumulator):
        return
    nothing = Entry()
    kinds: tuple[int | None, ...] = special_values(config.a_format)
    if bench.scale is not None:
        kinds = (*kinds, None)  # the scale is NaN
    for lane in range(config.lanes):
        for kind in kinds:
            for sign in (0, 1):
                special = (largest(config.a_format) if kind is None else kind) | sign << (config.a_format.width - 1)
                lanes = [(0, 0, False)] * config.lanes
                lanes[lane] = (special, largest(config.b_format), True)
                ordinary = tuple((random_value(random, config.a_format), 0, True) for _ in range(config.lanes))
                for entering in (bench.scaled(Entry(ordinary, first=True)), *[nothing] * (config.stages - 1)):
                    await bench.cycle(entering)
                half = 1 << (bench.golden.width - 1)
                set_sum(dut.accumulator, bench.golden, -half if sign else half - 1)
                final = bench.scaled(Entry(tuple(lanes), last=True))
                if kind is None and bench.scale is not None:
                    final = replace(final, scales=((bench.scale.nan, largest_scale(bench.scale)),) * bench.steps)
                for entering in (final, *[nothing] * config.stages):
                    await bench.cycle(entering)
    assert not bench.overflows


@cocotb.test()
async def one_special(dut) -> None:
    """Apply one infinity of either sign or one NaN in each lane of either side, with finite numbers in other lanes."""
    bench = Bench(dut, "one special")
    await bench.start()
    config, random = bench.config, bench.random
    for side, fmt in enumerate((config.a_format, config.b_format)):
        for special in special_values(fmt) if isinstance(fmt, FloatFormat) else ():
            for lane in range(config.lanes):
                for signs in range(4):
                    lanes = [
                        (random_value(random, config.a_format), random_value(random, config.b_format), True)
                        for _ in range(config.lanes)
                    ]
                    pair = [largest(config.a_format), largest(config.b_format)]
                    pair[side] = special
                    pair = [
                        bits | (signs >> which & 1) << (each.width - 1)
                        for which, (bits, each) in enumerate(zip(pair, (config.a_format, config.b_format), strict=True))
                    ]
                    lanes[lane] = (pair[0], pair[1], True)
                    final = bench.scaled(Entry(tuple(lanes), first=True, last=True))
                    for entering in (final, *[Entry()] * config.stages):
                        await bench.cycle(entering)


@cocotb.test()
async def reset_at_the_ends(dut) -> None:
    """Check that a reset drops products in flight: nothing is added to a sum at the accumulator's limit."""
    bench = Bench(dut, "reset at the ends")
    await bench.start()
    config = bench.config
    if not isinstance(config.numerics.accumulator, Exact) or config.stages == 1:
        return  # No product is in flight, or no sum can overflow.
    for lane in range(config.lanes):
        await bench.reset_in_flight(largest(config.a_format), active=1 << lane)
        golden = bench.golden
        assert isinstance(golden, ExactAccumulator | IntegerAccumulator)
        # `largest` of an integer format is negative, but its square is positive.
        set_sum(dut.accumulator, golden, (1 << (golden.width - 1)) - 1)
        await bench.require_no_overflow(f"lane {lane}: a product came through a reset")
