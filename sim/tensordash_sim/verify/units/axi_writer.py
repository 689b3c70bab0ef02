"""Bench of the AXI writer: memory afterwards, byte by byte, and every answer."""

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
    """Requests in and beyond what is there, and a halt after each batch of them, in the midst or at the end."""
    job = current_job()
    random = Random(f"{job.seed} writer {latency} {pause}")
    cocotb.log.info("seed %s", job.seed)
    config = job.config
    size, shift = config.axi_bits // 8, (config.axi_bits // 8).bit_length() - 1
    base = far(config.address_bits, job.seed, latency > 20)
    if latency == 20:  # requests that begin shortly before 0x4000 go on after 4 GiB
        base = across(config.address_bits, 0x4000)
    content, golden = Memory(SIZE, base + BASE), Memory(SIZE, base + BASE)
    pins = Pins(dut)
    memory = AxiMemory(
        pins,
        random,
        content,
        bits=config.axi_bits,
        writes=True,
        latency=(0, latency),
        pause=pause,
        burst=job.options["burst"],
    )
    inputs = {"request_valid": 0, "request_payload": 0, "beats_valid": 0, "beats_payload": 0, "halt": 0}
    inputs["bounds"] = bounds_value(config.address_bits)
    await pins.reset(**inputs, **memory.idle_pins())
    done = 0
    for batch in range(round(12 * job.effort)):
        requests, beats, wrong, errors = [], [], False, memory.write_errors
        for _ in range(random.randint(1, 6)):
            count = random.choice([1, 1, 2, 3, random.randint(1, 40), random.randint(1, 4096 // size + 9)])
            at = random.choice([random.randrange(0x2F00, 0x8100), 0x4000 - size * random.randrange(20)])
            beat = (base + at) >> shift
            requests.append((beat, count))
            for k in range(count):
                whole = (1 << size) - 1
                beats.append(
                    ((beat + k) * size, random.getrandbits(8 * size), random.choice([whole, random.getrandbits(size)]))
                )
        cut, halting, failures, waited, taken, shown = random.random() < 0.4, False, 0, 0, 0, False
        requested, offered, address_waits = list(requests), list(beats), False
        while True:
            # The halt often begins some cycles after a beat is taken, when the next beat may wait.
            halting |= cut and taken > len(beats) // 2 and random.random() < 0.3
            memory.drive()
            address_bits = config.address_bits - shift
            request = requested[0] if requested and random.random() >= pause else None
            shown = bool(offered) and (shown or (random.random() >= pause and not halting))
            pins.drive(
                request_valid=int(request is not None),
                request_payload=request[0] | request[1] << address_bits + 1 if request else 0,
                beats_valid=int(shown),
                beats_payload=offered[0][1] | offered[0][2] << 8 * size if offered else 0,
                halt=int(halting),
            )
            await pins.settle()
            memory.observe()
            address_offered = bool(pins.read("axi_awvalid"))
            assert address_waits or not (halting and address_offered), f"cycle {pins.cycle}: a burst begins in a halt"
            address_waits = address_offered and not pins.read("axi_awready")
            failures += pins.read("failed")
            if request is not None and pins.read("request_ready"):
                assert not halting
                requested.pop(0)
            if shown and pins.read("beats_ready"):
                address, data, strobe = offered.pop(0)
                shown = False
                taken += 1
                for i in range(size):
                    if strobe >> i & 1:
                        wrong |= not golden.write(address + i, bytes([data >> 8 * i & 255]))
            # A request that is taken in this cycle is not there yet.
            idle = pins.read("idle") and not (request is not None and pins.read("request_ready"))
            await pins.tick()
            if idle and (halting or not requested):
                assert memory.idle, f"cycle {pins.cycle}: idle while a burst has no answer"
                break
            waited += 1
            assert waited < 60000
        assert halting or not offered
        assert bool(memory.write_errors - errors) == wrong or halting
        assert failures == memory.write_errors - errors, f"{failures} failures of {memory.write_errors - errors}"
        assert content.bytes == golden.bytes, f"batch {batch}: memory differs"
        done += taken
        if batch == 5:
            pins.drive(rst=1)
            await pins.settle()
            await pins.tick()
            pins.drive(rst=0)
    assert done > 100


@cocotb.test()
@cocotb.parametrize(latency=[0, 100], pause=[0.0, 0.4])
async def bounds_are_kept(dut, latency: int, pause: float) -> None:
    """Requests that may leave the bounds: what precedes is written, and nothing after it."""
    job = current_job()
    random, config, pins = Random(f"{job.seed} writer bounds {latency} {pause}"), job.config, Pins(dut)
    cocotb.log.info("seed %s", job.seed)
    size, shift = config.axi_bits // 8, (config.axi_bits // 8).bit_length() - 1
    base = far(config.address_bits, job.seed, latency > 0)
    content, golden = Memory(4 * PAGE, base), Memory(4 * PAGE, base)
    golden.bytes[:] = content.bytes[:] = random.randbytes(4 * PAGE)
    inputs = {"request_valid": 0, "request_payload": 0, "beats_valid": 0, "beats_payload": 0, "halt": 0}
    refusals = 0
    for _ in range(round(24 * job.effort)):
        memory = AxiMemory(
            pins,
            random,
            content,
            bits=config.axi_bits,
            writes=True,
            latency=(0, latency),
            pause=pause,
            burst=job.options["burst"],
        )
        bounds = random_bounds(random, content)
        await pins.reset(**inputs, bounds=bounds_value(config.address_bits, *bounds), **memory.idle_pins())
        requests, beats, refused = [], [], False
        for _ in range(random.randint(1, 4)):
            request = random_request(random, bounds, content, size, config.address_bits)
            requests.append((request.start, len(request)))
            for beat in request:
                beats.append(random.getrandbits(8 * size))
                refused |= not is_inside(bounds, beat << shift)
                if not refused:
                    golden.write(beat << shift, beats[-1].to_bytes(size, "little"))
        began, quiet, offered = pins.cycle, 0, False
        while quiet < 4:
            memory.drive()
            shown = requests and random.random() >= pause
            offered = bool(beats) and (offered or random.random() >= pause)
            pins.drive(
                request_valid=int(bool(shown)),
                request_payload=requests[0][0] | requests[0][1] << config.address_bits - shift + 1 if shown else 0,
                beats_valid=int(offered),
                beats_payload=beats[0] | ((1 << size) - 1) << 8 * size if offered else 0,
            )
            await pins.settle()
            memory.observe()
            require_inside(pins, bounds, "aw")
            outside = pins.read("outside")
            if shown and pins.read("request_ready"):
                assert not outside, "a request is taken after one that was refused"
                requests.pop(0)
            if offered and pins.read("beats_ready"):
                beats.pop(0)
                offered = False
            quiet = quiet + 1 if pins.read("idle") and (outside or not (requests or shown)) else 0
            await pins.tick()
            assert pins.cycle - began < 60_000, "it hangs"
        assert bool(outside) == refused
        assert memory.idle
        assert content.bytes == golden.bytes, "memory differs"
        refusals += refused
    assert 0 < refusals < round(24 * job.effort)
