"""Random legal programs: matrix products that use every feature of descriptors, and their data."""

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensordash.configuration.core_config import CoreConfig

from ...compiler.program import Loop, Program
from ...golden.core.golden_core import Memory
from ...golden.core.tensors import deflate, pack_nvfp4, to_groups
from .random_operands import random_biases, random_values

__all__ = ["DATA", "PROGRAM", "RandomProgram", "random_program"]

DATA = 0x10000
"""Byte offset of the tensors from the memory's first address."""
NAN_SCALE = 0x7F
"""Bit pattern of a NaN in E4M3, above all positive numbers."""
PAGE = 4096
PROGRAM = 0x1000
"""Byte address of the ring of descriptors."""

MAX_GAP_GROUPS = 32
"""Maximum groups of a move with gaps between its runs, and of a move next to the product, so that they fit memory."""


@dataclass(frozen=True, kw_only=True)
class RandomProgram:
    """A program, and the memory before it.

    Parameters
    ----------
    program : Program
        The descriptors.
    memory : Memory
        Its data, without the descriptors.
    title : str
        What the program computes.
    end : int
        First unused address after the tensors.
    """

    program: Program
    memory: Memory
    title: str
    end: int


class _Writer:
    """Allocator of tensors in memory, in sequence; with `edges`, each tensor spans the end of a page."""

    def __init__(self, random: Random, config: CoreConfig, memory: Memory, *, edges: bool) -> None:
        self._random, self._memory, self._edges, self._next = random, memory, edges, memory.base + DATA
        self._line = max(64, config.group_bytes)

    def place(self, size: int, align: int = 0) -> int:
        """Reserve `size` bytes at a multiple of a group's bytes, or of `align`; return their address."""
        at, align = self._next, align or self._line
        if self._edges:
            before = align * self._random.randint(1, max(1, (size - 1) // align))
            at = -(-(at + before) // PAGE) * PAGE - before
        self._next = -(-(at + size) // self._line) * self._line
        assert self._next <= self._memory.base + len(self._memory.bytes)
        return at

    def put(self, data: bytes, align: int = 0) -> int:
        """Write bytes and return their address."""
        at = self.place(len(data), align)
        assert self._memory.write(at, data)
        return at


def random_program(
    random: Random, config: CoreConfig, size: int = 1 << 17, *, edges: bool = False, at: int = 0
) -> RandomProgram:
    """Draw a matrix product in one or more chunks, with random functions of the output unit.

    Parameters
    ----------
    random : Random
        Source of all random decisions.
    config : CoreConfig
        The core.
    size : int
        Bytes of memory.
    edges : bool
        Place tensors across ends of 4 KiB pages, which no burst may cross, with the least alignment allowed.
    at : int
        The memory's first address, a multiple of a page.
    """
    maker = None
    while maker is None or not maker.fits:
        memory = Memory(size, at)
        # In memory of zeros, a check would find neither missing nor misplaced zeros, so fill memory with random bytes.
        memory.bytes[:] = Random(size).randbytes(size)
        maker = _Maker(random, config, memory, _Writer(random, config, memory, edges=edges))
    return maker.make()


class _Maker:
    """A random product, and the program for it."""

    def __init__(self, random: Random, config: CoreConfig, memory: Memory, writer: _Writer) -> None:
        self.random, self.config, self.memory, self.writer = random, config, memory, writer
        self.program = Program()
        self.fits = self._draw()
        """Whether the product fits the buffer and the partial sums."""

    def _draw(self) -> bool:
        random, config = self.random, self.config
        lanes, depth = config.tile.lanes, config.tile.window_depth
        # Positions of side A are the columns, positions of side B the rows.
        parts_a, parts_b = config.parts("a"), config.parts("b")
        self.zeros = random.choice([0.0, 0.3, 0.6, 0.9, 1.0])
        self.channel_groups = random.choice([1, 2, 3, random.randint(1, 9), random.choice([8, 12, 16])])
        self.a_streams, self.b_streams = random.randint(1, 4), random.randint(1, 4)
        self.channels = lanes * self.channel_groups - random.randint(0, lanes - 1)
        self.a_positions = lanes * parts_a * self.a_streams - random.randint(0, lanes * parts_a - 1)
        self.b_positions = lanes * parts_b * self.b_streams - random.randint(0, lanes * parts_b - 1)
        self.a_groups, self.b_groups = -(-self.a_positions // lanes), -(-self.b_positions // lanes)
        chunk = random.choice([self.channel_groups, random.randint(1, self.channel_groups)])
        room = min(config.stream_words("a") // self.a_streams, config.stream_words("b") // self.b_streams)
        self.chunk = min(chunk, room * depth)
        self.chunks = -(-self.channel_groups // self.chunk)
        if self.chunks > 1 and self.a_streams * self.b_streams > config.partial_sums:
            return False
        self.flags = flags = _flags(random, config)
        region = config.groups // max(config.regions, 4)
        # The result has groups of channels by groups of positions. Rows are positions unless `transposed`.
        # The core writes and counts the channels of all ports, with bias and mask, also of ports without operands.
        # A strided result leaves the groups between its positions unchanged.
        by_rows = self.b_groups, self.a_streams * parts_a
        positions, made = (self.a_groups, self.b_streams * parts_b) if flags["transposed"] else by_rows
        self.made, self.positions = made, positions * flags["stride"]
        self.results = made * self.positions * (config.fp32_groups if flags["fp32"] else 1)
        a_size, b_size = self.channel_groups * self.a_groups, self.channel_groups * self.b_groups
        if max(a_size, b_size, self.results) > region // 2:
            return False
        sizes = {"b": b_size, "a": a_size, "result": self.results}
        sizes |= {"mask": self.results, "bias": -(-made * lanes * 4 // config.group_bytes)}
        sizes["aside"] = random.randint(1, min(MAX_GAP_GROUPS, region // 2)) if random.random() < 0.5 else 0
        self.sizes, self.places = sizes, _places(random, config.groups - 1, region, sizes)
        return True

    def make(self) -> RandomProgram:
        """Write the program and its data."""
        self._load_all()
        # If the stream buffers hold two chunks, the core lays out one while it multiplies the other.
        words = -(-self.chunk // self.config.tile.window_depth)
        halves = {side: self.config.stream_words(side) // 2 for side in "ab"}
        fits_twice = words * self.a_streams <= halves["a"] and words * self.b_streams <= halves["b"]
        turns = 2 if fits_twice else 1
        neighbour = self.random.randrange(self.chunks)
        for index in range(self.chunks):
            steps = min(self.chunk, self.channel_groups - index * self.chunk)
            base = {side: index % turns * half for side, half in halves.items()}
            self._lay_out(index, turns, steps, base)
            if self.sizes["aside"] and index == neighbour:
                self._move_aside()
            self._multiply(index, turns, steps, base)
        self._store()
        self.program.add("record", memory=self.writer.place(32, 32))
        self.program.add("end")
        size = f"{self.channels} channels in {self.chunks} chunks, {self.a_positions} by {self.b_positions}"
        flags = ", ".join(
            f"{name} {value}" if name == "stride" else name for name, value in self.flags.items() if value
        )
        title = f"{size}, zeros {self.zeros}, {flags}"
        return RandomProgram(program=self.program, memory=self.memory, title=title, end=self.writer.place(0))

    def _load_all(self) -> None:
        """Load operands, biases, masks, and the groups between the positions of a strided result."""
        random, config, lanes, sizes = self.random, self.config, self.config.tile.lanes, self.sizes
        large = random.random() < 0.2
        sides = [("b", self.b_positions, self.zeros), ("a", self.a_positions, random.choice([0.0, 0.5]))]
        for side, position_count, share in random.sample(sides, 2):
            values = random_values(random, config, (self.channels, position_count), share, large=large)
            self._load(to_groups(values, config), side, f"layout_{side}")
        if self.flags["bias"]:
            biases = random_biases(np.random.default_rng(random.getrandbits(64)), config, self.made * lanes)
            data = biases.tobytes().ljust(sizes["bias"] * config.group_bytes, b"\0")
            memory = self.writer.put(data)
            self.program.add("load", memory=memory, address=self.places["bias"], count_0=sizes["bias"])
        if self.flags["mask"]:
            width = config.fp32_groups if self.flags["fp32"] else 1
            values = random_values(random, config, (self.made * width * lanes, self.positions * lanes), 0.5)
            self._load(to_groups(values, config), "mask", "")
        if self.flags["stride"] > 1:
            self._load(random_values(random, config, (self.results, lanes * lanes), 0.5), "result", "")
        memory = self.memory.base + DATA
        self.program.add("load", memory=memory, address=config.groups - 1, count_0=1, signal=["output"])

    def _load(self, groups: NDArray, place: str, unit: str) -> None:
        """Load a tensor, plain, compressed or as NVFP4, and signal `unit` if it is not empty.

        In NVFP4 it has other values with the same zeros.
        """
        random, config, writer = self.random, self.config, self.writer
        flat = groups.reshape(-1, groups.shape[-1])
        fields: dict[str, Any] = {"address": self.places[place], "signal": [unit] if unit else []}
        if config.compression and random.random() < 0.4:
            segment = random.choice([1, 3, 8, 100])
            data, table = deflate(flat, config, segment)
            fields |= {"compressed": 1, "memory": writer.put(data, 16)}
            fields |= {"table": writer.put(table.astype("<u4").tobytes(), 4), "segment": segment, "count_0": len(flat)}
        else:
            moves, offsets = _draw_moves(random, len(flat))
            run, align = moves["count_0"], 0
            if config.nvfp4 and random.random() < 0.5:
                groups = _random_nvfp4(random, config, flat)
                moves |= {"nvfp4": 1, "by_channel": random.randrange(2)}
                align = config.group_bytes // 2
            else:
                groups = flat
            spread = np.zeros((max(offsets) + run, groups.shape[1]), groups.dtype)
            for k, offset in enumerate(offsets):
                spread[offset : offset + run] = groups[k * run :][:run]
            fields |= {"memory": writer.put(spread.tobytes(), align), **moves}
        self.program.add("load", **fields)

    def _lay_out(self, index: int, turns: int, steps: int, base: Mapping[str, int]) -> None:
        """Lay out a chunk of both sides."""
        random, config = self.random, self.config
        laid = [("b", self.b_groups, self.b_streams, self.b_positions)]
        laid.append(("a", self.a_groups, self.a_streams, self.a_positions))
        for side, groups, streams, count in random.sample(laid, 2):
            stride = random.choice([1, 1, 1, 1, 2, 3, 4])
            self.program.add(
                f"layout_{side}",
                wait=[*(["load"] if not index else []), *(["multiply"] if index >= turns else [])],
                signal=["multiply"],
                steps=steps,
                streams=streams,
                base=base[side],
                address=self.places[side] + index * self.chunk * groups,
                x_size=count,
                stride=stride,
                loops=[
                    *_parted(random, Loop(count=steps, address=groups)),
                    *_parted(random, Loop(count=streams * config.parts(side), x=config.tile.lanes * stride)),
                ],
            )

    def _move_aside(self) -> None:
        """Load and store groups next to the product.

        Both are uncompressed, because a compressed load could read a store's data.
        """
        count = self.sizes["aside"]
        values = random_values(self.random, self.config, (count, self.config.tile.lanes**2), 0.5)
        moved: dict[str, Any] = {"address": self.places["aside"], "count_0": count}
        self.program.add("load", memory=self.writer.put(values.tobytes()), signal=["store"], **moved)
        self.program.add("store", memory=self.writer.place(values.nbytes), wait=["load"], **moved)

    def _multiply(self, index: int, turns: int, steps: int, base: Mapping[str, int]) -> None:
        """Multiply a chunk; the last one emits the result."""
        config, flags, final = self.config, self.flags, index == self.chunks - 1
        result = _result(flags, self.places, self.a_positions, self.b_positions) if final else {}
        self.program.add(
            "multiply",
            wait=["layout_a", "layout_b"],
            signal=["layout_a", "layout_b"] if index + turns < self.chunks else [],
            output_wait=["load"] if not index else [],
            output_signal=["store"] if final else [],
            a_streams=self.a_streams,
            b_streams=self.b_streams,
            steps=steps,
            a_base=base["a"],
            b_base=base["b"],
            add=int(index > 0),
            emit=int(final),
            **result,
            loops=_blocks(config, flags, self.a_streams, self.b_streams, self.positions) if final else None,
        )

    def _store(self) -> None:
        """Store the result, plain or compressed."""
        random, config, writer = self.random, self.config, self.writer
        where: dict[str, Any] = {"wait": ["output"], "address": self.places["result"]}
        if config.compression and random.random() < 0.4:
            target = writer.place(2 * self.results * config.group_bytes, 16)
            table = writer.place(4 * self.results + 8, 4)
            segment = random.choice([1, 2, 5, 64])
            where |= {"compressed": 1, "table": table, "segment": segment, "count_0": self.results}
            self.program.add("store", memory=target, **where)
        else:
            moves, offsets = _draw_moves(random, self.results)
            place = writer.place((max(offsets) + moves["count_0"]) * config.group_bytes)
            self.program.add("store", memory=place, **where, **moves)


def _random_nvfp4(random: Random, config: CoreConfig, groups: NDArray) -> NDArray[np.uint8]:
    """Return NVFP4 groups, one in each row, with zeros where values are zero; a few scales are zero or NaN."""
    lanes, source = config.tile.lanes, np.random.default_rng(random.getrandbits(64))
    elements = np.where(groups == 0, 0, source.integers(0, 16, groups.shape))
    special = source.random((len(groups), lanes)) < 0.01
    scales = source.integers(1, NAN_SCALE, special.shape)
    scales[special] = source.choice([0, NAN_SCALE], special.sum())
    data = pack_nvfp4(elements, scales)
    return np.frombuffer(data, np.uint8).reshape(len(groups), -1)


def _places(random: Random, room: int, region: int, sizes: Mapping[str, int]) -> dict[str, int]:
    """Draw the first group of each tensor in the buffer; tensors do not overlap.

    In half of the draws, most tensors have their own region, so that units never conflict. The others pack tensors.
    """
    free = room - sum(sizes.values())
    if free < 0 or random.random() < 0.5:
        half = region // 2
        places = {"b": 0, "a": region, "aside": region + half, "result": 2 * region}
        return places | {"bias": 3 * region, "mask": 3 * region + half}
    places, begin = {}, random.randint(0, free)
    for name in random.sample(sorted(sizes), len(sizes)):
        places[name] = begin
        begin += sizes[name]
    return places


def _flags(random: Random, config: CoreConfig) -> dict[str, int]:
    """Draw the flags of the output unit."""
    flags = {
        name: int(random.random() < 0.4 and getattr(config, name, True))
        for name in ("transposed", "fp32", "bias", "relu", "mask", "stochastic")
    }
    flags["stride"] = random.choice([1, 1, 1, 2, 3, 4])
    flags["toward_zero"] = int(random.random() < 0.2)
    flags["scale"] = random.randint(-3, 3) if config.scale and random.random() < 0.4 else 0
    if config.scale and config.tile.numerics.result == "int32":  # Unscaled sums exceed the format.
        flags["scale"] = random.choice((0, random.randint(-3, 3), random.randint(-16, 0), random.randint(-34, -12)))
    flags["seed"] = random.getrandbits(32) if flags["stochastic"] else 0
    return flags


def _draw_moves(random: Random, groups: int) -> tuple[dict[str, Any], list[int]]:
    """Draw the fields of a move with up to four loops, and the offset of each run in memory, in groups."""
    counts = _factors(random, groups, 4)
    offsets, span = [0], counts[0]
    fields: dict[str, Any] = {"count_0": span}
    for k, count in enumerate(counts[1:], 1):
        stride = span + (random.choice([0, 0, 1]) if groups <= MAX_GAP_GROUPS else 0)
        fields |= {f"count_{k}": count, f"stride_{k}": stride}
        offsets = [turn * stride + offset for turn in range(count) for offset in offsets]
        span += (count - 1) * stride
    return fields, offsets


def _parted(random: Random, loop: Loop) -> list[Loop]:
    """Split a loop into three nested loops with the same effect."""
    loops, inside = [], 1
    for count in _factors(random, loop.count, 3):
        loops.append(Loop(count=count, address=inside * loop.address, x=inside * loop.x))
        inside *= count
    return loops


def _factors(random: Random, number: int, most: int) -> list[int]:
    """Draw `most` factors of `number`: the number and ones, random divisors, or the smallest divisors."""
    how, factors = random.choice(("alone", "any", "small")), []
    for _ in range(most - 1):
        divisors = [n for n in range(1, number + 1) if number % n == 0]
        factors.append({"alone": number, "any": random.choice(divisors), "small": divisors[:2][-1]}[how])
        number //= factors[-1]
    return [*factors, number]


def _result(flags: dict[str, int], places: dict[str, int], a_positions: int, b_positions: int) -> dict[str, int]:
    """Return the fields for the place and the format of results."""
    fields = {name: value for name, value in flags.items() if value}
    counted = (a_positions if flags["transposed"] else b_positions) * flags["stride"]
    fields |= {"address": places["result"], "x_size": counted}
    return fields | {"bias_address": places["bias"], "mask_address": places["mask"]}


def _blocks(config: CoreConfig, flags: dict[str, int], a_streams: int, b_streams: int, positions: int) -> list[Loop]:
    """Return the loops over a multiply's groups: columns within rows of a block, streams of A within streams of B."""
    lanes = config.tile.lanes
    width = config.fp32_groups if flags["fp32"] else 1
    along = {"x": lanes * flags["stride"]}
    across = {"address": positions * width, "y": 1}
    a_step, b_step = (along, across) if flags["transposed"] else (across, along)
    parts_a, parts_b = config.parts("a"), config.parts("b")
    return [
        Loop(count=parts_a, **a_step),
        Loop(count=parts_b, **b_step),
        Loop(count=a_streams, **{name: parts_a * value for name, value in a_step.items()}),
        Loop(count=b_streams, **{name: parts_b * value for name, value in b_step.items()}),
    ]
