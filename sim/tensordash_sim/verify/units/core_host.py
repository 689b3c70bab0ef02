"""Host for benches of the core: a processor at its registers, and memory at its port."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any

import cocotb
from numpy.typing import NDArray

from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.registers import ERRORS, IDENTITY
from tensordash_sim.golden.core.golden_core import GoldenCore, Memory, Outcome
from tensordash_sim.verify.bench import start_bench
from tensordash_sim.verify.core_master import CoreMaster
from tensordash_sim.verify.programs.random_programs import PROGRAM, RandomProgram, random_program

__all__ = ["LOG2_PLACES", "SIZE", "Host", "same_memory"]

LOG2_PLACES = 7
SIZE = 1 << 17
"""Bytes of memory."""


class Host(CoreMaster):
    """Processor that delays responses, and writes descriptors to memory.

    Parameters
    ----------
    dut
        The core.
    name : str
        Label of the random source.
    latency, pause
        Behaviour of the memory; see `AxiMemory`.
    at : int
        The memory's first address.

    Attributes
    ----------
    steps : int
        Dense steps of the programs that `check_program` has run.
    """

    def __init__(self, dut: Any, name: str, *, latency: tuple[int, int], pause: float, at: int = 0) -> None:
        self.job, self.random, pins = start_bench(dut, f"core {name}")
        config: CoreConfig = self.job.config
        self.pause = pause
        memory = Memory(SIZE, at, line=config.axi_bits // 8)
        super().__init__(pins, config, memory, self.random, latency=latency, pause=pause)
        self.still = self.job.patience(self.still)
        self.tail = 0
        self.steps = 0
        self.at, self.base, self.log2_places = at, at + PROGRAM, LOG2_PLACES

    def ready(self) -> int:
        return int(self.random.random() >= self.pause)

    async def cycles(self, count: int) -> None:
        """Run a number of cycles."""
        for _ in range(count):
            await self.cycle()
            await self.pins.tick()

    async def first_write(self, most: int) -> None:
        """Run until a burst of writes begins, for at most `most` cycles."""
        for _ in range(most):
            await self.cycle()
            begun = self.pins.read("m_axi_awvalid") and self.pins.read("m_axi_awready")
            await self.pins.tick()
            if begun:
                return

    async def start(self, base: int | None = None, log2_places: int = LOG2_PLACES) -> None:
        """Set up the ring, and enable fetching of descriptors."""
        base = self.at + PROGRAM if base is None else base
        self.tail, self.base, self.log2_places = 0, base, log2_places
        assert await self.read("identity") == IDENTITY
        await self.write("queue_base", base & 0xFFFFFFFF)
        if base >> 32:
            await self.write("queue_base_high", base >> 32)
        await self.write("queue_size", log2_places)
        await self.write("interrupt_enable", 3)
        await self.write("control", 1)

    async def restrict(self, base: int = 0, limit: int | None = None) -> None:
        """Set the lowest and the highest address that the core may access."""
        limit = (1 << self.config.address_bits) - 1 if limit is None else limit
        for name, value in (("bounds_base", base), ("bounds_limit", limit)):
            await self.write(name, value & 0xFFFFFFFF)
            await self.write(f"{name}_high", value >> 32)

    async def restart(self) -> None:
        """Issue a soft reset, and check that no burst begins in it and that all state is cleared."""
        await self.write("control", 2)
        begun = self._begun()
        for _ in range(400):
            if not await self.read("status") & 2:
                break
        else:
            raise AssertionError("the reset is never over")
        assert self.memory.idle, "a burst was left without its end"
        assert all(now <= before for now, before in zip(self._begun(), begun, strict=True)), "a burst began in a reset"
        assert (await self.read("head"), await self.read("done"), await self.read("tail")) == (0, 0, 0)
        assert (await self.read("status"), await self.read("error"), await self.read("cause")) == (0, 0, 0)

    def _begun(self) -> tuple[int, int]:
        """Return the number of read and write bursts so far, including those whose address waits."""
        memory, pins = self.memory, self.pins
        return memory.read_bursts + pins.read("m_axi_arvalid"), memory.write_bursts + pins.read("m_axi_awvalid")

    def put(self, program: Sequence[int]) -> None:
        """Write descriptors to the ring's places from `tail` on, as far as they are in memory."""
        places = 1 << self.log2_places
        for k, bits in enumerate(program):
            self.memory.memory.write(self.base + 64 * ((self.tail + k) % places), bits.to_bytes(64, "little"))

    async def offer(self, content: Memory, program: Sequence[int], faults: Iterable[int] = ()) -> None:
        """Copy an image to memory, set the lines that respond with an error, and append a program to the ring."""
        memory = self.memory.memory
        memory.faults = set()
        memory.bytes[:] = content.bytes
        self.put(program)
        memory.faults = set(faults)
        self.tail += len(program)
        await self.write("tail", self.tail)

    async def run(self, content: Memory, program: list[int], most: int = 60_000) -> int:
        """Execute a program on an image of memory; return the cycles until its interrupt."""
        await self.offer(content, program)
        return await self.interrupt(most)

    async def outcome(self) -> Outcome:
        """Return the program's outcome from the registers."""
        code = await self.read("error")
        name = next((name for name, each in ERRORS.items() if each == code), "")
        return Outcome(done=await self.read("done"), error=name, index=await self.read("error_index") if code else 0)

    async def check_program(
        self, index: int, before: int, buffer: NDArray | None = None, counts: Mapping[str, int] = MappingProxyType({})
    ) -> int:
        """Run a random program, and compare it with the golden core.

        Parameters
        ----------
        index : int
            Number of the program, for messages.
        before : int
            Descriptors done before it.
        buffer : array, optional
            Content of the buffer before the program, updated with its results.
        counts : dict of str to int, optional
            Initial counts of results, by default zeros.

        Returns
        -------
        int
            Number of its descriptors.
        """
        made = random_program(self.random, self.config, SIZE, edges=self.random.random() < 0.5, at=self.at)
        with failure_context(f"program {index}", made):
            golden = GoldenCore(self.config, Memory(SIZE, self.at))
            golden.memory.bytes[:] = made.memory.bytes
            if buffer is not None:
                golden.buffer = buffer
            for name, count in counts.items():
                setattr(golden.counts, name, count)
            expected = golden.run(made.program.descriptors)
            self.steps += golden.steps
            cycles = await self.run(made.memory, made.program.descriptors)
            count = len(made.program.descriptors)
            cocotb.log.info("program %d: %s: %d cycles", index, made.title, cycles)
            got = await self.outcome()
            assert (got.done, got.error) == (before + count, expected.error), f"{got}, golden has {expected}"
            same_memory(self.memory.memory, golden.memory, self.ring)
        return count

    @property
    def ring(self) -> tuple[int, int]:
        """Address and bytes of the ring."""
        return self.base, 64 << self.log2_places


@contextmanager
def failure_context(where: str, made: RandomProgram) -> Iterator[None]:
    """Add the program to the message of a failed assertion."""
    try:
        yield
    except AssertionError as error:
        raise AssertionError(f"{where} ({made.title}): {error}") from None


def same_memory(left: Memory, right: Memory, *besides: tuple[int, int]) -> None:
    """Compare two memories, except for runs of (address, bytes).

    Raises
    ------
    AssertionError
        If they differ; the message has the first byte that differs.
    """
    one, other = bytearray(left.bytes), bytearray(right.bytes)
    for address, count in besides:
        begin = address - left.base
        low, high = max(begin, 0), min(begin + count, len(one))
        if low < high:
            one[low:high] = other[low:high] = bytes(high - low)
    if one != other:
        at = next(k for k, (a, b) in enumerate(zip(one, other, strict=True)) if a != b)
        raise AssertionError(f"byte {left.base + at:#x} is {one[at]:#04x}, golden has {other[at]:#04x}")
