"""Bench of the joins: check what each core reads and writes, and every transfer at memory."""

from typing import Any

import cocotb

from tensordash_sim.golden.core.golden_core import Memory
from tensordash_sim.verify.axi_memory import AxiMemory
from tensordash_sim.verify.bench import start_bench
from tensordash_sim.verify.units.bounds import bounds_value, random_bounds
from tensordash_sim.verify.units.join_models import ReadModel, WriteModel
from tensordash_sim.verify.units.memory_bases import draw_base

SIZE = 0x3000
DRAIN_CYCLES = 40_000
PATIENCE_BITS = range(5, 12)
"""Bits of `patience` to set. The last bursts wait as long, several times."""


@cocotb.test()
@cocotb.parametrize(patience=[0, 1, None], way=[(0, 0.0, 0.0), (0, 0.0, 0.4), (60, 0.3, 0.1)])
async def random_bursts(dut, patience: int | None, way: tuple) -> None:
    """Send bursts of all cores, which memory answers in any order, and reset once.

    All addresses are shared before the reset, and some or none after it. `way` is memory's maximum latency, the
    probability that it pauses, and the probability that a core does. Without a `patience`, each reset draws a power of
    two, which a lost bit would make 0.
    """
    job, random, pins = start_bench(dut, f"join {patience} {way}")
    latency, pause, stall = way
    config, cores, part = job.config, job.options["cores"], job.options["part"]
    bits, address_bits = config.axi_bits, config.address_bits
    prefixes = [f"s_axi_{k}_" if part == "join" else f"cores_{k}_" for k in range(cores)]
    prefixes.append("m_axi_" if part == "join" else "axi_")
    contents = [Memory(SIZE, draw_base(address_bits, job.seed, latency > 0)) for _ in range(2)]
    for content in contents:
        content.bytes[:] = random.randbytes(SIZE)
    shape: dict[str, Any] = {"size": bits // 8, "address_bits": address_bits, "prefixes": prefixes}
    outstanding = job.options["outstanding"]
    reader = ReadModel(pins, random, contents[0], **shape, outstanding=outstanding)
    writer = WriteModel(pins, random, contents[1], **shape)
    timing: dict[str, Any] = {"latency": (0, latency), "pause": pause, "outstanding": SIZE, "bits": bits, "ids": True}
    timing["prefix"] = prefixes[-1]
    # Reads and writes have memories of their own, since their order is undefined.
    sides: list[tuple[ReadModel | WriteModel, AxiMemory]] = []
    if part != "writes":
        sides.append((reader, AxiMemory(pins, random, contents[0], reads=True, **timing)))
    if part != "reads":
        sides.append((writer, AxiMemory(pins, random, contents[1], writes=True, **timing)))
    bounds = [(0, (1 << address_bits) - 1), random.choice([random_bounds(random, contents[0]), (1 << address_bits, 0)])]
    cycles = round(1600 * job.effort)
    for cycle in range(cycles + DRAIN_CYCLES):
        if cycle in (0, cycles // 2):
            reader.shared = bounds[cycle > 0]
            reader.patience = 1 << random.choice(PATIENCE_BITS) if patience is None else patience
            for model, memory in sides:
                model.reset()
                memory.reset()
                model.rate = 0.0
                model.drive(stall)
                pins.drive(**memory.idle_pins())
            if part != "writes":
                pins.drive(shared=bounds_value(address_bits, *reader.shared), patience=reader.patience)
            await pins.reset()
        for model, _ in sides:
            model.rate = 0.0 if cycle >= cycles else random.choice([0.05, 0.6, 1.0]) if cycle % 64 == 0 else model.rate
        if cycle >= cycles and all(model.idle and memory.idle for model, memory in sides):
            break
        for model, memory in sides:
            memory.drive()
            model.drive(stall)
        await pins.settle()
        for model, memory in sides:
            memory.observe()
            model.observe()
        if part == "join":
            for channel in ("ar", "aw"):
                values = [
                    pins.read(f"m_axi_{channel}{name}") for name in ("size", "burst", "lock", "cache", "prot", "qos")
                ]
                assert values == [(bits // 8).bit_length() - 1, 1, 0, config.axi_cache, config.axi_prot, 0]
        await pins.tick()
    assert all(model.idle and memory.idle for model, memory in sides), "transfers do not end"
    if part != "writes":
        assert reader.beats > cycles / 10
        assert patience is not None or reader.shared_reads
    assert part == "reads" or writer.answers > cycles / 100
