"""Bench of the multiply that skips masked passes: the bench of `multiply`, with a buffer of masks, and marks."""

from typing import Any

import cocotb
import numpy as np

from tensordash.configuration.descriptors import OPERATIONS, decode, encode
from tensordash_sim.golden.core.loop_walk import LoopWalk
from tensordash_sim.verify.job import current_job
from tensordash_sim.verify.units import multiply
from tensordash_sim.verify.units.buffer_model import BufferModel

PATIENCE = 1000
LOOPS = 4
NO_FIELDS = decode(encode(OPERATIONS["multiply"], {}))[1]
"""The least values of all fields."""


class SkippingBench(multiply.Bench):
    """Bench of the unit with a model of the buffer, in which most groups are empty, and of an output unit.

    Parameters
    ----------
    stall, hold : float
        Probabilities per cycle that the buffer is not ready, and that the output unit takes no mark.
    dut, label, taking, rate, written
        As in `multiply.Bench`.
    """

    first_wait = 4
    """Cycles from the first one in which `Multiply` would offer steps to the first steps of a descriptor without masks.
    """

    def __init__(
        self, dut: Any, label: str, taking: str, rate: float, written: float, stall: float, hold: float
    ) -> None:
        super().__init__(dut, label, taking, rate, written)
        config, lanes = self.config, self.config.tile.lanes
        self.stall, self.hold, self.waits, self.completed = stall, hold, 0, 0
        groups = np.zeros((config.groups, lanes, lanes), f"u{config.value_bits // 8}")
        self.buffer = BufferModel(self.pins, config, groups, self.random, reads=["mask_read"], writes=[])
        self.idle |= {**self.buffer.idle(), "marks_ready": 0}
        self.marks: list[int] = []
        self.seen: set[int] = set()
        self.expected_marks: list[int] = []

    def fill(self) -> None:
        """Empty most groups. Zeros of both signs are empty; the others have a single value with a single bit."""
        config, random = self.config, self.random
        signed = config.tile.numerics.result != "int32"
        for group in self.buffer.groups:
            group[...] = 0
            if signed:
                group.flat[random.randrange(group.size)] = random.getrandbits(1) << (config.value_bits - 1)
            if random.random() < 0.3:
                group.flat[random.randrange(group.size)] |= 1 << random.randrange(config.value_bits - signed)

    def forget(self) -> None:
        """Drop what is on the way, after a reset."""
        super().forget()
        if hasattr(self, "buffer"):
            self.buffer.forget()
            self.marks = self.expected_marks = []

    async def cycle(self, *, reset: bool = False) -> tuple[int, int, int | None]:
        """Run one cycle of the unit, the buffer and the output unit."""
        self.buffer.drive(self.stall)
        takes = int(self.random.random() >= self.hold and self._has_block())
        self.pins.drive(marks_ready=takes)
        self.drawn = (takes, reset)
        return await super().cycle(reset=reset)

    def _has_block(self) -> bool:
        """Return whether the next mark is of a skipped pass, or of one whose steps were all taken: its block exists."""
        if len(self.marks) >= len(self.expected_marks):
            return False
        return bool(self.expected_marks[len(self.marks)]) or self.marks.count(0) < self.completed

    def serve(self) -> None:
        """Serve the ports of masks and marks in this cycle."""
        takes, reset = self.drawn
        self.completed += self.took > 0 and self.took == self.pins.read("available") and self.pins.read("last")
        self.buffer.answer()
        self.buffer.take()
        if takes and not reset and self.pins.read("marks_valid"):
            self.marks.append(self.pins.read("marks_payload"))

    def passes(self, values: dict[str, int]) -> list[tuple[int, int]]:
        """Return the passes that are not skipped, and store all marks."""
        config, lanes = self.config, self.config.tile.lanes
        walk, width = LoopWalk(values, LOOPS), config.fp32_groups if values["fp32"] else 1
        runs, self.expected_marks, self.completed = [], [], 0
        magnitudes = self.buffer.groups << (config.tile.numerics.result != "int32")
        for each in super().passes(values):
            found = False
            for _ in range(config.parts("a") * config.parts("b")):
                group = walk.address + values["mask_address"] - values["address"] + walk.x // lanes * width
                found |= 0 <= walk.x < values["x_size"] and bool(magnitudes[group % config.groups].any())
                walk.step()
            runs += [each] if found or not values["skip_masked"] else []
            self.expected_marks += [int(not found)] if values["skip_masked"] else []
        self.plain, self.waits = not values["skip_masked"], 0
        return runs

    async def offered(self, step: int) -> tuple[int, int, int | None]:
        """Wait for the next steps: only for the first ones if no mask is read and every bank can be read."""
        for _ in range(PATIENCE):
            available, last, done = await self.cycle()
            if available or done is not None or self.shut >> step % self.depth & 1:
                return available, last, done
            assert not last
            self.waits += 1
            assert self.waits <= self.first_wait or not self.plain, "a bubble between passes"
        raise AssertionError("no steps are offered")

    async def ended(self) -> tuple[int, int, int | None]:
        """Wait for the end and for the last marks."""
        for _ in range(PATIENCE):
            available, last, error = await self.cycle()
            if error is not None:
                break
            assert not available
            assert not self.plain, "done late"
        for _ in range(PATIENCE):
            if len(self.marks) >= len(self.expected_marks):
                break
            assert (await self.cycle())[0] == 0
        assert self.marks == self.expected_marks, f"marks are {self.marks}, not {self.expected_marks}"
        self.seen.update(self.marks)
        self.marks, self.expected_marks = [], []
        return available, last, error


def drawn(bench: SkippingBench) -> dict[str, int]:
    """Return a random descriptor as for `Multiply`, with a walk through masks, partly outside of the tensor."""
    random, lanes = bench.random, bench.config.tile.lanes
    values = multiply.drawn(bench) | {"skip_masked": int(random.random() < 0.8), "fp32": random.getrandbits(1)}
    values |= {"x_size": random.randint(1, 12 * lanes), "x": lanes * random.randint(-3, 3), "stride": 1}
    values |= {f"x_{k}": lanes * random.randint(-2, 3) for k in range(LOOPS)}
    values |= {f"address_{k}": random.randint(-40, 40) for k in range(LOOPS)}
    values |= {f"count_{k}": random.choice((1, 2, 3, 4095)) for k in range(LOOPS - 1)}
    return NO_FIELDS | values | {"mask_address": random.getrandbits(16)}


async def run_drawn(bench: SkippingBench, count: int) -> None:
    """Execute random descriptors in sequence, with new masks from time to time, and reset within some."""
    bench.fill()
    await bench.begin()
    for number in range(count):
        if number % 10 == 9:
            bench.fill()
        values = drawn(bench)
        if number % 6 == 4:
            await bench.run_until_reset(values, 40)
        else:
            await bench.run(values)
    assert bench.seen == {0, 1}


@cocotb.test()
@cocotb.parametrize(taking=["all", "one", "any"], stall=[0.0, 0.4])
async def random_masks(dut, taking: str, stall: float) -> None:
    """Execute descriptors in sequence, and reset within some; with stalls, banks are also written."""
    bench = SkippingBench(dut, f"{taking} {stall}", taking, 1.0 - stall, stall / 2, stall, stall)
    await run_drawn(bench, round(60 * max(current_job().effort, 0.1)))


@cocotb.test()
async def every_value(dut) -> None:
    """Skip a single pass unless one value of its masks has one bit set, other than a sign: each value, each bit."""
    bench = SkippingBench(dut, "values", "all", 1.0, 0.0, 0.0, 0.0)
    await bench.begin()
    config, groups = bench.config, bench.config.parts("a") * bench.config.parts("b")
    first = config.groups - groups
    values = {"steps": 1, "a_streams": 1, "b_streams": 1, "a_base": 0, "b_base": 0, "stride": 1, "x_size": 1}
    values |= {"skip_masked": 1, "mask_address": first, "address_3": 1, "x": 0, "fp32": 0}
    values = NO_FIELDS | values
    for place in range(groups * bench.buffer.groups[0].size):
        for bit in range(config.value_bits):
            bench.buffer.groups[...] = 0
            bench.buffer.groups[first:].flat[place] = 1 << bit
            await bench.run(values)


@cocotb.test()
@cocotb.parametrize(words=[1, 3])
async def many_passes(dut, words: int) -> None:
    """Skip runs of passes of every length up to a few more than the marks that wait, with a slow output unit.

    With longer passes, the next pass becomes known in every cycle of the last words of a pass.
    """
    bench = SkippingBench(dut, f"many passes {words}", "all" if words == 1 else "any", 1.0, 0.0, 0.0, 0.8 / words)
    await bench.begin()
    config, lanes = bench.config, bench.config.tile.lanes
    streams = min(bench.words["a"] // words, 24)
    groups = config.parts("a") * config.parts("b")
    for run in range(streams + 1):
        bench.buffer.groups[...] = 0
        for number in range(run, streams, run + 1):
            bench.buffer.groups[number * groups % config.groups] = 1
        values = {"steps": words * bench.depth, "a_streams": streams, "a_base": 0, "b_base": 0}
        values |= {"b_streams": min(3, bench.words["b"] // words)}
        values |= {"skip_masked": 1, "address_3": 1, "x_size": lanes, "stride": 1}
        await bench.run(NO_FIELDS | values)


@cocotb.test()
async def many_streams(dut) -> None:
    """Filter a full stream buffer of one-word streams of one side, with one stream of the other side."""
    bench = SkippingBench(dut, "many streams", "all", 1.0, 0.0, 0.0, 0.0)
    bench.fill()
    await bench.begin()
    for side, other in ("ab", "ba"):
        streams = {f"{side}_streams": min(bench.words[side], 4095), f"{other}_streams": 1}
        walk = {"skip_masked": 1, "address_3": 1, "x_size": 1, "stride": 1}
        await bench.run(NO_FIELDS | {"steps": 1, "a_base": 0, "b_base": 0} | walk | streams)
    assert bench.seen == {0, 1}
