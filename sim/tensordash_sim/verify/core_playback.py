"""Run the example program on a core in Amaranth's simulator, and record each cycle for timing diagrams."""

from collections import deque
from collections.abc import Mapping
from typing import Any

from amaranth.sim import Simulator

from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.descriptors import UNITS
from tensordash.configuration.registers import named
from tensordash.core.core import Core

from .core_example import example_program

__all__ = ["play_example"]

MAX_CYCLES = 5000
LATENCY_CYCLES = 4
"""Cycles of memory from an address, or the last data, to its response."""


class _Memory:
    """A memory that answers every burst after the same number of cycles, one beat per cycle."""

    def __init__(self, port: Any, image: bytes) -> None:
        self.port, self.bytes = port, bytearray(image)
        self.beat = len(port.rdata) // 8
        self.reads: deque[tuple[int, int, int, int]] = deque()  # address, ID, is last, cycle of the response
        self.writes: deque[list[int]] = deque()  # address of the next beat, beats
        self.answers: deque[int] = deque()  # cycles of the responses

    def drive(self, ctx: Any, cycle: int) -> None:
        port = self.port
        is_ready = bool(self.reads) and self.reads[0][3] <= cycle
        address, number, last, _ = self.reads[0] if is_ready else (0, 0, 0, 0)
        ctx.set(port.arready, 1)
        ctx.set(port.rvalid, is_ready)
        ctx.set(port.rdata, int.from_bytes(self.bytes[address : address + self.beat], "little") if is_ready else 0)
        ctx.set(port.rid, number)
        ctx.set(port.rlast, last)
        ctx.set(port.awready, 1)
        ctx.set(port.wready, bool(self.writes))
        ctx.set(port.bvalid, bool(self.answers) and self.answers[0] <= cycle)

    def observe(self, ctx: Any, cycle: int) -> None:
        """Accept what the core sends before the clock edge."""
        port = self.port
        if ctx.get(port.rvalid & port.rready):
            self.reads.popleft()
        if ctx.get(port.arvalid):
            beats = ctx.get(port.arlen) + 1
            for k in range(beats):
                address = ctx.get(port.araddr) + k * self.beat
                self.reads.append((address, ctx.get(port.arid), int(k == beats - 1), cycle + LATENCY_CYCLES))
        if ctx.get(port.bvalid & port.bready):
            self.answers.popleft()
        if ctx.get(port.wvalid & port.wready):
            burst = self.writes[0]
            data, strobe = ctx.get(port.wdata), ctx.get(port.wstrb)
            for i in range(self.beat):
                if strobe >> i & 1:
                    self.bytes[burst[0] + i] = data >> 8 * i & 0xFF
            burst[0] += self.beat
            burst[1] -= 1
            if not burst[1]:
                self.writes.popleft()
                self.answers.append(cycle + LATENCY_CYCLES)
        if ctx.get(port.awvalid):
            self.writes.append([ctx.get(port.awaddr), ctx.get(port.awlen) + 1])


def play_example(config: CoreConfig) -> list[Mapping[str, int]]:
    """Run the example and return each cycle from the write of `tail` until the interrupt is cleared.

    Parameters
    ----------
    config : CoreConfig
        The core.

    Returns
    -------
    list of dict of str to int
        For each cycle, the values before its clock edge: all ports by name; the registers `tail`, `head` and `done`;
        and ``load_busy`` to ``store_busy``, whether each unit has a descriptor.

    Raises
    ------
    RuntimeError
        If the memory at the end differs from the golden core's, or no interrupt is raised in `MAX_CYCLES`.
    """
    example = example_program(config, 0)
    dut = Core(config)
    memory = _Memory(dut.m_axi, example.before)
    count = len(example.program.descriptors)
    setup = {"queue_size": count.bit_length(), "interrupt_enable": 3, "control": 1}
    seen: list[Mapping[str, int]] = []
    simulator = Simulator(dut)
    simulator.add_clock(1e-6)

    async def bench(ctx: Any) -> None:
        axi, recorded, cycle = dut.s_axi, False, 0

        async def step() -> None:
            nonlocal cycle
            memory.drive(ctx, cycle)
            if recorded:
                seen.append(_cycle(ctx, dut))
            memory.observe(ctx, cycle)
            await ctx.tick()
            cycle += 1

        async def write(name: str, value: int) -> None:
            ctx.set(axi.awaddr, named(name).offset)
            ctx.set(axi.wdata, value)
            for signal in (axi.awvalid, axi.wvalid, axi.bready):
                ctx.set(signal, 1)
            ctx.set(axi.wstrb, 15)
            while True:
                taken = [signal for signal, ready in _channels(axi) if ctx.get(signal & ready)]
                has_response = ctx.get(axi.bvalid)
                await step()
                for signal in taken:
                    ctx.set(signal, 0)
                if has_response:
                    break
            ctx.set(axi.bready, 0)

        for name, value in setup.items():
            await write(name, value)
        await step()
        recorded = True
        await step()
        await write("tail", count)
        while not ctx.get(dut.irq):
            await step()
            if cycle > MAX_CYCLES:
                raise RuntimeError(f"no interrupt in {MAX_CYCLES} cycles")
        await step()
        await write("cause", 1)
        await step()

    simulator.add_testbench(bench)
    simulator.run()
    if bytes(memory.bytes) != example.after:
        raise RuntimeError("memory differs from the golden core's")
    return seen


def _channels(axi: Any) -> tuple[tuple[Any, Any], ...]:
    return (axi.awvalid, axi.awready), (axi.wvalid, axi.wready)


def _cycle(ctx: Any, dut: Core) -> dict[str, int]:
    values = {
        f"{port}_{name}": ctx.get(getattr(getattr(dut, port), name))
        for port in ("s_axi", "m_axi")
        for name in getattr(dut, port).signature.members
    }
    running = ctx.get(dut.sequencer.running)
    return {
        **values,
        "irq": ctx.get(dut.irq),
        "tail": ctx.get(dut.registers.tail),
        "head": ctx.get(dut.command_queue.head),
        "done": ctx.get(dut.sequencer.done),
        **{f"{unit}_busy": running >> place & 1 for place, unit in enumerate(UNITS)},
    }
