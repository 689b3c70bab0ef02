"""Bench of the command queue: check the descriptors that it fetches from rings in memory."""

from dataclasses import dataclass, field
from random import Random

import cocotb

from tensordash.configuration.descriptors import BITS, BYTES
from tensordash_sim.golden.core.golden_core import Memory
from tensordash_sim.verify.axi_memory import AxiMemory
from tensordash_sim.verify.bench import start_bench
from tensordash_sim.verify.units.bounds import PAGE, bounds_value, is_inside, require_inside
from tensordash_sim.verify.units.memory_bases import draw_base

SIZE = 0x2000
MIN_RINGS = 5
"""Least number of rings of a run, because the bounds forbid part of the fourth."""


@dataclass
class Ring:
    """A ring of descriptors in memory, and the queue's progress."""

    base: int
    log2_places: int
    bounds: tuple[int, int]
    length: int
    slow: bool
    """Whether descriptors are done so slowly that the FIFO and the window fill up."""
    descriptors: list[bytes | None] = field(default_factory=list)
    taken: int = 0
    done: int = 0
    beats: list[tuple[int, int]] = field(default_factory=list)

    @property
    def tail(self) -> int:
        """Number of descriptors written to the ring."""
        return len(self.descriptors)

    def place(self, index: int) -> int:
        """Return the address of a descriptor."""
        return self.base + BYTES * (index % (1 << self.log2_places))

    def advance(self, random: Random, content: Memory, head: int) -> None:
        """Write more descriptors to the ring, and count one as done, at random."""
        eager = 0.5 if self.slow else 0.2
        while self.tail < self.length and self.tail - head < 1 << self.log2_places and random.random() < eager:
            place = self.place(self.tail)
            content.write(place, random.randbytes(BYTES))
            self.descriptors.append(content.read(place, BYTES))
        if self.done < self.taken and random.random() < (0.04 if self.slow else 0.1):
            self.done += 1

    def take(self, payload: int) -> bool:
        """Accept a beat of a descriptor; return whether it completes a descriptor with an error of memory."""
        self.beats.append((payload & ((1 << 128) - 1), payload >> 128))
        if len(self.beats) < 4:
            return False
        wanted, has_error = self.descriptors[self.taken], any(error for _, error in self.beats)
        assert has_error == (wanted is None)
        if wanted is not None:
            content = b"".join(data.to_bytes(16, "little") for data, _ in self.beats)
            assert content == wanted, f"descriptor {self.taken} differs"
        self.beats, self.taken = [], self.taken + 1
        return has_error


def random_ring(random: Random, number: int, content: Memory, address_bits: int) -> Ring:
    """Return a ring at a random place of memory; the second one exceeds memory, the fourth one the bounds."""
    size = random.randint(0, 5)
    base = content.base + BYTES * random.randrange(SIZE // BYTES - (1 << size))
    if number == 1:
        size, base = 3, content.base + SIZE - 2 * BYTES
    top = (1 << address_bits) - 1
    bounds = (0, top)
    if number == 3:
        size, base = 3, content.base + PAGE - 3 * BYTES
        bounds = random.choice([(0, content.base + PAGE - 1), (content.base + PAGE, top)])
    slow = number == 4
    length = random.randint(60, 80) if slow else random.randint(10, 50)
    return Ring(base=base, log2_places=size, bounds=bounds, length=length, slow=slow)


@cocotb.test()
@cocotb.parametrize(latency=[0, 200], pause=[0.0, 0.4])
async def random_rings(dut, latency: int, pause: float) -> None:
    """Fetch rings of all sizes, some beyond memory; programs grow while the queue fetches, pauses and halts.

    In every cycle `head` is the number of descriptors read from memory. `busy` is high if and only if a descriptor is
    to be fetched, or its fetch has begun and it is not done.
    """
    job, random, pins = start_bench(dut, f"queue {latency} {pause}")
    config = job.config
    content = Memory(SIZE, draw_base(config.address_bits, job.seed, latency > 0))
    bus = {"bits": config.axi_bits, "latency": (0, latency), "pause": pause, "outstanding": config.prefetch}
    memory = AxiMemory(pins, random, content, reads=True, **bus)
    inputs = dict.fromkeys(("enable", "queue_base", "queue_size", "tail", "done", "descriptors_ready", "halt"), 0)
    await pins.reset(**inputs, bounds=bounds_value(config.address_bits), **memory.idle_pins())
    errors = refusals = 0
    for number in range(max(MIN_RINGS, round(5 * job.effort))):
        ring = random_ring(random, number, content, config.address_bits)
        pins.drive(bounds=bounds_value(config.address_bits, *ring.bounds))
        first_beat, first_burst = memory.read_beats, memory.read_bursts
        halting, began = False, pins.cycle
        halts_at = ring.length * 3 // 4 if number == 2 else ring.length + 1
        while True:
            ring.advance(random, content, pins.read("head"))
            halting |= ring.taken >= halts_at
            memory.drive()
            ready = int(random.random() >= pause)
            enable = int(random.random() >= pause)
            pins.drive(enable=enable, queue_base=ring.base, queue_size=ring.log2_places, tail=ring.tail, done=ring.done)
            pins.drive(descriptors_ready=ready, halt=int(halting))
            await pins.settle()
            if not halting:
                begun = memory.read_bursts - first_burst + pins.read("axi_arvalid")
                busy = begun != ring.done or (enable and begun != ring.tail)
                assert pins.read("head") == (memory.read_beats - first_beat) * config.axi_bits // BITS
                # The queue never requests a descriptor outside the bounds.
                is_exempt = number == 3 and pins.read("busy")
                assert pins.read("busy") == busy or is_exempt, f"{begun}, {ring.done}, {ring.tail}"
            memory.observe()
            require_inside(pins, ring.bounds, "ar")
            if pins.read("descriptors_valid") and pins.read("descriptors_payload") >> 129:
                is_allowed = is_inside(ring.bounds, ring.place(ring.taken))
                assert not is_allowed, f"descriptor {ring.taken} is inside"
                assert not ring.beats
                refusals += 1
                break
            if pins.read("descriptors_valid") and ready:
                errors += ring.take(pins.read("descriptors_payload"))
                assert ring.beats or ring.taken - ring.done <= config.window
            idle = pins.read("idle")
            await pins.tick()
            await pins.settle()
            if (halting and idle) or ring.taken == ring.length:
                assert memory.idle
                break
            assert pins.cycle - began < job.patience(60_000), "the queue hangs"
        await pins.restart(**inputs)
        await pins.settle()
    assert errors
    assert refusals
