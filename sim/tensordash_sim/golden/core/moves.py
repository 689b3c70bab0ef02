"""Loads, stores and records of the golden core: transfers between its buffer and memory."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from tensordash.configuration.core_config import CoreConfig

from .memory import Memory
from .tensors import deflate, expand_nvfp4, inflate, value_type

__all__ = ["CoreFailure", "Mover", "ResultCounts"]


class CoreFailure(Exception):  # noqa: N818  what a program did, not what this code did
    """A descriptor that has an error.

    Parameters
    ----------
    name : str
        One of `ERRORS`.
    """

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


@dataclass
class ResultCounts:
    """Counts of results since the last record."""

    zeros: int = 0
    non_finite: int = 0
    overflow: int = 0


class Mover:
    """Executes loads, stores and records between a buffer and memory, within the bounds of addresses.

    Parameters
    ----------
    config : CoreConfig
        The core.
    memory : Memory
        Its memory.

    Attributes
    ----------
    buffer, counts, bounds
        As in `GoldenCore`.
    """

    def __init__(self, config: CoreConfig, memory: Memory) -> None:
        self.config, self.memory = config, memory
        lanes = config.tile.lanes
        self.buffer = np.zeros((config.groups, lanes, lanes), value_type(config.value_bits))
        self.counts = ResultCounts()
        self.bounds = (0, (1 << config.address_bits) - 1)

    @staticmethod
    def _wide_field(values: Mapping[str, int], name: str, offset: int = 0) -> int:
        """Join an address from its two halves and an offset in bytes; it may exceed the core's address bits."""
        return (values[name] | values[f"{name}_high"] << 32) + offset

    def is_allowed(self, address: int, count: int) -> bool:
        """Return whether `count` bytes at an address are within the bounds and the bus's address range."""
        low, high = self.bounds
        return low <= address and address + count - 1 <= min(high, (1 << self.config.address_bits) - 1)

    def _require_allowed(self, *runs: tuple[int, int]) -> None:
        """Raise CoreFailure unless all runs of (address, bytes) are within the bounds. Nothing has moved before."""
        if not all(self.is_allowed(*run) for run in runs):
            raise CoreFailure("bounds")

    def _memory_bytes(self, values: Mapping[str, int]) -> int:
        """Return the bytes of a group in memory, for an uncompressed move."""
        return self.config.group_bytes >> values.get("nvfp4", 0)

    def _runs(self, values: Mapping[str, int]) -> Iterator[tuple[int, int]]:
        """Yield the address in memory and the group in the buffer of each run of `count_0` groups."""
        memory, group = self._wide_field(values, "memory"), values["address"]
        for third in range(values["count_3"]):
            for second in range(values["count_2"]):
                for first in range(values["count_1"]):
                    away = first * values["stride_1"] + second * values["stride_2"] + third * values["stride_3"]
                    yield memory + away * self._memory_bytes(values), group
                    group += values["count_0"]

    def load(self, values: Mapping[str, int]) -> None:
        """Copy runs of memory into the buffer."""
        self._require_runs(values)
        size, failed = values["count_0"] * self._memory_bytes(values), False
        for address, group in self._runs(values):
            data = self.memory.read(address, size)
            if data is None:
                failed = True
                continue
            written = self.buffer[group : group + values["count_0"]]
            if values["nvfp4"]:
                written[:] = expand_nvfp4(data, self.config, by_channel=bool(values["by_channel"]))
            else:
                written[:] = np.frombuffer(data, self.buffer.dtype).reshape(written.shape)
        if failed:
            raise CoreFailure("read")

    def store(self, values: Mapping[str, int]) -> None:
        """Copy runs of the buffer into memory."""
        self._require_runs(values)
        # All runs are written before an error is reported.
        runs = [(address, self.buffer[group : group + values["count_0"]]) for address, group in self._runs(values)]
        written = [self.memory.write(address, run.tobytes()) for address, run in runs]
        if not all(written):
            raise CoreFailure("write")

    def load_compressed(self, values: Mapping[str, int]) -> None:
        """Inflate a tensor into the buffer."""
        self._require_range(values)
        config, count = self.config, values["count_0"]
        segments, unit = -(-count // values["segment"]), config.value_bits // 8
        entries = [self._wide_field(values, "table", 4 * k) for k in (0, segments)]
        self._require_allowed(*((entry, 4) for entry in entries))
        ends = [self.memory.read(entry, 4) for entry in entries]
        if ends[0] is None or ends[1] is None:
            raise CoreFailure("read")
        first, last = (int.from_bytes(end, "little") for end in ends if end is not None)
        size = config.tile.lanes**2
        if not first < last <= first + count * (size + size // config.value_bits):
            raise CoreFailure("compressed")
        begin = self._wide_field(values, "memory", first * unit)
        self._require_allowed((begin, (last - first) * unit))
        data = self.memory.read(begin, (last - first) * unit)
        if data is None:
            raise CoreFailure("read")
        groups = inflate(np.frombuffer(data, self.buffer.dtype), config, count)
        if groups is None:
            raise CoreFailure("compressed")
        begin = values["address"]
        self.buffer[begin : begin + count] = groups.reshape(-1, *self.buffer.shape[1:])

    def store_compressed(self, values: Mapping[str, int]) -> None:
        """Deflate groups of the buffer into memory, with their table."""
        self._require_range(values)
        begin, count = values["address"], values["count_0"]
        groups = self.buffer[begin : begin + count].reshape(count, -1)
        data, table = deflate(groups, self.config, values["segment"])
        parts = [
            (self._wide_field(values, "memory"), data),
            (self._wide_field(values, "table"), table.astype("<u4").tobytes()),
        ]
        self._require_allowed(*((address, len(part)) for address, part in parts))
        written = [self.memory.write(address, part) for address, part in parts]
        if not all(written):
            raise CoreFailure("write")

    def _require_runs(self, values: Mapping[str, int]) -> None:
        """Raise CoreFailure at the first run of an uncompressed move beyond the buffer or outside the bounds."""
        count = values["count_0"]
        for address, group in self._runs(values):
            if group + count > len(self.buffer):
                raise CoreFailure("range")
            self._require_allowed((address, count * self._memory_bytes(values)))

    def _require_range(self, values: Mapping[str, int]) -> None:
        """Raise CoreFailure if a compressed move is beyond the buffer; its other effects are then undefined."""
        if values["address"] + values["count_0"] > len(self.buffer):
            raise CoreFailure("range")

    def record(self, values: Mapping[str, int]) -> None:
        """Write the counts to memory and clear them."""
        counts = self.counts
        words = [counts.zeros, counts.non_finite, counts.overflow, 0, 0, 0, 0, 0]
        self._require_allowed((self._wide_field(values, "memory"), 32))
        if not self.memory.write(self._wide_field(values, "memory"), np.array(words, "<u4").tobytes()):
            raise CoreFailure("write")
        self.counts = ResultCounts()
