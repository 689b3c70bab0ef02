"""Bench of the AXI reader: every beat of every request, in order, whatever memory does."""

from random import Random

import cocotb

from tensordash_sim.core.golden import Memory
from tensordash_sim.verify.axi_memory import AxiMemory
from tensordash_sim.verify.job import current_job
from tensordash_sim.verify.pins import Pins
from tensordash_sim.verify.units.far import across, far

BASE, SIZE = 0x3000, 0x5000


@cocotb.test()
@cocotb.parametrize(latency=[0, 20, 200], pause=[0.0, 0.4])
async def random_requests(dut, latency: int, pause: float) -> None:
    """Requests in and beyond what is there, halts among them, and a reset."""
    job = current_job()
    random = Random(f"{job.seed} reader {latency} {pause}")
    cocotb.log.info("seed %s", job.seed)
    config = job.config
    size, shift = config.axi_bits // 8, (config.axi_bits // 8).bit_length() - 1
    base = far(config.address_bits, job.seed, latency > 20)
    if latency == 20:  # requests that begin shortly before 0x4000 go on after 4 GiB
        base = across(config.address_bits, 0x4000)
    content = Memory(SIZE, base + BASE)
    content.bytes[:] = random.randbytes(SIZE)
    pins = Pins(dut)
    memory = AxiMemory(
        pins,
        random,
        content,
        bits=config.axi_bits,
        reads=True,
        latency=(0, latency),
        pause=pause,
        outstanding=config.outstanding,
        burst=job.options["burst"],
    )
    await pins.reset(request_valid=0, request_payload=0, beats_ready=0, halt=0, **memory.idle_pins())
    expected: list[tuple[int, int]] = []
    request: tuple[int, int] | None = None
    halting, done, idled = False, 0, 0
    cycles = round(2500 * job.effort)
    held: int | None = None
    for cycle in range(cycles):
        if request is None and random.random() < 0.5:
            count = random.choice([1, 1, 2, 3, random.randint(1, 40), random.randint(1, 4096 // size + 9)])
            at = random.choice([random.randrange(0x2F00, 0x8100), 0x4000 - size * random.randrange(20)])
            beat = (base + at) >> shift
            request = beat, count
        if not halting and random.random() < 0.004:
            halting = True
        reset = cycle == cycles // 2
        address_bits = config.address_bits - shift
        memory.drive()
        pins.drive(
            rst=int(reset),
            request_valid=int(request is not None),
            request_payload=request[0] | request[1] << address_bits if request else 0,
            beats_ready=int(random.random() >= pause and not halting),
            halt=int(halting),
        )
        await pins.settle()
        if reset:
            memory.reset()
            # Nothing that stands on the pins in this cycle was ever there.
            pins.drive(axi_rvalid=0)
            request, expected, halting, held = None, [], False, None
            await pins.tick()
            continue
        memory.observe()
        if halting:
            assert not pins.read("request_ready")
            assert not pins.read("beats_valid")
            expected, held = [], None
            if pins.read("idle"):
                assert memory.idle
                halting, idled = False, idled + 1
        if request is not None and pins.read("request_ready"):
            for k in range(request[1]):
                there = content.read((request[0] + k) * size, size)
                expected.append((int.from_bytes(there, "little") if there is not None else -1, int(there is None)))
            request = None
        if pins.read("beats_valid"):
            payload = pins.read("beats_payload")
            assert held is None or held == payload, f"cycle {pins.cycle}: a beat changed while it waited"
            held = payload
            assert expected, f"cycle {pins.cycle}: a beat that nobody asked for"
            if pins.read("beats_ready"):
                data, error = expected.pop(0)
                assert payload >> config.axi_bits == error, f"cycle {pins.cycle}: error must be {error}"
                assert error or payload & ((1 << config.axi_bits) - 1) == data, f"cycle {pins.cycle}: wrong data"
                done, held = done + 1, None
        if pins.read("idle"):
            assert memory.idle
        await pins.tick()
    assert done > cycles / 40
    assert idled
