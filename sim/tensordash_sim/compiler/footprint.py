"""Read and write sets of descriptors, from which `order` derives which descriptors need tokens."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache, partial
from math import prod

import numpy as np
from numpy.typing import NDArray

from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.descriptors import HEADER, OPERATIONS, decode

from ..golden.core.effects import read_memory, written_memory

__all__ = [
    "Footprint",
    "footprints",
    "masked_groups",
    "relative_footprints",
    "split_address",
    "walk_bits",
    "walk_mask",
    "walked_groups",
]

WRAP = 1 << 16
OUTSIDE_WALK = frozenset(
    (
        *("operation", "wait", "signal", "output_wait", "output_signal", "base", "transposed"),
        *(
            "steps",
            "streams",
            "add",
            "emit",
            "relu",
            "stochastic",
            "toward_zero",
            "skip_masked",
            "partial",
            "scale",
            "fp32",
        ),
        *("a_streams", "b_streams", "a_base", "b_base", "seed"),
    )
)
"""Fields of a layout or a multiply that do not affect which groups it accesses, or only their number."""
SIZES = frozenset(
    (
        *("base", "steps", "streams", "a_streams", "b_streams", "a_base", "b_base"),
        *("emit", "fp32", "mask", "bias", "skip_masked"),
    )
)
"""Fields of a layout or a multiply, apart from its loops, that affect its footprint."""
MOVE_SIZES = frozenset(("address", "count_0", "count_1", "count_2", "count_3", "compressed"))
"""Fields of a load or a store that affect which groups of the buffer it accesses."""
BIAS, MASK = (
    next(field.mask for field in OPERATIONS["multiply"].fields if field.name == name) for name in ("bias", "mask")
)
"""Bits of a multiply that let its output unit read biases and masks."""
MEMORY, COMPRESSED = (
    next(field for field in OPERATIONS["load"].fields if field.name == name) for name in ("memory", "compressed")
)
"""Fields of a load or a store: the low half of its address, next to the high half, and whether it is compressed."""
ADDRESS_BITS = ((1 << 64) - 1) << MEMORY.low
MOVE_CODES = frozenset(OPERATIONS[name].code for name in ("load", "store"))


@dataclass(eq=False)
class Footprint:
    """Read and write sets of one unit for a descriptor. Footprints are compared by identity.

    Parameters
    ----------
    unit : str
        One of `UNITS`.

    Attributes
    ----------
    reads, writes : dict of str to int
        Sets of places as bit masks: groups of "buffer", words of "a" and "b".
    memory : list of (int, int, bool)
        Ranges of memory: the first byte, the byte after the last one, and whether the unit writes them.
    """

    unit: str
    reads: dict[str, int] = field(default_factory=dict)
    writes: dict[str, int] = field(default_factory=dict)
    memory: list[tuple[int, int, bool]] = field(default_factory=list)


def footprints(config: CoreConfig, bits: int) -> list[Footprint]:
    """Return the read and write sets of a legal descriptor: of both units of a multiply, of none for an `end`.

    Parameters
    ----------
    config : CoreConfig
        The core.
    bits : int
        The descriptor.

    Examples
    --------
    >>> from .program import Program
    >>> program = Program()
    >>> program.add("load", memory=64, address=2, count_0=3)
    0
    >>> (load,) = footprints(CoreConfig(), program.descriptors[0])
    >>> load.unit, bin(load.writes["buffer"]), load.memory
    ('load', '0b11100', [(64, 160, False)])
    """
    relative, address = split_address(bits)
    found = relative_footprints(config)(relative)
    if not address:
        return found
    return [
        replace(each, memory=[(first + address, stop + address, written) for first, stop, written in each.memory])
        for each in found
    ]


def split_address(bits: int) -> tuple[int, int]:
    """Return a descriptor with address 0 in memory, and its address. A compressed move keeps its address."""
    if bits & HEADER[0].mask in MOVE_CODES and not bits & COMPRESSED.mask:
        return bits & ~ADDRESS_BITS, (bits & ADDRESS_BITS) >> MEMORY.low
    return bits, 0


@lru_cache(maxsize=8)
def relative_footprints(config: CoreConfig) -> Callable[[int], list[Footprint]]:
    """Return `footprints` of a core's descriptors with address 0. It caches the footprints, which are the same objects.

    A program has few different descriptors, apart from their addresses in memory.
    """
    return lru_cache(maxsize=1 << 14)(partial(_footprints, config))


def _footprints(config: CoreConfig, bits: int) -> list[Footprint]:
    operation, values = decode(bits, SIZES)
    assert operation is not None
    name = operation.name
    if name in ("load", "store"):
        return [_move(config, name, bits)]
    if name == "record":
        return [Footprint("store", memory=_spans(written_memory(bits, config), True))]
    if name.startswith("layout"):
        return [_layout(config, name, values, bits & walk_mask(name))]
    return _multiply(config, values, bits & walk_mask(name)) if name == "multiply" else []


def walk_bits(bits: int) -> int:
    """Return the operation's code and the bits of a layout or a multiply that determine the groups it accesses."""
    operation, _ = decode(bits, frozenset())
    assert operation is not None
    return bits & walk_mask(operation.name)


@cache
def walk_mask(operation: str) -> int:
    """Return the mask of `walk_bits` of an operation."""
    fields = [field for field in OPERATIONS[operation].fields if field.name not in OUTSIDE_WALK]
    return HEADER[0].mask | sum(field.mask for field in fields)


def _span(first: int, count: int) -> int:
    return ((1 << count) - 1) << first


def _spans(runs: list[tuple[int, int]], written: bool) -> list[tuple[int, int, bool]]:
    return [(address, address + size, written) for address, size in runs]


def _move(config: CoreConfig, name: str, bits: int) -> Footprint:
    _, values = decode(bits, MOVE_SIZES)
    groups = {"buffer": _span(values["address"], prod(values[f"count_{k}"] for k in range(4)))}
    if name == "store":
        return Footprint(name, reads=groups, memory=_spans(written_memory(bits, config), True))
    memory = _spans(read_memory(bits, config), False)
    if values["compressed"]:  # the table determines the first segment's address
        memory.append((0, 1 << config.address_bits, False))
    return Footprint(name, writes=groups, memory=memory)


def _walked(values: Mapping[str, int], loops: int, groups: int) -> dict[str, NDArray[np.int64]]:
    """Return address, x and y of each group of a walk, as `LoopWalk` of the golden core does one by one."""
    counts = [values[f"count_{k}"] for k in range(loops - 1)]
    counts.append(-(-groups // prod(counts)))
    walked = {}
    for name in ("address", "x", "y"):
        state, inside = np.array([values[name]], np.int64), 0
        for k, count in enumerate(counts):
            if count > 1:
                step = values[f"{name}_{k}"] + inside
                state = (np.arange(0, count * step, step)[:, None] + state).ravel() if step else np.tile(state, count)
                inside += (count - 1) * step
        walked[name] = state[:groups]
    address = walked["address"] % WRAP
    x, y = ((walked[name] + WRAP // 2) % WRAP - WRAP // 2 for name in ("x", "y"))
    return {"address": address, "x": x, "y": y}


def _positions(values: Mapping[str, int], at: Mapping[str, NDArray], lanes: int, size: int) -> NDArray[np.int64]:
    """Return the positions of every group; -1 for positions outside 0 to `size` - 1."""
    x = at["x"][:, None] + np.arange(lanes) * values["stride"]
    return np.where((x >= 0) & (x < size), x, -1)


def _places(groups: NDArray, buffer_groups: int) -> int:
    """Return groups as a bit mask, without groups beyond the buffer, which are an error of the program."""
    used = np.zeros(buffer_groups, np.uint8)
    used[groups[groups < buffer_groups]] = 1
    return int.from_bytes(np.packbits(used, bitorder="little").tobytes(), "little")


def walked_groups(values: Mapping[str, int], count: int, lanes: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the group and the position that a layout reads for each port (or lane) of `count` groups.

    Returns
    -------
    array of int, (count, lanes)
        Groups; some may be beyond the buffer.
    array of int, (count, lanes)
        Positions; modulo L they are positions in the group. -1 for a zero that is not read.
    """
    at = _walked(values, 6, count)
    x = _positions(values, at, lanes, values["x_size"])
    if values["checked"]:
        x = np.where(((at["y"] >= 0) & (at["y"] < values["y_size"]))[:, None], x, -1)
    return (at["address"][:, None] + x // lanes) % WRAP, x


def masked_groups(config: CoreConfig, values: Mapping[str, int]) -> NDArray[np.int64]:
    """Return the groups of the masks of a multiply that skips passes, (b_streams, a_streams, groups of a block).

    -1 stands for results without a mask.
    """
    shape = values["b_streams"], values["a_streams"], config.parts("a") * config.parts("b")
    at, width = _walked(values, 4, prod(shape)), config.fp32_groups if values["fp32"] else 1
    groups = at["address"] + at["x"] // config.tile.lanes * width + values["mask_address"] - values["address"]
    is_masked = (at["x"] >= 0) & (at["x"] < values["x_size"])
    return np.where(is_masked, groups % config.groups, -1).reshape(shape)


def _layout(config: CoreConfig, name: str, values: Mapping[str, int], walk: int) -> Footprint:
    side = name[-1]
    words = -(-values["steps"] // config.tile.window_depth)
    count = values["streams"] * config.parts(side) * values["steps"]
    read = _read_places(walk, count, config.tile.lanes, config.groups)
    return Footprint(name, reads={"buffer": read}, writes={side: _span(values["base"], values["streams"] * words)})


@lru_cache(maxsize=1 << 13)
def _read_places(walk: int, count: int, lanes: int, buffer_groups: int) -> int:
    """Return the groups that a layout reads, as a bit mask; `walk` are its `walk_bits`."""
    groups, x = walked_groups(decode(walk)[1], count, lanes)
    return _places(groups[x >= 0], buffer_groups)


def _multiply(config: CoreConfig, values: Mapping[str, int], walk: int) -> list[Footprint]:
    words = -(-values["steps"] // config.tile.window_depth)
    streams = {side: _span(values[f"{side}_base"], values[f"{side}_streams"] * words) for side in "ab"}
    multiply, output = Footprint("multiply", reads=streams), Footprint("output")
    width = config.fp32_groups if values["fp32"] else 1
    blocks = values["a_streams"] * values["b_streams"] * config.parts("a") * config.parts("b")
    sizes = blocks, width, config.tile.lanes, config.groups, config.group_bytes
    if values["skip_masked"]:
        multiply.reads["buffer"] = _result_places(walk & ~BIAS | MASK, *sizes)[1]
    if values["emit"]:
        written, read = _result_places(walk, *sizes)
        output.writes = {"buffer": written}
        if values["mask"] or values["bias"]:
            output.reads = {"buffer": read}
    return [multiply, output]


@lru_cache(maxsize=1 << 11)
def _result_places(
    walk: int, blocks: int, width: int, lanes: int, buffer_groups: int, group_bytes: int
) -> tuple[int, int]:
    """Return the groups that an output unit writes and reads, as bit masks; `walk` are the `walk_bits`."""
    _, values = decode(walk)
    at = _walked(values, 4, blocks)
    x = _positions(values, at, lanes, -(-values["x_size"] // lanes) * lanes)
    first = ((at["address"][:, None] + x // lanes * width) % WRAP)[x >= 0]
    read = [np.zeros(0, np.int64)]
    if values["mask"]:
        read.append((first + values["mask_address"] - values["address"]) % buffer_groups)
    if values["bias"]:
        vectors = at["y"] * lanes // (group_bytes // 4)
        read.append((values["bias_address"] + vectors) % buffer_groups)
    written = (first[:, None] + np.arange(width)).ravel()
    return _places(written, buffer_groups), _places(np.concatenate(read), buffer_groups)
