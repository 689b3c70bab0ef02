"""Illegal moves between memory and buffer: fields, buffer, memory, and compressed tensors that are corrupted."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from tensordash.configuration.descriptors import decode

from .random_programs import random_values
from .spoiler import Spoiler
from .tensors import deflate, inflate, value_type

__all__ = ["MOVED", "MOVES", "load_tensor", "random_tensor"]

MOST_GROUPS = 6
MOVED = ("load", "store")


def _compressed_fields(spoiler: Spoiler, **fields: int) -> bool:
    """Make a move a compressed one that the sequencer refuses."""
    if not spoiler.config.compression:
        return False
    legal = {"compressed": 1, "segment": 1, "count_1": 1, "count_2": 1, "count_3": 1, "table": 0x400}
    index = spoiler.pick(*MOVED)
    memory = spoiler.value(index, "memory") & -16
    spoiler.change(index, **(legal | {"memory": memory} | fields))
    return True


def _segment(spoiler: Spoiler) -> bool:
    return _compressed_fields(spoiler, segment=0)


def _counts(spoiler: Spoiler) -> bool:
    name = f"count_{spoiler.random.randint(1, 3)}"
    return _compressed_fields(spoiler, **{name: spoiler.random.choice([0, 2, 3, 65535])})


def _unaligned_table(spoiler: Spoiler) -> bool:
    return _compressed_fields(spoiler, table=0x400 + spoiler.random.randint(1, 3))


def _unaligned_data(spoiler: Spoiler) -> bool:
    return _compressed_fields(spoiler, memory=0x400 + spoiler.random.randint(1, 15))


def _unaligned(spoiler: Spoiler) -> bool:
    index = spoiler.pick(*MOVED, "record")
    operation, values = decode(spoiler.descriptors[index])
    assert operation is not None
    step = 32 if operation.name == "record" else 16 if values["compressed"] else spoiler.config.group_bytes
    away = spoiler.random.choice([1, step // 2, spoiler.random.randint(1, step - 1)])
    spoiler.change(index, memory=values["memory"] + away)
    return True


def _beyond(spoiler: Spoiler) -> tuple[int, int]:
    """A first group and a number of groups that go beyond the buffer's end, through free ones."""
    random, groups = spoiler.random, spoiler.config.groups
    least = groups - spoiler.top_groups
    address = min(random.choice([least, groups - 1, groups, random.randint(least, 65535), 65535]), 65535)
    address = max(address, least)
    more = random.choice([1, 1, random.randint(1, 8)])
    return address, max(groups - address, 0) + more


def _range(spoiler: Spoiler, operation: str) -> bool:
    address, count = _beyond(spoiler)
    size, random = spoiler.config.group_bytes, spoiler.random
    if random.random() < 0.3 and count < 40:
        # Runs of one group: those before the end may be moved.
        fields = {"count_1": count, "stride_1": 1}
    else:
        fields = {"count_0": random.choice([count, count, 65535]), "count_3": random.choice([1, 2, 65535])}
    spoiler.add(operation, memory=-(-spoiler.place((count + 1) * size) // size) * size, address=address, **fields)
    return True


def _range_load(spoiler: Spoiler) -> bool:
    return _range(spoiler, "load")


def _range_store(spoiler: Spoiler) -> bool:
    return _range(spoiler, "store")


def _range_compressed(spoiler: Spoiler, operation: str) -> bool:
    if not spoiler.config.compression:
        return False
    address, count = _beyond(spoiler)
    room = 2 * count * spoiler.config.group_bytes
    memory, table = spoiler.place(room), spoiler.place(4 * count + 4)
    spoiler.add(operation, compressed=1, memory=memory, table=table, segment=1, address=address, count_0=count)
    return True


def _range_load_compressed(spoiler: Spoiler) -> bool:
    return _range_compressed(spoiler, "load")


def _range_store_compressed(spoiler: Spoiler) -> bool:
    return _range_compressed(spoiler, "store")


def _not_there(spoiler: Spoiler, operation: str) -> bool:
    """A move of free groups of which all, or one run, has no memory."""
    random, size = spoiler.random, spoiler.config.group_bytes
    count = random.randint(1, min(MOST_GROUPS, len(spoiler.free_groups) // 2))
    if random.random() < 0.5:
        fields = {"memory": spoiler.nowhere(), "count_0": count}
    else:
        here = -(-spoiler.place((count + 1) * size) // size) * size
        away = (spoiler.nowhere(near=True) - here) // size
        fields = {"memory": here, "count_0": count, "count_2": 2, "stride_2": away % (1 << 32)}
    spoiler.add(operation, address=spoiler.free_groups[0], **fields)
    return True


def _read(spoiler: Spoiler) -> bool:
    return _not_there(spoiler, "load")


def _write(spoiler: Spoiler) -> bool:
    return _not_there(spoiler, "store")


def random_tensor(spoiler: Spoiler) -> tuple[bytes, NDArray[np.uint32], dict[str, int]]:
    """A compressed tensor that fits into the free groups, and the fields of its move but for where it is."""
    random, config = spoiler.random, spoiler.config
    count = random.randint(1, min(MOST_GROUPS, len(spoiler.free_groups)))
    segment = random.choice([1, 2, 100])
    groups = random_values(random, config, (count, config.tile.lanes**2), random.choice([0.0, 0.4, 0.9]))
    data, table = deflate(groups, config, segment)
    fields = {"compressed": 1, "count_0": count, "segment": segment, "address": spoiler.free_groups[0]}
    return data, table, fields


def load_tensor(spoiler: Spoiler, data: bytes, table: NDArray[np.uint32], fields: dict[str, int]) -> None:
    """Put a compressed tensor into memory and add its load; fields may say where else it is."""
    where = {"memory": spoiler.put(data), "table": spoiler.put(table.astype("<u4").tobytes())}
    spoiler.add("load", **(where | fields))


def _table_does_not_grow(spoiler: Spoiler) -> bool:
    if not spoiler.config.compression:
        return False
    data, table, fields = random_tensor(spoiler)
    first = spoiler.random.choice([0, 7, 1 << 31])
    table[0] = first
    table[-1] = spoiler.random.choice([first, max(first - 1, 0), 0])
    load_tensor(spoiler, data, table, fields)
    return True


def _wrong_units(spoiler: Spoiler) -> bool:
    """Units fewer or more than masks say, or than any could."""
    if not spoiler.config.compression:
        return False
    data, table, fields = random_tensor(spoiler)
    units = int(table[-1])
    most = spoiler.random.choice([1 << 20, (1 << 32) - 1 - units])
    more = spoiler.random.choice([-1, 1, -spoiler.random.randint(1, units), spoiler.random.randint(1, 64), most])
    table[-1] = units + more
    load_tensor(spoiler, data + bytes(256), table, fields)
    return True


def _wrong_mask(spoiler: Spoiler) -> bool:
    if not spoiler.config.compression:
        return False
    kind = value_type(spoiler.config.value_bits)
    while True:
        data, table, fields = random_tensor(spoiler)
        changed = bytearray(data)
        # The first group's: where another's is, depends on the masks before it.
        bit = spoiler.random.randrange(spoiler.config.tile.lanes**2)
        changed[bit // 8] ^= 1 << bit % 8
        # What is behind a wrong mask may be right by chance.
        if inflate(np.frombuffer(changed, kind), spoiler.config, fields["count_0"]) is None:
            break
    load_tensor(spoiler, bytes(changed), table, fields)
    return True


def _read_table(spoiler: Spoiler) -> bool:
    """No table, or none of its last entry."""
    if not spoiler.config.compression:
        return False
    data, _, fields = random_tensor(spoiler)
    end = len(spoiler.memory.bytes) - 4
    fields |= {"memory": spoiler.put(data), "table": spoiler.random.choice([spoiler.nowhere(), end])}
    spoiler.add("load", **fields)
    return True


def _read_data(spoiler: Spoiler) -> bool:
    if not spoiler.config.compression:
        return False
    _, table, fields = random_tensor(spoiler)
    fields |= {"memory": spoiler.nowhere(), "table": spoiler.put(table.astype("<u4").tobytes())}
    spoiler.add("load", **fields)
    return True


def _write_compressed(spoiler: Spoiler) -> bool:
    """Units, or the table, for which there is no memory."""
    if not spoiler.config.compression:
        return False
    _, _, fields = random_tensor(spoiler)
    room = 2 * fields["count_0"] * spoiler.config.group_bytes
    where = {"memory": spoiler.place(room), "table": spoiler.place(256)}
    where[spoiler.random.choice(["memory", "table"])] = spoiler.nowhere()
    spoiler.add("store", **(fields | where))
    return True


def _write_record(spoiler: Spoiler) -> bool:
    spoiler.add("record", memory=spoiler.nowhere())
    return True


MOVES: Mapping[str, tuple[str, Callable[[Spoiler], bool]]] = MappingProxyType(
    {
        "segment of no groups": ("field", _segment),
        "compressed with loops": ("field", _counts),
        "unaligned table": ("field", _unaligned_table),
        "unaligned units": ("field", _unaligned_data),
        "unaligned memory": ("field", _unaligned),
        "load beyond the buffer": ("range", _range_load),
        "store beyond the buffer": ("range", _range_store),
        "compressed load beyond the buffer": ("range", _range_load_compressed),
        "compressed store beyond the buffer": ("range", _range_store_compressed),
        "table that does not grow": ("compressed", _table_does_not_grow),
        "wrong number of units": ("compressed", _wrong_units),
        "wrong mask": ("compressed", _wrong_mask),
        "nothing to load": ("read", _read),
        "no table to load": ("read", _read_table),
        "no units to load": ("read", _read_data),
        "nowhere to store": ("write", _write),
        "nowhere to store units or table": ("write", _write_compressed),
        "nowhere to record": ("write", _write_record),
    }
)
"""Errors and what makes a program have them, by name."""
