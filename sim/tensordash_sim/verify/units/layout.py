"""Bench of a layout: compare the stream buffer with the golden core's, and check reads and cycles."""

from math import gcd
from typing import Any

import cocotb
import numpy as np
from numpy.typing import NDArray

from tensordash.configuration.descriptors import OPERATIONS, decode, encode
from tensordash.configuration.registers import ERRORS
from tensordash_sim.golden.core.golden_core import GoldenCore, Memory
from tensordash_sim.verify.bench import start_bench
from tensordash_sim.verify.job import current_job
from tensordash_sim.verify.pins import split
from tensordash_sim.verify.programs.field_cases import field_cases
from tensordash_sim.verify.stimulus import packed
from tensordash_sim.verify.units.beats import Beats
from tensordash_sim.verify.units.walk import places

LOOPS = 6


def signed(value: int) -> int:
    """Return a number of 16 bits in two's complement."""
    return (value & 0xFFFF ^ 0x8000) - 0x8000


class Bench:
    """Bench of a layout between models of the buffer and the stream buffer.

    Parameters
    ----------
    dut : handle
        The layout.
    label : str
        Label of the random source.
    ready, rate : float
        Probabilities per cycle that the buffer is ready, and that a beat is offered.
    """

    overhead = 6
    """Cycles from the last beat of the descriptor to its end, without those of the groups."""

    def __init__(self, dut: Any, label: str, ready: float, rate: float) -> None:
        job, self.random, self.pins = start_bench(dut, f"layout {label}")
        self.config, self.side, self.ready = job.config, job.options["side"], ready
        self.beats = Beats(self.pins, self.random, rate)
        self.golden = GoldenCore(self.config, Memory(0))
        noise = np.random.default_rng(job.seed)
        for array in (self.golden.buffer, self.golden.streams[self.side]):
            array[:] = noise.integers(0, 1 << self.config.value_bits, array.shape)
        self.streams = self.golden.streams[self.side].copy()
        self.lanes, self.depth = self.config.tile.lanes, self.config.tile.window_depth
        self.position_bits = self.lanes * self.config.value_bits
        self.halves = self.config.layout_groups
        self.banks = self.halves * self.lanes
        self.address_bits = (self.config.groups - 1).bit_length() - (self.halves - 1)
        self.read_data: dict[int, int] = {}  # by bank, for this cycle
        self.refused: tuple[int, list[int]] | None = None  # the request of the previous cycle, if not taken
        self.reads = 0

    async def begin(self) -> None:
        self.beats.drive()
        await self.pins.reset(read_ready=0, read_data=0, command_descriptor_valid=0)

    async def cycle(self, *, reset: bool = False) -> int | None:
        """Run one cycle; return the descriptor's error if it is done, else None."""
        pins, random = self.pins, self.random
        self.beats.drive()
        ready = random.random() < self.ready
        shown = [random.getrandbits(self.position_bits) for _ in range(self.banks)]
        for bank, value in self.read_data.items():
            shown[bank] = value
        pins.drive(
            read_ready=int(ready),
            read_data=sum(value << k * self.position_bits for k, value in enumerate(shown)),
            rst=int(reset),
        )
        await pins.settle()
        self._read(ready)
        self._write()
        done = self.beats.finish()
        await pins.tick()
        if reset:
            self.beats.drop()
            self.read_data, self.refused = {}, None
        return done

    def _read(self, ready: bool) -> None:
        pins = self.pins
        self.read_data = {}
        if not pins.read("read_valid"):
            assert self.refused is None, f"cycle {pins.cycle}: a request is gone before it was taken"
            return
        enable = pins.read("read_enable")
        addresses = split(pins.read("read_address"), self.address_bits, self.banks)
        assert enable, f"cycle {pins.cycle}: the request has no enabled bank"
        if self.refused is not None:
            assert self.refused == (enable, addresses), f"cycle {pins.cycle}: a request changes before it was taken"
        self.refused = None if ready else (enable, addresses)
        if ready:
            for bank in range(self.banks):
                if enable >> bank & 1:
                    values = self.golden.buffer[self._group(addresses[bank], bank), bank // self.halves]
                    self.read_data[bank] = packed(values.tolist(), self.config.value_bits)
                    self.reads += 1

    def _group(self, address: int, bank: int) -> int:
        """Return the group that a bank reads; with halves, the number of ones in a group is even in half 0."""
        if self.halves == 1:
            return address
        return address << 1 | (address.bit_count() ^ bank) & 1

    def _write(self) -> None:
        pins = self.pins
        banks = pins.read("write_bank")
        if not banks:
            return
        count = 1 if self.halves == 1 else self.depth
        config, group_bits = self.config, self.config.group_bits
        words = split(pins.read("write_word"), (config.stream_words(self.side) - 1).bit_length(), count)
        parts = split(pins.read("write_part"), config.parts(self.side), count)
        groups = split(pins.read("write_data"), group_bits, count)
        for bank in range(self.depth):
            if banks >> bank & 1:
                word, selected, data = (each[bank % count] for each in (words, parts, groups))
                part = selected.bit_length() - 1
                assert selected == 1 << part, f"cycle {pins.cycle}: not one part is written"
                group = np.array(split(data, config.value_bits, self.lanes**2)).reshape(self.lanes, self.lanes)
                self.streams[self.depth * word + bank, part * self.lanes : (part + 1) * self.lanes] = group

    async def run(self, values: dict[str, int]) -> None:
        """Execute a descriptor, and compare the stream buffer, the error, the reads and the cycles."""
        golden, streams = self.golden, self.golden.streams[self.side]
        streams[:] = self.streams
        bits = encode(OPERATIONS[f"layout_{self.side}"], values)
        outcome = golden.run([bits])
        self.reads, taken = 0, 0
        self.beats.give(bits)
        limit = self.pins.cycle + 1000 + round(20 * self.groups(values) / min(self.ready, self.beats.rate))
        while (error := await self.cycle()) is None:
            taken = self.beats.completed_in if self.beats.completed_in is not None else taken
            assert self.pins.cycle < limit, f"not done in cycle {limit}: {values}"
        assert error == outcome.code, f"error {error}, golden has {outcome.error or 'none'}: {values}"
        if outcome.error == "range":
            begin = self.depth * values["base"]
            self._same(self.streams[:begin], streams[:begin], values)
            return
        self._same(self.streams, streams, values)
        walked = self._walked(values)
        wanted = sum(len(group) for group in walked)
        # A pair of groups reads a common word only once.
        assert self.reads == wanted or (self.halves == 2 and self.reads < wanted), (
            f"{self.reads} positions are read, not {wanted}: {values}"
        )
        if self.ready == 1.0:
            cycles, expected = self.pins.cycle - 1 - taken, self._cycles(values, walked) + self.overhead
            assert cycles == expected, f"the layout takes {cycles} cycles, not {expected}: {values}"

    def groups(self, values: dict[str, int]) -> int:
        """Return the cycles of all groups, and of the zeros after them, at one group per cycle."""
        runs, turns = values["streams"] * self.config.parts(self.side), gcd(values["stride"], self.lanes)
        filling = values["steps"] % self.depth > 0 and self.halves == 1
        return runs * (values["steps"] + filling) * turns

    def _same(self, found: NDArray, expected: NDArray, values: dict[str, int]) -> None:
        different = np.argwhere(found != expected)
        assert not len(different), f"step, port and lane {different[0].tolist()} differ from golden: {values}"

    def _cycles(self, values: dict[str, int], walked: list[set[tuple[int, int]]]) -> int:
        """Return the cycles of all groups; with halves, two successive groups share a cycle unless they conflict."""
        turns = gcd(values["stride"], self.lanes)
        if self.halves == 1 or turns > 1:
            return self.groups(values)
        cycles = group = 0
        while group < len(walked):
            cycles += 1
            group += 1 + (group + 1 < len(walked) and not self._meet(values, walked, group))
        return cycles

    def _meet(self, values: dict[str, int], walked: list[set[tuple[int, int]]], group: int) -> bool:
        """Return whether a group and the next one write the same bank, or read two words of one half of a bank."""
        one, other = walked[group], dict(walked[group + 1])
        halves = [bank in other and other[bank] != at and not (other[bank] ^ at).bit_count() & 1 for bank, at in one]
        return self._collide(values, group) or any(halves)

    def _collide(self, values: dict[str, int], group: int) -> bool:
        """Return whether a group and the next one write the same bank."""
        written = []
        for each in (group, group + 1):
            step = each % values["steps"]
            last = step + 1 == values["steps"]
            written.append(set(range(step % self.depth, self.depth)) if last else {step % self.depth})
        return bool(written[0] & written[1])

    def _walked(self, values: dict[str, int]) -> list[set[tuple[int, int]]]:
        """Return, for each group of the walk, the banks and groups of its valid positions in the buffer."""
        walk = places(
            {
                "first": [values[name] & 0xFFFF for name in ("address", "x", "y")],
                "steps": [[values[f"{name}_{k}"] & 0xFFFF for k in range(LOOPS)] for name in ("address", "x", "y")],
                "counts": [values[f"count_{k}"] for k in range(LOOPS - 1)],
            }
        )
        walked = []
        for _ in range(values["streams"] * self.config.parts(self.side) * values["steps"]):
            address, x, y = next(walk)
            wanted = set()
            if not values["checked"] or 0 <= signed(y) < values["y_size"]:
                for port in range(self.lanes):
                    position = signed(x) + port * values["stride"]
                    group = (address + position // self.lanes) % (1 << 16)
                    if 0 <= position < values["x_size"] and group < self.config.groups:
                        wanted.add((position % self.lanes, group))
            walked.append(wanted)
        return walked


def drawn(bench: Bench) -> dict[str, int]:
    """Return a random descriptor: mostly a walk within the buffer, sometimes one with random fields."""
    random, config = bench.random, bench.config
    wild = random.random() < 0.15
    words = config.stream_words(bench.side)
    steps = random.randrange(1, 4 * bench.depth + 2)
    room = words // -(-steps // bench.depth)
    streams = random.randrange(1, max(1, min(room, 3)) + 1)
    used = streams * -(-steps // bench.depth)
    # Rarely, the streams exceed the stream buffer by one word or by many.
    base = random.choice([0, words - used, words - used, random.randrange(words), 0xFFFF])
    base = base if random.random() < 0.2 else random.randrange(words - used + 1) if used <= words else 0
    base = max(base, 0)
    if wild:
        values = {
            name: signed(random.getrandbits(16)) for k in range(LOOPS) for name in (f"address_{k}", f"x_{k}", f"y_{k}")
        }
        values |= {"address": random.getrandbits(16), "x": signed(random.getrandbits(16))}
        values |= {"y": signed(random.getrandbits(16)), "x_size": random.randrange(1, 1 << 16)}
        values |= {"y_size": random.getrandbits(16)}
    else:
        values = {}
        for k in range(LOOPS):
            values[f"address_{k}"] = random.choice([0, 1, 1, 2, -1])
            values[f"x_{k}"] = random.choice([0, 0, 1, -1, bench.lanes, -3])
            values[f"y_{k}"] = random.choice([0, 0, 1, -1])
        values |= {"address": random.randrange(config.groups), "x": random.randrange(-9, 9)}
        values |= {"y": random.randrange(-1, 3), "y_size": random.randrange(4)}
        values |= {"x_size": random.choice([random.randrange(1, 9), random.randrange(1, 60)])}
    values |= {f"count_{k}": random.choice([1, 2, 3, 5]) for k in range(LOOPS - 1)}
    values |= {"base": base, "steps": steps, "streams": streams, "stride": random.choice([1, 1, 2, 3, 4])}
    values |= {"transposed": random.getrandbits(1), "checked": random.getrandbits(1)}
    return values


@cocotb.test()
@cocotb.parametrize(ready=[1.0, 0.5], rate=[1.0, 0.6])
async def random_layouts(dut, ready: float, rate: float) -> None:
    """Execute descriptors of all kinds in sequence, and reset within some."""
    bench = Bench(dut, f"{ready} {rate}", ready, rate)
    await bench.begin()
    for number in range(round(40 * max(current_job().effort, 0.1))):
        values = drawn(bench)
        if number % 8 == 5:
            bench.beats.give(encode(OPERATIONS[f"layout_{bench.side}"], values))
            for _ in range(bench.random.randrange(1, 40)):
                if await bench.cycle() is not None:
                    break
            await bench.cycle(reset=True)
        else:
            await bench.run(values)


@cocotb.test()
async def longest_stream(dut) -> None:
    """Lay out a stream of all words, one with a word more, and one with the most steps; check that writes end early."""
    bench = Bench(dut, "longest", 1.0, 1.0)
    await bench.begin()
    words = bench.config.stream_words(bench.side)
    loops = {f"count_{k}": 1 for k in range(LOOPS - 1)} | {
        f"{name}_{k}": 0 for k in range(LOOPS) for name in ("address", "x", "y")
    }
    usual = {"streams": 1, "stride": 1, "base": 0, "address": 1, "x": 0, "y": 0, "x_size": 4, "checked": 0} | loops
    await bench.run(usual | {"steps": words * bench.depth})
    await bench.run(usual | {"steps": words * bench.depth + 1})
    before = bench.pins.cycle
    await bench.run(usual | {"steps": 0xFFFF, "streams": 0xFFF})
    assert bench.pins.cycle - before < 2 * words * bench.depth * bench.config.parts(bench.side) + 100
    # Descriptors after an error are correct.
    await bench.run(usual | {"steps": 1})
    await bench.run(usual | {"steps": 1, "address": bench.config.groups})
    assert ERRORS["address"] == 6
    await bench.run(usual | {"steps": 1})


@cocotb.test()
async def ends_of_fields(dut) -> None:
    """Execute descriptors with each field at and near its limits."""
    bench = Bench(dut, "ends", 1.0, 1.0)
    await bench.begin()
    name, groups = f"layout_{bench.side}", range(bench.config.groups // 2, bench.config.groups)
    cases = list(field_cases(bench.random, bench.config, (name,), groups, {"plain": {}, "compressed": {}}))
    for case in bench.random.sample(cases, min(len(cases), round(300 * current_job().effort))):
        bits = case.descriptor()
        operation, values = decode(bits)
        assert operation is not None
        await bench.run({field.name: values[field.name] for field in operation.fields})
