"""Bench of the command queue: a ring that goes round, and descriptors that come out of it."""

from random import Random

import cocotb

from tensordash.configuration.descriptors import BITS, BYTES
from tensordash_sim.golden.core.golden_core import Memory
from tensordash_sim.verify.axi_memory import AxiMemory
from tensordash_sim.verify.job import current_job
from tensordash_sim.verify.pins import Pins
from tensordash_sim.verify.units.bounds import PAGE, bounds_value, require_inside
from tensordash_sim.verify.units.far import far

SIZE = 0x2000


@cocotb.test()
@cocotb.parametrize(latency=[0, 200], pause=[0.0, 0.4])
async def random_rings(dut, latency: int, pause: float) -> None:
    """Rings of any size, some beyond memory; a program grows while it is fetched, is paused and is halted.

    In every cycle `head` is the number of descriptors that have come from memory, and `busy` is high if and only if one
    is to be fetched, or its fetch has begun and it is not done.
    """
    job = current_job()
    random = Random(f"{job.seed} queue {latency} {pause}")
    cocotb.log.info("seed %s", job.seed)
    config, pins = job.config, Pins(dut)
    content = Memory(SIZE, far(config.address_bits, job.seed, latency > 0))
    memory = AxiMemory(
        pins,
        random,
        content,
        bits=config.axi_bits,
        reads=True,
        latency=(0, latency),
        pause=pause,
        outstanding=config.prefetch,
    )
    inputs = dict.fromkeys(("enable", "queue_base", "queue_size", "tail", "done", "descriptors_ready", "halt"), 0)
    await pins.reset(**inputs, bounds=bounds_value(config.address_bits), **memory.idle_pins())
    errors = refusals = 0
    for ring in range(round(5 * job.effort)):
        size = random.randint(0, 5)
        base = content.base + BYTES * random.randrange(SIZE // BYTES - (1 << size))
        if ring == 1:
            size, base = 3, content.base + SIZE - 2 * BYTES
        top = (1 << config.address_bits) - 1
        bounds = (0, top)
        if ring == 3:  # the ring goes on where the queue may not read
            size, base = 3, content.base + PAGE - 3 * BYTES
            bounds = random.choice([(0, content.base + PAGE - 1), (content.base + PAGE, top)])
        pins.drive(bounds=bounds_value(config.address_bits, *bounds))
        slow = ring == 4  # the FIFO and the window fill up
        length = random.randint(60, 80) if slow else random.randint(10, 50)
        tail = done = taken = 0
        beats: list[tuple[int, int]] = []
        descriptors: list[bytes | None] = []
        first_beat, first_burst = memory.read_beats, memory.read_bursts
        halting, began, halts_at = False, pins.cycle, length * 3 // 4 if ring == 2 else length + 1
        while True:
            while tail < length and tail - pins.read("head") < 1 << size and random.random() < (0.5 if slow else 0.2):
                place = base + BYTES * (tail % (1 << size))
                content.write(place, random.randbytes(BYTES))
                descriptors.append(content.read(place, BYTES))
                tail += 1
            if done < taken and random.random() < (0.04 if slow else 0.1):
                done += 1
            halting |= taken >= halts_at
            memory.drive()
            ready = int(random.random() >= pause)
            enable = int(random.random() >= pause)
            pins.drive(enable=enable, queue_base=base, queue_size=size, tail=tail, done=done)
            pins.drive(descriptors_ready=ready, halt=int(halting))
            await pins.settle()
            if not halting:
                begun = memory.read_bursts - first_burst + pins.read("axi_arvalid")
                busy = begun != done or (enable and begun != tail)
                assert pins.read("head") == (memory.read_beats - first_beat) * config.axi_bits // BITS
                # One that is outside the bounds is never on the bus.
                assert pins.read("busy") == busy or (ring == 3 and pins.read("busy")), f"{begun}, {done}, {tail}"
            memory.observe()
            require_inside(pins, bounds, "ar")
            refuses = pins.read("descriptors_valid") and pins.read("descriptors_payload") >> 129
            if refuses:
                address = base + BYTES * (taken % (1 << size))
                assert not bounds[0] <= address <= bounds[1], f"descriptor {taken} is inside"
                assert not beats
                refusals += 1
                break
            if pins.read("descriptors_valid") and ready:
                payload = pins.read("descriptors_payload")
                beats.append((payload & ((1 << 128) - 1), payload >> 128))
                if len(beats) == 4:
                    wanted = descriptors[taken]
                    if wanted is None:
                        assert any(error for _, error in beats)
                        errors += 1
                    else:
                        given = b"".join(data.to_bytes(16, "little") for data, _ in beats)
                        assert given == wanted, f"descriptor {taken} differs"
                        assert not any(error for _, error in beats)
                    beats, taken = [], taken + 1
                    assert taken - done <= config.window
            idle = pins.read("idle")
            await pins.tick()
            await pins.settle()
            if (halting and idle) or taken == length:
                assert memory.idle
                break
            assert pins.cycle - began < job.patience(60_000), "it hangs"
        pins.drive(rst=1, **inputs)
        await pins.settle()
        await pins.tick()
        pins.drive(rst=0)
        await pins.settle()
    assert errors
    assert refusals
