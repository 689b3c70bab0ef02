"""How much faster than dense a core's tile is for the row side's streams of a program."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.descriptors import decode

from ..cycles.count import pack
from ..cycles.scheduler import Scheduler
from ..quantization import non_zeros
from .footprint import walked_groups
from .memory import Memory
from .tensors import value_type

__all__ = ["scheduled_speedup"]


def scheduled_speedup(config: CoreConfig, program: Sequence[int], memory: Memory) -> float:
    """Dense steps over the cycles with a schedule of all passes of a program; 1 for the dense tile.

    Only where the row side's values are zeros is looked at: nothing is multiplied.

    Parameters
    ----------
    config : CoreConfig
        The core.
    program : sequence of int
        Legal descriptors; moves are plain.
    memory : Memory
        Before the program, which loads nothing that it has stored before.
    """
    tile = config.tile
    if tile.sparsity == "none":
        return 1.0
    lanes, depth, scheduler = tile.lanes, tile.window_depth, Scheduler(tile)
    buffer = np.zeros((config.groups, lanes, lanes), np.bool_)
    streams = np.zeros((config.stream_words("b") * depth, tile.rows), np.uint32)
    steps = cycles = 0
    for bits in program:
        operation, values = decode(bits)
        assert operation is not None
        if operation.name == "load":
            _load(config, values, memory, buffer)
        elif operation.name == "layout_b":
            streams[depth * values["base"] :][: _size(config, values) * values["streams"]] = _laid(
                config, values, buffer
            )
        elif operation.name == "multiply":
            size, count = _size(config, values), values["b_streams"]
            block = streams[depth * values["b_base"] :][: size * count].reshape(count, size, tile.rows)
            made = scheduler.schedule(np.ascontiguousarray(block.transpose(0, 2, 1)), None).cycles
            steps += values["a_streams"] * size * count
            cycles += values["a_streams"] * int(made.sum())
    return steps / cycles if cycles else 1.0


def _size(config: CoreConfig, values: Mapping[str, int]) -> int:
    """Steps of a stream and those that fill up its last word."""
    depth = config.tile.window_depth
    return -(-values["steps"] // depth) * depth


def _load(config: CoreConfig, values: Mapping[str, int], memory: Memory, buffer: NDArray[np.bool_]) -> None:
    """Which values of a load's groups are not zero."""
    counts = [values[f"count_{k}"] for k in range(4)]
    away = np.zeros(1, np.int64)
    for k in (1, 2, 3):
        away = (away + np.arange(counts[k])[:, None] * values[f"stride_{k}"]).reshape(-1)
    first = (values["memory"] | values["memory_high"] << 32) - memory.base
    size = counts[0] * config.group_bytes
    data = np.frombuffer(memory.bytes, np.uint8)
    places = first + away[:, None] * config.group_bytes + np.arange(size)
    found = np.ascontiguousarray(data[places]).view(value_type(config.value_bits))
    there = non_zeros(found, config.tile.b_format).reshape(-1, *buffer.shape[1:])
    buffer[values["address"] :][: len(there)] = there


def _laid(config: CoreConfig, values: Mapping[str, int], buffer: NDArray[np.bool_]) -> NDArray[np.uint32]:
    """A layout's steps as words, a bit for each lane: step after step, and for each the tile's rows."""
    tile, parts = config.tile, config.parts("b")
    lanes, steps, count = tile.lanes, values["steps"], values["streams"]
    groups, x = walked_groups(values, count * parts * steps, lanes)
    found = buffer[groups % config.groups, x % lanes] & (x >= 0)[..., None]  # group, position, channel
    ports = found.swapaxes(1, 2) if values["transposed"] else found
    laid = np.zeros((count, _size(config, values), parts, lanes), np.uint32)
    laid[:, :steps] = pack(ports).reshape(count, parts, steps, lanes).transpose(0, 2, 1, 3)
    return laid.reshape(-1, tile.rows)
