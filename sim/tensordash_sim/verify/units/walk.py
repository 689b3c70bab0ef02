"""Bench of a walk: compare its position in every cycle with a model of nested loops."""

from collections.abc import Iterator
from random import Random
from typing import Any

import cocotb

from tensordash_sim.verify.bench import start_bench
from tensordash_sim.verify.job import current_job
from tensordash_sim.verify.pins import Pins
from tensordash_sim.verify.stimulus import packed

PLACES = ("address", "x", "y")


def places(fields: dict[str, Any]) -> Iterator[tuple[int, int, int]]:
    """Yield address, x and y of each group, all modulo 2^16; the outermost loop never ends."""
    counts = fields["counts"]
    now = list(fields["first"])
    turns = [0] * len(counts)
    while True:
        yield now[0], now[1], now[2]
        loop = 0
        while loop < len(counts) and turns[loop] + 1 >= counts[loop]:
            turns[loop] = 0
            loop += 1
        if loop < len(counts):
            turns[loop] += 1
        now = [(value + steps[loop]) % (1 << 16) for value, steps in zip(now, fields["steps"], strict=True)]


def drawn(random: Random, loops: int) -> dict:
    """Draw first values, steps and counts; most loops are short, so that outer loops turn as well."""
    return {
        "first": [random.getrandbits(16) for _ in range(3)],
        "steps": [[random.getrandbits(16) for _ in range(loops)] for _ in range(3)],
        "counts": [random.choice([1, 1, 2, 3, random.randrange(1, 40)]) for _ in range(loops - 1)],
    }


@cocotb.test()
@cocotb.parametrize(rate=[1.0, 0.5])
async def random_loops(dut, rate: float) -> None:
    """Run walks of random loops, with steps in every cycle or in random cycles, and restart them before their end."""
    job, random, pins = start_bench(dut, f"walk {rate}")
    loops, steps = job.options["loops"], 0
    await pins.reset(start=0, step=0)
    for number in range(round(12 * max(job.effort, 0.5))):
        fields = drawn(random, loops)
        if number == 1:
            fields["counts"][0] = 0xFFF  # the largest count
        pins.drive(
            start=1,
            step=random.getrandbits(1),
            first_address=fields["first"][0],
            first_x=fields["first"][1],
            first_y=fields["first"][2],
            address_steps=packed(fields["steps"][0], 16),
            x_steps=packed(fields["steps"][1], 16),
            y_steps=packed(fields["steps"][2], 16),
            counts=packed(fields["counts"], 12),
        )
        await pins.settle()
        await pins.tick()
        walk = places(fields)
        expected = next(walk)
        for _ in range(4200 if number == 1 and rate == 1.0 else random.randrange(1, 200)):
            step = random.random() < rate
            pins.drive(start=0, step=int(step))
            await pins.settle()
            shown = tuple(pins.read(name) for name in ("address", "x", "y"))
            assert shown == expected, f"cycle {pins.cycle}: the walk is at {shown}, not {expected} in {fields}"
            if step:
                expected, steps = next(walk), steps + 1
            await pins.tick()
    assert steps > 100


@cocotb.test()
async def one_bit_of_a_count(dut) -> None:
    """Run each loop alone, with a count of 2 plus one higher bit; without that bit, the loop would end early."""
    job = current_job()
    loops, random, pins = job.options["loops"], Random(f"{job.seed} walk bits"), Pins(dut)
    await pins.reset(start=0, step=0)
    for loop in range(loops - 1):
        for bit in range(2, 12):
            fields = drawn(random, loops)
            fields["counts"] = [1] * (loops - 1)
            fields["counts"][loop] = (1 << bit) + 2
            await _walked(pins, fields, 5)


async def _walked(pins: Pins, fields: dict, steps: int) -> None:
    """Start a walk, and check some of its steps."""
    pins.drive(start=1, step=0, counts=packed(fields["counts"], 12))
    pins.drive(**{f"first_{name}": value for name, value in zip(PLACES, fields["first"], strict=True)})
    pins.drive(**{f"{name}_steps": packed(value, 16) for name, value in zip(PLACES, fields["steps"], strict=True)})
    await pins.settle()
    await pins.tick()
    walk = places(fields)
    pins.drive(start=0, step=1)
    for expected in (next(walk) for _ in range(steps)):
        await pins.settle()
        shown = tuple(pins.read(name) for name in PLACES)
        assert shown == expected, f"cycle {pins.cycle}: the walk is at {shown}, not {expected} in {fields}"
        await pins.tick()
