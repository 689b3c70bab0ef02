"""Bench of the core: run illegal programs, and memory errors, on the emitted Verilog, and compare with golden."""

from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import Any

import cocotb
import numpy as np

from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.descriptors import BITS
from tensordash_sim.compiler.program import Program
from tensordash_sim.golden.core.effects import read_memory, written_memory
from tensordash_sim.golden.core.golden_core import GoldenCore, Memory, Outcome
from tensordash_sim.verify.job import current_job
from tensordash_sim.verify.programs.expected_outcome import (
    BUFFER_IMAGE,
    dump_program,
    empty_buffer,
    expected_outcome,
    fill_program,
    undefined_regions,
)
from tensordash_sim.verify.programs.illegal_programs import CLAUSES, IllegalProgram, illegal_program
from tensordash_sim.verify.programs.random_programs import PROGRAM, random_program
from tensordash_sim.verify.units.core_host import SIZE, Host, same_memory

MAX_PROGRAM_CYCLES = 20_000
"""Cycles within which a program must be done."""
CYCLES_OF_REST = 300
"""Cycles without activity to check after an error, more than any outstanding transfer takes, except descriptors."""


class Checker:
    """Checker of programs with errors, which compares everything that docs/core.md defines for them.

    Parameters
    ----------
    host : Host
        The core.
    """

    def __init__(self, host: Host) -> None:
        self.host, self.config, self.random = host, host.config, host.random
        self.buffer = empty_buffer(self.config)
        # The buffer's image may need more memory than programs.
        self._size = max(SIZE, BUFFER_IMAGE + self.buffer.nbytes)

    async def fill(self) -> None:
        """Fill all of the core's memories, whose content is undefined after power-up."""
        content = Memory(self._size)
        data = self.random.randbytes(self.buffer.nbytes)
        content.write(BUFFER_IMAGE, data)
        await self.host.start()
        await self.host.run(content, fill_program(self.config))
        assert not await self.host.read("error")
        self.buffer[:] = np.frombuffer(data, self.buffer.dtype).reshape(self.buffer.shape)
        await self.host.restart()

    async def check(self, made: IllegalProgram, faults: set[int]) -> Outcome:
        """Run a program on the core and on golden, and compare; return golden's outcome."""
        host = self.host
        golden, expected = expected_outcome(
            self.config, made.memory, made.base, made.descriptors, faults, self.buffer, made.bounds
        )
        cocotb.log.info("%s: %s", made.title, expected)
        await host.restrict(*(made.bounds or ()))
        await host.start(base=made.base)
        await host.offer(made.memory, made.descriptors, faults)
        ends = 0
        while True:
            await host.interrupt(MAX_PROGRAM_CYCLES)
            cause = await host.read("cause")
            ends |= cause & 1
            if cause & 2 or not expected.error:
                break
            await host.write("cause", cause)
        got = await host.outcome()
        assert (got.done, got.error, got.index) == (expected.done, expected.error, expected.index), f"not {got}"
        assert await host.read("status") == 4 * bool(expected.error)
        assert ends == (expected.ends > 0), f"cause.end is {ends}"
        if expected.error:
            await self._rests(expected)
        open_memory, open_groups = undefined_regions(self.config, made.descriptors, expected, made.bounds)
        same_memory(host.memory.memory, golden.memory, *open_memory)
        await host.restart()
        await host.restrict()
        await self._see_buffer(golden, open_groups)
        return expected

    async def _rests(self, expected: Outcome) -> None:
        """Check that no transfer begins after more descriptors, and that the cause can be cleared."""
        host, memory = self.host, self.host.memory
        await host.write("cause", 3)
        begun = memory.read_bursts + host.pins.read("m_axi_arvalid"), memory.write_bursts
        await host.write("tail", host.tail + 3)
        fetches = self.config.prefetch * BITS // self.config.axi_bits  # maximum outstanding beats of descriptors
        await host.cycles(CYCLES_OF_REST + 2 * fetches)
        assert memory.idle
        now = memory.read_bursts, memory.write_bursts
        assert now[0] <= begun[0], f"{now[0] - begun[0]} reads began after an error"
        assert now[1] == begun[1], f"{now[1] - begun[1]} writes began after an error"
        assert not any(host.pins.read(f"m_axi_{name}valid") for name in ("ar", "aw", "w"))
        assert (await host.read("cause"), host.pins.read("irq")) == (0, 0), "the error's cause was set twice"
        assert (await host.read("error"), await host.read("error_index")) == (expected.code, expected.index)

    async def _see_buffer(self, golden: GoldenCore, besides: set[int]) -> None:
        """Compare the buffers of golden and core, except for some groups."""
        host = self.host
        await host.start()
        await host.run(Memory(self._size), dump_program(self.config))
        assert not await host.read("error")
        data = host.memory.memory.read(BUFFER_IMAGE, self.buffer.nbytes)
        assert data is not None
        self.buffer[:] = np.frombuffer(data, self.buffer.dtype).reshape(self.buffer.shape)
        for group in sorted(set(range(self.config.groups)) - besides):
            assert self.buffer[group].tolist() == golden.buffer[group].tolist(), f"group {group} of the buffer differs"
        await host.restart()

    async def works_again(self, index: int) -> None:
        """Check that a random legal program has golden's result."""
        await self.host.start()
        await self.host.check_program(index, 0, self.buffer)
        await self.host.restart()


@cocotb.test()
@cocotb.parametrize((("latency", "pause"), [((1, 1), 0.0), ((0, 200), 0.3)]))
async def illegal_programs(dut, latency: tuple[int, int], pause: float) -> None:
    """Check every clause of the table of errors, or of the option `clauses`, some in pairs, and legal programs."""
    host = Host(dut, f"illegal {latency}", latency=latency, pause=pause)
    checker, random = Checker(host), host.random
    await host.begin()
    await checker.fill()
    names = [name for name in host.job.options.get("clauses", CLAUSES) if possible(name, host.config)]
    random.shuffle(names)
    for index in range(max(1, round(len(names) * host.job.effort))):
        name = names[index % len(names)]
        second = random.choice(names) if random.random() < 0.4 else ""
        made = illegal_program(random, host.config, name, second=second)
        try:
            await checker.check(made, set())
        except AssertionError as error:
            raise AssertionError(f"program {index}, {made.title}: {error}") from None
        if index % 4 == 0:
            await checker.works_again(index)


@cocotb.test()
async def halves_of_a_multiply(dut) -> None:
    """Check that the core reports an error while only one of its two units has a multiply's descriptor."""
    if "clauses" in current_job().options:
        return
    host = Host(dut, "halves", latency=(0, 100), pause=0.1)
    checker = Checker(host)
    await host.begin()
    await checker.fill()
    blocks: dict[str, Any] = {"emit": 1, "x_size": 1, "a_streams": 3, "b_streams": 3, "steps": 4}
    programs = {name: Program() for name in ("ahead", "behind", "output", "both")}
    first, second, third, fourth = programs.values()
    for program in programs.values():
        program.add("layout_b", signal=["multiply"], steps=4, streams=3, x_size=1)
    beyond = host.config.groups % 65536
    # The multiply waits for the output unit to accept its blocks.
    first.add("load", signal=["output"], memory=SIZE, address=0, count_0=1)
    first.add("multiply", wait=["layout_b"], output_wait=["load"], **blocks)
    # The output unit waits for blocks.
    second.add("layout_a", signal=["multiply"], address=beyond, steps=1, streams=1, x_size=1)
    second.add("multiply", wait=["layout_a", "layout_b"], **blocks)
    # Both units wait, one descriptor apart.
    third.add("multiply", wait=["layout_b"], **(blocks | {"address": beyond}))
    for _ in range(3):
        third.add("multiply", **blocks)
    # Both units find an error, and `range` has priority over `address`.
    fourth.add("multiply", wait=["layout_b"], **(blocks | {"address": beyond, "b_base": 65535}))
    for name, program in programs.items():
        program.add("end")
        made = IllegalProgram(descriptors=program.descriptors, memory=Memory(SIZE), base=PROGRAM, title=name)
        assert (await checker.check(made, set())).index == 1
    await checker.works_again(0)


def possible(name: str, config: CoreConfig) -> bool:
    """Return whether a program of a core can break a clause."""
    try:
        illegal_program(Random(0), config, name)
    except ValueError:
        return False
    return True


@cocotb.test()
@cocotb.parametrize((("latency", "pause"), [((1, 1), 0.0), ((0, 100), 0.4)]))
async def failing_memory(dut, latency: tuple[int, int], pause: float) -> None:
    """Run programs on a memory with errors at random lines of fetches, loads, stores and records."""
    if "clauses" in current_job().options:
        return
    host = Host(dut, f"failing memory {latency}", latency=latency, pause=pause)
    checker, random = Checker(host), host.random
    await host.begin()
    await checker.fill()
    found: Counter[str] = Counter()
    for index in range(max(2, round(16 * host.job.effort))):
        legal = random_program(random, host.config)
        descriptors = legal.program.descriptors
        kinds = [random.choice(["fetch", "read", "write"]) for _ in range(random.randint(1, 3))]
        faults = {line_of(kind, random, host.config, descriptors) for kind in kinds}
        made = IllegalProgram(descriptors=descriptors, memory=legal.memory, base=PROGRAM, title=" ".join(kinds))
        try:
            outcome = await checker.check(made, faults)
        except AssertionError as error:
            raise AssertionError(f"program {index}, {legal.title}, {made.title}: {error}") from None
        found[outcome.error] += 1
        if index % 4 == 0:
            await checker.works_again(index)
    cocotb.log.info("errors: %s", dict(found))


def line_of(kind: str, random: Random, config: CoreConfig, descriptors: Sequence[int]) -> int:
    """Return a line of memory with one of a program's descriptors, or one that the program reads or writes."""
    line = config.axi_bits // 8
    if kind == "fetch":
        return (PROGRAM + random.randrange(64 * len(descriptors))) // line
    runs = [run for bits in descriptors for run in (read_memory if kind == "read" else written_memory)(bits, config)]
    address, count = random.choice(runs)
    # Compressed tensors are mostly shorter than their maximum, so favour the first quarter.
    return (address + random.choice([0, random.randrange(count), random.randrange(1 + count // 4)])) // line
