"""Bench of the block quantiser: ports in every cycle against the golden one."""

from random import Random

import cocotb

from tensordash.configuration.formats import FloatFormat
from tensordash_sim.golden.block_quantiser import BLOCK, BlockQuantiser
from tensordash_sim.verify.job import current_job
from tensordash_sim.verify.pins import Pins, split

SPECIAL = (0x7F800000, 0xFF800000, 0x7FC00000, 0xFF800001)


@cocotb.test()
@cocotb.parametrize(idle=[0.0, 0.4], stall=[0.0, 0.4], rounding=[0, 1, 2])
async def random_blocks(dut, idle: float, stall: float, rounding: int) -> None:
    """Blocks of any numbers, with and without pauses of producer and consumer, a reset and a new seed among them."""
    job = current_job()
    config, random = job.config, Random(f"{job.seed} quantiser {idle} {stall} {rounding}")
    cocotb.log.info("seed %s", job.seed)
    assert isinstance(config.a_format, FloatFormat)
    lanes, width = config.lanes, config.a_format.width
    golden, pins = BlockQuantiser(config.a_format, lanes), Pins(dut)
    await pins.reset(values_valid=0, values_payload=0, out_ready=0, rounding=rounding, seed=0, start=0)
    values: list[int] = []
    offered, left = False, 0
    # Whole blocks, and enough of them for each kind to be among them.
    cycles = round(60 * BLOCK // lanes * max(job.effort, 0.5) / (1 - max(idle, stall)))
    for cycle in range(cycles):
        if not values:
            values = _block(random, config.a_format)
        offered = offered or random.random() >= idle
        ready = random.random() >= stall
        reset = cycle == cycles // 2
        start = cycle == 0 or random.random() < 0.02
        seed = random.choice((0, 0x9E3779B9, random.getrandbits(32)))
        pins.drive(
            values_valid=int(offered),
            values_payload=sum(value << (32 * i) for i, value in enumerate(values[:lanes])),
            out_ready=int(ready),
            rst=int(reset),
            start=int(start),
            seed=seed,
        )
        await pins.settle()
        expected = golden.cycle(offered, values[:lanes], ready, rounding)
        where = f"cycle {pins.cycle}"
        assert pins.read("values_ready") == expected.in_ready, f"{where}: golden says ready {expected.in_ready}"
        assert pins.read("out_valid") == expected.out_valid, f"{where}: golden says valid {expected.out_valid}"
        if expected.out_step is not None:
            bits = pins.read("out_payload")
            step = tuple(split(bits, width, lanes)), bits >> (width * lanes)
            assert step == expected.out_step, f"{where}: step is {step}, golden says {expected.out_step}"
            left += ready
        if offered and expected.in_ready:
            offered, values = False, values[lanes:]
        if start:
            golden.start(seed)
        if reset:
            golden.reset()
            offered, values = False, []
        await pins.tick()
    assert left > cycles / 8


def _block(random: Random, fmt: FloatFormat) -> list[int]:
    """Numbers of one block: of any size, near each other, on ties, tiny, none, or with one that is not finite."""
    kind = random.choice(("any", "near", "near", "ties", "ties", "tiny", "huge", "zero", "special"))
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
        if kind == "ties":  # few bits behind the last place
            kept = fmt.fraction_bits + random.randint(0, 3)
            fraction = fraction >> (23 - kept) << (23 - kept) | random.choice((0, 0, 1, 1 << 6))
        made.append(random.getrandbits(1) << 31 | field << 23 | fraction)
        if random.random() < 0.2:
            made[-1] &= 1 << 31
    if kind == "special":
        made[random.randrange(BLOCK)] = random.choice(SPECIAL)
    return made
