"""Bench of the block quantiser, compared with the golden one at all ports in every cycle."""

from collections.abc import Sequence
from random import Random

import cocotb

from tensordash.configuration.formats import FloatFormat
from tensordash_sim.golden.block_quantiser import BLOCK, BlockQuantiser
from tensordash_sim.verify.bench import start_bench
from tensordash_sim.verify.pins import split

SPECIAL = (0x7F800000, 0xFF800000, 0x7FC00000, 0xFF800001)


@cocotb.test()
@cocotb.parametrize(idle=[0.0, 0.4], stall=[0.0, 0.4])
async def random_blocks(dut, idle: float, stall: float) -> None:
    """Quantise random blocks with random roundings and seeds, with pauses of producer and consumer, and a reset."""
    job, random, pins = start_bench(dut, f"quantiser {idle} {stall}")
    config = job.config
    fmt, lanes = config.a_format, config.lanes
    assert isinstance(fmt, FloatFormat)
    golden = BlockQuantiser(fmt, lanes, config.scale_rounding)
    await pins.reset(values_valid=0, values_payload=0, out_ready=0, rounding=0, seed=0, start=0)
    values: list[int] = []
    offered = waits = False
    left = rounding = 0
    # Enough blocks that each kind occurs.
    cycles = round(180 * BLOCK // lanes * max(job.effort, 0.5) / (1 - max(idle, stall)))
    for cycle in range(cycles):
        if not values:
            values = _block(random, fmt, golden.bits_of_next_block())
        offered = offered or random.random() >= idle
        ready = random.random() >= stall
        reset = cycle == cycles // 2
        start = random.random() < 0.02
        seed = random.choice((0, (1 << 32) - 1, random.getrandbits(32)))
        rounding = rounding if waits else random.choice((0, 1, 1, 2))
        pins.drive(
            values_valid=int(offered),
            values_payload=sum(value << (32 * i) for i, value in enumerate(values[:lanes])),
            out_ready=int(ready),
            rounding=rounding,
            rst=int(reset),
            start=int(start),
            seed=seed,
        )
        await pins.settle()
        expected = golden.cycle(offered, values[:lanes], ready, rounding)
        where = f"cycle {pins.cycle}"
        assert pins.read("values_ready") == expected.in_ready, f"{where}: golden has ready {expected.in_ready}"
        assert pins.read("out_valid") == expected.out_valid, f"{where}: golden has valid {expected.out_valid}"
        if expected.out_step is not None:
            bits = pins.read("out_payload")
            step = tuple(split(bits, fmt.width, lanes)), bits >> (fmt.width * lanes)
            assert step == expected.out_step, f"{where}: step is {step}, golden has {expected.out_step}"
            left += ready
        waits = expected.out_valid and not ready
        if offered and expected.in_ready:
            offered, values = False, values[lanes:]
        if start:
            golden.start(seed)
        if reset:
            golden.reset()
            offered, waits, values = False, False, []
        await pins.tick()
    assert left > cycles / 8


def _block(random: Random, fmt: FloatFormat, bits: Sequence[int]) -> list[int]:
    """Return the numbers of a block: random, similar in size, at ties, tiny, huge, zero, or with a non-finite number.

    `bits` are the random bits that stochastic rounding will use for them, if no new seed is set before.
    """
    kind = random.choice(("any", "near", "near", "ties", "ties", "tiny", "huge", "zero", "special", "draws"))
    if kind == "draws":
        return _just_below(random, fmt, bits)
    if kind == "any":
        made = [random.getrandbits(32) for _ in range(BLOCK)]
        return [bits if bits >> 23 & 0xFF != 0xFF else bits ^ 1 << 30 for bits in made]
    if kind == "zero":
        return [random.getrandbits(1) << 31 for _ in range(BLOCK)]
    top = {"tiny": random.randint(0, 3 + fmt.bias), "huge": random.randint(250, 254)}.get(kind, random.randint(30, 220))
    spread = (1 << fmt.exponent_bits) + fmt.fraction_bits + 18
    made = []
    for _ in range(BLOCK):
        field = max(0, top - min(random.randrange(spread), random.randrange(spread)))
        fraction = random.getrandbits(23)
        if kind == "ties":  # few bits after the last place
            bits_left = fmt.fraction_bits + random.randint(0, 3)
            fraction = fraction >> (23 - bits_left) << (23 - bits_left) | random.choice((0, 0, 1, 1 << 6))
        made.append(random.getrandbits(1) << 31 | field << 23 | fraction)
        if random.random() < 0.2:
            made[-1] &= 1 << 31
    if random.random() < 0.3:  # The largest value is the largest element, or next to it.
        limit = fmt.largest << (23 - fmt.fraction_bits) & 0x7FFFFF
        made[random.randrange(BLOCK)] = max(top, 1) << 23 | limit + random.choice((-1, 0, 0, 1))
    if kind == "special":
        made[random.randrange(BLOCK)] = random.choice(SPECIAL)
    return made


def _just_below(random: Random, fmt: FloatFormat, bits: Sequence[int]) -> list[int]:
    """Return numbers that stochastic rounding just fails to round up.

    For most numbers, the upper 16 bits of the rest plus the random bits are all ones. Lower bits must not matter.
    """
    top, places = random.randint(40, 220), 23 - fmt.fraction_bits - 16
    made = []
    for drawn in bits:
        bits_left, below = random.getrandbits(fmt.fraction_bits), random.randrange(1, 1 << places)
        rest = 0xFFFF - drawn + random.choice((0, 0, 0, 1))
        fraction = (bits_left << 16 | min(rest, 0xFFFF)) << places | below
        made.append(random.getrandbits(1) << 31 | top << 23 | fraction)
    return made
