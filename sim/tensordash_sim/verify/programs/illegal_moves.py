"""Illegal moves between memory and buffer: wrong fields, groups or addresses, and corrupt compressed tensors."""

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from tensordash.configuration.descriptors import decode

from ...golden.core.tensors import deflate, inflate, value_type
from .corruptor import ProgramCorruptor
from .random_operands import random_values

__all__ = ["MOVED", "MOVES", "load_tensor", "random_tensor"]

MAX_GROUPS = 6
MOVED = ("load", "store")


def _compressed_fields(corruptor: ProgramCorruptor, **fields: int) -> None:
    """Change a move into a compressed one that the sequencer refuses; a load, if stores lack one of the fields."""
    corruptor.require(corruptor.config.compression)
    operations = MOVED[:1] if "nvfp4" in fields else MOVED
    legal = {"compressed": 1, "segment": 1, "count_1": 1, "count_2": 1, "count_3": 1, "table": 0x400}
    index = corruptor.pick(*operations)
    memory = corruptor.value(index, "memory") & -16
    corruptor.change(index, **(legal | {"memory": memory} | fields))


def _segment(corruptor: ProgramCorruptor) -> None:
    _compressed_fields(corruptor, segment=0)


def _counts(corruptor: ProgramCorruptor) -> None:
    name = f"count_{corruptor.random.randint(1, 3)}"
    _compressed_fields(corruptor, **{name: corruptor.random.choice([0, 2, 3, 65535])})


def _compressed_nvfp4(corruptor: ProgramCorruptor) -> None:
    corruptor.require(corruptor.config.nvfp4)
    _compressed_fields(corruptor, nvfp4=1)


def _unaligned_table(corruptor: ProgramCorruptor) -> None:
    _compressed_fields(corruptor, table=0x400 + corruptor.random.randint(1, 3))


def _unaligned_data(corruptor: ProgramCorruptor) -> None:
    _compressed_fields(corruptor, memory=0x400 + corruptor.random.randint(1, 15))


def _unaligned(corruptor: ProgramCorruptor) -> None:
    index = corruptor.pick(*MOVED, "record")
    operation, values = decode(corruptor.descriptors[index])
    assert operation is not None
    step = corruptor.config.group_bytes >> values.get("nvfp4", 0)
    if operation.name == "record" or values["compressed"]:
        step = 32 if operation.name == "record" else 16
    offset = corruptor.random.choice([1, step // 2, corruptor.random.randint(1, step - 1)])
    corruptor.change(index, memory=values["memory"] + offset)


def _beyond(corruptor: ProgramCorruptor) -> tuple[int, int]:
    """Draw a first group and a number of groups that exceed the buffer's end and cover only free groups."""
    random, groups = corruptor.random, corruptor.config.groups
    least = groups - corruptor.top_groups
    address = min(random.choice([least, groups - 1, groups, random.randint(least, 65535), 65535]), 65535)
    address = max(address, least)
    more = random.choice([1, 1, random.randint(1, 8)])
    return address, max(groups - address, 0) + more


def _range(corruptor: ProgramCorruptor, operation: str) -> None:
    address, count = _beyond(corruptor)
    size, random = corruptor.config.group_bytes, corruptor.random
    if random.random() < 0.3 and count < 40:
        # Each run is one group; the core may move the runs before the end.
        fields = {"count_1": count, "stride_1": 1}
    else:
        fields = {"count_0": random.choice([count, count, 65535]), "count_3": random.choice([1, 2, 65535])}
    corruptor.add(operation, memory=-(-corruptor.place((count + 1) * size) // size) * size, address=address, **fields)


def _range_compressed(corruptor: ProgramCorruptor, operation: str) -> None:
    corruptor.require(corruptor.config.compression)
    address, count = _beyond(corruptor)
    room = 2 * count * corruptor.config.group_bytes
    memory, table = corruptor.place(room), corruptor.place(4 * count + 4)
    corruptor.add(operation, compressed=1, memory=memory, table=table, segment=1, address=address, count_0=count)


def _outside_memory(corruptor: ProgramCorruptor, operation: str) -> None:
    """Add a move of free groups with all groups or one run outside memory."""
    random, size = corruptor.random, corruptor.config.group_bytes
    count = random.randint(1, min(MAX_GROUPS, len(corruptor.free_groups) // 2))
    if random.random() < 0.5:
        fields = {"memory": corruptor.nowhere(), "count_0": count}
    else:
        here = -(-corruptor.place((count + 1) * size) // size) * size
        away = (corruptor.nowhere(near=True) - here) // size
        fields = {"memory": here, "count_0": count, "count_2": 2, "stride_2": away % (1 << 32)}
    corruptor.add(operation, address=corruptor.free_groups[0], **fields)


def random_tensor(corruptor: ProgramCorruptor) -> tuple[bytes, NDArray[np.uint32], dict[str, int]]:
    """Draw a compressed tensor that fits into the free groups: data, table, and its move's fields without addresses."""
    random, config = corruptor.random, corruptor.config
    count = random.randint(1, min(MAX_GROUPS, len(corruptor.free_groups)))
    segment = random.choice([1, 2, 100])
    groups = random_values(random, config, (count, config.tile.lanes**2), random.choice([0.0, 0.4, 0.9]))
    data, table = deflate(groups, config, segment)
    fields = {"compressed": 1, "count_0": count, "segment": segment, "address": corruptor.free_groups[0]}
    return data, table, fields


def load_tensor(corruptor: ProgramCorruptor, data: bytes, table: NDArray[np.uint32], fields: dict[str, int]) -> None:
    """Write a compressed tensor to memory, and add its load; addresses in `fields` replace the tensor's."""
    where = {"memory": corruptor.put(data), "table": corruptor.put(table.astype("<u4").tobytes())}
    corruptor.add("load", **(where | fields))


def _table_does_not_grow(corruptor: ProgramCorruptor) -> None:
    corruptor.require(corruptor.config.compression)
    data, table, fields = random_tensor(corruptor)
    first = corruptor.random.choice([0, 7, 1 << 31])
    table[0] = first
    table[-1] = corruptor.random.choice([first, max(first - 1, 0), 0])
    load_tensor(corruptor, data, table, fields)


def _wrong_units(corruptor: ProgramCorruptor) -> None:
    """Write a table with fewer or more units than the masks count, or with more than any masks can count."""
    corruptor.require(corruptor.config.compression)
    data, table, fields = random_tensor(corruptor)
    units = int(table[-1])
    most = corruptor.random.choice([1 << 20, (1 << 32) - 1 - units])
    more = corruptor.random.choice([-1, 1, -corruptor.random.randint(1, units), corruptor.random.randint(1, 64), most])
    table[-1] = units + more
    load_tensor(corruptor, data + bytes(256), table, fields)


def _wrong_mask(corruptor: ProgramCorruptor) -> None:
    corruptor.require(corruptor.config.compression)
    kind = value_type(corruptor.config.value_bits)
    while True:
        data, table, fields = random_tensor(corruptor)
        changed = bytearray(data)
        # Change the first mask, because the place of any other mask depends on the masks before it.
        bit = corruptor.random.randrange(corruptor.config.tile.lanes**2)
        changed[bit // 8] ^= 1 << bit % 8
        # The data after a wrong mask may be legal by chance.
        if inflate(np.frombuffer(changed, kind), corruptor.config, fields["count_0"]) is None:
            break
    load_tensor(corruptor, bytes(changed), table, fields)


def _read_table(corruptor: ProgramCorruptor) -> None:
    """Add a load whose table, or its last entries, are outside memory."""
    corruptor.require(corruptor.config.compression)
    data, _, fields = random_tensor(corruptor)
    end = len(corruptor.memory.bytes) - 4
    fields |= {"memory": corruptor.put(data), "table": corruptor.random.choice([corruptor.nowhere(), end])}
    corruptor.add("load", **fields)


def _read_data(corruptor: ProgramCorruptor) -> None:
    corruptor.require(corruptor.config.compression)
    _, table, fields = random_tensor(corruptor)
    fields |= {"memory": corruptor.nowhere(), "table": corruptor.put(table.astype("<u4").tobytes())}
    corruptor.add("load", **fields)


def _write_compressed(corruptor: ProgramCorruptor) -> None:
    """Add a store whose units or table are outside memory."""
    corruptor.require(corruptor.config.compression)
    _, _, fields = random_tensor(corruptor)
    room = 2 * fields["count_0"] * corruptor.config.group_bytes
    where = {"memory": corruptor.place(room), "table": corruptor.place(256)}
    where[corruptor.random.choice(["memory", "table"])] = corruptor.nowhere()
    corruptor.add("store", **(fields | where))


def _write_record(corruptor: ProgramCorruptor) -> None:
    corruptor.add("record", memory=corruptor.nowhere())


MOVES: Mapping[str, tuple[str, Callable[[ProgramCorruptor], None]]] = MappingProxyType(
    {
        "segment of no groups": ("field", _segment),
        "compressed with loops": ("field", _counts),
        "compressed NVFP4": ("field", _compressed_nvfp4),
        "unaligned table": ("field", _unaligned_table),
        "unaligned units": ("field", _unaligned_data),
        "unaligned memory": ("field", _unaligned),
        "load beyond the buffer": ("range", partial(_range, operation="load")),
        "store beyond the buffer": ("range", partial(_range, operation="store")),
        "compressed load beyond the buffer": ("range", partial(_range_compressed, operation="load")),
        "compressed store beyond the buffer": ("range", partial(_range_compressed, operation="store")),
        "table that does not grow": ("compressed", _table_does_not_grow),
        "wrong number of units": ("compressed", _wrong_units),
        "wrong mask": ("compressed", _wrong_mask),
        "nothing to load": ("read", partial(_outside_memory, operation="load")),
        "no table to load": ("read", _read_table),
        "no units to load": ("read", _read_data),
        "nowhere to store": ("write", partial(_outside_memory, operation="store")),
        "nowhere to store units or table": ("write", _write_compressed),
        "nowhere to record": ("write", _write_record),
    }
)
"""The error of each corruption of a move, and the function that corrupts a program, by name."""
