"""Run the emitted core between a master and a memory of cocotbext-axi, which honours byte strobes."""

from collections.abc import Iterator, Sequence
from random import Random
from typing import TypeAlias

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, RisingEdge, with_timeout

from tensordash.configuration.registers import IDENTITY, named
from tensordash_sim.golden.core.golden_core import GoldenCore, Memory
from tensordash_sim.verify.core_example import example_program
from tensordash_sim.verify.job import current_job
from tensordash_sim.verify.programs.random_programs import PROGRAM, random_program
from tensordash_sim.verify.units.core_host import LOG2_PLACES, SIZE, same_memory

PERIOD_NS = 2
MAX_CYCLES = 100_000
PAUSES = (0.0, 0.3)
"""Share of cycles in which a channel pauses, for each run."""
RANDOM_PROGRAMS = 3

Buffer: TypeAlias = bytes | bytearray


def pauses(random: Random, share: float) -> Iterator[bool]:
    while True:
        yield random.random() < share


class System:
    """A core with a master at its registers and a memory at its port."""

    def __init__(self, dut, random: Random, share: float) -> None:
        # pytest imports this module for doctests, even without the optional package.
        from cocotbext.axi import AxiBus, AxiLiteBus, AxiLiteMaster, AxiRam

        self.dut = dut
        self.registers = AxiLiteMaster(AxiLiteBus.from_prefix(dut, "s_axi"), dut.clk, dut.rst)
        self.ram = AxiRam(AxiBus.from_prefix(dut, "m_axi"), dut.clk, dut.rst, size=SIZE)
        reads, writes = self.ram.read_if, self.ram.write_if
        for channel in (reads.ar_channel, reads.r_channel, writes.aw_channel, writes.w_channel, writes.b_channel):
            channel.set_pause_generator(pauses(random, share))

    async def read(self, name: str) -> int:
        return await self.registers.read_dword(named(name).offset)

    async def write(self, name: str, value: int) -> None:
        await self.registers.write_dword(named(name).offset, value)

    async def start(self) -> None:
        Clock(self.dut.clk, PERIOD_NS, "ns").start()
        self.dut.rst.value = 1
        await ClockCycles(self.dut.clk, 4)
        self.dut.rst.value = 0
        assert await self.read("identity") == IDENTITY

    async def run(self, content: Buffer, descriptors: Sequence[int], ring: int, expected: Buffer) -> None:
        """Run a program after a soft reset, and compare all memory except for the ring."""
        await self.write("control", 2)
        while await self.read("status") & 2:
            pass
        image = bytearray(content)
        image[ring : ring + 64 * len(descriptors)] = b"".join(bits.to_bytes(64, "little") for bits in descriptors)
        self.ram.write(0, bytes(image))
        for name, value in (("queue_base", ring), ("queue_size", LOG2_PLACES), ("interrupt_enable", 3), ("control", 1)):
            await self.write(name, value)
        await self.write("tail", len(descriptors))
        if not self.dut.irq.value:
            await with_timeout(RisingEdge(self.dut.irq), PERIOD_NS * MAX_CYCLES, "ns")
        assert (await self.read("error"), await self.read("done")) == (0, len(descriptors))
        await self.write("cause", 3)
        found, reference = Memory(len(image)), Memory(len(image))
        found.bytes[:], reference.bytes[:] = self.ram.read(0, len(image)), expected
        same_memory(found, reference, (ring, 64 * len(descriptors)))


@cocotb.test()
@cocotb.parametrize(share=list(PAUSES))
async def programs(dut, share: float) -> None:
    """Yield a program with a compressed store, whose beats are partial, then random programs."""
    job = current_job()
    random = Random(f"{job.seed} {share}")
    system = System(dut, random, share)
    await system.start()
    example = example_program(job.config, job.seed)
    await system.run(example.before, example.program.descriptors, 0, example.after)
    for _ in range(RANDOM_PROGRAMS):
        case = random_program(random, job.config, SIZE, edges=random.random() < 0.5)
        golden = GoldenCore(job.config, Memory(SIZE))
        golden.memory.bytes[:] = case.memory.bytes
        assert not golden.run(case.program.descriptors).error
        await system.run(case.memory.bytes, case.program.descriptors, PROGRAM, golden.memory.bytes)
