"""Bench of the output unit, with a model of the buffer and the golden core."""

from math import gcd
from random import Random
from typing import Any

import numpy as np
from amaranth.hdl import Shape

from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.descriptors import OPERATIONS, decode, encode
from tensordash.configuration.formats import FP32
from tensordash.configuration.numerics import Binned
from tensordash.layouts import sum_shape
from tensordash_sim.golden import BinnedAccumulator, IntegerAccumulator
from tensordash_sim.golden.core.golden_core import CoreFailure, Memory
from tensordash_sim.golden.core.loop_walk import LoopWalk
from tensordash_sim.golden.core.sums import make_sum
from tensordash_sim.golden.numbers import fixed_values
from tensordash_sim.verify.bench import start_bench
from tensordash_sim.verify.pins import split
from tensordash_sim.verify.random_values import random_value
from tensordash_sim.verify.units.buffer_model import BufferModel
from tensordash_sim.verify.units.far_sums import FarSums

__all__ = ["IDLE", "Bench", "random_fields", "random_values"]

IDLE = {"command_descriptor_valid": 0, "command_descriptor_payload": 0, "sums_valid": 0, "sums_payload": 0, "clear": 0}


def random_values(random: Random, config: CoreConfig, count: int) -> list[int]:
    """Return bits of operands: many zeros, most of the others finite, and a few random bit patterns."""
    width = config.value_bits
    kinds = random.choices(range(4), (30, 60, 9, 1), k=count)
    ordinary = [
        bits
        for bits in (random.getrandbits(width) for _ in range(64))
        if fixed_values(config.tile.a_format)[bits] is not None
    ]
    if isinstance(config.tile.numerics.accumulator, Binned):  # Add operands whose products overlap in a sum.
        ordinary += [random_value(random, config.tile.a_format, exponents=(-20, 20)) for _ in range(128)]
    return [
        (0, random.choice(ordinary), random.choice((0, 1 << (width - 1), 1)), random.getrandbits(width))[kind]
        for kind in kinds
    ]


def random_fields(random: Random, config: CoreConfig) -> dict[str, int]:
    """Return fields of a multiply with valid streams and partial sums, and results apart from biases and masks."""
    a_streams, b_streams = random.randint(1, 3), random.randint(1, 3)
    blocks = a_streams * b_streams
    parts = blocks * config.parts("a") * config.parts("b")
    fields = {
        "a_streams": a_streams,
        "b_streams": b_streams,
        "steps": random.randint(1, 5),
        "partial": random.randint(0, max(0, config.partial_sums - blocks)),
        "emit": int(random.random() < 0.75),
        "add": int(random.random() < 0.4),
        "stride": random.randint(1, 4),
        "x": random.randint(-9, 9),
        "x_size": random.randint(1, 40),
        "y": random.randint(0, 5),
        "address": random.randrange(0, config.groups // 8),
        "bias_address": random.randrange(config.groups // 2, config.groups - 64),
        "seed": random.choice((0, random.getrandbits(32))),
    }
    fields["mask_address"] = fields["address"] + config.groups // 2
    for name in ("transposed", "fp32", "bias", "relu", "mask", "stochastic", "toward_zero"):
        fields[name] = int(random.random() < 0.5 and getattr(config, name, True))
    if config.scale and random.random() < 0.5:
        # Unscaled sums often exceed fp16's range, and some are multiples of the least bit.
        fields["scale"] = random.choice(
            (random.randint(-128, 127), random.randint(-6, 6), random.randint(-30, -8), random.randint(20, 40))
        )
    left = parts
    fields |= {"count_0": 1, "count_1": 1, "count_2": 1}
    for k in range(3):
        fields[f"count_{k}"] = random.choice([n for n in range(1, left + 1) if left % n == 0])
        left //= fields[f"count_{k}"]
        if random.random() < 0.2:  # The loop has more turns than the multiply has groups, so it does not end.
            fields[f"count_{k}"] = min(4095, fields[f"count_{k}"] + left * random.getrandbits(11))
            break
    for k in range(4):
        fields |= {
            f"address_{k}": random.randint(-3, 12),
            f"x_{k}": random.randint(-9, 9),
            f"y_{k}": random.randint(-2, 3),
        }
    if config.skip_masked and random.random() < 0.6:
        fields |= {"skip_masked": 1, "stride": 1}
        fields |= {name: random.randint(-1, 2) * config.tile.lanes for name in ("x", "x_0", "x_1", "x_2", "x_3")}
    return fields


class MaskReader:
    """Model of a multiply unit that skips passes: reads groups through the output unit's port, and gives marks.

    Parameters
    ----------
    pins : Pins
        The output unit's pins.
    buffer : BufferModel
        The buffer.
    random : Random
        Source of the reads and of the cycles without a mark.
    """

    def __init__(self, pins: Any, buffer: BufferModel, random: Random) -> None:
        self.pins, self.buffer, self.random = pins, buffer, random
        self.requests = self.marked = False
        self._group = 0
        self._expected: list[list[int]] | None = None

    def drive(self, marks: list[int], stall: float) -> None:
        """Drive a request and a mark."""
        lanes = self.buffer.config.tile.lanes
        address_bits = (self.buffer.config.groups - 1).bit_length()
        if not self.requests:
            self.requests, self._group = self.random.random() < 0.3, self.random.randrange(self.buffer.config.groups)
        # Marks of the next descriptor may come early. They must not be taken.
        self.marked = self.marked or (self.random.random() >= stall)
        self.pins.drive(
            skip_read_valid=int(self.requests),
            skip_read_enable=(1 << lanes) - 1,
            skip_read_address=sum(self._group << (address_bits * k) for k in range(lanes)),
            marks_valid=int(self.marked),
            marks_payload=marks[0] if self.marked and marks else self.random.getrandbits(1),
        )

    def forget(self) -> None:
        """Drop requests and marks, after a reset."""
        self.requests, self.marked, self._expected = False, False, None

    def take(self, marks: list[int]) -> None:
        """Check the data of a read taken in the last cycle, and remove what the output unit accepts in this cycle."""
        lanes, width = self.buffer.config.tile.lanes, self.buffer.config.value_bits
        if self._expected is not None:
            data = split(self.pins.read("skip_read_data"), lanes * width, lanes)
            assert [split(each, width, lanes) for each in data] == self._expected, "the multiply unit reads other data"
        self._expected = None
        if self.requests and self.pins.read("skip_read_ready"):
            self.requests, self._expected = False, self.buffer.groups[self._group].tolist()
        if self.marked and self.pins.read("marks_ready"):
            assert marks, "a mark of the next descriptor is taken"
            marks.pop(0)
            self.marked = False


class Bench:
    """Bench of the output unit, with a model of the buffer and the golden core."""

    def __init__(self, dut: Any, name: str) -> None:
        self.job, self.random, self.pins = start_bench(dut, name)
        self.config: CoreConfig = self.job.config
        self.golden = FarSums(self.config, Memory(0))
        self.buffer = BufferModel(
            self.pins, self.config, self.golden.buffer.copy(), self.random, reads=["read"], writes=["write"]
        )
        self.reader = MaskReader(self.pins, self.buffer, self.random)
        self.idle_sums = (1 << len(dut.sums_payload)) - 1  # NaNs: no result may depend on sums that are not valid

    async def begin(self) -> None:
        """Reset the unit, and fill streams and buffer with random operands."""
        for side in "ab":
            streams = self.golden.streams[side]
            streams[...] = np.reshape(random_values(self.random, self.config, streams.size), streams.shape)
        self._fill_buffer()
        idle = {"marks_valid": 0, "skip_read_valid": 0} if self.config.skip_masked else {}
        await self.pins.reset(**IDLE, **self.buffer.idle(), **idle)

    def place_biases(self, first: int) -> None:
        """Place biases near a group, with exponents near the lower and the upper end of the sums.

        Biases of binned sums have every exponent, and integers have every magnitude.
        """
        sums, random = make_sum(self.config.tile), self.random
        fields: tuple[range, ...] = (range(FP32.exponent_range + 1),)
        if isinstance(sums, IntegerAccumulator):
            self._place_integers(first)
            return
        if isinstance(sums, BinnedAccumulator):
            least = sums.unit + FP32.bias
            beyond = least + (sums.max_top + 1) * sums.bin_bits
            fields += tuple(range(end - 2, end + 3) for end in (least, beyond) if 2 <= end < FP32.exponent_range - 2)
        else:
            least = sums.exponent + FP32.bias
            fields = (
                range(least - 2, least + FP32.significand_bits),
                range(least + sums.width - 4, least + sums.width),
            )
        for group in range(first - 4, first + 12):
            patterns = [
                random.getrandbits(1) << 31 | random.choice(random.choice(fields)) << 23 | random.getrandbits(23)
                for _ in range(self.config.group_bytes // 4)
            ]
            self._place(group, patterns)

    def _place_integers(self, first: int) -> None:
        """Place INT32 biases of every magnitude, including the limits of the range."""
        for group in range(first - 4, first + 12):
            signs = [self.random.choice((0, -1)) for _ in range(self.config.group_bytes // 4)]
            magnitudes = [self.random.getrandbits(self.random.choice((31, self.random.randint(1, 31)))) for _ in signs]
            self._place(group, [(each ^ sign) & 0xFFFFFFFF for each, sign in zip(magnitudes, signs, strict=True)])

    def place_masks(self) -> None:
        """Fill the buffer with random operands, then empty half of the groups, so that some passes are skipped."""
        self._fill_buffer()
        for group in range(self.config.groups):
            if self.random.random() < 0.5:
                self.golden.buffer[group] = self.buffer.groups[group] = 0

    def _fill_buffer(self) -> None:
        """Fill the buffer with random operands."""
        values = np.reshape(random_values(self.random, self.config, self.golden.buffer.size), self.golden.buffer.shape)
        self.golden.buffer[...] = values
        self.buffer.groups[...] = values

    def _place(self, group: int, patterns: list[int]) -> None:
        """Place values of 32 bits in a group."""
        made = np.array(patterns, "<u4").view(self.golden.buffer.dtype).reshape(self.golden.buffer[group].shape)
        self.golden.buffer[group] = self.buffer.groups[group] = made

    async def execute(self, fields: dict[str, int], stall: float, cut: int | None = None) -> bool:
        """Execute one descriptor, and compare; with `cut`, reset in that cycle. Return whether it was done."""
        bits = encode(OPERATIONS["multiply"], fields)
        _, values = decode(bits)
        marks = self._marks(values)
        rows = self._rows(values, marks)
        beats = [bits >> (128 * k) & ((1 << 128) - 1) for k in range(4)]
        # Banks that a bias or a turn of a mask needs. Reads of other banks waste energy and may stall other readers.
        lanes = self.config.tile.lanes
        banks = {"bias": 32 // self.config.value_bits, "mask": lanes // gcd(values["stride"], lanes)}
        most = max((count for name, count in banks.items() if values[name]), default=0)
        offered, last = False, 0  # `last`: the cycle in which the unit accepted the last row
        for cycle in range(self.job.patience(20_000)):
            offered = bool(rows) and (offered or self.random.random() >= stall)
            self.pins.drive(
                command_descriptor_valid=int(bool(beats)),
                command_descriptor_payload=beats[0] if beats else 0,
                sums_valid=int(offered),
                sums_payload=rows[0] if offered else self.idle_sums,
                rst=int(cycle == cut),
            )
            self.buffer.drive(stall)
            reader = self.reader if self.config.skip_masked else None
            if reader:
                reader.drive(marks, stall)
            await self.pins.settle()
            self.buffer.answer()
            await self.pins.settle()
            if beats and self.pins.read("command_descriptor_ready"):
                beats.pop(0)
            if offered and self.pins.read("sums_ready"):
                rows.pop(0)
                offered, last = False, cycle
            done, error = self.pins.read("command_done"), self.pins.read("command_error")
            if most and self.pins.read("read_valid") and not (reader and reader.requests):
                read = self.pins.read("read_enable").bit_count()
                assert read <= most, f"{read} banks are read instead of {most} ({fields})"
            self.buffer.take()
            if reader:
                reader.take(marks)
            await self.pins.tick()
            if cycle == cut:
                self.reader.forget()
                return False
            if done:
                self.buffer.release()  # The bias of groups after the last one may be requested.
                break
        else:
            raise AssertionError("the descriptor is never done")
        assert not rows, f"done before {len(rows)} rows were accepted"
        assert not marks, f"done before {len(marks)} marks were accepted"
        assert cycle >= last + 2, f"done less than 2 cycles after the last row ({fields})"
        expected = 0
        try:
            self.golden._multiply(values)
        except CoreFailure as failure:
            expected = {"range": 4, "address": 6}[failure.name]
        assert error == expected, f"error {error}, golden has {expected}"
        wrong = np.argwhere(self.buffer.groups != self.golden.buffer)
        assert not len(wrong), (
            f"{len(wrong)} values, the first at group, position, channel {wrong[0].tolist()}: "
            f"{self._differ(wrong[0])} ({fields})"
        )
        for name in ("zeros", "non_finite", "overflow"):
            count = getattr(self.golden.counts, name)
            assert self.pins.read(name) == count, f"{name} are {self.pins.read(name)}, golden has {count}"
        return True

    def _differ(self, place) -> str:
        actual, expected = (int(each[tuple(place)]) for each in (self.buffer.groups, self.golden.buffer))
        return f"{actual:#x}, golden has {expected:#x}"

    def _marks(self, values: Any) -> list[int]:
        """Return for each pass whether it is skipped, if the descriptor skips passes."""
        if not values["skip_masked"]:
            return []
        walk = LoopWalk(values, loops=4)
        return [int(self.golden._is_masked(values, walk)) for _ in range(values["a_streams"] * values["b_streams"])]

    def _rows(self, values: Any, marks: list[int]) -> list[int]:
        """Return the rows of all blocks that are not skipped, in the tile's order and format."""
        tile, depth = self.config.tile, self.config.tile.window_depth
        size = -(-values["steps"] // depth) * depth
        rows = []
        for p in range(values["b_streams"]):
            for q in range(values["a_streams"]):
                if marks and marks[p * values["a_streams"] + q]:
                    continue
                b = self.golden.streams["b"][depth * values["b_base"] + p * size :][:size]
                a = self.golden.streams["a"][depth * values["a_base"] + q * size :][:size]
                block = self.golden._block(b, a)
                width = Shape.cast(sum_shape(tile.numerics)).width
                for r in range(tile.rows):
                    sums = block[r * tile.columns : (r + 1) * tile.columns]
                    row = sum(each.block_bits() << (width * c) for c, each in enumerate(sums))
                    rows.append(row | int(r == tile.rows - 1) << (width * tile.columns))
        return rows
