"""Bench of the staging ring: check that a slot holds the data last written on its line, in the golden order."""

import cocotb

from tensordash_sim.golden.staging import StagingBuffer
from tensordash_sim.verify.bench import start_bench
from tensordash_sim.verify.pins import Pins, split
from tensordash_sim.verify.stimulus import on_lines, packed


@cocotb.test()
async def random_moves(dut) -> None:
    """Push and advance random numbers of steps, each on the line of its number."""
    job, random, pins = start_bench(dut, "ring")
    config = job.config
    depth, lanes, width = config.window_depth, config.lanes, config.a_format.width
    golden = StagingBuffer(depth, lanes)
    await pins.reset(steps=0, write=0)
    fed = left = seen = 0
    for _ in range(max(600, round(1500 * job.effort))):
        await pins.settle()
        for place, step in enumerate(golden.steps):
            slot = (left + place) % depth
            found = tuple(split(_known(pins, slot, width * lanes), width, lanes))
            assert found == step, f"cycle {pins.cycle}: slot {slot} is {found}, golden has {step}"
            seen += 1
        advance = random.randint(0, golden.present)
        offered = [[random.getrandbits(width) for _ in range(lanes)] for _ in range(depth)]
        entering = random.randint(0, depth - golden.present + advance)
        bits = packed([packed(step, width) for step in offered], width * lanes)
        pins.drive(steps=on_lines(bits, width * lanes, depth, fed), write=on_lines((1 << entering) - 1, 1, depth, fed))
        golden.advance(advance)
        golden.push(offered[:entering])
        fed, left = fed + entering, left + advance
        await pins.settle()
        await pins.tick()
    assert fed > 100
    assert seen > 100


def _known(pins: Pins, slot: int, bits: int) -> int:
    """Return a slot's bits; the bits of other slots may be undefined."""
    text = str(pins.dut.window.value)
    end = len(text) - slot * bits
    return int(text[end - bits : end], 2)
