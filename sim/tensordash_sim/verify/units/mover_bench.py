"""Base of the benches of the AXI reader and writer: a memory at the unit's bus, and requests."""

from collections.abc import Callable, Iterator
from typing import Any

from tensordash_sim.golden.core.golden_core import Memory
from tensordash_sim.verify.axi_memory import AxiMemory
from tensordash_sim.verify.bench import start_bench
from tensordash_sim.verify.units.bounds import is_inside, random_request, require_inside
from tensordash_sim.verify.units.memory_bases import base_before_boundary, draw_base

__all__ = ["SIZE", "MoverBench"]

BASE = 0x3000
SIZE = 0x5000

Request = tuple[int, int]
"""First beat and number of beats."""


class MoverBench:
    """Bench of a reader or writer with memory at its bus.

    Parameters
    ----------
    dut : handle
        The unit.
    label : str
        Label of the random source.
    latency : int
        Maximum latency of the memory, in cycles.
    pause : float
        Probability that a channel pauses in a cycle.
    channels
        Further arguments of `AxiMemory`.
    """

    def __init__(self, dut: Any, label: str, latency: int, pause: float, **channels: Any) -> None:
        self.job, self.random, self.pins = start_bench(dut, f"{label} {latency} {pause}")
        self.config, self.latency, self.pause = self.job.config, latency, pause
        self.size = self.config.axi_bits // 8
        self._bus = {"bits": self.config.axi_bits, "latency": (0, latency), "pause": pause, **channels}
        self._bus["burst"] = self.job.options["burst"]

    def connect(self, content: Memory) -> AxiMemory:
        """Connect a memory to the bus."""
        return AxiMemory(self.pins, self.random, content, **self._bus)

    def base(self) -> int:
        """Return the base of `random_request`'s addresses."""
        if self.latency == 20:  # Offset 0x4000 has the address 4 GiB, which requests cross.
            return base_before_boundary(self.config.address_bits, 0x4000)
        return draw_base(self.config.address_bits, self.job.seed, self.latency > 20)

    def memory(self) -> Memory:
        """Return a memory of `SIZE` bytes; requests of `random_request` are inside and outside."""
        return Memory(SIZE, self.base() + BASE)

    def random_request(self) -> Request:
        """Return a request inside, across the ends of, or outside memory."""
        random, size = self.random, self.size
        count = random.choice([1, 1, 2, 3, random.randint(1, 40), random.randint(1, 4096 // size + 9)])
        at = random.choice([random.randrange(0x2F00, 0x8100), 0x4000 - size * random.randrange(20)])
        return (self.base() + at) // size, count

    def payload(self, request: Request | None) -> int:
        """Return the request port's payload for a request, or 0 for None."""
        return request[0] | request[1] << self.config.address_bits - self.size.bit_length() + 2 if request else 0

    def bounded_beats(
        self, bounds: tuple[int, int], content: Memory, requests: list[Request]
    ) -> Iterator[tuple[int, bool]]:
        """Draw requests that may leave the bounds; yield each beat's address, and whether no beat so far is outside."""
        inside = True
        for _ in range(self.random.randint(1, 4)):
            request = random_request(self.random, bounds, content, self.size, self.config.address_bits)
            requests.append((request.start, len(request)))
            for beat in request:
                inside = inside and is_inside(bounds, beat * self.size)
                yield beat * self.size, inside

    async def move_bounded(
        self,
        memory: AxiMemory,
        bounds: tuple[int, int],
        channel: str,
        requests: list[Request],
        drive_beats: Callable[[], dict[str, int]],
        observe_beats: Callable[[], None],
    ) -> bool:
        """Send requests until the unit is idle or refuses one; check that all bursts are inside the bounds.

        Returns
        -------
        bool
            Whether the unit has refused a request.
        """
        pins, began, quiet = self.pins, self.pins.cycle, 0
        while quiet < 4:
            memory.drive()
            shown = bool(requests) and self.random.random() >= self.pause
            request = requests[0] if shown else None
            pins.drive(request_valid=int(shown), request_payload=self.payload(request), **drive_beats())
            await pins.settle()
            memory.observe()
            require_inside(pins, bounds, channel)
            outside = pins.read("outside")
            if shown and pins.read("request_ready"):
                assert not outside, "a request is accepted after a refused one"
                requests.pop(0)
            observe_beats()
            quiet = quiet + 1 if pins.read("idle") and (outside or not (requests or shown)) else 0
            await pins.tick()
            assert pins.cycle - began < 60_000, "the unit hangs"
        assert memory.idle
        return bool(outside)
