"""Bench of load: compare the buffer and the error with the golden core."""

from collections import Counter
from random import Random
from typing import Any

import cocotb
import numpy as np

from tensordash.configuration.registers import ERRORS
from tensordash_sim.compiler.program import Program
from tensordash_sim.golden.core.golden_core import GoldenCore, Memory
from tensordash_sim.golden.core.tensors import deflate, expand_nvfp4
from tensordash_sim.verify.axi_memory import AxiMemory
from tensordash_sim.verify.job import current_job
from tensordash_sim.verify.pins import Pins, split
from tensordash_sim.verify.units.bounds import bounds_value, random_bounds, require_inside
from tensordash_sim.verify.units.command import CommandPort, settle
from tensordash_sim.verify.units.memory_bases import runs_across
from tensordash_sim.verify.units.move_bench import SIZE, MoveBench


def plain_move(random: Random, config, base: int, *, is_nvfp4: bool = False) -> dict[str, Any]:
    """Return fields of an uncompressed move, mostly within buffer and memory."""
    size = config.group_bytes >> is_nvfp4
    counts = [random.choice([1, 1, 2, 3, random.randint(1, 12)]) for _ in range(4)]
    total = counts[0] * counts[1] * counts[2] * counts[3]
    if total > 60:
        counts[1:] = [1, 1, 1]
        total = counts[0]
    strides = [random.choice([counts[0], 1, -2, random.randint(-20, 20)]) for _ in range(3)]
    most = max(config.groups - total, 0)
    address = random.choice([random.randint(0, most), random.randint(0, most), most, min(most + 1, config.groups - 1)])
    middle = base + SIZE // 2 + random.randint(-SIZE // 4, SIZE // 4)
    near = base + SIZE // 2 - size * random.randrange(1, 20)
    memory = random.choice([middle, near, near, base + 0x1000 - 2 * size, base + random.randint(-4, 4) * size])
    return {
        "memory": max(0, memory) // size * size,
        "address": address,
        **{f"count_{k}": count for k, count in enumerate(counts)},
        **{f"stride_{k + 1}": stride for k, stride in enumerate(strides)},
        **({"nvfp4": 1, "by_channel": random.randrange(2)} if is_nvfp4 else {}),
    }


def impossible(fields: dict[str, int], config, content: Memory) -> bool:
    """Return whether a table has more items than any masks can count; golden reads them, the hardware does not."""
    segments = -(-fields["count_0"] // fields["segment"])
    ends = [content.read(fields["table"] + 4 * k, 4) for k in (0, segments)]
    begin, end = (int.from_bytes(each or b"", "little") for each in ends)
    size = config.tile.lanes**2
    return None not in ends and end - begin > fields["count_0"] * (size + size // config.value_bits)


def compressed_move(random: Random, config, content: Memory) -> dict[str, Any]:
    """Write a compressed tensor to memory; return fields of a load of some segments, sometimes with an error."""
    width, size = config.value_bits, config.tile.lanes**2
    count, segment = random.choice([1, random.randint(1, 30), 40]), random.choice([1, 2, 3, 7, 100])
    share = random.choice([0.0, 0.1, 0.5, 1.0])
    groups = [[random.getrandbits(width) if random.random() < share else 0 for _ in range(size)] for _ in range(count)]
    data, table = deflate(groups, config, segment)
    first = random.randrange(len(table) - 1)
    loaded = count - first * segment if random.random() < 0.5 else min(segment, count - first * segment)
    entries = table.astype("<u4")
    if random.random() < 0.2:
        entries[first + random.randint(0, 1)] += np.uint32(random.choice([1, 2**32 - 1, 2**31]))
    memory = content.base + random.choice([0, 3 * SIZE // 4]) + 16 * random.randrange(SIZE // 128)
    place = (
        content.base + SIZE // 2 + 4 * random.choice([random.randrange(SIZE // 16), -random.randrange(1, len(table))])
    )
    content.write(memory, data)
    if random.random() < 0.3:
        # The tensor's address is far before the loaded part.
        before = 16 * random.randrange(min(1 << 24, memory // 16 + 1))
        memory -= before
        entries += np.uint32(before * 8 // width)
    content.write(place, entries.tobytes())
    if random.random() < 0.1:
        memory = content.base + SIZE - 16
    if random.random() < 0.1:
        place = content.base + SIZE - 4 * first - 4
    address = random.choice([random.randint(0, config.groups - 40), config.groups - loaded, config.groups - 1])
    fields = {"memory": memory, "table": place + 4 * first, "address": address, "count_0": loaded, "segment": segment}
    return {"compressed": 1, **fields}


def move_across(random: Random, config, content: Memory) -> dict[str, Any]:
    """Write a compressed tensor and its table to memory, across the middle address; return the load's fields.

    The loaded segments are after the middle.
    """
    middle, width, size, count = content.base + SIZE // 2, config.value_bits, config.tile.lanes**2, 30
    data, table = deflate([[random.getrandbits(width) for _ in range(size)] for _ in range(count)], config, 7)
    content.write(middle + SIZE // 4, data)
    entries = table.astype("<u4") + np.uint32(SIZE * 8 // width)
    content.write(middle - 8, entries.tobytes())
    fields = {"memory": middle + SIZE // 4 - SIZE, "table": middle - 8, "address": 0, "count_0": count, "segment": 7}
    return {"compressed": 1, **fields}


class LoadBench(MoveBench):
    """Bench of a load unit and the golden core; for the parameters see `MoveBench`."""

    def __init__(self, dut, latency: int, pause: float) -> None:
        super().__init__(dut, "load", latency, pause, reads=True, outstanding=current_job().config.outstanding)
        self.golden = GoldenCore(self.config, self.content)
        self.buffer = self.golden.buffer.copy()
        self._held: tuple[int, int, int] | None = None
        self._written: Counter[int] = Counter()  # By group: banks that the move has written.

    async def begin(self) -> None:
        """Reset the unit."""
        inputs = {"buffer_ready": 0, "halt": 0, "bounds": bounds_value(self.config.address_bits)}
        await self.pins.reset(**inputs, **self.command.IDLE, **self.memory.idle_pins())

    async def execute(self, fields: dict[str, Any], bits: int, cut_after: int | None) -> None:
        """Execute a descriptor, or its first `cut_after` cycles."""
        pins, command = self.pins, self.command
        command.begin(bits)
        began, self._held = pins.cycle, None
        self._written.clear()
        while command.error is None and not (cut_after is not None and pins.cycle - began > cut_after):
            self.memory.drive()
            command.drive()
            pins.drive(buffer_ready=int(self.random.random() >= self.pause))
            await pins.settle()
            self.memory.observe()
            command.observe()
            require_inside(pins, self.golden.bounds, "ar")
            if pins.read("buffer_valid"):
                self._write()
            await pins.tick()
            assert pins.cycle - began < self.job.patience(20_000), f"load hangs: {fields}"

    def _write(self) -> None:
        pins, config = self.pins, self.config
        enable = pins.read("buffer_enable")
        write = enable, pins.read("buffer_address"), pins.read("buffer_data")
        assert enable, f"cycle {pins.cycle}: a write has no enabled bank"
        assert self._held is None or self._held == write, f"cycle {pins.cycle}: a write changed while it waited"
        self._held = None if pins.read("buffer_ready") else write
        if self._held is None:
            (group,) = set(split(write[1], (config.groups - 1).bit_length(), config.tile.lanes))
            assert not enable & self._written[group], f"cycle {pins.cycle}: group {group} has a bank written twice"
            self._written[group] |= enable
            write_banks(self.buffer[group], enable, write[2], config)


def write_banks(group: np.ndarray, enable: int, data: int, config) -> None:
    """Write the enabled positions of a group, (lanes, lanes)."""
    lanes, width = config.tile.lanes, config.value_bits
    for position, bank in enumerate(split(data, lanes * width, lanes)):
        if enable >> position & 1:
            group[position] = split(bank, width, lanes)


@cocotb.test()
@cocotb.parametrize(latency=[0, 200], pause=[0.0, 0.4])
async def random_loads(dut, latency: int, pause: float) -> None:
    """Execute moves of all kinds, a few of them illegal, with resets in between."""
    bench = LoadBench(dut, latency, pause)
    job, random, config, golden, content = bench.job, bench.random, bench.config, bench.golden, bench.content
    everything = golden.bounds
    await bench.begin()
    goods = refusals = 0
    directed = runs_across(content.base + SIZE // 2, config.group_bytes) if pause else []
    if pause and config.nvfp4:
        directed += [{**each, "nvfp4": 1} for each in runs_across(content.base + SIZE // 2, config.group_bytes // 2)]
    if pause and config.compression:
        directed.append(move_across(random, config, content))
    # A short run continues until enough moves succeeded and one was refused.
    for number in range(-len(directed), round(96 * job.effort)):
        if number >= round(24 * job.effort) and goods > 6 * job.effort and refusals:
            break
        compressed = number >= 0 and config.compression and random.random() < 0.5
        if number < 0:
            fields = directed[number]
        elif compressed:
            fields = compressed_move(random, config, content)
        else:
            is_nvfp4 = config.nvfp4 and random.random() < 0.6
            fields = plain_move(random, config, content.base, is_nvfp4=is_nvfp4)
        program = Program()
        program.add("load", **fields)
        golden.bounds = random_bounds(random, content) if number >= 0 and random.random() < 0.3 else everything
        bench.pins.drive(bounds=bounds_value(config.address_bits, *golden.bounds))
        outcome = golden.run(program.descriptors)
        described = np.zeros(config.groups, bool)
        if outcome.error:
            described[fields["address"] :] = True
        cut, cut_after = number > 0 and number % 6 == 3, random.randint(1, 60)
        await bench.execute(fields, program.descriptors[0], cut_after if cut else None)
        if cut:
            await bench.restart(axi_rvalid=0)
            bench.buffer[:] = golden.buffer
            continue
        where = f"load {number} {fields}"
        code = outcome.code
        if outcome.error == "read" and compressed and impossible(fields, config, content):
            code = ERRORS["compressed"]
        assert bench.command.error == code, f"{where}: golden has {outcome.error or 'no error'}"
        assert (bench.buffer == golden.buffer)[~described].all(), f"{where}: the buffer differs"
        assert bench.pins.read("idle")
        bench.buffer[:] = golden.buffer
        goods += number >= 0 and not outcome.error
        if outcome.error == "bounds":  # The unit accepts no descriptor until a reset.
            refusals += 1
            await bench.restart()
    assert refusals
    assert goods > 6 * job.effort


async def start(dut, config, content: Memory) -> tuple[Pins, AxiMemory, CommandPort]:
    """Return a load unit after reset, with memory that never pauses and a buffer that is always ready."""
    random = Random(f"{current_job().seed} memory")
    pins = Pins(dut)
    outstanding = config.outstanding
    memory = AxiMemory(pins, random, content, bits=config.axi_bits, reads=True, pause=0.0, outstanding=outstanding)
    command = CommandPort(pins, random)
    await pins.reset(
        buffer_ready=1, halt=0, bounds=bounds_value(config.address_bits), **command.IDLE, **memory.idle_pins()
    )
    return pins, memory, command


async def execute(pins: Pins, memory: AxiMemory, command: CommandPort, config, **fields: Any) -> np.ndarray:
    """Execute a load; return the buffer's values, with ones where the load did not write."""
    lanes, width, groups = config.tile.lanes, config.value_bits, config.groups
    buffer, began = np.ones((groups, lanes, lanes), f"<u{width // 8}"), pins.cycle
    program = Program()
    program.add("load", **fields)
    command.begin(program.descriptors[0])
    while command.error is None:
        await settle(pins, memory, command)
        if pins.read("buffer_valid"):
            group = split(pins.read("buffer_address"), (groups - 1).bit_length(), 1)[0]
            write_banks(buffer[group], pins.read("buffer_enable"), pins.read("buffer_data"), config)
        await pins.tick()
        assert pins.cycle - began < 40 * groups, f"a load hangs: {fields}"
    assert command.error == 0, f"{fields}: error {command.error}"
    return buffer.ravel()


@cocotb.test()
async def whole_buffer(dut) -> None:
    """Load the full buffer in one run, compressed in one segment with the largest number of items, and as NVFP4."""
    config = current_job().config
    groups = config.groups
    random = Random(f"{current_job().seed} whole buffer")
    values = np.frombuffer(random.randbytes(groups * config.group_bytes), f"<u{config.value_bits // 8}") | 1
    data, table = deflate(values.reshape(groups, -1), config, groups)
    content = Memory(1 << (len(data) + 64).bit_length())
    unit = await start(dut, config, content)
    for compressed in range(1 + config.compression):
        content.write(0, data if compressed else values.tobytes())
        content.write(len(content.bytes) - 32, table.astype("<u4").tobytes())
        fields = {"table": len(content.bytes) - 32, "segment": groups} if compressed else {}
        buffer = await execute(*unit, config, count_0=groups, compressed=compressed, **fields)
        wrong = np.flatnonzero(buffer != values)
        assert not len(wrong), f"compressed {compressed}: value {wrong[0]} differs, and {len(wrong) - 1} others"
    for by_channel in range(2 * config.nvfp4):
        size = groups * config.group_bytes // 2
        expanded = expand_nvfp4(content.read(0, size) or b"", config, by_channel=bool(by_channel)).ravel()
        buffer = await execute(*unit, config, count_0=groups, nvfp4=1, by_channel=by_channel)
        wrong = np.flatnonzero(buffer != expanded)
        assert not len(wrong), f"NVFP4: value {wrong[0]} differs, and {len(wrong) - 1} others"


@cocotb.test()
async def segments(dut) -> None:
    """Execute compressed loads with few and many segments, from one group to more groups than the buffer has.

    All values are zeros, so a segment has only masks. If the unit used another segment's table entry, it would raise
    the error `compressed`.
    """
    config = current_job().config
    if not config.compression:
        return
    random = Random(f"{current_job().seed} segments")
    groups, half = config.groups, config.groups // 2
    whole = [(groups, segment) for segment in (1, 2, 3, half, groups - 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF)]
    others = [(1, 1), (1, 0xFFFF), (groups - 1, 1), (groups - 1, groups), (half - 1, half), (half + 1, half), (half, 2)]
    drawn = [(random.randint(1, groups), random.randint(1, 40)) for _ in range(6)]
    masks = config.tile.lanes**2 // config.value_bits
    table_at = -(-groups * config.group_bytes // 64) * 64
    content = Memory(1 << (table_at + 4 * groups + 64).bit_length())
    unit = await start(dut, config, content)
    for count, segment in whole + others + drawn:
        entries = [masks * min(k * segment, count) for k in range(-(-count // segment) + 1)]
        content.write(table_at, np.array(entries, "<u4").tobytes() + bytes(16))
        fields = {"table": table_at, "segment": segment, "count_0": count, "compressed": 1}
        buffer = await execute(*unit, config, **fields)
        right = np.arange(len(buffer)) >= count * config.tile.lanes**2
        assert (buffer == right).all(), f"groups {count}, segment {segment}: the buffer differs"
