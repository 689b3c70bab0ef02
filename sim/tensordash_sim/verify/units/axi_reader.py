"""Bench of the AXI reader: every beat of every request, in order, whatever memory does."""

from random import Random

import cocotb

from tensordash_sim.golden.core.golden_core import Memory
from tensordash_sim.verify.axi_memory import AxiMemory
from tensordash_sim.verify.job import current_job
from tensordash_sim.verify.pins import Pins
from tensordash_sim.verify.units.bounds import (
    PAGE,
    bounds_value,
    is_inside,
    random_bounds,
    random_request,
    require_inside,
)
from tensordash_sim.verify.units.far import across, far

BASE = 0x3000
SIZE = 0x5000


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
    bounds = bounds_value(config.address_bits)
    await pins.reset(request_valid=0, request_payload=0, beats_ready=0, halt=0, bounds=bounds, **memory.idle_pins())
    expected: list[tuple[int, int]] = []
    request: tuple[int, int] | None = None
    halting, done, idled = False, 0, 0
    cycles = round(2500 * job.effort)
    held: int | None = None
    address_waits = False
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
            request_payload=request[0] | request[1] << address_bits + 1 if request else 0,
            beats_ready=int(random.random() >= pause and not halting),
            halt=int(halting),
        )
        await pins.settle()
        if reset:
            memory.reset()
            # Nothing that stands on the pins in this cycle was ever there.
            pins.drive(axi_rvalid=0)
            request, expected, halting, held, address_waits = None, [], False, None, False
            await pins.tick()
            continue
        memory.observe()
        offered = bool(pins.read("axi_arvalid"))
        assert address_waits or not (halting and offered), f"cycle {pins.cycle}: a burst begins in a halt"
        address_waits = offered and not pins.read("axi_arready")
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
    assert idled or config.outstanding * job.options["burst"] > cycles, "no halt came to its end"


@cocotb.test()
@cocotb.parametrize(latency=[0, 100], pause=[0.0, 0.4])
async def bounds_are_kept(dut, latency: int, pause: float) -> None:
    """Requests that may leave the bounds: what precedes is read, and nothing after it."""
    job = current_job()
    random, config, pins = Random(f"{job.seed} reader bounds {latency} {pause}"), job.config, Pins(dut)
    cocotb.log.info("seed %s", job.seed)
    size, shift = config.axi_bits // 8, (config.axi_bits // 8).bit_length() - 1
    content = Memory(4 * PAGE, far(config.address_bits, job.seed, latency > 0))
    content.bytes[:] = random.randbytes(4 * PAGE)
    refusals = 0
    for _ in range(round(24 * job.effort)):
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
        bounds = random_bounds(random, content)
        value = bounds_value(config.address_bits, *bounds)
        await pins.reset(request_valid=0, request_payload=0, beats_ready=0, halt=0, bounds=value, **memory.idle_pins())
        requests, expected, refused = [], [], False
        for _ in range(random.randint(1, 4)):
            request = random_request(random, bounds, content, size, config.address_bits)
            requests.append((request.start, len(request)))
            for beat in request:
                refused |= not is_inside(bounds, beat << shift)
                if not refused:
                    data = content.read(beat << shift, size)
                    expected.append(int.from_bytes(data, "little") if data else None)
        began, quiet = pins.cycle, 0
        while quiet < 4:
            memory.drive()
            shown = requests and random.random() >= pause
            pins.drive(
                request_valid=int(bool(shown)),
                request_payload=requests[0][0] | requests[0][1] << config.address_bits - shift + 1 if shown else 0,
                beats_ready=int(random.random() >= pause),
            )
            await pins.settle()
            memory.observe()
            require_inside(pins, bounds, "ar")
            outside = pins.read("outside")
            if shown and pins.read("request_ready"):
                assert not outside, "a request is taken after one that was refused"
                requests.pop(0)
            if pins.read("beats_valid") and pins.read("beats_ready"):
                assert expected, "a beat that nobody may read"
                beat_data = expected.pop(0)
                assert beat_data is None or pins.read("beats_payload") == beat_data
            quiet = quiet + 1 if pins.read("idle") and (outside or not (requests or shown)) else 0
            await pins.tick()
            assert pins.cycle - began < 60_000, "it hangs"
        assert not expected, f"{len(expected)} beats before the first that is outside were not read"
        assert bool(outside) == refused
        assert memory.idle
        refusals += refused
    assert 0 < refusals < round(24 * job.effort)
