"""Bench of the unit counters: random events, copies and clears, with counts near carries and their largest value."""

import cocotb

from tensordash.core.unit_counters import UNIT_COUNTERS
from tensordash_sim.verify.bench import start_bench
from tensordash_sim.verify.pins import split

BITS = 32
LARGEST = (1 << BITS) - 1
NEAR = (0, 1 << 16, 1 << 20, 1 << 31, 1 << BITS)
"""Carries; counts are set to values just below them."""


@cocotb.test()
@cocotb.parametrize(rate=[0.1, 0.9])
async def random_events(dut, rate: float) -> None:
    """Count from values near a carry. A copy and a clear in one cycle copy the old counts; resets clear all counts."""
    job, random, pins = start_bench(dut, f"unit counters {rate}")
    await pins.reset(events=0, take=0, clear=0)
    counts, copies = dict.fromkeys(UNIT_COUNTERS, 0), dict.fromkeys(UNIT_COUNTERS, 0)
    both = 0
    for cycle in range(max(400, round(1000 * job.effort))):
        if cycle % 20 == 0:
            for name in UNIT_COUNTERS:
                counts[name] = max(0, random.choice(NEAR) - random.randrange(1, 12))
                getattr(dut, name).value = counts[name]
        events = sum((random.random() < rate) << k for k in range(len(UNIT_COUNTERS)))
        take, clear = int(random.random() < 0.3), int(random.random() < 0.1)
        both += take & clear
        resets = cycle % 50 == 25
        pins.drive(events=events, take=take, clear=clear, rst=int(resets))
        await pins.settle()
        shown = dict(zip(UNIT_COUNTERS, split(pins.read("counters"), BITS, len(UNIT_COUNTERS)), strict=True))
        assert shown == copies, f"cycle {cycle}: the copies are {shown}, not {copies}"
        if take:
            copies = dict(counts)
        for k, name in enumerate(UNIT_COUNTERS):
            counts[name] = 0 if clear else min(LARGEST, counts[name] + (events >> k & 1))
        if resets:
            counts, copies = dict.fromkeys(UNIT_COUNTERS, 0), dict.fromkeys(UNIT_COUNTERS, 0)
        await pins.tick()
    assert both
