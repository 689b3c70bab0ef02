"""Tests of the tile's bench that bring sums to the limits of their range."""

from itertools import islice

import cocotb

from tensordash_sim.verify.registers import near_the_ends
from tensordash_sim.verify.tile_inputs import from_sums, has_a_range, products, signed_steps, started


@cocotb.test()
async def one_overflow(dut) -> None:
    """Let one PE at a time leave the range by one unit, at either end, while all others reach the last sum within."""
    job, random, lockstep = await started(dut, "overflow")
    config = job.config
    if not has_a_range(job):
        return
    for row in range(config.rows):
        for column in range(config.columns):
            sign = random.getrandbits(1)
            final = signed_steps(random, config, sign)
            sums = {}
            for place, golden in products(config, final).items():
                half = 1 << (golden.width - 1)
                sums[place] = (-half if sign else half - 1) - golden.total
            if row == 0:  # This check does not depend on the PE, so fewer runs suffice.
                await from_sums(dut, lockstep, sums, final)
                assert not lockstep.golden.overflow
            sums[row, column] += -1 if sign else 1
            await from_sums(dut, lockstep, sums, final)
            assert lockstep.golden.overflow
            await lockstep.cycle(clear=True)


@cocotb.test()
async def reset_before_an_overflow(dut) -> None:
    """Check that a reset of one cycle drops a step that would overflow every PE, in each stage of the pipeline."""
    job, random, lockstep = await started(dut, "reset before an overflow")
    config = job.config
    if not has_a_range(job):
        return
    for cycles in range(config.stages + 3):
        sign = random.getrandbits(1)
        final = signed_steps(random, config, sign)
        sums = {}
        for place, golden in products(config, final).items():
            half = 1 << (golden.width - 1)
            sums[place] = (-half - 1 if sign else half) - golden.total
        await from_sums(dut, lockstep, sums, final, reset_after=cycles)
        assert not lockstep.golden.overflow
    await from_sums(dut, lockstep, sums, final)
    assert lockstep.golden.overflow


@cocotb.test()
async def clear_with_an_overflow(dut) -> None:
    """Clear in each cycle near the overflow of every PE; check that `clear` hides the overflow in one of them."""
    job, random, lockstep = await started(dut, "clear with an overflow")
    config = job.config
    if not has_a_range(job):
        return
    seen = set()
    for cycles in range(config.stages + 3):
        final = signed_steps(random, config, 0)
        sums = {place: (1 << (golden.width - 1)) - golden.total for place, golden in products(config, final).items()}
        await from_sums(dut, lockstep, sums, final, clear_after=cycles)
        seen.add(lockstep.golden.overflow)
        await lockstep.cycle(clear=True)
    assert seen == {False, True}


@cocotb.test()
async def headroom(dut) -> None:
    """Round results from sums in every binade of the headroom, in every PE."""
    job, random, lockstep = await started(dut, "headroom")
    config = job.config
    if not has_a_range(job):
        return
    for sign in (0, 1) * max(1, round(job.effort)):
        final = signed_steps(random, config, sign)
        each = {
            place: list(near_the_ends(random, config, golden, golden.total))
            for place, golden in products(config, final).items()
        }
        for place in each:
            random.shuffle(each[place])
        enough = max(8, 4 * len(each[0, 0]) // len(each))  # Each rounder rounds sums of every binade.
        for some in islice(zip(*each.values(), strict=False), enough):
            await from_sums(dut, lockstep, dict(zip(each, some, strict=True)), final)
    assert lockstep.golden.overflow


@cocotb.test()
async def one_overflow_of_c(dut) -> None:
    """Let each value of C overflow alone (int8)."""
    job, random, lockstep = await started(dut, "overflow of C")
    config = job.config
    if not config.initial or config.numerics.result != "int32":
        return
    for row in range(config.rows):
        for column in range(config.columns):
            sign = random.getrandbits(1)
            a, b = signed_steps(random, config, sign)
            total = products(config, (a, b))[row, column].total
            last = (-(1 << 31) if sign else (1 << 31) - 1) - total
            beyond = last + (-1 if sign else 1)
            for number, overflows in ((last, False), (beyond, True)):
                c = [[0] * config.columns for _ in range(config.rows)]
                c[row][column] = number % (1 << 32)
                lockstep.feed([[[step]] for step in a], [[[step]] for step in b], [c])
                await lockstep.run()
                assert lockstep.golden.overflow == overflows
            await lockstep.cycle(clear=True)
    # `clear` is high for one cycle, from the first cycle to one that is too late; in some cycle it hides the overflow.
    hidden = []
    for cycles in range(config.stages + config.rows + 4):
        lockstep.feed([[[step]] for step in a], [[[step]] for step in b], [c])
        for number in range(cycles + 1):
            await lockstep.cycle(clear=number == cycles)
        await lockstep.run()
        hidden.append(not lockstep.golden.overflow)
        await lockstep.cycle(clear=True)
    assert any(hidden)
    assert not all(hidden)
