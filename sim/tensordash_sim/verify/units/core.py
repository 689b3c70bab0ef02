"""Bench of the core: random programs on the emitted Verilog, whose memory must end as golden's."""

from random import Random
from typing import Any

import cocotb

from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.descriptors import BITS
from tensordash.configuration.registers import ERRORS, IDENTITY, named
from tensordash_sim.core.golden import GoldenCore, Memory, Outcome
from tensordash_sim.core.random_programs import PROGRAM, random_program
from tensordash_sim.verify.axi_memory import AxiMemory
from tensordash_sim.verify.job import current_job
from tensordash_sim.verify.pins import Pins

LOG2_PLACES = 6


class Host:
    """What a processor does: registers by AXI4-Lite, descriptors in memory.

    Parameters
    ----------
    dut
        The core.
    name : str
        Seed of what is random.
    latency, pause
        Of the memory, as of `AxiMemory`.
    """

    def __init__(self, dut: Any, name: str, *, latency: tuple[int, int], pause: float) -> None:
        self.job = current_job()
        self.config: CoreConfig = self.job.config
        self.random = Random(f"{self.job.seed} core {name}")
        cocotb.log.info("seed %s", self.job.seed)
        self.pins = Pins(dut)
        self.pause = pause
        self.memory = AxiMemory(
            self.pins,
            self.random,
            Memory(1 << 17),
            bits=self.config.axi_bits,
            prefix="m_axi_",
            reads=True,
            writes=True,
            ids=True,
            latency=latency,
            pause=pause,
            outstanding=self.config.outstanding + 2,
        )
        self.tail = 0

    async def begin(self) -> None:
        """Reset."""
        idle = dict.fromkeys(
            (
                "awaddr",
                "awprot",
                "awvalid",
                "wdata",
                "wstrb",
                "wvalid",
                "bready",
                "araddr",
                "arprot",
                "arvalid",
                "rready",
            ),
            0,
        )
        await self.pins.reset(**{f"s_axi_{name}": value for name, value in idle.items()}, **self.memory.idle_pins())

    async def cycle(self, **inputs: int) -> None:
        """A cycle, with memory; what `seen` names is read before its end."""
        self.pins.drive(**{f"s_axi_{name}": value for name, value in inputs.items()})
        self.memory.drive()
        await self.pins.settle()
        self.memory.observe()

    async def write(self, name: str, value: int) -> None:
        """Write a register."""
        waiting = {"awvalid": 1, "wvalid": 1}
        for _ in range(100):
            await self.cycle(
                awaddr=named(name).offset,
                wdata=value,
                wstrb=15,
                bready=int(self.random.random() >= self.pause),
                **waiting,
            )
            ended = self.pins.read("s_axi_bvalid") and self.pins.read("s_axi_bready")
            for channel in ("aw", "w"):
                if self.pins.read(f"s_axi_{channel}ready"):
                    waiting[f"{channel}valid"] = 0
            await self.pins.tick()
            if ended:
                return
        raise AssertionError(f"no answer to a write of {name}")

    async def read(self, name: str) -> int:
        """Read a register."""
        waiting = 1
        for _ in range(100):
            await self.cycle(araddr=named(name).offset, arvalid=waiting, rready=int(self.random.random() >= self.pause))
            if self.pins.read("s_axi_rvalid") and self.pins.read("s_axi_rready"):
                value = self.pins.read("s_axi_rdata")
                await self.pins.tick()
                return value
            if self.pins.read("s_axi_arready"):
                waiting = 0
            await self.pins.tick()
        raise AssertionError(f"no answer to a read of {name}")

    async def start(self) -> None:
        """As after a reset: say where the ring is, and that descriptors may be fetched."""
        self.tail = 0
        assert await self.read("identity") == IDENTITY
        await self.write("queue_base", PROGRAM)
        await self.write("queue_size", LOG2_PLACES)
        await self.write("interrupt_enable", 3)
        await self.write("control", 1)

    async def offer(self, content: Memory, program: list[int]) -> None:
        """Put an image into memory, and a program into the ring."""
        self.memory.memory.bytes[:] = content.bytes
        for k, bits in enumerate(program):
            place = (self.tail + k) % (1 << LOG2_PLACES)
            assert self.memory.memory.write(PROGRAM + 64 * place, bits.to_bytes(64, "little"))
        self.tail += len(program)
        await self.write("tail", self.tail)

    async def run(self, content: Memory, program: list[int], most: int = 200_000) -> int:
        """Execute a program on an image of memory; the cycles that it took."""
        await self.offer(content, program)
        for cycle in range(most):
            await self.cycle()
            raised = self.pins.read("irq")
            await self.pins.tick()
            if raised:
                return cycle
        raise AssertionError(f"no interrupt in {most} cycles; done {await self.read('done')} of {self.tail}")

    async def outcome(self) -> Outcome:
        """What registers say of the program."""
        code = await self.read("error")
        name = next((name for name, each in ERRORS.items() if each == code), "")
        return Outcome(done=await self.read("done"), error=name, index=await self.read("error_index") if code else 0)


def _same(here: Memory, there: Memory) -> None:
    """Two memories, but for the ring."""
    ring = slice(PROGRAM, PROGRAM + 64 * (1 << LOG2_PLACES))
    one, other = bytearray(here.bytes), bytearray(there.bytes)
    one[ring] = other[ring] = bytes(ring.stop - ring.start)
    if one != other:
        at = next(k for k, (a, b) in enumerate(zip(one, other, strict=True)) if a != b)
        raise AssertionError(f"byte {at:#x} is {one[at]:#04x}, golden says {other[at]:#04x}")


@cocotb.test()
@cocotb.parametrize((("latency", "pause"), [((1, 1), 0.0), ((0, 200), 0.3)]))
async def random_programs(dut, latency: tuple[int, int], pause: float) -> None:
    """Programs one after the other, on memory that is quick, and on one that is not."""
    host = Host(dut, f"programs {latency}", latency=latency, pause=pause)
    await host.begin()
    await host.start()
    total = 0
    for index in range(max(1, round(10 * host.job.effort))):
        total += await check_program(host, index, total)
        await host.write("cause", 3)
    await host.write("snapshot", 1)
    fetched = total * BITS // host.config.axi_bits
    beats = {"read_beats": host.memory.read_beats - fetched, "write_beats": host.memory.write_beats}
    assert {name: await host.read(name) for name in beats} == beats
    for name in ("cycles", "scheduled", "load_busy", "layout_a_busy", "layout_b_busy", "output_busy", "store_busy"):
        assert 0 < await host.read(name) <= host.pins.cycle, name


@cocotb.test()
async def soft_resets(dut) -> None:
    """A soft reset in any cycle of a program, and then another program, as from a reset."""
    host = Host(dut, "soft resets", latency=(0, 60), pause=0.2)
    await host.begin()
    for index in range(max(2, round(6 * host.job.effort))):
        await host.start()
        made = random_program(host.random, host.config)
        await host.offer(made.memory, made.program.descriptors)
        for _ in range(host.random.randint(1, 400)):
            await host.cycle()
            await host.pins.tick()
        await host.write("control", 2)
        for _ in range(200):
            if not await host.read("status") & 2:
                break
        else:
            raise AssertionError("the reset is never over")
        assert host.memory.idle, "a burst was left without its end"
        assert (await host.read("head"), await host.read("done"), await host.read("tail")) == (0, 0, 0)
        await host.start()
        await check_program(host, index, 0)
        await host.write("control", 2)


async def check_program(host: Host, index: int, before: int) -> int:
    """Run a random program and the golden core's; how many descriptors it has, on top of those done before."""
    made = random_program(host.random, host.config)
    golden = GoldenCore(host.config, Memory(1 << 17))
    golden.memory.bytes[:] = made.memory.bytes
    expected = golden.run(made.program.descriptors)
    cycles = await host.run(made.memory, made.program.descriptors)
    count = len(made.program.descriptors)
    cocotb.log.info("program %d: %s: %d cycles", index, made.title, cycles)
    got = await host.outcome()
    assert (got.done, got.error) == (before + count, expected.error), f"{got}, golden says {expected} ({made.title})"
    try:
        _same(host.memory.memory, golden.memory)
    except AssertionError as error:
        raise AssertionError(f"program {index} ({made.title}): {error}") from None
    return count
