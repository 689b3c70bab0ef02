"""What a descriptor reads and writes, so that it can be seen which descriptors need an order."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod

import numpy as np
from numpy.typing import NDArray

from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.descriptors import decode

from ..golden.core.effects import read_memory, written_memory

__all__ = ["Footprint", "footprints", "walked_groups"]

WRAP = 1 << 16


@dataclass
class Footprint:
    """What one unit does with a descriptor.

    Parameters
    ----------
    unit : str
        One of `UNITS`.

    Attributes
    ----------
    reads, writes : dict of str to int
        Sets of places, as bits of a number: groups of "buffer", words of "a" and "b".
    memory : list of (int, int, bool)
        First byte and the one after the last, and whether they are written.
    """

    unit: str
    reads: dict[str, int] = field(default_factory=dict)
    writes: dict[str, int] = field(default_factory=dict)
    memory: list[tuple[int, int, bool]] = field(default_factory=list)

    def meets(self, other: "Footprint") -> bool:
        """Whether one writes what the other reads or writes."""
        for name, places in self.writes.items():
            if places & (other.writes.get(name, 0) | other.reads.get(name, 0)):
                return True
        if any(places & self.reads.get(name, 0) for name, places in other.writes.items()):
            return True
        if not self.memory or not other.memory or not self._hull_meets(other):
            return False
        return any(
            (written or also) and low < end and begin < high
            for low, high, written in self.memory
            for begin, end, also in other.memory
        )

    def _hull_meets(self, other: "Footprint") -> bool:
        """Whether all that lies between their first and last bytes of memory has something in common."""
        (low, high), (begin, end) = (
            (min(each[0] for each in memory), max(each[1] for each in memory)) for memory in (self.memory, other.memory)
        )
        return low < end and begin < high and any(each[2] for each in (*self.memory, *other.memory))


def footprints(config: CoreConfig, bits: int) -> list[Footprint]:
    """What a legal descriptor's unit reads and writes; of a multiply, what both of its units do; of an end, nothing.

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
    operation, values = decode(bits)
    assert operation is not None
    name = operation.name
    if name in ("load", "store"):
        return [_move(config, name, values, bits)]
    if name == "record":
        return [Footprint("store", memory=_spans(written_memory(bits, config), True))]
    if name.startswith("layout"):
        return [_layout(config, name, values)]
    return _multiply(config, values) if name == "multiply" else []


def _span(first: int, count: int) -> int:
    return ((1 << count) - 1) << first


def _spans(runs: list[tuple[int, int]], written: bool) -> list[tuple[int, int, bool]]:
    return [(address, address + size, written) for address, size in runs]


def _move(config: CoreConfig, name: str, values: Mapping[str, int], bits: int) -> Footprint:
    groups = {"buffer": _span(values["address"], prod(values[f"count_{k}"] for k in range(4)))}
    if name == "store":
        return Footprint(name, reads=groups, memory=_spans(written_memory(bits, config), True))
    memory = _spans(read_memory(bits, config), False)
    if values["compressed"]:  # it begins at the segment that the table names: anywhere
        memory.append((0, 1 << config.address_bits, False))
    return Footprint(name, writes=groups, memory=memory)


def _walked(values: Mapping[str, int], loops: int, groups: int) -> dict[str, NDArray[np.int64]]:
    """Address, x and y of each group of a walk, as `_Walk` of the golden core would have them one by one."""
    states = {name: np.array([values[name]], np.int64) for name in ("address", "x", "y")}
    inside = dict.fromkeys(states, 0)
    length = 1
    for k in range(loops):
        count = -(-groups // length) if k == loops - 1 else values[f"count_{k}"]
        for name, state in states.items():
            step = values[f"{name}_{k}"] + inside[name]
            states[name] = (state + np.arange(count)[:, None] * step).reshape(-1)
            inside[name] += (count - 1) * step
        length *= count
    address = states["address"][:groups] % WRAP
    x, y = ((states[name][:groups] + WRAP // 2) % WRAP - WRAP // 2 for name in ("x", "y"))
    return {"address": address, "x": x, "y": y}


def _positions(values: Mapping[str, int], at: Mapping[str, NDArray], lanes: int, size: int) -> NDArray[np.int64]:
    """Positions below a size of every group, or -1."""
    x = at["x"][:, None] + np.arange(lanes) * values["stride"]
    return np.where((x >= 0) & (x < size), x, -1)


def _places(config: CoreConfig, groups: NDArray) -> int:
    """Return groups as bits of a number, without those beyond the buffer, which are an error of the program."""
    used = np.zeros(config.groups, np.uint8)
    used[groups[groups < config.groups]] = 1
    return int.from_bytes(np.packbits(used, bitorder="little").tobytes(), "little")


def walked_groups(values: Mapping[str, int], count: int, lanes: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the group of the buffer and the position that a layout reads for each port (or lane) of `count` groups.

    Returns
    -------
    array of int, (count, lanes)
        Groups, not all of which need to be in the buffer.
    array of int, (count, lanes)
        Positions, modulo L those in the group; -1 where a zero is laid.
    """
    at = _walked(values, 6, count)
    x = _positions(values, at, lanes, values["x_size"])
    if values["checked"]:
        x = np.where(((at["y"] >= 0) & (at["y"] < values["y_size"]))[:, None], x, -1)
    return (at["address"][:, None] + x // lanes) % WRAP, x


def _layout(config: CoreConfig, name: str, values: Mapping[str, int]) -> Footprint:
    side = name[-1]
    words = -(-values["steps"] // config.tile.window_depth)
    groups, x = walked_groups(values, values["streams"] * config.parts(side) * values["steps"], config.tile.lanes)
    written = _span(values["base"], values["streams"] * words)
    return Footprint(name, reads={"buffer": _places(config, groups[x >= 0])}, writes={side: written})


def _multiply(config: CoreConfig, values: Mapping[str, int]) -> list[Footprint]:
    words = -(-values["steps"] // config.tile.window_depth)
    streams = {side: _span(values[f"{side}_base"], values[f"{side}_streams"] * words) for side in "ab"}
    multiply, output = Footprint("multiply", reads=streams), Footprint("output")
    if values["emit"]:
        lanes, width = config.tile.lanes, config.fp32_groups if values["fp32"] else 1
        blocks = values["a_streams"] * values["b_streams"]
        at = _walked(values, 4, blocks * config.parts("a") * config.parts("b"))
        x = _positions(values, at, lanes, -(-values["x_size"] // lanes) * lanes)
        first = ((at["address"][:, None] + x // lanes * width) % WRAP)[x >= 0]
        output.writes = {"buffer": _places(config, (first[:, None] + np.arange(width)).ravel())}
        read = []
        if values["mask"]:
            read.append((first + values["mask_address"] - values["address"]) % config.groups)
        if values["bias"]:
            vectors = at["y"] * lanes // (config.group_bytes // 4)
            read.append((values["bias_address"] + vectors) % config.groups)
        if read:
            output.reads = {"buffer": _places(config, np.concatenate(read))}
    return [multiply, output]
