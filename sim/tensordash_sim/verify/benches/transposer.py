"""Bench of the transposer, compared with the golden transposer at all ports in every cycle."""

import cocotb

from tensordash_sim.golden.transposer import Transposer
from tensordash_sim.verify.bench import start_bench
from tensordash_sim.verify.pins import split


@cocotb.test()
@cocotb.parametrize(idle=[0.0, 0.4], stall=[0.0, 0.4])
async def random_groups(dut, idle: float, stall: float) -> None:
    """Send groups, transposed or not, with and without pauses of producer and consumer, and with a reset."""
    job, random, pins = start_bench(dut, f"transposer {idle} {stall}")
    config = job.config
    lanes, width = config.lanes, max(config.a_format.width, config.b_format.width)
    golden = Transposer(lanes)
    await pins.reset(blocks_valid=0, blocks_payload=0, out_ready=0)
    offered: list[int] | None = None
    transpose, left = False, 0
    cycles = round(60 * lanes * max(job.effort, 0.5))
    for cycle in range(cycles):
        if offered is None and random.random() >= idle:
            offered = [random.getrandbits(width) for _ in range(lanes)]
            transpose = random.random() < 0.5
        ready = random.random() >= stall
        reset = cycle == cycles // 2
        payload = sum(value << (i * width) for i, value in enumerate(offered or []))
        pins.drive(
            blocks_valid=int(offered is not None),
            blocks_payload=payload | int(transpose) << (lanes * width),
            out_ready=int(ready),
            rst=int(reset),
        )
        await pins.settle()
        expected = golden.cycle(offered is not None, offered, transpose, ready)
        where = f"cycle {pins.cycle}"
        assert pins.read("blocks_ready") == expected.in_ready, f"{where}: golden has ready {expected.in_ready}"
        assert pins.read("out_valid") == expected.out_valid, f"{where}: golden has valid {expected.out_valid}"
        if expected.out_block is not None:
            block = tuple(split(pins.read("out_payload"), width, lanes))
            assert block == expected.out_block, f"{where}: block is {block}, golden has {expected.out_block}"
            left += ready
        if expected.in_ready:
            offered = None
        if reset:
            golden.reset()
            offered = None
        await pins.tick()
    assert left > cycles / 8
