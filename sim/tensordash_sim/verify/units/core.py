"""Bench of the core: run random programs on the emitted Verilog, and compare memory with golden's."""

from random import Random
from typing import Any

import cocotb

from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.descriptors import BITS
from tensordash.core.output import COUNTS
from tensordash.core.unit_counters import TILE_COUNTERS, UNIT_COUNTERS
from tensordash_sim.compiler.program import Program
from tensordash_sim.golden.core.golden_core import Memory
from tensordash_sim.verify.job import current_job
from tensordash_sim.verify.programs.random_programs import random_program
from tensordash_sim.verify.units.core_host import SIZE, Host
from tensordash_sim.verify.units.memory_bases import draw_base

LARGEST = (1 << 32) - 1
CARRIES = (1 << 16, 1 << 20, 1 << 32)


PROGRAM_RUNS = (((1, 1), 0.0), ((0, 200), 0.3), ((0, 20), 0.9))
"""Latency of memory and share of pauses in each run of `random_programs`."""


def set_near_carry(random: Random, registers: dict[str, Any], turn: int) -> dict[str, int]:
    """Set counts to values just below a carry, and return them; each count has another carry in the next turn."""
    carries = {name: CARRIES[(turn + place) % len(CARRIES)] for place, name in enumerate(registers)}
    counts = {name: carry - random.randint(2, 4) for name, carry in carries.items()}
    for name, register in registers.items():
        register.value = counts[name]
    return counts


@cocotb.test()
@cocotb.parametrize((("latency", "pause"), list(PROGRAM_RUNS)))
async def random_programs(dut, latency: tuple[int, int], pause: float) -> None:
    """Run programs in sequence, on memories with short, varying or long latency.

    Counters start just below a carry or their largest value, a different one in each run. An exact comparison finds
    counts that are too high, if they do not saturate. The counts of results start in the same way before each program.
    """
    job = current_job()
    at = draw_base(job.config.address_bits, job.seed, pause > 0)
    host = Host(dut, f"programs {latency}", latency=latency, pause=pause, at=at)
    await host.begin()
    await host.start()
    random, total = Random(f"{job.seed} carries {latency}"), 0
    registers = {name: getattr(dut.unit_counters, name) for name in UNIT_COUNTERS}
    registers |= {name: getattr(dut.tile.counters, f"counts_{tile}") for name, tile in TILE_COUNTERS.items()}
    run = job.seed + PROGRAM_RUNS.index((latency, pause))
    earlier, began = set_near_carry(random, registers, run), host.pins.cycle
    results = {name: getattr(dut.output_unit, name) for name in COUNTS}
    for index in range(max(1, round((4 if pause > 0.5 else 10) * host.job.effort))):
        total += await host.check_program(index, total, counts=set_near_carry(random, results, run + index))
        await host.write("cause", 3)
    await host.write("snapshot", 1)
    fetched = total * BITS // host.config.axi_bits
    beats = {"read_beats": host.memory.read_beats - fetched, "write_beats": host.memory.write_beats}
    expected = {name: min(earlier[name] + count, LARGEST) for name, count in (beats | {"steps": host.steps}).items()}
    assert {name: await host.read(name) for name in expected} == expected
    for name in (
        "cycles",
        "multiplying",
        *(["scheduled"] if host.steps else []),
        "load_busy",
        "layout_a_busy",
        "layout_b_busy",
        "output_busy",
        "store_busy",
    ):
        most = min(earlier[name] + host.pins.cycle - began, LARGEST)
        assert earlier[name] < await host.read(name) <= most, name


@cocotb.test()
async def soft_resets(dut) -> None:
    """Soft-reset the core in random cycles of programs, often of their stores, and check a program afterwards."""
    host = Host(dut, "soft resets", latency=(0, 60), pause=0.2)
    await host.begin()
    for index in range(max(2, round(6 * host.job.effort))):
        for _ in range(host.random.randint(1, 5)):
            await host.start()
            if host.random.random() < 0.4:
                await host.offer(Memory(SIZE), long_layouts(host.config))
            else:
                made = random_program(host.random, host.config, edges=host.random.random() < 0.5)
                await host.offer(made.memory, made.program.descriptors)
            if host.random.random() < 0.4:
                await host.first_write(most=400)
                await host.cycles(host.random.randint(0, 8))
            else:
                await host.cycles(host.random.choice([host.random.randint(1, 400), host.random.randint(60, 200)]))
            await host.restart()
        await host.start()
        await host.check_program(index, 0)
        await host.write("control", 2)


def long_layouts(config: CoreConfig) -> list[int]:
    """Return layouts that take long: they fill the stream buffers at one position per cycle."""
    program = Program()
    for side in "ab":
        streams, steps = config.stream_words(side), config.tile.window_depth
        program.add(f"layout_{side}", steps=steps, streams=min(streams, 4095), stride=4, x_size=64, address=0)
    program.add("end")
    return program.descriptors
