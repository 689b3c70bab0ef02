"""Bench of the PE: what it has accumulated, bit by bit, against the golden accumulator."""

from dataclasses import dataclass
from random import Random

import cocotb

from tensordash import TileConfig
from tensordash.configuration.numerics import Exact, Fused
from tensordash_sim.golden import FP32, make_accumulator
from tensordash_sim.verify.job import current_job
from tensordash_sim.verify.pins import Pins
from tensordash_sim.verify.stimulus import EXPONENTS, largest, packed, random_value, zeros


@dataclass(frozen=True)
class Entry:
    """What enters the PE in one cycle, with the marks that follow it to its accumulation."""

    pairs: tuple[tuple[int, int], ...] = ()
    first: bool = False
    last: bool = False


def same_block(found: int, expected: int, config: TileConfig, width: int) -> bool:
    """Whether a block is the golden one.

    A number means nothing when an infinity or NaN is marked above it, nor does the sign of a fused sum of zero.
    """
    if config.numerics.result == "fp32" and expected >> (width - 2):
        return found >> (width - 2) == expected >> (width - 2)
    if isinstance(config.numerics.accumulator, Fused) and not expected & 0x7FFFFFFF:
        return found & ~0x80000000 == expected & ~0x80000000
    return found == expected


async def run(dut, name: str, specials: float, extreme: bool = False) -> None:
    """Streams of random operands with idle lanes, empty cycles and holds."""
    job = current_job()
    config, random = job.config, Random(f"{job.seed} {name}")
    cocotb.log.info("seed %s", job.seed)
    golden, pins = make_accumulator(config), Pins(dut)
    has_c = config.initial and isinstance(config.numerics.accumulator, Fused)
    start = {"sum_c": 0} if has_c else {}
    await pins.reset(a=0, b=0, active=0, sum_hold=0, sum_start=0, sum_take=0, **start)
    formats = config.a_format, config.b_format
    (operand_exponents, c_exponents), density = EXPONENTS[0], 1.0

    def operand(fmt) -> int:
        if extreme:
            return largest(fmt)
        if random.random() < density:
            return random_value(random, fmt, specials, operand_exponents)
        return random.choice(zeros(fmt))

    flying, begun = [Entry()] * (config.stages - 1), False
    finished, blocks, overflows, width = None, 0, 0, len(dut.sum_value)
    for _ in range(max(600, round(800 * job.effort))):
        # What enters now is accumulated stages - 1 cycles later, together with its marks.
        first = not begun or (not extreme and random.random() < 0.2)
        if first:
            (operand_exponents, c_exponents), density = random.choice(EXPONENTS), random.choice((0.5, 0.95))
        pairs = [(operand(formats[0]), operand(formats[1])) for _ in range(config.lanes)]
        share = 0.7 if random.random() < 0.8 else 0.0
        active = [random.random() < share for _ in range(config.lanes)]
        counted = tuple(pair for pair, counts in zip(pairs, active, strict=True) if counts)
        entering = Entry(counted, first, random.random() < 0.3)
        hold = random.random() < 0.2
        c = random_value(random, FP32, specials, c_exponents) if random.random() < 0.7 else random.choice(zeros(FP32))
        due = (*flying, entering)[0]
        pins.drive(
            a=packed([a for a, _ in pairs], formats[0].width),
            b=packed([b for _, b in pairs], formats[1].width),
            active=packed(active, 1),
            sum_hold=int(hold),
            sum_start=int(due.first and not hold),
            sum_take=int(due.last and not hold),
            **({"sum_c": c} if has_c else {}),
        )
        await pins.settle()
        if finished is not None:
            found = pins.read("sum_value")
            assert same_block(found, finished, config, width), (
                f"cycle {pins.cycle}: block is {found:#x}, golden says {finished:#x}"
            )
        if not hold:
            started = blocks or due.first
            overflow = golden.accumulate(due.pairs, due.first, c if has_c else 0)
            if started:
                assert pins.read("sum_overflow") == overflow, f"cycle {pins.cycle}: golden says overflow {overflow}"
            overflows += overflow
            blocks += due.first
            if due.last and started:
                finished = golden.block_bits()
            flying, begun = [*flying, entering][1:], True
        else:
            assert pins.read("sum_overflow") == 0
        await pins.tick()
    assert blocks > 0
    accumulator = config.numerics.accumulator
    if extreme and isinstance(accumulator, Exact) and accumulator.headroom_bits <= 8:  # one sum, never cleared
        assert overflows


@cocotb.test()
async def finite_operands(dut) -> None:
    """Finite operands of all kinds."""
    await run(dut, "finite", 0.0)


@cocotb.test()
async def special_operands(dut) -> None:
    """NaN and infinities among them."""
    await run(dut, "special", 0.02)


@cocotb.test()
async def largest_operands(dut) -> None:
    """The largest products: the accumulator's upper end."""
    await run(dut, "largest", 0.0, extreme=True)
