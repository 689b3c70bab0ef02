"""Bench of the staging buffer: check that steps stay in order, for random advances and arrivals."""

import cocotb

from tensordash_sim.golden.staging import StagingBuffer
from tensordash_sim.verify.bench import start_bench
from tensordash_sim.verify.pins import Pins, split


def refill_lines(depth: int, present: int, advance: int, entering: int) -> int:
    """Return the one-hot refill lines of all slots.

    A slot takes slot ``slot + advance`` if that holds a remaining step. The offered steps fill the slots after those.
    """
    lines = 0
    remaining = present - advance
    for slot in range(depth):
        if slot < remaining:
            lines |= 1 << (slot * (depth + 1) + advance)
        elif slot < remaining + entering:
            lines |= 1 << (slot * (depth + 1) + depth - remaining)
    return lines


@cocotb.test()
async def random_moves(dut) -> None:
    """Push and advance random numbers of steps."""
    job, random, pins = start_bench(dut, "staging")
    config = job.config
    depth, lanes, width = config.window_depth, config.lanes, config.a_format.width
    golden = StagingBuffer(depth, lanes)
    await pins.reset(steps=0, refill=0)
    fed = seen = 0
    for _ in range(max(600, round(1500 * job.effort))):
        await pins.settle()
        window = split(_known(pins, golden, width), width, lanes * golden.present)
        for slot, step in enumerate(golden.steps):
            found = tuple(window[slot * lanes : (slot + 1) * lanes])
            assert found == step, f"cycle {pins.cycle}: step {slot} is {found}, golden has {step}"
            seen += 1
        advance = random.randint(0, golden.present)
        offered = [[random.getrandbits(width) for _ in range(lanes)] for _ in range(depth)]
        entering = random.randint(0, depth - golden.present + advance)
        flat = [value for step in offered for value in step]
        pins.drive(
            steps=sum(value << (i * width) for i, value in enumerate(flat)),
            refill=refill_lines(depth, golden.present, advance, entering),
        )
        golden.advance(advance)
        golden.push(offered[:entering])
        fed += entering
        await pins.settle()
        await pins.tick()
    assert fed > 100
    assert seen > 100


def _known(pins: Pins, golden: StagingBuffer, width: int) -> int:
    """Return the window's bits of the steps present; the others may be undefined."""
    bits = golden.present * golden.lanes * width
    text = str(pins.dut.window.value)
    return int(text[len(text) - bits :], 2) if bits else 0
