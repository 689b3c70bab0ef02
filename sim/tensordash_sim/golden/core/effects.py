"""Read and write sets of a descriptor: the memory and the groups of the buffer that it may access."""

from collections.abc import Iterator, Mapping

from tensordash.configuration.core_config import CoreConfig
from tensordash.configuration.descriptors import decode

from .loop_walk import LoopWalk

__all__ = ["overwrites_masks", "read_memory", "written_groups", "written_memory"]


def written_memory(bits: int, config: CoreConfig) -> list[tuple[int, int]]:
    """Return the runs of memory that a descriptor may write.

    Parameters
    ----------
    bits : int
        A descriptor that the sequencer accepts.
    config : CoreConfig
        The core.

    Returns
    -------
    list of (int, int)
        Address and number of bytes. A compressed tensor counts with its maximum size: all values and masks. Groups
        beyond the buffer's end are not written.

    Source: docs/core.md, "Loops" and "Tensors".
    """
    operation, values = decode(bits)
    if operation is None or operation.name not in ("store", "record"):
        return []
    memory = _wide_field(values, "memory")
    if operation.name == "record":
        return [(memory, 32)]
    size, first, count = config.group_bytes, values["address"], values["count_0"]
    if values["compressed"]:
        count = min(count, max(config.groups - first, 0))
        table = _wide_field(values, "table")
        segments = -(-count // values["segment"])
        return [(memory, count * (size + config.tile.lanes**2 // 8)), (table, 4 * (segments + 1))]
    return list(_runs(values, config, memory))


def read_memory(bits: int, config: CoreConfig) -> list[tuple[int, int]]:
    """Return the runs of memory that a descriptor may read, in the format of `written_memory`.

    Parameters
    ----------
    bits, config
        As for `written_memory`.
    """
    operation, values = decode(bits)
    if operation is None or operation.name != "load":
        return []
    memory = _wide_field(values, "memory")
    if not values["compressed"]:
        return list(_runs(values, config, memory))
    count, table = values["count_0"], _wide_field(values, "table")
    entries = [(table, 4), (table + 4 * -(-count // values["segment"]), 4)]
    return [(memory, count * (config.group_bytes + config.tile.lanes**2 // 8)), *entries]


def _wide_field(values: Mapping[str, int], name: str) -> int:
    """Join the two halves of an address."""
    return values[name] | values[f"{name}_high"] << 32


def _runs(values: Mapping[str, int], config: CoreConfig, memory: int) -> Iterator[tuple[int, int]]:
    """Yield the runs of an uncompressed move, without groups beyond the buffer's end."""
    size, count, left = config.group_bytes, values["count_0"], config.groups - values["address"]
    size >>= values.get("nvfp4", 0)
    for k in range(values["count_3"]):
        for j in range(values["count_2"]):
            for i in range(values["count_1"]):
                if left <= 0:
                    return
                away = i * values["stride_1"] + j * values["stride_2"] + k * values["stride_3"]
                yield memory + away * size, min(count, left) * size
                left -= count


def written_groups(bits: int, config: CoreConfig) -> set[int]:
    """Return the groups of the buffer that a descriptor, a load or a multiply with results, may write.

    Parameters
    ----------
    bits, config
        As for `written_memory`.

    Source: docs/core.md, "Loops" and "Multiply".
    """
    operation, values = decode(bits)
    if operation is None or operation.name not in ("load", "multiply"):
        return set()
    if operation.name == "load":
        groups = values["count_0"] * values["count_1"] * values["count_2"] * values["count_3"]
        return set(range(values["address"], min(values["address"] + groups, config.groups)))
    if not values["emit"]:
        return set()
    return {group for group in _results(values, config) if group < config.groups}


def _results(values: Mapping[str, int], config: CoreConfig) -> Iterator[int]:
    """Yield the groups of all positions of a multiply, including padding."""
    lanes = config.tile.lanes
    width = config.fp32_groups if values["fp32"] else 1
    walk = LoopWalk(values, loops=4)
    for _ in range(values["a_streams"] * values["b_streams"] * config.parts("a") * config.parts("b")):
        for i in range(lanes):
            first = walk.address + (walk.x + i * values["stride"]) // lanes * width
            yield from ((first + k) % (1 << 16) for k in range(width))
        walk.step()


def overwrites_masks(bits: int, config: CoreConfig) -> bool:
    """Return whether a multiply that skips passes writes results over masks of its later passes.

    What it skips is then undefined.

    Parameters
    ----------
    bits, config
        As for `written_memory`.
    """
    _, values = decode(bits)
    if not values.get("skip_masked") or not values["emit"]:
        return False
    lanes, width = config.tile.lanes, config.fp32_groups if values["fp32"] else 1
    walk, written = LoopWalk(values, loops=4), set[int]()
    for _ in range(values["a_streams"] * values["b_streams"]):
        results = set()
        for _ in range(config.parts("a") * config.parts("b")):
            if 0 <= walk.x < values["x_size"]:
                results.add(walk.address + walk.x // lanes * width)
            walk.step()
        if written & {(first + values["mask_address"] - values["address"]) % config.groups for first in results}:
            return True
        written |= {(first + k) % (1 << 16) for first in results for k in range(width)}
    return False
