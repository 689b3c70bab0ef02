"""Replay of a user's operands in lockstep with golden; results and counters of each stream go to a file."""

from random import Random

import cocotb
import numpy as np

from tensordash_sim.verify.job import BenchJob, current_job
from tensordash_sim.verify.lockstep import COUNTERS, FLAGS, Lockstep
from tensordash_sim.verify.pins import Pins, split


@cocotb.test()
async def replay(dut) -> None:
    """Replay each set of operands after a reset; a mismatch writes no results, and the first one fails the test."""
    job = current_job()
    first: AssertionError | None = None
    for place in job.options["replays"]:
        try:
            await feed(Pins(dut), job, **place)
        except AssertionError as error:
            first = first or error
    if first is not None:
        raise first


async def feed(pins: Pins, job: BenchJob, operands: str, results: str) -> None:
    """Feed all streams at full rate, with an output that is always ready, and save the results."""
    config = job.config
    with np.load(operands) as file:
        a, b = file["a"], file["b"]
        c = file["c"].tolist() if config.initial else []
    lockstep = Lockstep(pins, config, Random(job.seed), compare_every=16)
    await lockstep.start()
    lockstep.feed(
        [[stream.tolist() for stream in a[:, column]] for column in range(config.columns)],
        [[stream.tolist() for stream in b[:, row]] for row in range(config.rows)],
        c,
    )
    totals: list[list[int]] = []

    def note() -> None:
        if config.counts and not config.snapshot:
            totals.append([*(pins.read(name) for name in COUNTERS), *split(pins.read("row_wait"), 32, config.rows)])
        else:  # The tile has no counter outputs, or only snapshots.
            counted = lockstep.golden.counters
            totals.append([*(getattr(counted, name) for name in COUNTERS), *counted.row_wait])

    def watch(outputs) -> None:
        # A counter includes a cycle from the next cycle on; this is called after the clock edge, in the next cycle.
        if outputs.schedule is not None and outputs.schedule.last:
            note()

    await lockstep.run(each=watch, limit=100 + 40 * a.shape[0] * (a.shape[2] + config.rows))
    assert len(totals) == len(a), f"{len(totals)} streams ended, not {len(a)}"
    flags = {name: bool(pins.read(name)) for name in FLAGS}
    np.savez(
        results,
        c_bits=np.array(lockstep.results, np.uint32).reshape(len(a), config.rows, config.columns),
        counters=np.diff(np.array(totals, np.int64), axis=0, prepend=0),
        elapsed=pins.cycle,
        **flags,
    )
