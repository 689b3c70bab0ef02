"""Illegal addresses: outside the bounds, above the highest address, or wider than the bus."""

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType

from tensordash.configuration.descriptors import BYTES, decode

from .corruptor import ProgramCorruptor
from .illegal_moves import MOVED, load_tensor, random_tensor

__all__ = ["ADDRESSES"]

MAX_GROUPS = 6


def _move(corruptor: ProgramCorruptor, operation: str) -> None:
    """Add a move of free groups with all groups, the last ones, or one run outside the bounds."""
    random, size = corruptor.random, corruptor.config.group_bytes
    count = random.randint(1, min(MAX_GROUPS, len(corruptor.free_groups) // 2))
    kind = random.choice(["all", "last", "run"])
    if kind == "run":
        begin = corruptor.outside(count * size)
        inside = -(-corruptor.place((count + 1) * size) // size) * size
        low, high = corruptor.bounds or (0, 0)
        if not low <= inside <= high - count * size:  # The second run is above the limit: exchange the runs.
            inside, begin = begin, inside
        fields = {"memory": inside, "count_0": count, "count_1": 2, "stride_1": (begin - inside) // size}
    else:
        across = random.randrange(count) * size if kind == "last" else 0
        fields = {"memory": corruptor.outside(count * size, across=across) - across, "count_0": count}
    corruptor.add(operation, address=corruptor.free_groups[0], **fields)


def _load_compressed(corruptor: ProgramCorruptor) -> None:
    """Add a load whose units, or the first or last entry of its table, are outside the bounds."""
    corruptor.require(corruptor.config.compression)
    data, table, fields = random_tensor(corruptor)
    kind, entries = corruptor.random.choice(["units", "first", "last"]), table.astype("<u4").tobytes()
    if kind == "units":
        fields |= {"memory": corruptor.outside(-(-len(data) // 16) * 16)}
        corruptor.memory.write(fields["memory"], data)
    else:
        across = 4 * (len(table) - 1) if kind == "last" else 0
        fields |= {"table": corruptor.outside(64, across=across) - across}
        corruptor.memory.write(fields["table"], entries)
    load_tensor(corruptor, data, table, fields)


def _store_compressed(corruptor: ProgramCorruptor) -> None:
    corruptor.require(corruptor.config.compression)
    _, _, fields = random_tensor(corruptor)
    room = 2 * fields["count_0"] * corruptor.config.group_bytes
    # A table has at least two entries.
    name, across = corruptor.random.choice([("memory", 0), ("table", 0), ("table", 4)])
    where = {"memory": corruptor.place(room), "table": corruptor.place(256)}
    where[name] = corruptor.outside(64, across=across) - across
    corruptor.add("store", **(fields | where))


def _record(corruptor: ProgramCorruptor) -> None:
    corruptor.add("record", memory=corruptor.outside(32))


def _descriptor(corruptor: ProgramCorruptor) -> None:
    """Place the ring such that a descriptor is outside the bounds."""
    count = len(corruptor.descriptors)
    first_outside = corruptor.random.choice([0, corruptor.random.randrange(count), count - 1])
    corruptor.base = corruptor.outside(BYTES * count, across=BYTES * first_outside) - BYTES * first_outside


def _above_all(corruptor: ProgramCorruptor) -> None:
    """Add a move that exceeds the highest address, or steps below address 0."""
    corruptor.require(len(corruptor.free_groups) > 1)
    random, config = corruptor.random, corruptor.config
    size, top = config.group_bytes, 1 << config.address_bits
    fields = random.choice([{"memory": top - size, "count_0": 2}, {"memory": 0, "count_1": 2, "stride_1": -1}])
    corruptor.add(random.choice(MOVED), address=corruptor.free_groups[0], **fields)


def _table_above_all(corruptor: ProgramCorruptor) -> None:
    """Add a move whose units or last table entry would be above the highest address."""
    corruptor.require(corruptor.config.compression)
    top = 1 << corruptor.config.address_bits
    data, table, fields = random_tensor(corruptor)
    if corruptor.random.random() < 0.5:
        operation, fields = corruptor.random.choice(MOVED), fields | {"memory": 0, "table": top - 4}
        if operation == "store":
            fields["memory"] = corruptor.place(2 * fields["count_0"] * corruptor.config.group_bytes)
        corruptor.add(operation, **fields)
    else:
        load_tensor(corruptor, data, table + 16, fields | {"memory": top - 16})


def _too_wide(corruptor: ProgramCorruptor) -> None:
    """Set an address bit that the bus does not have."""
    random, bits = corruptor.random, corruptor.config.address_bits
    corruptor.require(bits < 64)
    bit = 1 << random.randint(bits, 63)
    if corruptor.config.compression and random.random() < 0.4:
        _, _, fields = random_tensor(corruptor)
        name = random.choice(["memory", "table"])
        corruptor.add(random.choice(MOVED), **(fields | {"memory": 0, "table": 0} | {name: bit}))
        return
    index = corruptor.pick(*MOVED, "record")
    values = decode(corruptor.descriptors[index])[1]
    corruptor.change(index, memory_high=values["memory_high"] | bit >> 32)


ADDRESSES: Mapping[str, tuple[str, Callable[[ProgramCorruptor], None]]] = MappingProxyType(
    {
        "load outside the bounds": ("bounds", partial(_move, operation="load")),
        "store outside the bounds": ("bounds", partial(_move, operation="store")),
        "compressed load outside the bounds": ("bounds", _load_compressed),
        "compressed store outside the bounds": ("bounds", _store_compressed),
        "record outside the bounds": ("bounds", _record),
        "descriptor outside the bounds": ("bounds", _descriptor),
        "move beyond all addresses": ("bounds", _above_all),
        "table or units beyond all addresses": ("bounds", _table_above_all),
        "address wider than the bus": ("field", _too_wide),
    }
)
"""The error of each corruption of an address, and the function that corrupts a program, by name."""
