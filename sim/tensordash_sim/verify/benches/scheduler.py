"""Bench of the scheduler: compare selections, remaining positions and `advance` with the golden schedule."""

from itertools import product

import cocotb

from tensordash_sim.golden.scheduler import schedule
from tensordash_sim.verify.bench import start_bench
from tensordash_sim.verify.job import current_job
from tensordash_sim.verify.pins import Pins, split


async def check(pins: Pins, config, effectual: int, eligible: int) -> None:
    """Compare one window: `effectual` has bit `step * lanes + lane`, and `eligible` is the number of eligible steps."""
    lanes, depth, options = config.lanes, config.depth, config.options
    window = [[bool(effectual >> (step * lanes + lane) & 1) for lane in range(lanes)] for step in range(depth)]
    pins.drive(effectual=effectual, eligible=(1 << eligible) - 1)
    await pins.settle()
    expected = schedule(window, eligible, options)
    lines = split(pins.read("select"), len(options), lanes)
    where = f"effectual {effectual:#x}, {eligible} steps eligible"
    selects = [0 if option is None else 1 << option for option in expected.options]
    assert lines == selects, f"{where}: select is {lines}, golden has {selects}"
    left = sum(
        bit << (step * lanes + lane) for step, row in enumerate(expected.remaining) for lane, bit in enumerate(row)
    )
    remaining = pins.read("remaining")
    assert remaining == left, f"{where}: remaining is {remaining:#x}, golden has {left:#x}"
    advance = pins.read("advance")
    assert advance == (1 << expected.advance) - 1, f"{where}: advance is {advance:b}, golden has {expected.advance}"


@cocotb.test()
async def random_windows(dut) -> None:
    """Check windows of all densities with random numbers of eligible steps."""
    job, random, pins = start_bench(dut, "scheduler")
    bits = job.config.lanes * job.config.depth
    for _ in range(round(3000 * job.effort)):
        density = random.random()
        effectual = sum((random.random() < density) << bit for bit in range(bits))
        await check(pins, job.config, effectual, random.randint(0, job.config.depth))


@cocotb.test()
async def corners(dut) -> None:
    """Check empty and full windows, windows with a single position, and windows without one position."""
    config = current_job().config
    pins, bits = Pins(dut), config.lanes * config.depth
    full = (1 << bits) - 1
    windows = [0, full, *(1 << bit for bit in range(bits)), *(full ^ 1 << bit for bit in range(bits))]
    for effectual, eligible in product(windows, range(config.depth + 1)):
        await check(pins, config, effectual, eligible)
