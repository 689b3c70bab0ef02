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
from .random_fields import (
    MAX_GAP_GROUPS,
    block_loops,
    draw_flags,
    draw_moves,
    draw_places,
    result_fields,
    split_loop,
)
from .random_operands import empty_groups, random_biases, random_masks, random_values

__all__ = ["DATA", "PROGRAM", "RandomProgram", "random_program"]

DATA = 0x10000
"""Byte offset of the tensors from the memory's first address."""
NAN_SCALE = 0x7F
"""Bit pattern of a NaN in E4M3, above all positive numbers."""
NEGATIVE_ZERO = 0x8
"""Bit pattern of -0 in E2M1."""
PAGE = 4096
PROGRAM = 0x1000
"""Byte address of the ring of descriptors."""


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
        if config.skip_masked and random.random() < 0.3:  # More passes than the core reads masks ahead.
            self.a_streams, self.b_streams = random.randint(4, 8), random.randint(4, 8)
        elif config.drop_steps and random.random() < 0.4:  # Banks keep different numbers of steps.
            self.channel_groups = random.randint(depth, 12 * depth)
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
        self.flags = flags = draw_flags(random, config)
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
        self.sizes, self.places = sizes, draw_places(random, config.groups - 1, region, sizes)
        self.below = self.beyond = 0
        if flags["skip_masked"]:
            if not flags["fp32"] and random.random() < 0.4:
                self.places["mask"] = self.places["result"]
            self.below = random.choice([0, 0, random.randrange(positions)])
            self.beyond = random.choice([0, 0, random.randrange(lanes * positions)])
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
        """Load operands, biases, masks, and the groups of the result that the program does not write."""
        random, config, lanes, sizes = self.random, self.config, self.config.tile.lanes, self.sizes
        flags, places = self.flags, self.places
        large = random.random() < 0.2
        sides = [("b", self.b_positions, self.zeros), ("a", self.a_positions, random.choice([0.0, 0.5]))]
        for side, position_count, share in random.sample(sides, 2):
            values = random_values(random, config, (self.channels, position_count), share, large=large)
            groups = to_groups(values, config)
            if config.drop_steps and side == "b":
                empty_groups(random, config, groups)
            self._load(groups, side, f"layout_{side}")
        if flags["bias"]:
            biases = random_biases(np.random.default_rng(random.getrandbits(64)), config, self.made * lanes)
            data = biases.tobytes().ljust(sizes["bias"] * config.group_bytes, b"\0")
            memory = self.writer.put(data)
            self.program.add("load", memory=memory, address=places["bias"], count_0=sizes["bias"])
        if flags["mask"] or flags["skip_masked"]:
            draw = random_masks if flags["skip_masked"] else random_values
            self._load(draw(random, config, (self.results, lanes * lanes), 0.5), "mask", "")
        has_gaps = flags["stride"] > 1 or self.below or self.beyond
        if has_gaps and places["mask"] != places["result"]:
            self._load(random_values(random, config, (self.results, lanes * lanes), 0.5), "result", "")
        memory, waiting = self.memory.base + DATA, ["output", "multiply"] if flags["skip_masked"] else ["output"]
        self.program.add("load", memory=memory, address=config.groups - 1, count_0=1, signal=waiting)

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
            moves, offsets = draw_moves(random, len(flat))
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
                    *split_loop(random, Loop(count=steps, address=groups)),
                    *split_loop(random, Loop(count=streams * config.parts(side), x=config.tile.lanes * stride)),
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
        skips = bool(flags["skip_masked"]) and self.random.random() < 0.85
        result = {}
        if final or skips:
            result = result_fields(flags, self.places, self.a_positions, self.b_positions)
            result |= {"skip_masked": int(skips)}
        if skips:
            x_size = max(1, result["x_size"] - config.tile.lanes * self.below - self.beyond)
            result |= {"x": -config.tile.lanes * self.below, "x_size": x_size}
        self.program.add(
            "multiply",
            wait=["layout_a", "layout_b", *(["load"] if flags["skip_masked"] and not index else [])],
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
            loops=block_loops(config, flags, self.a_streams, self.b_streams, self.positions) if result else None,
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
            moves, offsets = draw_moves(random, self.results)
            place = writer.place((max(offsets) + moves["count_0"]) * config.group_bytes)
            self.program.add("store", memory=place, **where, **moves)


def _random_nvfp4(random: Random, config: CoreConfig, groups: NDArray) -> NDArray[np.uint8]:
    """Return NVFP4 groups, one in each row, with zeros where values are zero; a few scales are zero or NaN."""
    lanes, source = config.tile.lanes, np.random.default_rng(random.getrandbits(64))
    elements = np.where(groups == 0, 0, source.integers(0, 16, groups.shape))
    elements[groups == 1 << (config.value_bits - 1)] = NEGATIVE_ZERO
    special = source.random((len(groups), lanes)) < 0.01
    scales = source.integers(1, NAN_SCALE, special.shape)
    scales[special] = source.choice([0, NAN_SCALE], special.sum())
    data = pack_nvfp4(elements, scales)
    return np.frombuffer(data, np.uint8).reshape(len(groups), -1)
