"""Bench of the AXI reader: check every beat of every request, in order, for random behaviour of memory."""

import cocotb

from tensordash_sim.golden.core.golden_core import Memory
from tensordash_sim.verify.job import current_job
from tensordash_sim.verify.units.bounds import PAGE, bounds_value, random_bounds
from tensordash_sim.verify.units.memory_bases import draw_base
from tensordash_sim.verify.units.mover_bench import SIZE, MoverBench, Request

IDLE = {"request_valid": 0, "request_payload": 0, "beats_ready": 0, "halt": 0}


@cocotb.test()
@cocotb.parametrize(latency=[0, 20, 200], pause=[0.0, 0.4])
async def random_requests(dut, latency: int, pause: float) -> None:
    """Send requests inside and outside memory, with halts and a reset."""
    outstanding = current_job().config.outstanding
    bench = MoverBench(dut, "reader", latency, pause, reads=True, outstanding=outstanding)
    job, random, config, pins, size = bench.job, bench.random, bench.config, bench.pins, bench.size
    content = bench.memory()
    content.bytes[:] = random.randbytes(SIZE)
    memory = bench.connect(content)
    await pins.reset(**IDLE, bounds=bounds_value(config.address_bits), **memory.idle_pins())
    expected: list[tuple[int, int]] = []
    request: Request | None = None
    halting, done, idled = False, 0, 0
    cycles = round(2500 * job.effort)
    held: int | None = None
    address_waits = False
    for cycle in range(cycles):
        if request is None and random.random() < 0.5:
            request = bench.random_request()
        if not halting and random.random() < 0.004:
            halting = True
        reset = cycle == cycles // 2
        memory.drive()
        pins.drive(
            rst=int(reset),
            request_valid=int(request is not None),
            request_payload=bench.payload(request),
            beats_ready=int(random.random() >= pause and not halting),
            halt=int(halting),
        )
        await pins.settle()
        if reset:
            memory.reset()
            # The reset discards all transfers of this cycle.
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
                memory_bytes = content.read((request[0] + k) * size, size)
                expected.append(
                    (
                        int.from_bytes(memory_bytes, "little") if memory_bytes is not None else -1,
                        int(memory_bytes is None),
                    )
                )
            request = None
        if pins.read("beats_valid"):
            payload = pins.read("beats_payload")
            assert held is None or held == payload, f"cycle {pins.cycle}: a beat changed while it waited"
            held = payload
            assert expected, f"cycle {pins.cycle}: a beat that was not requested"
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
    """Send requests that may leave the bounds; check that the reader reads the beats before that and none after."""
    outstanding = current_job().config.outstanding
    bench = MoverBench(dut, "reader bounds", latency, pause, reads=True, outstanding=outstanding)
    job, random, config, pins = bench.job, bench.random, bench.config, bench.pins
    content = Memory(4 * PAGE, draw_base(config.address_bits, job.seed, latency > 0))
    content.bytes[:] = random.randbytes(4 * PAGE)
    expected: list[int | None] = []

    def drive_beats() -> dict[str, int]:
        return {"beats_ready": int(random.random() >= pause)}

    def observe_beats() -> None:
        if pins.read("beats_valid") and pins.read("beats_ready"):
            assert expected, "a beat from outside the bounds"
            data = expected.pop(0)
            assert data is None or pins.read("beats_payload") == data

    refusals = 0
    for _ in range(round(24 * job.effort)):
        memory = bench.connect(content)
        bounds = random_bounds(random, content)
        value = bounds_value(config.address_bits, *bounds)
        await pins.reset(**IDLE, bounds=value, **memory.idle_pins())
        requests: list[Request] = []
        for address, inside in bench.bounded_beats(bounds, content, requests):
            if inside:
                data = content.read(address, bench.size)
                expected.append(int.from_bytes(data, "little") if data else None)
        outside = await bench.move_bounded(memory, bounds, "ar", requests, drive_beats, observe_beats)
        assert not expected, f"{len(expected)} beats before the first that is outside were not read"
        assert outside != inside
        refusals += outside
    assert 0 < refusals < round(24 * job.effort)
