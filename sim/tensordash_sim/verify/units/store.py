"""Bench of store: compare memory and the error with the golden core."""

from random import Random
from typing import Any

import cocotb
import numpy as np

from tensordash_sim.compiler.program import Program
from tensordash_sim.golden.core.golden_core import GoldenCore, Memory
from tensordash_sim.verify.axi_memory import AxiMemory
from tensordash_sim.verify.job import current_job
from tensordash_sim.verify.pins import Pins, split
from tensordash_sim.verify.units.bounds import bounds_value, random_bounds, require_inside
from tensordash_sim.verify.units.command import CommandPort, settle
from tensordash_sim.verify.units.memory_bases import runs_across
from tensordash_sim.verify.units.move_bench import SIZE, MoveBench

COUNTS = ("zeros", "non_finite", "overflow")
IDLE = {"buffer_ready": 0, "buffer_data": 0, "halt": 0} | dict.fromkeys(COUNTS, 0)


def plain_move(random: Random, config, base: int) -> dict[str, Any]:
    """Return fields of a store whose runs do not overlap in memory."""
    size = config.group_bytes
    counts = [random.choice([1, 1, 2, 3, random.randint(1, 12)]) for _ in range(4)]
    if counts[0] * counts[1] * counts[2] * counts[3] > 60:
        counts[1:] = [1, 1, 1]
    strides, room = [], counts[0]
    for count in counts[1:]:
        strides.append(room + random.randint(0, 3))
        room = strides[-1] * count
    if random.random() < 0.3 and counts[2:] == [1, 1]:
        strides[0] = -strides[0]
    last = max(config.groups - counts[0] * counts[1] * counts[2] * counts[3], 0)
    address = random.choice([random.randint(0, last), random.randint(0, last), last, min(last + 1, config.groups - 1)])
    middle = base + SIZE // 2 + random.randint(-SIZE // 4, SIZE // 4)
    near = base + SIZE // 2 - size * random.randrange(1, 20)
    memory = random.choice([middle, near, near, base + 0x1000 - 2 * size, base + SIZE - size])
    return {
        "memory": memory // size * size,
        "address": address,
        **{f"count_{k}": count for k, count in enumerate(counts)},
        **{f"stride_{k + 1}": stride for k, stride in enumerate(strides)},
    }


def compressed_move(random: Random, config, base: int) -> dict[str, Any]:
    """Return fields of a compressed store, sometimes beyond the end of memory or of the buffer."""
    count, segment = random.choice([1, random.randint(1, 30), 40]), random.choice([1, 2, 3, 7, 100])
    memory = base + 16 * random.randrange(SIZE // 64)
    place = base + SIZE // 2 + 4 * random.randrange(SIZE // 16)
    across_middle = random.random()
    if across_middle < 0.3:  # Units, or in the next case table entries, are on both sides of the middle.
        memory, place = base + SIZE // 2 - 16 * random.randrange(1, 30), base + 4 * random.randrange(SIZE // 16)
    elif across_middle < 0.6:
        place = base + SIZE // 2 - 4 * random.randint(1, -(-count // segment))
    if random.random() < 0.1:
        memory = base + SIZE - 16
    if random.random() < 0.1:
        place = base + SIZE - 4
    last = config.groups - count
    address = random.choice([random.randint(0, last), random.randint(0, last), last, min(last + 1, config.groups - 1)])
    fields = {"memory": memory, "table": place, "address": address, "count_0": count, "segment": segment}
    return {"compressed": 1, **fields}


def moves_across(config, middle: int) -> list[dict[str, Any]]:
    """Return fields of compressed stores whose items or tables are on both sides of an address."""
    usual = {"compressed": 1, "address": 0, "count_0": min(40, config.groups), "segment": 7}
    places = ({"memory": middle - 160, "table": middle + SIZE // 4}, {"memory": middle + 64, "table": middle - 8})
    return [{**usual, **place} for place in places]


def sparse_move(random: Random, config, base: int) -> dict[str, Any]:
    """Return fields of a compressed store of many groups.

    If all values are zeros, the unit requests more groups at once than a segment has.
    """
    fields = {"memory": base, "table": base + SIZE // 2, "address": 0, "count_0": min(160, config.groups)}
    return {"compressed": 1, "segment": random.randint(33, 63), **fields}


MOVES = {"plain": plain_move, "compressed": compressed_move, "sparse": sparse_move}


class StoreBench(MoveBench):
    """Bench of a store unit and the golden core; for the parameters see `MoveBench`."""

    def __init__(self, dut, latency: int, pause: float) -> None:
        super().__init__(dut, "store", latency, pause, writes=True)
        self.base = self.content.base
        # Random bytes reveal both missing and excess writes.
        self.expected = Memory(SIZE, self.base)
        self.expected.bytes[:] = self.content.bytes
        self.golden = GoldenCore(self.config, self.expected)
        self.counts = dict.fromkeys(COUNTS, 0)
        self.cleared = 0

    async def begin(self) -> None:
        """Reset the unit."""
        inputs = {**IDLE, "bounds": bounds_value(self.config.address_bits)}
        await self.pins.reset(**inputs, **self.command.IDLE, **self.memory.idle_pins())

    def fill(self, share: float) -> None:
        """Fill the buffer with random values, a share of them nonzero, and draw the counts of results."""
        random, golden = self.random, self.golden
        values = np.frombuffer(random.randbytes(golden.buffer.nbytes), golden.buffer.dtype)
        nonzero = np.array([random.random() < share for _ in range(values.size)])
        golden.buffer[:] = (values * nonzero).reshape(golden.buffer.shape)
        self.counts = {name: random.getrandbits(32) for name in COUNTS}
        for name, count in self.counts.items():
            setattr(golden.counts, name, count)

    async def execute(self, program: Program, cut_after: int | None) -> None:
        """Execute a descriptor, or its first `cut_after` cycles."""
        pins, command, golden = self.pins, self.command, self.golden
        command.begin(program.descriptors[0])
        began, self.cleared = pins.cycle, 0
        held: int | None = None
        reading: int | None = None
        while command.error is None and not (cut_after is not None and pins.cycle - began > cut_after):
            self.memory.drive()
            command.drive()
            # Read data are valid for one cycle only.
            data = int.from_bytes(golden.buffer[reading].tobytes(), "little") if reading is not None else 0
            ready = int(self.random.random() >= self.pause)
            counts = dict.fromkeys(COUNTS, 7) if self.cleared else self.counts
            pins.drive(buffer_ready=ready, buffer_data=data, **counts)
            await pins.settle()
            self.memory.observe()
            command.observe()
            require_inside(pins, golden.bounds, "aw")
            reading = None
            if pins.read("buffer_valid"):
                group = self._requested_group()
                assert held is None or held == group, f"cycle {pins.cycle}: a read changed while it waited"
                held = group
                if ready:
                    reading, held = group, None
            else:
                assert held is None, f"cycle {pins.cycle}: a read was dropped before it was accepted"
            self.cleared += pins.read("clear")
            await pins.tick()
            assert pins.cycle - began < self.job.patience(30_000), f"store hangs: {program.listing()}"

    def _requested_group(self) -> int:
        lanes = self.config.tile.lanes
        assert self.pins.read("buffer_enable") == (1 << lanes) - 1
        (group,) = set(split(self.pins.read("buffer_address"), (self.config.groups - 1).bit_length(), lanes))
        return group


@cocotb.test()
@cocotb.parametrize(latency=[0, 200], pause=[0.0, 0.4])
async def random_stores(dut, latency: int, pause: float) -> None:
    """Execute moves and records of all kinds, a few of them illegal, with resets in between."""
    bench = StoreBench(dut, latency, pause)
    job, random, config, golden, base = bench.job, bench.random, bench.config, bench.golden, bench.base
    content, expected, everything = bench.content, bench.expected, golden.bounds
    await bench.begin()
    goods = refusals = 0
    directed = runs_across(base + SIZE // 2, config.group_bytes) if pause else []
    if pause and config.compression:
        directed += moves_across(config, base + SIZE // 2)
    # A short run continues until enough moves succeeded and one was refused.
    for number in range(-len(directed), round(96 * job.effort)):
        if number >= round(24 * job.effort) and goods > 6 * job.effort and refusals:
            break
        sparse = number == 0 and config.compression
        bench.fill(0.0 if sparse else 1.0 if number < 0 else random.choice([0.0, 0.1, 0.5, 1.0]))
        kinds = ["plain", "plain", "record", *(["compressed"] * 2 * config.compression)]
        kind = "directed" if number < 0 else "sparse" if sparse else random.choice(kinds)
        program = Program()
        if kind == "directed":
            program.add("store", **directed[number])
        elif kind == "record":
            memory_at = random.choice([base + 32 * random.randrange(SIZE // 32), base + SIZE])
            program.add("record", memory=memory_at)
        else:
            program.add("store", **MOVES[kind](random, config, base))
        golden.bounds = random_bounds(random, content) if number > 0 and random.random() < 0.3 else everything
        bench.pins.drive(bounds=bounds_value(config.address_bits, *golden.bounds))
        outcome = golden.run(program.descriptors)
        cut, cut_after = number > 0 and number % 6 == 3, random.randint(1, 80)
        await bench.execute(program, cut_after if cut else None)
        if cut:
            await bench.restart()
            content.bytes[:] = expected.bytes
            continue
        where = f"store {number} {program.listing()}"
        assert bench.command.error == outcome.code, f"{where}: golden has {outcome.error or 'no error'}"
        assert bench.pins.read("idle")
        assert bench.memory.idle
        assert bench.cleared == (kind == "record"), f"{where}: cleared {bench.cleared} times"
        if not outcome.error:
            assert content.bytes == expected.bytes, f"{where}: memory differs"
            goods += number >= 0
        if outcome.error == "bounds":  # The unit accepts no descriptor until a reset.
            refusals += 1
            low, high = (address - base for address in golden.bounds)
            for part in (slice(0, low), slice(high + 1, None)):
                assert content.bytes[part] == expected.bytes[part], f"{where}: memory outside of the bounds differs"
            await bench.restart()
        content.bytes[:] = expected.bytes
    assert refusals
    assert goods > 6 * job.effort


@cocotb.test()
async def the_bus_is_kept_busy(dut) -> None:
    """Check that a plain store of many groups writes a beat in every cycle, if memory is always ready."""
    config, pins = current_job().config, Pins(dut)
    content = Memory(SIZE)
    memory = AxiMemory(pins, Random(1), content, bits=config.axi_bits, writes=True, latency=(0, 0), pause=0.0)
    command = CommandPort(pins, Random(2))
    inputs = {**IDLE, "buffer_ready": 1, "bounds": bounds_value(config.address_bits)}
    await pins.reset(**inputs, **command.IDLE, **memory.idle_pins())
    program = Program()
    program.add("store", memory=0, count_0=40)
    command.begin(program.descriptors[0])
    while command.error is None:
        await settle(pins, memory, command)
        await pins.tick()
    assert pins.cycle < 40 * config.group_bits // config.axi_bits + 30


@cocotb.test()
async def whole_buffer(dut) -> None:
    """Store the full buffer in one run, and compressed in segments of a quarter with the most items."""
    config, pins = current_job().config, Pins(dut)
    groups, size = config.groups, 2 * config.groups * config.group_bytes
    random = Random(f"{current_job().seed} whole buffer")
    content, expected = Memory(size), Memory(size)
    golden = GoldenCore(config, expected)
    values = np.bitwise_or(np.frombuffer(random.randbytes(golden.buffer.nbytes), golden.buffer.dtype), 1)
    golden.buffer[:] = values.reshape(golden.buffer.shape)
    memory = AxiMemory(pins, random, content, bits=config.axi_bits, writes=True, latency=(0, 0), pause=0.0)
    command = CommandPort(pins, random)
    inputs = {**IDLE, "buffer_ready": 1, "bounds": bounds_value(config.address_bits)}
    await pins.reset(**inputs, **command.IDLE, **memory.idle_pins())
    for compressed in range(1 + config.compression):
        fields = {"table": size - 64, "segment": groups // 4} if compressed else {}
        program = Program()
        program.add("store", memory=0, count_0=groups, compressed=compressed, **fields)
        assert not golden.run(program.descriptors).error
        command.begin(program.descriptors[0])
        reading, began = None, pins.cycle
        while command.error is None:
            data = int.from_bytes(golden.buffer[reading].tobytes(), "little") if reading is not None else 0
            pins.drive(buffer_data=data)
            await settle(pins, memory, command)
            reading = None
            if pins.read("buffer_valid"):
                reading = split(pins.read("buffer_address"), (groups - 1).bit_length(), 1)[0]
            await pins.tick()
            assert pins.cycle - began < 40 * groups, "a store of the buffer hangs"
        assert command.error == 0, f"compressed {compressed}: error {command.error}"
        ours, theirs = (np.frombuffer(each.bytes, np.uint8) for each in (content, expected))
        wrong = np.flatnonzero(ours != theirs)
        assert not len(wrong), f"compressed {compressed}: byte {wrong[0]} differs, and {len(wrong) - 1} others"
