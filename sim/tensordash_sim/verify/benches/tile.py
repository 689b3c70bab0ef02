"""Bench of the tile, compared with the golden tile at all outputs in every cycle."""

from dataclasses import replace

import cocotb

from tensordash.configuration.formats import RESULT_FORMATS, FloatFormat
from tensordash.configuration.numerics import Binned, Exact, Fused
from tensordash_sim.verify.benches.tile_overflows import (
    clear_with_an_overflow,
    headroom,
    one_overflow,
    one_overflow_of_c,
    reset_before_an_overflow,
)
from tensordash_sim.verify.last_addends import last_addends
from tensordash_sim.verify.random_values import largest, largest_scale, zeros
from tensordash_sim.verify.stimulus import random_inputs, random_lengths
from tensordash_sim.verify.tile_inputs import (
    constant_inputs,
    has_nan,
    nan,
    near_the_limit,
    special_step,
    started,
    step_of,
)

# Cocotb also runs these imported tests.
__all__ = ["clear_with_an_overflow", "headroom", "one_overflow", "one_overflow_of_c", "reset_before_an_overflow"]

STREAMS = 80


@cocotb.test()
@cocotb.parametrize(idle=[0.0, 0.5], stall=[0.0, 0.5])
async def random_traffic(dut, idle: float, stall: float) -> None:
    """Send streams of all lengths and densities, with and without idle producers and back-pressure."""
    job, random, lockstep = await started(dut, "traffic", idle=idle, stall=stall)
    lengths = random_lengths(random, max(8, round(STREAMS * job.effort)), job.config.window_depth)
    lockstep.feed(*random_inputs(random, job.config, lengths))
    await lockstep.run()
    assert len(lockstep.results) == len(lengths) * job.config.rows


@cocotb.test()
async def single_steps(dut) -> None:
    """Send streams of one step, so that the window has as many stream ends as possible."""
    job, random, lockstep = await started(dut, "single")
    lockstep.feed(*random_inputs(random, job.config, [1] * max(12, round(60 * job.effort))))
    await lockstep.run()


@cocotb.test()
async def output_blocked(dut) -> None:
    """Check that no result is lost when the output is rarely ready and streams wait."""
    job, random, lockstep = await started(dut, "blocked", stall=0.95)
    lengths = [*random_lengths(random, 6, job.config.window_depth), *[1] * 8]
    lockstep.feed(*random_inputs(random, job.config, lengths))
    await lockstep.run()
    assert lockstep.golden.counters.stall_output > 0


@cocotb.test()
async def all_zeros(dut) -> None:
    """Check that streams of zeros take ceil(T / depth) cycles and result in +0."""
    job, _, lockstep = await started(dut, "zeros")
    config = job.config
    lengths = [1, config.depth, config.depth + 1, 37]
    formats = (config.a_format, config.b_format, RESULT_FORMATS[config.numerics.result])
    lockstep.feed(*constant_inputs(job, lengths, *(zeros(fmt)[-1] for fmt in formats)))
    await lockstep.run()
    assert {value for row in lockstep.results for value in row} == {0}
    assert lockstep.golden.counters.cycles == sum(-(-length // config.window_depth) for length in lengths)


@cocotb.test()
async def long_stream(dut) -> None:
    """Send hundreds of steps in one stream."""
    job, random, lockstep = await started(dut, "long", idle=0.1, stall=0.1)
    lockstep.feed(*random_inputs(random, job.config, [max(250, round(400 * job.effort)), 3]))
    await lockstep.run()


@cocotb.test()
async def largest_values(dut) -> None:
    """Sum the largest products and the largest C, up to every accumulator's upper limit and beyond."""
    job, random, lockstep = await started(dut, "largest", idle=0.2)
    config, result = job.config, RESULT_FORMATS[job.config.numerics.result]
    operands = largest(config.a_format), largest(config.b_format)
    kind = config.numerics.scale
    scale = None if kind is None else largest_scale(kind)
    lockstep.feed(*constant_inputs(job, [40], *operands, 0, scale))
    await lockstep.run()
    accumulator = config.numerics.accumulator
    if isinstance(accumulator, Exact | Binned) and accumulator.headroom_bits <= 5 - isinstance(accumulator, Binned):
        assert lockstep.golden.overflow
    await lockstep.cycle(clear=True)
    c = result.largest if isinstance(result, FloatFormat) else (1 << (result.width - 1)) - 1
    lockstep.feed(*constant_inputs(job, [1], *operands, c, scale))
    await lockstep.run()
    if config.initial and result.name == "int32":
        assert lockstep.golden.overflow
    lockstep.feed(*random_inputs(random, config, [3]))
    await lockstep.run()


@cocotb.test()
async def special_values(dut) -> None:
    """Send some NaN and infinities, few enough that blocks without them remain."""
    job, random, lockstep = await started(dut, "special", idle=0.2, stall=0.2)
    lengths = random_lengths(random, max(8, round(STREAMS * job.effort)), job.config.window_depth)
    a, b, c = random_inputs(random, job.config, lengths, specials=0.01)
    sides = [
        (step, special, others)
        for fmt, special, others in ((job.config.a_format, a, b), (job.config.b_format, b, a))
        if (step := special_step(random, job.config, fmt)) is not None
    ]
    for step, special, others in sides[:1]:
        special[0][-1][-1] = step  # For any seed, one special value is multiplied by nonzero values.
        for port in others:
            port[-1][-1] = step_of(job.config, [1] * job.config.lanes)
    lockstep.feed(a, b, c)
    await lockstep.run()
    if sides or not (c and job.config.numerics.result == "fp32"):  # C alone may have some, or none
        assert lockstep.golden.non_finite == lockstep.golden.result_non_finite == bool(sides)


@cocotb.test()
async def non_finite_operands(dut) -> None:
    """Send one NaN at a time, in each slot of each port, then in each value of C; `clear` follows each flag.

    All other values are zero, so that the tile accepts full windows.
    """
    job, _, lockstep = await started(dut, "non-finite operands", compare_every=64)
    config, depth = job.config, job.config.window_depth
    nothing, kind = step_of(config, [0] * config.lanes), config.numerics.scale
    specials: list[tuple[str, int, list[int]]] = []
    for side, count, fmt in (("a", config.columns, config.a_format), ("b", config.rows, config.b_format)):
        steps = [step_of(config, [0] * config.lanes, kind.nan)] if kind is not None else []
        steps += [step_of(config, [nan(fmt)] * config.lanes)] if isinstance(fmt, FloatFormat) and fmt.nan else []
        specials += [(side, port, step) for step in steps for port in range(count)]
    cases = [(*special, place) for special in specials for place in range(depth)]
    result = RESULT_FORMATS[config.numerics.result]
    has_special_c = config.initial and isinstance(result, FloatFormat)
    places_of_c = [(row, column) for row in range(config.rows) for column in range(config.columns)] * has_special_c
    # Every second stream has a NaN. C may be accepted two blocks ahead of its stream.
    streams = 2 * len(cases) + 4 + 2 * len(places_of_c)
    sides = {
        side: [[[nothing] * depth for _ in range(streams)] for _ in range(count)]
        for side, count in (("a", config.columns), ("b", config.rows))
    }
    c = [[[0] * config.columns for _ in range(config.rows)] for _ in range(streams * config.initial)]
    for number, (side, port, step, place) in enumerate(cases):
        sides[side][port][2 * number][place] = step
    for number, (row, column) in enumerate(places_of_c):
        assert isinstance(result, FloatFormat)
        c[2 * len(cases) + 4 + 2 * number][row][column] = nan(result)
    lockstep.feed(sides["a"], sides["b"], c)
    risen = 0
    while len(lockstep.results) < lockstep.expected_count:
        risen += (await lockstep.cycle(clear=lockstep.golden.non_finite)).non_finite
    assert risen == len(cases) + len(places_of_c)


@cocotb.test()
async def special_results(dut) -> None:
    """Send a NaN in one column or row at a time, and clear flags as soon as they are set.

    Flags that stay set would hide a result that fails to set them. Waiting beats would expose a flag set too early.
    While `clear` is high, no flag is set.
    """
    job, random, lockstep = await started(dut, "special results", idle=0.1, stall=0.6)
    config = job.config
    scaled = config.numerics.scale is not None
    ports = [("a", index) for index in range(config.columns)] * (scaled or has_nan(config.a_format))
    ports += [("b", index) for index in range(config.rows)] * (scaled or has_nan(config.b_format))
    if not ports:
        return
    lengths = [random.randint(1, 3) for _ in range(2 * len(ports))]
    a, b, c = random_inputs(random, config, lengths)
    for (side, index), stream in zip(ports, range(0, len(lengths), 2), strict=True):  # every second stream
        special, others, fmt = (a, b, config.a_format) if side == "a" else (b, a, config.b_format)
        step = random.randrange(lengths[stream])
        special[index][stream][step] = special_step(random, config, fmt)
        for port in others:
            port[stream][step] = step_of(config, [1] * config.lanes)  # nonzero values
    lockstep.feed(a, b, c)
    risen = 0
    while len(lockstep.results) < lockstep.expected_count:
        seen = await lockstep.cycle(clear=lockstep.golden.result_non_finite)
        risen += seen.result_non_finite
        assert lockstep.pins.cycle < 4000
    assert risen > (len(ports) > 1)
    await lockstep.cycle(clear=True)  # The last result's flag may stay set until the end of this cycle.
    lockstep.feed([port[-2:] for port in a], [port[-2:] for port in b], c[-2:])
    while len(lockstep.results) < lockstep.expected_count:
        assert not (await lockstep.cycle(clear=True)).result_non_finite


@cocotb.test()
async def reset_anywhere(dut) -> None:
    """Reset for one or more cycles within streams, stalls and outputs; check that later streams are correct.

    During a reset, ports already offer steps and C. The tile must not accept them, or they would be lost.
    """
    job, random, lockstep = await started(dut, "reset", idle=0.3, stall=0.3)
    for _ in range(round(12 * job.effort) + 1):
        lockstep.feed(*random_inputs(random, job.config, random_lengths(random, 6, job.config.window_depth)))
        for _ in range(random.randint(1, 40)):
            await lockstep.cycle()
        await lockstep.cycle(reset=True)
        lockstep.feed(*random_inputs(random, job.config, random_lengths(random, 2, job.config.window_depth)))
        for _ in range(random.choice((0, 0, 1, 3, 5))):
            await lockstep.cycle(reset=True, clear=random.random() < 0.2)
        if random.random() < 0.3:
            await lockstep.run()
    lockstep.feed(*random_inputs(random, job.config, random_lengths(random, 4, job.config.window_depth)))
    await lockstep.run()


@cocotb.test()
async def clear_counters(dut) -> None:
    """Check that `clear` clears counters and flags in any cycle."""
    job, random, lockstep = await started(dut, "clear", idle=0.2, stall=0.2, compare_every=1)
    lockstep.feed(
        *random_inputs(random, job.config, random_lengths(random, 12, job.config.window_depth), specials=0.01)
    )
    for _ in range(max(40, round(120 * job.effort))):
        await lockstep.cycle(clear=random.random() < 0.1)
    await lockstep.run()


@cocotb.test()
async def protocol_error(dut) -> None:
    """Check that a stream that ends elsewhere at one port sets the flag, unless `clear` is high.

    The tile continues, and a reset recovers it.
    """
    job, random, lockstep = await started(dut, "protocol", idle=0.2)
    a, b, c = random_inputs(random, job.config, [5, 3, 8])
    longer_a, longer_b, _ = random_inputs(random, job.config, [6, 2, 8])
    ports = len(a) + len(b)
    for port in dict.fromkeys((0, random.randrange(ports), ports - 1)):
        sides = [
            longer if place == port else each
            for place, (longer, each) in enumerate(zip(longer_a + longer_b, a + b, strict=True))
        ]
        for clear in (False, True) if port == 0 else (False,):
            lockstep.feed(sides[: len(a)], sides[len(a) :], c)
            for _ in range(60 if port == 0 else 30):
                await lockstep.cycle(clear=clear)
            assert lockstep.golden.protocol_error is not clear
            await lockstep.cycle(reset=True)


@cocotb.test()
@cocotb.parametrize(late=[False, True])
async def c_alone(dut, late: bool) -> None:
    """Send C long before its stream, so that the store of C is full, or long after it, so that streams wait.

    Only C has infinities and NaN.
    """
    idle, c_idle = (0.0, 0.97) if late else (0.8, 0.0)
    job, random, lockstep = await started(dut, "c", idle=idle, c_idle=c_idle)
    if not job.config.initial:
        return
    refused = 0

    def watch(outputs) -> None:
        nonlocal refused
        refused += not outputs.c_ready

    lengths = random_lengths(random, 12, job.config.window_depth)
    lockstep.feed(*random_inputs(random, job.config, lengths, c_specials=0.3))
    await lockstep.run(each=watch)
    assert lockstep.golden.counters.stall_input if late else refused


@cocotb.test()
async def c_added_last(dut) -> None:
    """Send C such that its sum cancels, rounds from a tie, or leaves the results' range, for tiles that add C last."""
    job, random, lockstep = await started(dut, "c added last")
    config, accumulator = job.config, job.config.numerics.accumulator
    if not config.initial or not isinstance(accumulator, Fused) or accumulator.addend != "last":
        return
    count = max(100, round(400 * job.effort))
    blocks = list(last_addends(random, config, count))
    nothing = [0] * (config.lanes - 1)
    a, b = (
        [[[step_of(config, [each[port], *nothing])] for each in side] for port in range(len(side[0]))]
        for side in ([block[0] for block in blocks], [block[1] for block in blocks])
    )
    lockstep.feed(a, b, [block[2] for block in blocks])
    await lockstep.run()


@cocotb.test()
async def wrong_last_of_c(dut) -> None:
    """Check that an early or missing `last` of C sets the flag; the number of beats still ends the block."""
    job, random, lockstep = await started(dut, "last", idle=0.2, compare_every=1)
    for place in (0, -1) if job.config.initial else ():
        lockstep.feed(*random_inputs(random, job.config, [3, 1, 5]))
        beat = lockstep.c.beats[place]
        lockstep.c.beats[place] = replace(beat, last=not beat.last)
        await lockstep.run()
        assert lockstep.golden.protocol_error
        await lockstep.cycle(clear=True)


@cocotb.test()
async def idle_between_streams(dut) -> None:
    """Check that `idle` is high after the last result, and low while a stream waits for its next steps."""
    job, random, lockstep = await started(dut, "idle", idle=0.4, stall=0.4)
    for length in random_lengths(random, max(4, round(12 * job.effort)), job.config.window_depth):
        lockstep.feed(*random_inputs(random, job.config, [length]))
        await lockstep.run()
        for _ in range(random.randint(1, 3)):
            assert (await lockstep.cycle()).idle
    lockstep.feed(*random_inputs(random, job.config, [2]))
    arrival, before = lockstep.arrival.most, lockstep.golden.entered
    lockstep.arrival.most = lambda depth: int(lockstep.golden.entered == before)
    seen = [(await lockstep.cycle()).idle for _ in range(30)]
    assert not any(seen[-20:]), "a stream that has begun and not ended is in flight"
    lockstep.arrival.most = arrival
    await lockstep.run()
    assert (await lockstep.cycle()).idle


@cocotb.test()
async def snapshots(dut) -> None:
    """Take snapshots of the counters rarely, often and in every cycle; with `clear`, only the snapshot keeps values."""
    job, random, lockstep = await started(dut, "snapshots", idle=0.2, stall=0.2, compare_every=1)
    for often in (0.05, 1.0, 0.4) if job.config.snapshot else ():
        lockstep.snapshots = often
        lockstep.feed(*random_inputs(random, job.config, random_lengths(random, 6, job.config.window_depth)))
        for _ in range(max(30, round(80 * job.effort))):
            await lockstep.cycle(clear=random.random() < 0.1)
        await lockstep.run()


@cocotb.test()
async def saturation(dut) -> None:
    """Check that counters saturate at their largest value."""
    job, random, lockstep = await started(dut, "saturation", idle=0.3, stall=0.3, compare_every=1)
    await near_the_limit(dut, lockstep)
    lockstep.feed(*random_inputs(random, job.config, random_lengths(random, 8, job.config.window_depth)))
    await lockstep.run()
