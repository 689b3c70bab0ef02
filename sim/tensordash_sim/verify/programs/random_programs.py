"""Random legal programs: matrix products with everything that descriptors can say, and their data."""

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.formats import FloatFormat

from ...compiler.program import Loop, Program
from ...golden.core.golden_core import Memory
from ...golden.core.tensors import deflate, to_groups, value_type

__all__ = ["DATA", "PROGRAM", "RandomProgram", "random_program", "random_values"]

DATA = 0x10000
"""Where tensors begin in memory, from its first address."""
PAGE = 4096
PROGRAM = 0x1000
"""Where the ring of descriptors is, likewise."""

FEW = 32
"""Groups of a move that may have gaps between its runs in memory, or of one beside: others would not find room."""


@dataclass(frozen=True, kw_only=True)
class RandomProgram:
    """A program and the memory that it finds.

    Parameters
    ----------
    program : Program
        The descriptors.
    memory : Memory
        Its data; without the descriptors.
    title : str
        What it does.
    end : int
        From this address on nothing is used.
    """

    program: Program
    memory: Memory
    title: str
    end: int


def random_values(
    random: Random, config: CoreConfig, shape: tuple[int, ...], zeros: float, *, large: bool = False
) -> NDArray:
    """Bit patterns of operands: so many zeros, the rest finite, subnormals and negative zeros among them.

    None is beyond 2, so that sums stay small, unless they may be `large`: then some results are infinities.
    """
    fmt = config.tile.a_format
    assert isinstance(fmt, FloatFormat)
    rng = np.random.default_rng(random.getrandbits(64))
    beyond = (1 << fmt.exponent_bits) - 1 if large else 1 << (fmt.exponent_bits - 1)
    exponents = rng.integers(0, beyond, shape)
    bits = rng.integers(0, 2, shape) << (fmt.width - 1) | exponents << fmt.fraction_bits
    bits |= rng.integers(0, 1 << fmt.fraction_bits, shape)
    return np.where(rng.random(shape) < zeros, 0, bits).astype(value_type(fmt.width))


class _Writer:
    """Puts tensors into memory, one behind the other, or with `edges` each across the end of a page."""

    def __init__(self, random: Random, config: CoreConfig, memory: Memory, *, edges: bool) -> None:
        self._random, self._memory, self._edges, self._next = random, memory, edges, memory.base + DATA
        self._line = max(64, config.group_bytes)

    def place(self, size: int, align: int = 0) -> int:
        """An address at which so many bytes are free: a multiple of a group's, or of `align`."""
        at, align = self._next, align or self._line
        if self._edges:
            before = align * self._random.randint(1, max(1, (size - 1) // align))
            at = -(-(at + before) // PAGE) * PAGE - before
        self._next = -(-(at + size) // self._line) * self._line
        assert self._next <= self._memory.base + len(self._memory.bytes)
        return at

    def put(self, data: bytes, align: int = 0) -> int:
        """Write bytes; their address."""
        at = self.place(len(data), align)
        assert self._memory.write(at, data)
        return at


def random_program(
    random: Random, config: CoreConfig, size: int = 1 << 17, *, edges: bool = False, at: int = 0
) -> RandomProgram:
    """A matrix product in as many chunks as there are, on either side, with any of the output unit's functions.

    Parameters
    ----------
    random : Random
        Decides everything.
    config : CoreConfig
        The core.
    size : int
        Bytes of memory.
    edges : bool
        Tensors lie across ends of pages of 4 KiB, which no burst may cross, and as little aligned as may be.
    at : int
        The memory's first address, a multiple of a page.
    """
    memory = Memory(size, at)
    # Zeros that are not written where some belong would not be missed, nor would those that are written elsewhere.
    memory.bytes[:] = Random(size).randbytes(size)
    writer = _Writer(random, config, memory, edges=edges)
    lanes, depth = config.tile.lanes, config.tile.window_depth
    # Positions of side A are the columns, those of side B the rows.
    parts_a, parts_b = config.parts("a"), config.parts("b")
    zeros = random.choice([0.0, 0.3, 0.6, 0.9, 1.0])
    channel_groups = random.choice([1, 2, 3, random.randint(1, 9), random.choice([8, 12, 16])])
    a_streams, b_streams = random.randint(1, 4), random.randint(1, 4)
    channels = lanes * channel_groups - random.randint(0, lanes - 1)
    a_positions = lanes * parts_a * a_streams - random.randint(0, lanes * parts_a - 1)
    b_positions = lanes * parts_b * b_streams - random.randint(0, lanes * parts_b - 1)
    a_groups, b_groups = -(-a_positions // lanes), -(-b_positions // lanes)
    chunk = random.choice([channel_groups, random.randint(1, channel_groups)])
    room = min(config.stream_words("a") // a_streams, config.stream_words("b") // b_streams)
    chunk = min(chunk, room * depth)
    chunks = -(-channel_groups // chunk)
    if chunks > 1 and a_streams * b_streams > config.partial_sums:
        return random_program(random, config, size, edges=edges, at=at)
    flags = _flags(random, config)
    program = Program()
    region = config.groups // max(config.regions, 4)
    # Rows are positions unless `transposed`: the result has groups of channels by groups of positions. Every port's
    # channel is written, counted, and has a bias and a mask, whether there are operands for it or not.
    # Positions of a strided result are apart, and what is between them stays.
    positions, made = (a_groups, b_streams * parts_b) if flags["transposed"] else (b_groups, a_streams * parts_a)
    positions *= flags["stride"]
    results = made * positions * (config.fp32_groups if flags["fp32"] else 1)
    if max(channel_groups * a_groups, channel_groups * b_groups, results) > region // 2:
        return random_program(random, config, size, edges=edges, at=at)
    sizes = {"b": channel_groups * b_groups, "a": channel_groups * a_groups, "result": results}
    sizes |= {"mask": results, "bias": -(-made * lanes * 4 // config.group_bytes)}
    sizes["aside"] = random.randint(1, min(FEW, region // 2)) if random.random() < 0.5 else 0
    places = _places(random, config.groups - 1, region, sizes)
    large = random.random() < 0.2
    sides = [("b", b_positions, zeros), ("a", a_positions, random.choice([0.0, 0.5]))]
    for side, position_count, share in random.sample(sides, 2):
        values = random_values(random, config, (channels, position_count), share, large=large)
        _load(program, random, config, writer, to_groups(values, config), places[side], f"layout_{side}")
    if flags["bias"]:
        bias = np.random.default_rng(random.getrandbits(64)).standard_normal(made * lanes).astype("<f4")
        data = bias.tobytes().ljust(sizes["bias"] * config.group_bytes, b"\0")
        program.add("load", memory=writer.put(data), address=places["bias"], count_0=sizes["bias"])
    if flags["mask"]:
        width = config.fp32_groups if flags["fp32"] else 1
        values = random_values(random, config, (made * width * lanes, positions * lanes), 0.5)
        _load(program, random, config, writer, to_groups(values, config), places["mask"], "")
    if flags["stride"] > 1:
        values = random_values(random, config, (results, lanes * lanes), 0.5)
        _load(program, random, config, writer, values, places["result"], "")
    program.add("load", memory=at + DATA, address=config.groups - 1, count_0=1, signal=["output"])
    # Where the stream buffers hold two chunks, one is laid out while the other is multiplied.
    words = -(-chunk // depth)
    halves = {side: config.stream_words(side) // 2 for side in "ab"}
    turns = 2 if words * a_streams <= halves["a"] and words * b_streams <= halves["b"] else 1
    beside = random.randrange(chunks)
    for index in range(chunks):
        first = index * chunk
        steps = min(chunk, channel_groups - first)
        base = {side: index % turns * half for side, half in halves.items()}
        laid = [("b", b_groups, b_streams, b_positions), ("a", a_groups, a_streams, a_positions)]
        for side, groups, streams, count in random.sample(laid, 2):
            stride = random.choice([1, 1, 1, 1, 2, 3, 4])
            program.add(
                f"layout_{side}",
                wait=[*(["load"] if not index else []), *(["multiply"] if index >= turns else [])],
                signal=["multiply"],
                steps=steps,
                streams=streams,
                base=base[side],
                address=places[side] + first * groups,
                x_size=count,
                stride=stride,
                loops=[
                    *_parted(random, Loop(count=steps, address=groups)),
                    *_parted(random, Loop(count=streams * config.parts(side), x=lanes * stride)),
                ],
            )
        if sizes["aside"] and index == beside:  # not compressed: that could read what is being stored
            values = random_values(random, config, (sizes["aside"], lanes * lanes), 0.5)
            moved: dict[str, Any] = {"address": places["aside"], "count_0": sizes["aside"]}
            program.add("load", memory=writer.put(values.tobytes()), signal=["store"], **moved)
            program.add("store", memory=writer.place(values.nbytes), wait=["load"], **moved)
        final = index == chunks - 1
        program.add(
            "multiply",
            wait=["layout_a", "layout_b"],
            signal=["layout_a", "layout_b"] if index + turns < chunks else [],
            output_wait=["load"] if not index else [],
            output_signal=["store"] if final else [],
            a_streams=a_streams,
            b_streams=b_streams,
            steps=steps,
            a_base=base["a"],
            b_base=base["b"],
            add=int(index > 0),
            emit=int(final),
            **(_result(config, flags, places, a_positions, b_positions) if final else {}),
            loops=_blocks(config, flags, a_streams, b_streams, positions) if final else None,
        )
    groups = made * positions * (config.fp32_groups if flags["fp32"] else 1)
    if config.compression and random.random() < 0.4:
        target = writer.place(2 * groups * config.group_bytes, 16)
        table = writer.place(4 * groups + 8, 4)
        program.add(
            "store",
            wait=["output"],
            compressed=1,
            memory=target,
            table=table,
            segment=random.choice([1, 2, 5, 64]),
            address=places["result"],
            count_0=groups,
        )
    else:
        moves, offsets = _moves(random, groups)
        place = writer.place((max(offsets) + moves["count_0"]) * config.group_bytes)
        program.add("store", wait=["output"], memory=place, address=places["result"], **moves)
    program.add("record", memory=writer.place(32, 32))
    program.add("end")
    title = f"{channels} channels in {chunks} chunks, {a_positions} by {b_positions}, zeros {zeros}, " + ", ".join(
        f"{name} {value}" if name == "stride" else name for name, value in flags.items() if value
    )
    return RandomProgram(program=program, memory=memory, title=title, end=writer.place(0))


def _places(random: Random, room: int, region: int, sizes: Mapping[str, int]) -> dict[str, int]:
    """Where each tensor begins in so many groups of the buffer, apart from the others.

    Most in a region of their own, so that units never meet; or one behind the other, and they do.
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
    """What the output unit does."""
    flags = {
        name: int(random.random() < 0.4 and getattr(config, name, True))
        for name in ("transposed", "fp32", "bias", "relu", "mask", "stochastic")
    }
    flags["stride"] = random.choice([1, 1, 1, 2, 3, 4])
    flags["toward_zero"] = int(random.random() < 0.2)
    flags["scale"] = random.randint(-3, 3) if config.scale and random.random() < 0.4 else 0
    flags["seed"] = random.getrandbits(32) if flags["stochastic"] else 0
    return flags


def _load(
    program: Program, random: Random, config: CoreConfig, writer: _Writer, groups: NDArray, address: int, unit: str
) -> None:
    """Load a tensor, plain or compressed; the unit gets a token, if there is one."""
    flat = groups.reshape(-1, groups.shape[-1])
    fields: dict[str, Any] = {"address": address, "signal": [unit] if unit else []}
    if config.compression and random.random() < 0.4:
        segment = random.choice([1, 3, 8, 100])
        data, table = deflate(flat, config, segment)
        program.add(
            "load",
            compressed=1,
            memory=writer.put(data, 16),
            table=writer.put(table.astype("<u4").tobytes(), 4),
            segment=segment,
            count_0=len(flat),
            **fields,
        )
    else:
        moves, offsets = _moves(random, len(flat))
        run = moves["count_0"]
        apart = np.zeros((max(offsets) + run, flat.shape[1]), flat.dtype)
        for k, offset in enumerate(offsets):
            apart[offset : offset + run] = flat[k * run :][:run]
        program.add("load", memory=writer.put(apart.tobytes()), **moves, **fields)


def _moves(random: Random, groups: int) -> tuple[dict[str, Any], list[int]]:
    """Fields of a move of so many groups in up to four loops, and where in memory each run begins, in groups."""
    counts = _factors(random, groups, 4)
    offsets, span = [0], counts[0]
    fields: dict[str, Any] = {"count_0": span}
    for k, count in enumerate(counts[1:], 1):
        stride = span + (random.choice([0, 0, 1]) if groups <= FEW else 0)
        fields |= {f"count_{k}": count, f"stride_{k}": stride}
        offsets = [turn * stride + offset for turn in range(count) for offset in offsets]
        span += (count - 1) * stride
    return fields, offsets


def _parted(random: Random, loop: Loop) -> list[Loop]:
    """A loop, as three that do the same."""
    loops, inside = [], 1
    for count in _factors(random, loop.count, 3):
        loops.append(Loop(count=count, address=inside * loop.address, x=inside * loop.x))
        inside *= count
    return loops


def _factors(random: Random, number: int, most: int) -> list[int]:
    """So many numbers whose product it is: it alone and ones, any, or as small ones as there are."""
    how, factors = random.choice(("alone", "any", "small")), []
    for _ in range(most - 1):
        divisors = [n for n in range(1, number + 1) if number % n == 0]
        factors.append({"alone": number, "any": random.choice(divisors), "small": divisors[:2][-1]}[how])
        number //= factors[-1]
    return [*factors, number]


def _result(
    config: CoreConfig, flags: dict[str, int], places: dict[str, int], a_positions: int, b_positions: int
) -> dict[str, int]:
    """Fields of where results go, and what becomes of them."""
    fields = {name: value for name, value in flags.items() if value}
    counted = (a_positions if flags["transposed"] else b_positions) * flags["stride"]
    fields |= {"address": places["result"], "x_size": counted}
    return fields | {"bias_address": places["bias"], "mask_address": places["mask"]}


def _blocks(config: CoreConfig, flags: dict[str, int], a_streams: int, b_streams: int, positions: int) -> list[Loop]:
    """The order of a multiply's groups: columns within rows of a block, streams of A within those of B."""
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
