"""Bench of the read arbiter: check that each of two readers gets its own data."""

import cocotb

from tensordash_sim.golden.core.golden_core import Memory
from tensordash_sim.verify.axi_memory import AxiMemory
from tensordash_sim.verify.bench import start_bench
from tensordash_sim.verify.units.memory_bases import draw_base

SIZE = 0x8000
PAGE = 4096


@cocotb.test()
@cocotb.parametrize(latency=[0, 40], pause=[0.0, 0.4])
async def random_bursts(dut, latency: int, pause: float) -> None:
    """Send bursts of both readers, whose data memory reorders, and reset once."""
    job, random, pins = start_bench(dut, f"arbiter {latency} {pause}")
    config, content = job.config, Memory(SIZE, draw_base(job.config.address_bits, job.seed, latency > 0))
    content.bytes[:] = random.randbytes(SIZE)
    size = config.axi_bits // 8
    memory = AxiMemory(
        pins,
        random,
        content,
        bits=config.axi_bits,
        reads=True,
        ids=True,
        latency=(0, latency),
        pause=pause,
        outstanding=200,
    )
    names = ("first", "second")
    inputs = {f"{name}_{pin}": 0 for name in names for pin in ("araddr", "arlen", "arvalid", "rready")}
    await pins.reset(**inputs, **memory.idle_pins())
    offers: dict[str, tuple[int, int] | None] = dict.fromkeys(names)
    expected: dict[str, list[tuple[int, int]]] = {name: [] for name in names}
    moved = dict.fromkeys(names, 0)
    cycles = round(2000 * job.effort)
    for cycle in range(cycles):
        reset = cycle == cycles // 2
        memory.drive()
        ready = {name: int(random.random() >= pause) for name in names}
        for name in names:
            # The first reader is the command queue, which reads rarely.
            eager = 0.1 if name == "first" else 0.6
            if offers[name] is None and len(expected[name]) < 60 and random.random() < eager:
                length = random.choice([1, 2, 8, 16, 1, 2, 8, random.randint(17, min(256, PAGE // size))])
                # Choose a random place in a page such that the burst does not cross its end.
                room = PAGE - length * size
                begin = PAGE * random.randrange(SIZE // PAGE) + size * random.randint(0, room // size)
                offers[name] = content.base + begin, length
            address, length = offers[name] or (0, 1)
            pins.drive(
                **{
                    f"{name}_arvalid": int(offers[name] is not None),
                    f"{name}_araddr": address,
                    f"{name}_arlen": length - 1,
                    f"{name}_rready": ready[name],
                }
            )
        if reset:
            await pins.restart(**inputs, **memory.idle_pins())
            memory.reset()
            offers, expected = dict.fromkeys(names), {name: [] for name in names}
            continue
        await pins.settle()
        memory.observe()
        for name in names:
            if pins.read(f"{name}_rvalid") and ready[name]:
                data, last = expected[name].pop(0)
                assert pins.read(f"{name}_rdata") == data, f"cycle {pins.cycle}: {name} got other data"
                assert pins.read(f"{name}_rlast") == last
                moved[name] += 1
            offer = offers[name]
            if offer is not None and pins.read(f"{name}_arready"):
                for k in range(offer[1]):
                    beat = content.read(offer[0] + k * size, size)
                    expected[name].append((int.from_bytes(beat or b"", "little"), int(k == offer[1] - 1)))
                offers[name] = None
        await pins.tick()
    assert min(moved.values()) > cycles / 20
