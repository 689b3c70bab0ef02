"""Base of the benches of load and store."""

from typing import Any

from tensordash_sim.golden.core.golden_core import Memory
from tensordash_sim.verify.axi_memory import AxiMemory
from tensordash_sim.verify.bench import start_bench
from tensordash_sim.verify.units.command import CommandPort
from tensordash_sim.verify.units.memory_bases import base_before_boundary, draw_base

__all__ = ["SIZE", "MoveBench"]

SIZE = 0x8000


class MoveBench:
    """Bench of a unit with a memory that delays responses, and a buffer that is not always ready.

    Parameters
    ----------
    dut : handle
        The unit.
    name : str
        Its name.
    latency : int
        Maximum latency of the memory, in cycles.
    pause : float
        Probability per cycle that memory or the buffer is not ready.
    channels
        Further arguments of `AxiMemory`.
    """

    def __init__(self, dut: Any, name: str, latency: int, pause: float, **channels: Any) -> None:
        self.job, self.random, self.pins = start_bench(dut, f"{name} {latency} {pause}")
        self.config, self.pause = self.job.config, pause
        # With pauses, the middle of memory has the address 4 GiB; without, memory has a random base.
        bits = self.config.address_bits
        self.content = Memory(
            SIZE, base_before_boundary(bits, SIZE // 2) if pause else draw_base(bits, self.job.seed, latency > 0)
        )
        self.content.bytes[:] = self.random.randbytes(SIZE)
        channels |= {"bits": self.config.axi_bits, "latency": (0, latency), "pause": pause}
        self.memory = AxiMemory(self.pins, self.random, self.content, **channels)
        self.command = CommandPort(self.pins, self.random)

    async def restart(self, **inputs: int) -> None:
        """Reset the unit between moves."""
        await self.pins.restart(**inputs)
        self.memory.reset()
        self.command = CommandPort(self.pins, self.random)
