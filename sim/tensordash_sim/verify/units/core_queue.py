"""Bench of the core's ring of descriptors, which a processor fills in various ways, and of its interrupt."""

from collections.abc import Sequence

import cocotb

from tensordash.configuration.descriptors import HEADER, OPERATIONS, UNITS
from tensordash_sim.compiler.program import Program
from tensordash_sim.golden.core.golden_core import GoldenCore, Memory, Outcome
from tensordash_sim.verify.programs.random_programs import DATA, PROGRAM, RandomProgram, random_program
from tensordash_sim.verify.units.core_host import SIZE, Host, same_memory

END = OPERATIONS["end"].code
MAX_PROGRAM_CYCLES = 60_000
"""Cycles within which a program must be done."""


def run_golden(host: Host, drawn: RandomProgram, descriptors: Sequence[int]) -> tuple[GoldenCore, Outcome]:
    """Run a program on a golden core; return the core and the outcome."""
    golden = GoldenCore(host.config, Memory(SIZE))
    golden.memory.bytes[:] = drawn.memory.bytes
    return golden, golden.run(descriptors)


def with_ends(host: Host, drawn: RandomProgram) -> list[int]:
    """Return the program with more `end` descriptors, before it and after its own `end`."""
    ends = host.random.randint(1, 3)
    return [*[END] * host.random.randint(0, 2), *drawn.program.descriptors, *[END] * ends]


def repeatable(host: Host, drawn: RandomProgram) -> list[int]:
    """Return a program that may run repeatedly: its loads wait for the previous run's record, not for an `end`."""
    *before, record, end = drawn.program.descriptors
    barrier = Program()
    barrier.add("load", wait=["store"], memory=DATA, address=host.config.groups - 1, count_0=1)
    signal = next(field for field in HEADER if field.name == "signal")
    return [*before, record | 1 << signal.low + UNITS.index("load"), *barrier.descriptors, end]


async def start_host(host: Host, drawn: RandomProgram, log2_places: int) -> None:
    """Start a core without descriptors, with the program's data in memory."""
    await host.start(log2_places=log2_places)
    host.memory.memory.bytes[:] = drawn.memory.bytes


async def finish(host: Host, golden: GoldenCore, count: int) -> None:
    """Wait until `count` descriptors are done; then compare with golden."""
    began = host.pins.cycle
    while await host.read("done") != count:
        assert host.pins.cycle - began < host.job.patience(MAX_PROGRAM_CYCLES), (
            f"done is {await host.read('done')} of {count}"
        )
        await host.cycles(20)
    assert (await host.read("head"), await host.read("status"), await host.read("error")) == (count, 0, 0)
    same_memory(host.memory.memory, golden.memory, host.ring)


@cocotb.test()
async def rings_of_any_size(dut) -> None:
    """Fill places of the ring as they become free, and sometimes disable fetching."""
    host = Host(dut, "rings", latency=(0, 60), pause=0.3)
    random = host.random
    await host.begin()
    for log2_places in [0, 1, *(random.randint(0, 4) for _ in range(round(4 * host.job.effort)))]:
        drawn = random_program(random, host.config, SIZE)
        descriptors = with_ends(host, drawn)
        golden, expected = run_golden(host, drawn, descriptors)
        assert not expected.error
        await start_host(host, drawn, log2_places)
        while host.tail < len(descriptors):
            await _portion(host, descriptors)
            if random.random() < 0.2:
                await _switched_off(host, descriptors)
            await host.cycles(random.choice([0, 0, 50]))
        await finish(host, golden, len(descriptors))
        assert await host.read("cause") == 1
        await host.restart()


async def _portion(host: Host, descriptors: Sequence[int]) -> None:
    """Append the next descriptors of a program to the ring, at most as many as it has free places."""
    free = (1 << host.log2_places) - (host.tail - await host.read("head"))
    portion = descriptors[host.tail :][: host.random.randint(0, free)]
    host.put(portion)
    host.tail += len(portion)
    await host.write("tail", host.tail)


async def _switched_off(host: Host, descriptors: Sequence[int]) -> None:
    """Clear `enable`, and check that the core finishes the fetched descriptors and fetches no more; set it again."""
    await host.write("control", 0)
    began = host.pins.cycle
    while await host.read("status"):
        assert host.pins.cycle - began < host.job.patience(MAX_PROGRAM_CYCLES), "the core is never idle"
    head, done = await host.read("head"), await host.read("done")
    assert head == done <= host.tail
    await _portion(host, descriptors)
    await host.cycles(100)
    assert await host.read("head") == head
    assert host.memory.idle
    await host.write("control", 1)


@cocotb.test()
async def busy_until_done(dut) -> None:
    """Check that all fetched descriptors are done when `busy` falls after the host has disabled fetching."""
    host = Host(dut, "polls", latency=(0, 20), pause=0.1)
    await host.begin()
    for _ in range(round(12 * max(1, host.job.effort))):
        await host.start(log2_places=4)
        count = host.random.choice([1, 1, 2, 5])
        host.put([END] * count)
        host.tail = count
        await host.write("tail", count)
        assert await host.read("status") == 1 or await host.read("done") == count
        await host.cycles(host.random.choice([0, 0, 10]))
        await host.write("control", 0)
        while await host.read("status"):
            pass
        head, done = await host.read("head"), await host.read("done")
        assert head == done, f"busy is low, {head} descriptors are fetched and {done} are done"
        await host.cycles(100)
        assert await host.read("done") == done, "the core was at rest and ran on"
        await host.restart()


@cocotb.test()
async def tail_runs_ahead(dut) -> None:
    """Check that the core executes a ring's descriptors repeatedly if `tail` is ahead by more than the ring's size."""
    host = Host(dut, "ahead", latency=(0, 20), pause=0.1)
    await host.begin()
    for _ in range(max(1, round(3 * host.job.effort))):
        drawn = random_program(host.random, host.config, SIZE)
        descriptors = repeatable(host, drawn)
        log2_places = (len(descriptors) - 1).bit_length()
        descriptors += [END] * ((1 << log2_places) - len(descriptors))
        turns = host.random.randint(2, 3)
        golden, expected = run_golden(host, drawn, descriptors * turns)
        assert not expected.error
        await start_host(host, drawn, log2_places)
        host.put(descriptors)
        host.tail = turns * len(descriptors)
        await host.write("tail", host.tail)
        await finish(host, golden, host.tail)
        await host.restart()


@cocotb.test()
async def interrupts(dut) -> None:
    """Check that each end and error raises `irq`, if enabled, until its cause is cleared."""
    host = Host(dut, "interrupts", latency=(0, 30), pause=0.2)
    await host.begin()
    drawn = random_program(host.random, host.config, SIZE)
    for mask in (0, 1, 2, 3):
        await start_host(host, drawn, 6)
        await host.write("interrupt_enable", mask)
        for _ in range(3):
            await _put(host, [END])
            await _expect(host, cause=1, irq=bool(mask & 1))
            await host.write("cause", 2)
            await _expect(host, cause=1, irq=bool(mask & 1))
            await host.write("cause", 1)
            await _expect(host, cause=0, irq=False)
        await _put(host, [END, 0])
        await _expect(host, cause=3, irq=bool(mask))
        await host.write("cause", 1)
        await _expect(host, cause=2, irq=bool(mask & 2))
        await host.write("interrupt_enable", 0)
        await _expect(host, cause=2, irq=False)
        await host.write("interrupt_enable", 3)
        await _expect(host, cause=2, irq=True)
        await host.write("cause", 2)
        await _expect(host, cause=0, irq=False)
        assert (await host.read("error"), await host.read("error_index"), await host.read("done")) == (1, 4, 4)
        await host.restart()
        await _expect(host, cause=0, irq=False)


async def _put(host: Host, descriptors: Sequence[int]) -> None:
    """Offer more descriptors and wait until they are done."""
    host.put(descriptors)
    host.tail += len(descriptors)
    await host.write("tail", host.tail)
    await host.cycles(300)


async def _expect(host: Host, *, cause: int, irq: bool) -> None:
    assert await host.read("cause") == cause
    await host.cycle()
    assert host.pins.read("irq") == irq
    await host.pins.tick()


@cocotb.test()
async def ring_anywhere(dut) -> None:
    """Place rings at random multiples of 64, and check that low bits of the base read as zero."""
    host = Host(dut, "anywhere", latency=(0, 10), pause=0.0)
    await host.begin()
    for _ in range(max(2, round(4 * host.job.effort))):
        drawn = random_program(host.random, host.config, SIZE)
        golden, _ = run_golden(host, drawn, drawn.program.descriptors)
        base = PROGRAM + 64 * host.random.randrange(256)
        await host.start(base=base)
        await host.write("queue_base", base + host.random.randrange(64))
        assert await host.read("queue_base") == base
        await host.offer(drawn.memory, drawn.program.descriptors)
        await finish(host, golden, host.tail)
        await host.restart()
