"""Bench of the output unit: blocks of the golden core's sums go in, and the buffer must end as golden's."""

from collections.abc import Mapping
from math import gcd
from random import Random
from typing import Any

import cocotb
import numpy as np

from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.descriptors import OPERATIONS, decode, encode
from tensordash.configuration.formats import FP32, FloatFormat
from tensordash_sim.golden.core.effects import written_groups
from tensordash_sim.golden.core.golden_core import CoreFailure, GoldenCore, Memory
from tensordash_sim.golden.dot import ExactAccumulator
from tensordash_sim.golden.numbers import fixed_values
from tensordash_sim.verify.job import current_job
from tensordash_sim.verify.pins import Pins
from tensordash_sim.verify.programs.field_cases import field_cases
from tensordash_sim.verify.units.buffer_model import BufferModel

IDLE = {"command_descriptor_valid": 0, "command_descriptor_payload": 0, "sums_valid": 0, "sums_payload": 0, "clear": 0}


def random_values(random: Random, config: CoreConfig, count: int) -> list[int]:
    """Bit patterns of operands: many zeros, most of them ordinary, a few of them anything."""
    width = config.value_bits
    kinds = random.choices(range(4), (30, 60, 9, 1), k=count)
    ordinary = [
        bits
        for bits in (random.getrandbits(width) for _ in range(64))
        if fixed_values(config.tile.a_format)[bits] is not None
    ]
    return [
        (0, random.choice(ordinary), random.choice((0, 1 << (width - 1), 1)), random.getrandbits(width))[kind]
        for kind in kinds
    ]


def random_fields(random: Random, config: CoreConfig) -> dict[str, int]:
    """A multiply whose streams and places exist; its results are not where its biases and masks are."""
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
        # Sums are often beyond fp16, and some are multiples of the least bit.
        fields["scale"] = random.choice(
            (random.randint(-128, 127), random.randint(-6, 6), random.randint(-30, -8), random.randint(20, 40))
        )
    left = parts
    fields |= {"count_0": 1, "count_1": 1, "count_2": 1}
    for k in range(3):
        fields[f"count_{k}"] = random.choice([n for n in range(1, left + 1) if left % n == 0])
        left //= fields[f"count_{k}"]
        if random.random() < 0.2:  # more turns than there are places: it does not end
            fields[f"count_{k}"] = min(4095, fields[f"count_{k}"] + left * random.getrandbits(11))
            break
    for k in range(4):
        fields |= {
            f"address_{k}": random.randint(-3, 12),
            f"x_{k}": random.randint(-9, 9),
            f"y_{k}": random.randint(-2, 3),
        }
    return fields


class FarSums(GoldenCore):
    """A golden core whose sums are others, which passes seldom have or could not reach.

    Some of a block's are near the ends of their range; or all are tiny, or in the middle between two
    numbers of FP32 or of the results' format, or very near to it.
    """

    weights: Mapping[str, int] = {"as it is": 3, "far": 3, "tiny": 4, "tie": 2}
    """How often a block is of each kind."""

    def _block(self, rows: np.ndarray, columns: np.ndarray) -> list[ExactAccumulator]:
        block = super()._block(rows, columns)
        random = Random(rows.tobytes() + columns.tobytes())  # the same for the same streams
        (kind,) = random.choices(list(self.weights), list(self.weights.values()))
        if kind == "as it is":
            return block
        for each in random.sample(block, len(block) // 2) if kind == "far" else block:
            total = self._total(random, kind, each.width)
            each.total = random.choice((1, -1)) * total
        return block

    def _total(self, random: Random, kind: str, width: int) -> int:
        """What a sum of so many bits is, without a sign."""
        if kind == "tiny":
            return random.getrandbits(random.randint(1, 24))
        if kind == "far":
            return (1 << (width - 1)) - 1 - random.getrandbits(random.randint(1, width - 2))
        fmt = random.choice((FP32, self.config.tile.a_format))
        bits = fmt.significand_bits if isinstance(fmt, FloatFormat) else FP32.significand_bits
        bits += random.choice((0, 0, 1, 2))  # a quarter, an eighth: what a carry too many makes a tie
        between = 1 << bits | random.getrandbits(bits) | 1
        return (between << random.randrange(max(1, width - 2 - bits))) + random.choice((0, 0, 0, *range(-3, 4)))


class Bench:
    """A buffer model and the golden core beside the unit."""

    def __init__(self, dut: Any, name: str) -> None:
        self.job = current_job()
        self.config: CoreConfig = self.job.config
        self.random = Random(f"{self.job.seed} {name}")
        self.pins = Pins(dut)
        self.golden = FarSums(self.config, Memory(0))
        self.buffer = BufferModel(
            self.pins, self.config, self.golden.buffer.copy(), self.random, reads=["read"], writes=["write"]
        )
        cocotb.log.info("seed %s", self.job.seed)

    async def begin(self) -> None:
        """Reset; random operands everywhere."""
        for side in "ab":
            streams = self.golden.streams[side]
            streams[...] = np.reshape(random_values(self.random, self.config, streams.size), streams.shape)
        values = np.reshape(random_values(self.random, self.config, self.golden.buffer.size), self.golden.buffer.shape)
        self.golden.buffer[...] = values
        self.buffer.groups[...] = values
        await self.pins.reset(**IDLE, **self.buffer.idle())

    def place_biases(self, first: int) -> None:
        """Biases from a group on of which a sum drops bits, or for which it has hardly any."""
        sums, random, lanes = ExactAccumulator(self.config.tile), self.random, self.config.tile.lanes
        least = sums.exponent + FP32.bias
        fields = (range(least - 2, least + FP32.significand_bits), range(least + sums.width - 4, least + sums.width))
        for group in range(first - 4, first + 12):
            patterns = [
                random.getrandbits(1) << 31 | random.choice(random.choice(fields)) << 23 | random.getrandbits(23)
                for _ in range(self.config.group_bytes // 4)
            ]
            made = np.array(patterns, "<u4").view(self.golden.buffer.dtype).reshape(lanes, lanes)
            self.golden.buffer[group] = self.buffer.groups[group] = made

    async def execute(self, fields: dict[str, int], stall: float, cut: int | None = None) -> bool:
        """One descriptor; with `cut` a reset comes in that cycle, if it is not done before. Whether it was."""
        bits = encode(OPERATIONS["multiply"], fields)
        _, values = decode(bits)
        rows = self._rows(values)
        beats = [bits >> (128 * k) & ((1 << 128) - 1) for k in range(4)]
        # Banks of a bias, and of a turn of a mask: to read others takes energy, and may keep their readers waiting.
        lanes = self.config.tile.lanes
        banks = {"bias": 32 // self.config.value_bits, "mask": lanes // gcd(values["stride"], lanes)}
        most = max((count for name, count in banks.items() if values[name]), default=0)
        offered, last = False, 0  # the cycle in which the last row was taken
        for cycle in range(self.job.patience(20_000)):
            offered = bool(rows) and (offered or self.random.random() >= stall)
            self.pins.drive(
                command_descriptor_valid=int(bool(beats)),
                command_descriptor_payload=beats[0] if beats else 0,
                sums_valid=int(offered),
                sums_payload=rows[0] if offered else 0,
                rst=int(cycle == cut),
            )
            self.buffer.drive(stall)
            await self.pins.settle()
            self.buffer.answer()
            await self.pins.settle()
            if beats and self.pins.read("command_descriptor_ready"):
                beats.pop(0)
            if offered and self.pins.read("sums_ready"):
                rows.pop(0)
                offered, last = False, cycle
            done, error = self.pins.read("command_done"), self.pins.read("command_error")
            if most and self.pins.read("read_valid"):
                read = self.pins.read("read_enable").bit_count()
                assert read <= most, f"{read} banks are read instead of {most} ({fields})"
            self.buffer.take()
            await self.pins.tick()
            if cycle == cut:
                return False
            if done:
                break
        else:
            raise AssertionError("it is never done")
        assert not rows, f"done, and {len(rows)} rows were not taken"
        assert cycle >= last + 2, f"done, and the last row has only just come ({fields})"
        expected = 0
        try:
            self.golden._multiply(values)
        except CoreFailure as failure:
            expected = {"range": 4, "address": 6}[failure.name]
        assert error == expected, f"error {error}, golden says {expected}"
        wrong = np.argwhere(self.buffer.groups != self.golden.buffer)
        assert not len(wrong), (
            f"{len(wrong)} values, the first at group, position, channel {wrong[0].tolist()}: "
            f"{self._differ(wrong[0])} ({fields})"
        )
        for name in ("zeros", "non_finite", "overflow"):
            count = getattr(self.golden.counts, name)
            assert self.pins.read(name) == count, f"{name} are {self.pins.read(name)}, golden says {count}"
        return True

    def _differ(self, place) -> str:
        here, there = (int(each[tuple(place)]) for each in (self.buffer.groups, self.golden.buffer))
        return f"{here:#x}, golden says {there:#x}"

    def _rows(self, values: Any) -> list[int]:
        """The rows of all blocks, as the tile gives them."""
        tile, depth = self.config.tile, self.config.tile.window_depth
        size = -(-values["steps"] // depth) * depth
        rows = []
        for p in range(values["b_streams"]):
            for q in range(values["a_streams"]):
                b = self.golden.streams["b"][depth * values["b_base"] + p * size :][:size]
                a = self.golden.streams["a"][depth * values["a_base"] + q * size :][:size]
                block = self.golden._block(b, a)
                width = block[0].width + 2
                for r in range(tile.rows):
                    sums = block[r * tile.columns : (r + 1) * tile.columns]
                    row = sum(each.block_bits() << (width * c) for c, each in enumerate(sums))
                    rows.append(row | int(r == tile.rows - 1) << (width * tile.columns))
        return rows


@cocotb.test()
@cocotb.parametrize(stall=[0.0, 0.5])
async def random_descriptors(dut, stall: float) -> None:
    """Random fields, one descriptor after the other, with and without pauses on every port."""
    bench = Bench(dut, f"output {stall}")
    await bench.begin()
    # Partial sums are any after power-up: all of them are put there once.
    full = {"a_streams": 1, "b_streams": bench.config.partial_sums, "steps": 1, "x_size": 1, "stride": 1}
    room = bench.config.stream_words("b")
    for first in range(0, bench.config.partial_sums, room):
        count = min(room, bench.config.partial_sums - first)
        await bench.execute({**full, "b_streams": count, "partial": first}, stall)
    for _ in range(max(2, round(12 * bench.job.effort))):
        fields = random_fields(bench.random, bench.config)
        if bench.random.random() < 0.7:
            bench.place_biases(fields["bias_address"])
        await bench.execute(fields, stall)


@cocotb.test()
async def biases(dut) -> None:
    """To sums of which every bit is seen, and to those near the ends of their range."""
    bench = Bench(dut, "output biases")
    if not bench.config.bias:
        return
    await bench.begin()
    bench.golden.weights = {"far": 1, "tiny": 3, "tie": 1}
    blocks = min(4, bench.config.partial_sums)
    lanes, first = bench.config.tile.lanes, bench.config.groups // 2
    for turn in range(max(4, round(8 * bench.job.effort))):
        bench.place_biases(first)
        steps = {"x_3": lanes, "y_3": 1}
        fields = {"a_streams": blocks, "b_streams": 1, "steps": 1, "stride": 1, "x_size": 1 << 12, "seed": turn + 1}
        if turn % 4 == 3:  # partial sums, to which the next biases are added, too
            await bench.execute({**fields, "b_streams": 1}, 0.2)
        more = {"add": int(turn % 4 == 3), "transposed": turn % 2, "emit": 1, "bias": 1, "fp32": 1}
        await bench.execute({**fields, **steps, **more, "bias_address": first}, 0.2)


@cocotb.test()
async def masks(dut) -> None:
    """Of zeros, of either sign, and of values that have one bit and hide nothing: each bit in each place."""
    bench = Bench(dut, "output masks")
    if not bench.config.mask:
        return
    await bench.begin()
    first, width = bench.config.groups // 2, bench.config.value_bits
    there = bench.golden.buffer[first:]
    for turn in range(max(8, round(16 * bench.job.effort))):
        bits = [bench.random.choice((0, 0, 1 << (width - 1), 1 << bench.random.randrange(width))) for _ in there.flat]
        there[...] = bench.buffer.groups[first:] = np.reshape(bits, there.shape)
        fields = {"a_streams": 3, "b_streams": 3, "steps": 1, "stride": 1, "x_size": 1 << 12, "seed": turn + 1}
        fields |= {"x_3": bench.config.tile.lanes, "emit": 1, "mask": 1, "mask_address": first}
        await bench.execute({**fields, "fp32": int(turn % 4 == 3), "transposed": turn // 2 % 2}, 0.0)


@cocotb.test()
async def long_loops(dut) -> None:
    """Loops that run 258 times, and biases that go as far; and counts of 2 and one higher bit."""
    bench = Bench(dut, "output long loops")
    config, turns = bench.config, 258
    await bench.begin()
    a_streams = min(config.stream_words("a"), 20)
    b_streams = -(-turns // (a_streams * config.parts("a") * config.parts("b"))) + 1
    bias_groups = turns * 4 * config.tile.lanes // config.group_bytes + 2
    result_groups = turns // config.tile.lanes + 2
    for loop in range(3):
        fields = {"steps": 1, "stride": 1, "x_size": 1 << 12, f"x_{loop}": 1, f"y_{loop}": 1, "emit": 1}
        fields |= {f"count_{k}": 1 for k in range(3)} | {"x_3": -turns // 2, "y_3": -turns // 2}
        if config.bias and bias_groups + result_groups < config.groups:
            fields |= {"bias": 1, "bias_address": config.groups - bias_groups}
        if b_streams <= config.stream_words("b"):
            await bench.execute({**fields, "a_streams": a_streams, "b_streams": b_streams, f"count_{loop}": turns}, 0.0)
        few = {"a_streams": 2, "b_streams": 2, "x_3": 20, "y_3": 20}
        for bit in range(2, 12):  # a count without that bit is 2
            await bench.execute({**fields, **few, f"count_{loop}": (1 << bit) + 2}, 0.0)


@cocotb.test()
async def random_bits(dut) -> None:
    """Stochastic rounding of results that most formats have room for, all of them seen."""
    bench = Bench(dut, "output random bits")
    if not (bench.config.stochastic and bench.config.scale):
        return
    await bench.begin()
    bench.golden.weights = {"as it is": 1}
    middle = -ExactAccumulator(bench.config.tile).width // 5
    for turn in range(max(3, round(4 * bench.job.effort))):
        fields = {"a_streams": 2, "b_streams": 1, "steps": 2, "stride": 1, "x_size": 1 << 12}
        fields |= {"x_3": bench.config.tile.lanes, "scale": middle + bench.random.randint(-8, 8)}
        fields |= {"emit": 1, "stochastic": 1, "transposed": turn % 2, "seed": bench.random.getrandbits(32)}
        await bench.execute(fields, 0.2)


@cocotb.test()
async def ends_of_formats(dut) -> None:
    """Sums that their scale brings to the ends of FP32's and the results' range."""
    bench = Bench(dut, "output ends of formats")
    if not bench.config.scale:
        return
    await bench.begin()
    bench.golden.weights = {"far": 1}
    sums = ExactAccumulator(bench.config.tile)
    largest = sums.exponent + sums.width - 1
    for turn in range(max(4, round(8 * bench.job.effort))):
        fmt = FP32 if turn % 2 else bench.config.tile.a_format
        assert isinstance(fmt, FloatFormat)
        scale = (1 << fmt.exponent_bits) - 1 - fmt.bias - largest + bench.random.randint(-2, 2)
        fields = {"a_streams": 2, "b_streams": 2, "steps": 2, "stride": 1, "x_size": 1 << 12, "seed": turn + 1}
        fields |= {"x_3": bench.config.tile.lanes, "scale": max(-128, min(scale, 127)), "emit": 1}
        await bench.execute({**fields, "fp32": turn % 2, "transposed": turn // 2 % 2}, 0.2)
    for scale in (-128, -127, 126, 127):
        await bench.execute({**fields, "fp32": 1, "scale": scale}, 0.0)


@cocotb.test()
async def ties(dut) -> None:
    """Sums in the middle between two numbers, of FP32 and of the results' format, and just beside it."""
    bench = Bench(dut, "output ties")
    await bench.begin()
    bench.golden.weights = {"tie": 1}
    for turn in range(max(4, round(8 * bench.job.effort))):
        fields = {"a_streams": 4, "b_streams": 4, "steps": 2, "stride": 1, "x_size": 1 << 12, "seed": turn + 1}
        fields |= {"x_3": bench.config.tile.lanes, "emit": 1, "fp32": turn % 2, "transposed": turn // 2 % 2}
        await bench.execute(fields, 0.2)


@cocotb.test()
async def resets(dut) -> None:
    """A reset in any cycle of a descriptor, and then another one."""
    bench = Bench(dut, "output resets")
    await bench.begin()
    for turn in range(max(4, round(8 * bench.job.effort))):
        fields, cut = {**random_fields(bench.random, bench.config), "add": 0}, bench.random.randint(1, 40)
        if turn % 2:  # in the midst of a group, which takes as many cycles as it may
            fields |= {"a_streams": 3, "b_streams": 3, "stride": 2 if turn % 4 == 1 else 4, "x_size": 40, "emit": 1}
            cut += 20
        before = bench.golden.buffer.copy()
        if await bench.execute(fields, 0.3, cut=cut):
            continue
        bench.golden.buffer[...] = before
        bench.buffer.groups[...] = before
        bench.golden.counts = type(bench.golden.counts)()
        bench.buffer.forget()
        await bench.execute(fields, 0.3)


@cocotb.test()
async def beyond_the_end(dut) -> None:
    """Positions and partial sums that are not there: an error, and nothing is written elsewhere."""
    bench = Bench(dut, "output beyond")
    await bench.begin()
    ordinary = {"a_streams": 1, "b_streams": 2, "steps": 1, "x_size": 4, "emit": 1}
    await bench.execute({**ordinary, "address": bench.config.groups - 1, "address_3": 1}, 0.2)
    before = bench.buffer.groups.copy()
    fields = {**ordinary, "emit": 0, "partial": bench.config.partial_sums - 1}
    await bench.execute(fields, 0.2)
    assert (bench.buffer.groups == before).all()


@cocotb.test()
async def places_of_partial_sums(dut) -> None:
    """Store different sums in each place, and read the places at and next to powers of two."""
    bench = Bench(dut, "output places")
    config, room = bench.config, bench.config.stream_words("b")
    await bench.begin()
    bench.golden.weights = {"as it is": 1}
    usual = {"a_streams": 1, "steps": 1, "stride": 1, "x_size": 1 << 12, "x_3": config.tile.lanes}
    for number, first in enumerate(range(0, config.partial_sums, room)):
        count = min(room, config.partial_sums - first)
        await bench.execute(
            {**usual, "b_streams": count, "partial": first, "a_base": number % config.stream_words("a")}, 0.0
        )
    powers = [1 << bit for bit in range(1, config.partial_sums.bit_length()) if 1 << bit < config.partial_sums]
    for first in sorted({0, *(power - 1 for power in powers), config.partial_sums - 2}):
        await bench.execute({**usual, "b_streams": 2, "partial": first, "add": 1, "emit": 1, "fp32": 1}, 0.0)


@cocotb.test()
async def ends_of_counts(dut) -> None:
    """Counts shortly before a carry, and before their largest value, at which they stay."""
    bench = Bench(dut, "output ends of counts")
    await bench.begin()
    bench.golden.weights = {"far": 1}
    usual = {"steps": 1, "stride": 1, "x_size": 1 << 12, "x_3": bench.config.tile.lanes, "a_streams": 1}
    await bench.execute({**usual, "b_streams": min(9, bench.config.partial_sums)}, 0.0)
    for carry in (1 << 16, 1 << 20, 1 << 31, 1 << 32):
        for name in ("zeros", "non_finite", "overflow"):
            count = carry - bench.random.randint(1, 3)
            setattr(bench.golden.counts, name, count)
            getattr(dut, name).value = count  # the port is the register
        # Sums near the ends of their range overflow, and become infinite; ReLU makes zeros of half of them.
        relu = int(bench.config.relu)
        fields = {**usual, "b_streams": 3, "add": 1, "emit": 1, "relu": relu, "seed": 1}
        await bench.execute({**fields, "scale": 127 if bench.config.scale else 0}, 0.0)


@cocotb.test()
async def ends_of_fields(dut) -> None:
    """Each field at and near the ends of its values, if the streams that it names are there."""
    bench = Bench(dut, "output ends of fields")
    config = bench.config
    await bench.begin()
    words, depth = {side: config.stream_words(side) for side in "ab"}, config.tile.window_depth
    for first in range(0, config.partial_sums, words["b"]):
        count = min(words["b"], config.partial_sums - first)
        await bench.execute({"a_streams": 1, "b_streams": count, "steps": 1, "x_size": 1, "partial": first}, 0.0)
    groups = range(config.groups // 2, config.groups)
    cases = list(field_cases(bench.random, config, ("multiply",), groups, {"plain": {}, "compressed": {}}))
    for case in bench.random.sample(cases, min(len(cases), round(500 * bench.job.effort))):
        _, values = decode(case.descriptor())
        each = -(-values["steps"] // depth)
        if any(values[f"{side}_base"] + values[f"{side}_streams"] * each > words[side] for side in "ab"):
            continue  # no error of this unit
        written = written_groups(case.descriptor(), config)
        away = values["mask_address"] - values["address"]
        # A mask may lie where its own results go, but FP32 results would write over what is still to be read.
        apart = away or values["fp32"]
        masks = {(group + away) % config.groups for group in written} if values["mask"] and apart else set()
        biases = {(values["bias_address"] + k) % config.groups for k in range(-1, 32)} if values["bias"] else set()
        if not written & (masks | biases):
            await bench.execute(dict(case.fields), 0.0)
