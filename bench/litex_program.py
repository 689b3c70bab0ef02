"""Cocotb bench that runs a program on a core in a LiteX system. `python bench/litex_memories.py` starts it."""

from pathlib import Path

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, RisingEdge, with_timeout
from cocotb.utils import get_sim_time

from tensordash.configuration.registers import IDENTITY, named
from tensordash_sim.verify.core_example import example_program
from tensordash_sim.verify.job import current_job

PERIOD_NS = 2
MAX_CYCLES = 10_000
LOG2_PLACES = 4


@cocotb.test()
async def program(dut) -> None:
    """Write a program over the bus, start it, and compare memory with the golden core's."""
    from cocotbext.axi import AxiLiteBus, AxiLiteMaster  # This package is optional.

    job = current_job()
    ram, core = job.options["ram"], job.options["core"]
    example = example_program(job.config, base=ram)
    host = AxiLiteMaster(AxiLiteBus.from_prefix(dut, "host"), dut.sys_clk, dut.sys_rst)
    Clock(dut.sys_clk, PERIOD_NS, "ns").start()
    dut.sys_rst.value = 1
    await ClockCycles(dut.sys_clk, 4)
    dut.sys_rst.value = 0
    assert await host.read_dword(core + named("identity").offset) == IDENTITY
    # LiteX's converter to a wider bus accepts one word at a time.
    for offset in range(0, len(example.before), 4):
        await host.write(ram + offset, example.before[offset : offset + 4])
    for name, value in (("queue_base", ram), ("queue_size", LOG2_PLACES), ("interrupt_enable", 3), ("control", 1)):
        await host.write_dword(core + named(name).offset, value)
    await host.write_dword(core + named("tail").offset, len(example.program.descriptors))
    start_ns = get_sim_time("ns")
    await with_timeout(RisingEdge(dut.irq), PERIOD_NS * MAX_CYCLES, "ns")
    cycles = round((get_sim_time("ns") - start_ns) / PERIOD_NS)
    assert await host.read_dword(core + named("error").offset) == 0
    words = [await host.read(ram + offset, 4) for offset in range(0, len(example.after), 4)]
    assert b"".join(word.data for word in words) == example.after, "memory differs from the golden core's"
    Path(job.options["result"]).write_text(str(cycles))
