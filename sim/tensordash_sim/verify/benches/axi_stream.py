"""Bench of the AXI4-Stream wrapper, compared with the golden feeders and tile at all ports in every cycle."""

from dataclasses import replace

import cocotb
import numpy as np

from tensordash import TileConfig
from tensordash.configuration.numerics import Fused
from tensordash_sim.golden.feeder import AxiBeat
from tensordash_sim.golden.matmul import run_streams
from tensordash_sim.verify.axi_lockstep import AxiLockstep, beats_of, with_null_beats
from tensordash_sim.verify.bench import start_bench
from tensordash_sim.verify.stimulus import BlockSource, random_inputs, random_lengths


async def start_lockstep(dut, name: str, **parameters) -> tuple:
    """Reset the wrapper. Return the job, the random source and the lockstep."""
    job, random, pins = start_bench(dut, f"axi {name} {parameters}")
    lockstep = AxiLockstep(pins, job.config, random, **parameters)
    await lockstep.start()
    return job, random, lockstep


def products(config: TileConfig, a: list, b: list, c: list) -> list[tuple[int, ...]]:
    """Return the beats of results that the golden model defines, if results do not depend on when operands arrive."""
    count = len(a[0])
    operands = [[np.array([port[i] for port in ports], np.uint32) for ports in (a, b)] for i in range(count)]
    golden = run_streams(
        [(*pair, np.array(c[i], np.uint32)) if c else tuple(pair) for i, pair in enumerate(operands)], config
    )
    return [tuple(beat) for beat in golden.c_bits.reshape(count * config.rows // config.out_rows, -1).tolist()]


def count_of(job, maximum: int) -> int:
    """Return the number of streams to send."""
    return max(4, round(maximum * job.effort))


async def play(lockstep: AxiLockstep, inputs: tuple, beats: list | None = None) -> None:
    """Send streams as `beats`, by default in the beats of `AxiLockstep.beats`, and run until all results are out."""
    config, (a, b, c) = lockstep.config, inputs
    before = len(lockstep.results)
    lockstep.feed(beats or lockstep.beats(a, b), BlockSource(c, config.out_rows).beats)
    await lockstep.run(before + len(a[0]) * config.rows // config.out_rows)
    if not isinstance(config.numerics.accumulator, Fused) or config.needs_full_window:
        assert lockstep.results[before:] == products(config, a, b, c), "results differ from the golden model's"


@cocotb.test()
@cocotb.parametrize(idle=[0.0, 0.5], stall=[0.0, 0.5])
async def random_traffic(dut, idle: float, stall: float) -> None:
    """Send streams of all lengths, with and without idle producers and back-pressure, and with random `clear`."""
    job, random, lockstep = await start_lockstep(dut, "traffic", idle=idle, stall=stall, clears=0.1, compare_every=1)
    await play(
        lockstep, random_inputs(random, job.config, random_lengths(random, count_of(job, 16), job.config.window_depth))
    )
    assert not lockstep.golden.protocol_error


@cocotb.test()
@cocotb.parametrize(idle=[0.0, 0.6])
async def null_beats(dut, idle: float) -> None:
    """Check that null beats, with and without the end of a stream, are legal."""
    job, random, lockstep = await start_lockstep(dut, "null", idle=idle, stall=idle / 2)
    depth = job.config.window_depth
    # The first streams end where a ring wraps around; about half of the ports have a null beat there.
    lengths = [
        2 * depth,
        2 * depth,
        depth,
        2 * depth,
        1,
        depth,
        *random_lengths(random, count_of(job, 12), depth),
        depth,
        depth,
    ]
    inputs = random_inputs(random, job.config, lengths)
    beats = [with_null_beats(each, depth, random) for each in lockstep.beats(*inputs[:2])]
    assert any(beat.last and not beat.keep for each in beats for beat in each)
    await play(lockstep, inputs, beats)
    assert not lockstep.golden.protocol_error
    assert not lockstep.wrong_beat


@cocotb.test()
async def reset_in_a_stream(dut) -> None:
    """Reset for one or more cycles at random times; check that beats wait and later streams are correct."""
    job, random, lockstep = await start_lockstep(dut, "reset", idle=0.2, stall=0.2)
    for _ in range(3 + round(4 * job.effort)):
        a, b, c = random_inputs(random, job.config, random_lengths(random, 4, job.config.window_depth))
        lockstep.feed(lockstep.beats(a, b), BlockSource(c, job.config.out_rows).beats)
        for _ in range(random.randint(1, 30)):
            await lockstep.cycle()
        waiting = [len(sender.beats) for sender in lockstep.senders]
        for _ in range(random.choice((1, 2, 5))):
            await lockstep.cycle(reset=True)
        assert waiting == [len(sender.beats) for sender in lockstep.senders]
    await play(lockstep, random_inputs(random, job.config, random_lengths(random, 4, job.config.window_depth)))


def break_beat(kind: str, beat: AxiBeat, depth: int) -> list[AxiBeat]:
    """Return illegal beats that replace a full beat of a stream."""
    full_keep, step_bytes = beat.keep, beat.keep.bit_length() // depth
    if kind == "empty stream":
        return [replace(beat, last=True), replace(beat, keep=0, last=True)]
    if kind == "empty stream, empty feeder":
        return [replace(beat, keep=0, last=True), beat]
    if kind == "partial":
        return [replace(beat, keep=full_keep >> step_bytes, last=False)]
    if kind == "hole":
        keep = full_keep & ~(1 << step_bytes * (depth // 2))
    elif kind == "missing step":
        keep = full_keep & ~(((1 << step_bytes) - 1) << step_bytes * (depth // 2 - 1))
    elif kind == "half a step":
        keep = full_keep >> step_bytes // 2
    else:  # a stray byte
        keep = 1 << depth * step_bytes - 1
    return [replace(beat, keep=keep)]


KINDS = ("hole", "missing step", "half a step", "stray byte", "partial", "empty stream", "empty stream, empty feeder")


@cocotb.test()
@cocotb.parametrize(kind=KINDS)
async def beats_that_break_the_rules(dut, kind: str) -> None:
    """Check that an illegal beat on a port sets the flag, hangs nothing, and that `clear` and a reset recover.

    In a second run, on another port, `clear` is always high, and the flag stays low.
    """
    job, random, lockstep = await start_lockstep(dut, kind, idle=0.2, stall=0.2, compare_every=1)
    config, depth = job.config, job.config.window_depth
    if depth == 1 and kind in ("missing step", "partial"):
        return
    for number, port in enumerate(random.sample(range(len(lockstep.senders)), 2)):
        beats = lockstep.beats(*random_inputs(random, config, [2 * depth, 3, 2 * depth, 1, 2 * depth])[:2])
        c = BlockSource(random_inputs(random, config, [1] * 5)[2], config.out_rows).beats
        full = [i for i, beat in enumerate(beats[port]) if len(beat.steps) == depth]
        place = 0 if kind == "empty stream, empty feeder" else random.choice(full)
        beats[port][place : place + 1] = break_beat(kind, beats[port][place], depth)
        lockstep.feed(beats, c)
        before = lockstep.wrong_beats
        for _ in range(120):
            await lockstep.cycle(clear=number == 1)
            if lockstep.wrong_beats > before:
                break
        assert lockstep.wrong_beats > before, f"golden reports {kind} as an error"
        assert lockstep.wrong_beat is (number == 0)
        await lockstep.cycle(clear=True)
        for _ in range(60):
            await lockstep.cycle()
        await lockstep.cycle(reset=True)
        await play(lockstep, random_inputs(random, config, random_lengths(random, 4, depth)))
        assert not lockstep.golden.protocol_error
        assert not lockstep.wrong_beat


@cocotb.test()
async def errors_that_agree(dut) -> None:
    """Cut the same beats short on all ports; check that the flag is set and results are correct without a reset."""
    job, random, lockstep = await start_lockstep(dut, "agree", idle=0.3, stall=0.2)
    config, depth = job.config, job.config.window_depth
    if depth == 1:
        return
    a, b, c = random_inputs(random, config, [2 * depth - 1, depth, 4 * depth - 1, 1])
    beats = []
    for (side, _, _), streams in zip(lockstep.sides, (*a, *b), strict=True):
        step_bytes = config.step_bytes(side)
        cut = AxiBeat(streams[0][: depth - 1], (1 << step_bytes * (depth - 1)) - 1, last=False)
        rest = [streams[0][depth - 1 :], *streams[1:]]
        beats.append([cut, *beats_of(rest, depth, step_bytes)])
    await play(lockstep, (a, b, c), beats)
    assert lockstep.wrong_beat
    await lockstep.cycle(clear=True)
    await play(lockstep, random_inputs(random, config, random_lengths(random, 4, depth)))
    assert not lockstep.wrong_beat
