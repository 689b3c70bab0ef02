"""Bench of the PE: sums before rounding, bit by bit, against the golden accumulator."""

from random import Random

import cocotb

from tensordash_sim.golden.dot import ExactAccumulator
from tensordash_sim.verify.job import current_job
from tensordash_sim.verify.pins import Pins
from tensordash_sim.verify.stimulus import random_value


def raw(golden: ExactAccumulator) -> int:
    """The block that the golden accumulator stands for: number, positive, negative."""
    number = golden.total & (1 << golden.width) - 1
    positive = golden.is_nan or 0 in golden.infinities
    negative = golden.is_nan or 1 in golden.infinities
    return number | positive << golden.width | negative << (golden.width + 1)


def same_block(found: int, golden: ExactAccumulator) -> bool:
    """Whether a block is the golden one; the number means nothing when an infinity or NaN is marked."""
    expected = raw(golden)
    if expected >> golden.width:
        return found >> golden.width == expected >> golden.width
    return found == expected


async def run(dut, name: str, specials: float, largest: bool = False) -> None:
    """Streams of random operands with idle lanes, empty cycles and holds."""
    job = current_job()
    config, random = job.config, Random(f"{job.seed} {name}")
    cocotb.log.info("seed %s", job.seed)
    golden, pins = ExactAccumulator(config), Pins(dut)
    await pins.reset(a=0, b=0, active=0, hold=0, clear=0, take=0)
    fmts = (config.a_format, config.b_format)

    def operand(fmt) -> int:
        if largest:
            return (1 << (fmt.width - 1)) - 1 - (1 << fmt.fraction_bits)
        return random_value(random, fmt, specials) if random.random() < 0.9 else 0

    flying: list[tuple] = [((), False, False)] * (config.stages - 1)
    finished, blocks, overflows, begun = None, 0, 0, False
    for _ in range(max(600, round(800 * job.effort))):
        # What enters now is accumulated stages - 1 cycles later, together with its marks.
        pairs = [(operand(fmts[0]), operand(fmts[1])) for _ in range(config.lanes)]
        active = (
            [random.random() < 0.7 for _ in range(config.lanes)] if random.random() < 0.9 else [False] * config.lanes
        )
        entering = (
            tuple(pair for pair, counts in zip(pairs, active, strict=True) if counts),
            not begun or (not largest and random.random() < 0.15),
            random.random() < 0.15,
        )
        hold = random.random() < 0.2
        due = (*flying, entering)[0]
        pins.drive(
            a=sum(pair[0] << (i * fmts[0].width) for i, pair in enumerate(pairs)),
            b=sum(pair[1] << (i * fmts[1].width) for i, pair in enumerate(pairs)),
            active=sum(counts << i for i, counts in enumerate(active)),
            hold=int(hold),
            clear=int(due[1] and not hold),
            take=int(due[2] and not hold),
        )
        await pins.settle()
        if finished is not None:
            found = pins.read("block")
            assert same_block(found, finished), (
                f"cycle {pins.cycle}: block is {found:#x}, golden says {raw(finished):#x}"
            )
        if not hold:
            started = blocks or due[1]
            overflow = golden.accumulate(due[0], due[1])
            if started:
                assert pins.read("overflow") == overflow, f"cycle {pins.cycle}: golden says overflow {overflow}"
            overflows += overflow
            if due[1]:
                blocks += 1
            if due[2] and started:
                finished = ExactAccumulator(config)
                finished.total, finished.is_nan, finished.infinities = (
                    golden.total,
                    golden.is_nan,
                    set(golden.infinities),
                )
            flying, begun = [*flying, entering][1:], True
        else:
            assert pins.read("overflow") == 0
        await pins.tick()
    assert blocks > 0
    if largest and config.headroom_bits <= 8:  # one sum, never cleared: it must have left its range
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
    await run(dut, "largest", 0.0, largest=True)
