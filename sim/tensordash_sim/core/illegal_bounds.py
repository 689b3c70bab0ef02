"""Illegal addresses: outside of the bounds, above the highest address, or with bits that the bus does not have."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from tensordash.configuration.descriptors import BYTES, decode

from .illegal_moves import MOVED, load_tensor, random_tensor
from .spoiler import Spoiler

__all__ = ["ADDRESSES"]

MAX_GROUPS = 6


def _move(spoiler: Spoiler, operation: str) -> bool:
    """A move of free groups of which all, the last ones, or one run lies outside."""
    random, size = spoiler.random, spoiler.config.group_bytes
    count = random.randint(1, min(MAX_GROUPS, len(spoiler.free_groups) // 2))
    kind = random.choice(["all", "last", "run"])
    if kind == "run":
        begin = spoiler.outside(count * size)
        inside = -(-spoiler.place((count + 1) * size) // size) * size
        low, high = spoiler.bounds or (0, 0)
        if not low <= inside <= high - count * size:  # it was placed above the limit: let it be the other way round
            inside, begin = begin, inside
        fields = {"memory": inside, "count_0": count, "count_1": 2, "stride_1": (begin - inside) // size}
    else:
        across = random.randrange(count) * size if kind == "last" else 0
        fields = {"memory": spoiler.outside(count * size, across=across) - across, "count_0": count}
    spoiler.add(operation, address=spoiler.free_groups[0], **fields)
    return True


def _load(spoiler: Spoiler) -> bool:
    return _move(spoiler, "load")


def _store(spoiler: Spoiler) -> bool:
    return _move(spoiler, "store")


def _load_compressed(spoiler: Spoiler) -> bool:
    """Units, the first entry of the table, or only the last one."""
    if not spoiler.config.compression:
        return False
    data, table, fields = random_tensor(spoiler)
    kind, entries = spoiler.random.choice(["units", "first", "last"]), table.astype("<u4").tobytes()
    if kind == "units":
        fields |= {"memory": spoiler.outside(-(-len(data) // 16) * 16)}
        spoiler.memory.write(fields["memory"], data)
    else:
        across = 4 * (len(table) - 1) if kind == "last" else 0
        fields |= {"table": spoiler.outside(64, across=across) - across}
        spoiler.memory.write(fields["table"], entries)
    load_tensor(spoiler, data, table, fields)
    return True


def _store_compressed(spoiler: Spoiler) -> bool:
    if not spoiler.config.compression:
        return False
    _, _, fields = random_tensor(spoiler)
    room = 2 * fields["count_0"] * spoiler.config.group_bytes
    # A table has two entries at least.
    name, across = spoiler.random.choice([("memory", 0), ("table", 0), ("table", 4)])
    where = {"memory": spoiler.place(room), "table": spoiler.place(256)}
    where[name] = spoiler.outside(64, across=across) - across
    spoiler.add("store", **(fields | where))
    return True


def _record(spoiler: Spoiler) -> bool:
    spoiler.add("record", memory=spoiler.outside(32))
    return True


def _descriptor(spoiler: Spoiler) -> bool:
    """The ring goes on where the core may not read."""
    count = len(spoiler.descriptors)
    first_outside = spoiler.random.choice([0, spoiler.random.randrange(count), count - 1])
    spoiler.base = spoiler.outside(BYTES * count, across=BYTES * first_outside) - BYTES * first_outside
    return True


def _above_all(spoiler: Spoiler) -> bool:
    """A move that begins at the last address, or steps below the first one."""
    random, config = spoiler.random, spoiler.config
    size, top = config.group_bytes, 1 << config.address_bits
    fields = random.choice([{"memory": top - size, "count_0": 2}, {"memory": 0, "count_1": 2, "stride_1": -1}])
    spoiler.add(random.choice(MOVED), address=spoiler.free_groups[0], **fields)
    return len(spoiler.free_groups) > 1


def _table_above_all(spoiler: Spoiler) -> bool:
    """The last entry of a table, or units, would be above the highest address."""
    if not spoiler.config.compression:
        return False
    top = 1 << spoiler.config.address_bits
    data, table, fields = random_tensor(spoiler)
    if spoiler.random.random() < 0.5:
        operation, fields = spoiler.random.choice(MOVED), fields | {"memory": 0, "table": top - 4}
        if operation == "store":
            fields["memory"] = spoiler.place(2 * fields["count_0"] * spoiler.config.group_bytes)
        spoiler.add(operation, **fields)
    else:
        load_tensor(spoiler, data, table + 16, fields | {"memory": top - 16})
    return True


def _too_wide(spoiler: Spoiler) -> bool:
    """A bit of an address that the bus does not have."""
    random, bits = spoiler.random, spoiler.config.address_bits
    if bits == 64:
        return False
    bit = 1 << random.randint(bits, 63)
    if spoiler.config.compression and random.random() < 0.4:
        _, _, fields = random_tensor(spoiler)
        name = random.choice(["memory", "table"])
        spoiler.add(random.choice(MOVED), **(fields | {"memory": 0, "table": 0} | {name: bit}))
        return True
    index = spoiler.pick(*MOVED, "record")
    values = decode(spoiler.descriptors[index])[1]
    spoiler.change(index, memory_high=values["memory_high"] | bit >> 32)
    return True


ADDRESSES: Mapping[str, tuple[str, Callable[[Spoiler], bool]]] = MappingProxyType(
    {
        "load outside the bounds": ("bounds", _load),
        "store outside the bounds": ("bounds", _store),
        "compressed load outside the bounds": ("bounds", _load_compressed),
        "compressed store outside the bounds": ("bounds", _store_compressed),
        "record outside the bounds": ("bounds", _record),
        "descriptor outside the bounds": ("bounds", _descriptor),
        "move beyond all addresses": ("bounds", _above_all),
        "table or units beyond all addresses": ("bounds", _table_above_all),
        "address wider than the bus": ("field", _too_wide),
    }
)
"""Errors of addresses and what makes a program have them, by name."""
