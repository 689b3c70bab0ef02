"""Bench of the AXI writer: check memory after each batch, byte by byte, and every response."""

import cocotb

from tensordash_sim.golden.core.golden_core import Memory
from tensordash_sim.verify.units.bounds import PAGE, bounds_value, random_bounds
from tensordash_sim.verify.units.memory_bases import draw_base
from tensordash_sim.verify.units.mover_bench import MoverBench, Request

IDLE = {"request_valid": 0, "request_payload": 0, "beats_valid": 0, "beats_payload": 0, "halt": 0}


@cocotb.test()
@cocotb.parametrize(latency=[0, 20, 200], pause=[0.0, 0.4])
async def random_requests(dut, latency: int, pause: float) -> None:
    """Send batches of requests inside and outside memory, and halt some batches before their end."""
    bench = MoverBench(dut, "writer", latency, pause, writes=True)
    job, random, config, pins, size = bench.job, bench.random, bench.config, bench.pins, bench.size
    content, golden = bench.memory(), bench.memory()
    memory = bench.connect(content)
    await pins.reset(**IDLE, bounds=bounds_value(config.address_bits), **memory.idle_pins())
    done = 0
    for batch in range(round(12 * job.effort)):
        requests, beats, wrong, errors = [], [], False, memory.write_errors
        for _ in range(random.randint(1, 6)):
            beat, count = bench.random_request()
            requests.append((beat, count))
            for k in range(count):
                data, strobe = random.getrandbits(8 * size), random.choice([(1 << size) - 1, random.getrandbits(size)])
                beats.append(((beat + k) * size, data, strobe))
        cut, halting, failures, waited, taken, shown = random.random() < 0.4, False, 0, 0, 0, False
        requested, offered, address_waits = list(requests), list(beats), False
        while True:
            # The halt often begins some cycles after the writer accepts a beat, when the next beat may wait.
            halting |= cut and taken > len(beats) // 2 and random.random() < 0.3
            memory.drive()
            request = requested[0] if requested and random.random() >= pause else None
            shown = bool(offered) and (shown or (random.random() >= pause and not halting))
            pins.drive(
                request_valid=int(request is not None),
                request_payload=bench.payload(request),
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
            # `idle` does not include a request that is accepted in this cycle.
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
            await pins.restart()
    assert done > 100


@cocotb.test()
@cocotb.parametrize(latency=[0, 100], pause=[0.0, 0.4])
async def bounds_are_kept(dut, latency: int, pause: float) -> None:
    """Send requests that may leave the bounds; check that the writer writes the beats before that and none after."""
    bench = MoverBench(dut, "writer bounds", latency, pause, writes=True)
    job, random, config, pins, size = bench.job, bench.random, bench.config, bench.pins, bench.size
    base = draw_base(config.address_bits, job.seed, latency > 0)
    content, golden = Memory(4 * PAGE, base), Memory(4 * PAGE, base)
    golden.bytes[:] = content.bytes[:] = random.randbytes(4 * PAGE)
    beats: list[int] = []
    offered = False

    def drive_beats() -> dict[str, int]:
        nonlocal offered
        offered = bool(beats) and (offered or random.random() >= pause)
        payload = beats[0] | ((1 << size) - 1) << 8 * size if offered else 0
        return {"beats_valid": int(offered), "beats_payload": payload}

    def observe_beats() -> None:
        nonlocal offered
        if offered and pins.read("beats_ready"):
            beats.pop(0)
            offered = False

    refusals = 0
    for _ in range(round(24 * job.effort)):
        memory = bench.connect(content)
        bounds = random_bounds(random, content)
        await pins.reset(**IDLE, bounds=bounds_value(config.address_bits, *bounds), **memory.idle_pins())
        requests: list[Request] = []
        beats, offered = [], False
        for address, inside in bench.bounded_beats(bounds, content, requests):
            beats.append(random.getrandbits(8 * size))
            if inside:
                golden.write(address, beats[-1].to_bytes(size, "little"))
        outside = await bench.move_bounded(memory, bounds, "aw", requests, drive_beats, observe_beats)
        assert outside != inside
        assert content.bytes == golden.bytes, "memory differs"
        refusals += outside
    assert 0 < refusals < round(24 * job.effort)
