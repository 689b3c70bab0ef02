"""Tests of the PE's bench for fused accumulators: cancelling sums, and bits that alignment and rounding cut off."""

from random import Random

import cocotb

from tensordash import TileConfig
from tensordash.configuration.formats import FloatFormat
from tensordash.configuration.numerics import Fused
from tensordash_sim.golden import FP32
from tensordash_sim.verify.pe_bench import Bench, Entry


@cocotb.test()
async def small_differences(dut) -> None:
    """Add products that nearly cancel, at the results' lower end, where the exponent limits normalisation.

    In every other sum, of random exponent, two products cancel and a far smaller one remains, so that normalisation
    shifts by all distances.
    """
    bench = Bench(dut, "small differences")
    await bench.start()
    config, random = bench.config, bench.random
    result = config.numerics.accumulator
    if not isinstance(result, Fused):
        return
    most = [fmt.largest >> fmt.fraction_bits for fmt in (config.a_format, config.b_format)]
    lowest = FP32.bias + FP32.fraction_bits
    if result.result_exponent_bits < FP32.exponent_bits:
        lowest = (1 << (result.result_exponent_bits - 1)) - 1 + result.result_bits
    for exponent in [*range(-lowest - 4, -lowest + 36)] * max(2, round(6 * bench.effort)):
        both = exponent + config.a_format.bias + config.b_format.bias  # sum of the two exponent fields
        cancelling = random.randint(2, sum(most))
        for field, smaller in ((both, None), (cancelling, max(2, cancelling - random.randint(1, 30)))):
            if not 2 <= field <= sum(most) or (smaller is not None and config.lanes < 3):
                continue
            a, b = _normal_pair(random, config, field)
            lanes = [(0, 0, False)] * config.lanes
            lanes[0] = (a, b, True)
            below = (0, 0) if smaller else (random.randint(0, 2), random.randint(0, 2))
            near = [
                value - min(less, value % (1 << fmt.fraction_bits))
                for value, less, fmt in zip((a, b), below, (config.a_format, config.b_format), strict=True)
            ]
            lanes[1] = (near[0] ^ 1 << (config.a_format.width - 1), near[1], True)
            if smaller:
                lanes[2] = (*_normal_pair(random, config, smaller), True)
            random.shuffle(lanes)
            for entering in (bench.scaled(Entry(tuple(lanes), first=True, last=True)), *[Entry()] * config.stages):
                await bench.cycle(entering)


def _normal_pair(random: Random, config: TileConfig, both: int) -> tuple[int, int]:
    """Draw two normal operands whose exponent fields have the sum `both`; the first one's sign is random."""
    a_format, b_format = config.a_format, config.b_format
    assert isinstance(a_format, FloatFormat)
    assert isinstance(b_format, FloatFormat)
    a_field = random.randint(
        max(1, both - (b_format.largest >> b_format.fraction_bits)),
        min(a_format.largest >> a_format.fraction_bits, both - 1),
    )
    a, b = (
        field << fmt.fraction_bits | random.randrange(1 << fmt.fraction_bits)
        for fmt, field in ((a_format, a_field), (b_format, both - a_field))
    )
    return random.getrandbits(1) << (a_format.width - 1) | a, b


def power_pairs(config: TileConfig, random: Random, powers: list[tuple[int, int]]) -> list[tuple[int, int]] | None:
    """Return operands whose products are powers of two with these (exponent, sign), or None if one has no operands."""
    a_format, b_format = config.a_format, config.b_format
    assert isinstance(a_format, FloatFormat)
    assert isinstance(b_format, FloatFormat)
    pairs = []
    for exponent, sign in powers:
        a_exponent, b_exponent = _split(random, exponent, a_format, b_format)
        if a_exponent is None:
            return None
        pairs.append((sign << (a_format.width - 1) | _power(a_format, a_exponent), _power(b_format, b_exponent)))
    return pairs


def _split(random: Random, exponent: int, a_format: FloatFormat, b_format: FloatFormat) -> tuple[int | None, int]:
    """Return exponents of two operands whose product is a power of two; the first is None if there are none."""
    a_top, b_top = ((fmt.largest >> fmt.fraction_bits) - fmt.bias for fmt in (a_format, b_format))
    low, high = max(a_format.least_exponent, exponent - b_top), min(a_top, exponent - b_format.least_exponent)
    if low > high:
        return None, 0
    a_exponent = random.randint(low, high)
    return a_exponent, exponent - a_exponent


def _power(fmt: FloatFormat, exponent: int) -> int:
    """Return the bits of a power of two, normal or subnormal."""
    field = exponent + fmt.bias
    return field << fmt.fraction_bits if field > 0 else 1 << (exponent - fmt.least_exponent)


@cocotb.test()
async def powers_of_two(dut) -> None:
    """Add few terms near the cut-offs of rounding and alignment: a result's last place, the exponent of a zero C."""
    bench = Bench(dut, "powers of two")
    await bench.start()
    config, random, accumulator = bench.config, bench.random, bench.config.numerics.accumulator
    if not isinstance(accumulator, Fused):
        return
    result_bits, zero = accumulator.result_bits, accumulator.zero_exponent
    normal = 2 - (1 << (accumulator.result_exponent_bits - 1))
    least = normal - result_bits
    sets = []
    for low in sorted({zero, normal}):
        cut = low - accumulator.fraction_bits
        for top in range(low - 2, low + 3):
            for small in (cut - 1, cut, cut + 1):
                sets += [[(top, 0), (small, 1)], [(top, 0), (least, 0), (least - 1, 0), (small, 1)]]
        for small in (cut - 1, cut, cut + 1):
            sets += [[(least - 1, 0), (small, sign)] for sign in (0, 1)]
    for top in (-40, 0, 5):
        last = top - result_bits
        sets += [
            [(top, 0), (last - 1, 0)],
            [(top, 0), (last, 0), (last - 1, 0)],
            [(top, 0), (last, 0), (last - 1, 0), (last - 2, 1)],
            [(top, 0), (last - 1, 0), (last - 2, 0)],
        ]
    for powers in sets:
        for flip in (0, 1):
            pairs = power_pairs(config, random, [(exponent, sign ^ flip) for exponent, sign in powers])
            if pairs is None or len(pairs) > config.lanes:
                continue
            lanes = [*((a, b, True) for a, b in pairs), *[(0, 0, False)] * (config.lanes - len(pairs))]
            random.shuffle(lanes)
            for entering in (bench.scaled(Entry(tuple(lanes), first=True, last=True)), *[Entry()] * config.stages):
                await bench.cycle(entering)
