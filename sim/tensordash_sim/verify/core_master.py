"""Processor at a core's registers and memory at its AXI4 port, for any simulator."""

from random import Random
from typing import Any

from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.registers import named
from tensordash_sim.golden.core.golden_core import Memory
from tensordash_sim.verify.axi_memory import AxiMemory

__all__ = ["CoreMaster"]

INPUTS = ("awaddr", "awprot", "awvalid", "wdata", "wstrb", "wvalid", "bready", "araddr", "arprot", "arvalid", "rready")
"""Inputs of the registers' port."""
MAX_RESPONSE_CYCLES = 200
"""Cycles without a response after which the registers' port is taken to hang."""
STILL = 10_000
"""Cycles without a beat after which a program of the benches is taken to hang, on any core."""


class CoreMaster:
    """Processor that accesses registers by AXI4-Lite, one access at a time.

    Parameters
    ----------
    pins : Pins, or an object with the same methods
        Pins of the core.
    config : CoreConfig
        The core.
    memory : Memory
        Content of the memory at the AXI4 port.
    random : Random
        Random source of the memory; for `latency` and `pause` see `AxiMemory`.

    Attributes
    ----------
    still : int
        Cycles without a beat after which a program is taken to hang.
    """

    def __init__(
        self, pins: Any, config: CoreConfig, memory: Memory, random: Random, *, latency: tuple[int, int], pause: float
    ) -> None:
        self.pins, self.config, self.still = pins, config, STILL
        self.memory = AxiMemory(
            pins,
            random,
            memory,
            bits=config.axi_bits,
            prefix="m_axi_",
            reads=True,
            writes=True,
            ids=True,
            latency=latency,
            pause=pause,
            outstanding=config.outstanding + config.prefetch,
        )

    def ready(self) -> int:
        """Return whether the processor accepts a response in this cycle."""
        return 1

    async def begin(self) -> None:
        await self.pins.reset(**{f"s_axi_{name}": 0 for name in INPUTS}, **self.memory.idle_pins())

    async def cycle(self, **inputs: int) -> None:
        """Run a cycle up to its clock edge, with memory; inputs not passed keep their values."""
        self.pins.drive(**{f"s_axi_{name}": value for name, value in inputs.items()})
        self.memory.drive()
        await self.pins.settle()
        self.memory.observe()

    async def write(self, name: str, value: int) -> None:
        waiting = {"awvalid": 1, "wvalid": 1}
        for _ in range(MAX_RESPONSE_CYCLES):
            await self.cycle(awaddr=named(name).offset, wdata=value, wstrb=15, bready=self.ready(), **waiting)
            ended = self.pins.read("s_axi_bvalid") and self.pins.read("s_axi_bready")
            for channel in ("aw", "w"):
                if self.pins.read(f"s_axi_{channel}ready"):
                    waiting[f"{channel}valid"] = 0
            await self.pins.tick()
            if ended:
                return
        raise AssertionError(f"no answer to a write of {name}")

    async def read(self, name: str) -> int:
        waiting = 1
        for _ in range(MAX_RESPONSE_CYCLES):
            await self.cycle(araddr=named(name).offset, arvalid=waiting, rready=self.ready())
            if self.pins.read("s_axi_rvalid") and self.pins.read("s_axi_rready"):
                value = self.pins.read("s_axi_rdata")
                await self.pins.tick()
                return int(value)
            if self.pins.read("s_axi_arready"):
                waiting = 0
            await self.pins.tick()
        raise AssertionError(f"no answer to a read of {name}")

    async def interrupt(self, most: int) -> int:
        """Wait until `irq` is high; return the number of cycles before it.

        Raises
        ------
        AssertionError
            After `most` cycles, or after `still` cycles without a beat.
        """
        moved, since = self._moved(), 0
        for cycle in range(most):
            await self.cycle()
            raised = self.pins.read("irq")
            await self.pins.tick()
            if raised:
                return cycle
            if (now := self._moved()) != moved:
                moved, since = now, cycle
            if cycle - since > self.still:
                break
        raise AssertionError(f"no interrupt in {cycle + 1} cycles; {await self.read('done')} descriptors are done")

    def _moved(self) -> tuple[int, int]:
        return self.memory.read_beats, self.memory.write_beats
