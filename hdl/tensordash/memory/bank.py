"""Bank: one position of every group, in one memory per region."""

from typing import Any

from amaranth.hdl import Module, Signal
from amaranth.lib.data import ArrayLayout
from amaranth.lib.wiring import In, Out

from ..block import Block, placed
from ..configuration.parameters import require_int
from ..one_hot import one_hot_mux
from .memory import Memory

__all__ = ["Bank", "group_address_bits", "require_power"]


def group_address_bits(groups: int) -> int:
    """Return the bits of the address of one of `groups` groups.

    >>> group_address_bits(2048)
    11
    """
    return max(1, (groups - 1).bit_length())


def require_power(name: str, value: int) -> int:
    """Return `value` if it is a power of two.

    Raises
    ------
    TypeError, ValueError
        If it is not.
    """
    if require_int(name, value, 1) & (value - 1):
        raise ValueError(f"{name} must be a power of two, not {value}")
    return value


class Bank(Block):
    """A bank of the buffer: a memory for each region, and muxes for the ports that are granted.

    Timing: data read in a cycle are at the port in the next cycle, and only then.

    Parameters
    ----------
    groups, regions : int
        Sizes of the buffer, powers of two.
    bits : int
        Bits of a word: a position of a group.
    readers, writers : int
        Ports.

    Members
    -------
    read : In(readers)
        Ports that read, no two of them in one region.
    read_address : In(address_bits, readers)
        The group. The highest bits are the region.
    read_data : Out(bits, readers)
    write : In(writers)
        Ports that write, no two of them in one region.
    write_address : In(address_bits, writers)
    write_data : In(bits, writers)

    Raises
    ------
    TypeError, ValueError
        For a parameter out of range.

    Source: docs/core.md, "Memories".
    """

    def __init__(self, *, groups: int, regions: int, bits: int, readers: int, writers: int) -> None:
        self.groups = require_power("groups", groups)
        self.regions = require_power("regions", regions)
        if regions > groups:
            raise ValueError(f"regions must be at most groups = {groups}, not {regions}")
        self.bits = require_int("bits", bits, 1)
        self.readers = require_int("readers", readers, 1)
        self.writers = require_int("writers", writers, 1)
        address_bits = group_address_bits(groups)
        super().__init__(
            {
                "read": In(readers),
                "read_address": In(ArrayLayout(address_bits, readers)),
                "read_data": Out(ArrayLayout(bits, readers)),
                "write": In(writers),
                "write_address": In(ArrayLayout(address_bits, writers)),
                "write_data": In(ArrayLayout(bits, writers)),
            },
        )
        self.region_bits = regions.bit_length() - 1
        # A region of a single group still has a memory of two words, the minimum.
        self.memories = [Memory(words=max(2, groups // regions), bits=bits) for _ in range(regions)]

    def elaborate(self, platform):
        """Build a mux of ports for each memory, and a mux of memories for each reader."""
        m = Module()
        reads = self._decoded(m, "reads", self.read, self.read_address)
        writes = self._decoded(m, "writes", self.write, self.write_address)
        within = len(self.read_address[0]) - self.region_bits
        for region, memory in enumerate(self.memories):
            m.submodules[f"region_{region}"] = placed(memory, platform)
            m.d.comb += [
                memory.read_enable.eq(reads[region].any()),
                memory.read_address.eq(one_hot_mux(reads[region], [each[:within] for each in self.read_address])),
                memory.write_enable.eq(writes[region].any()),
                memory.write_address.eq(one_hot_mux(writes[region], [each[:within] for each in self.write_address])),
                memory.write_data.eq(one_hot_mux(writes[region], list(self.write_data))),
            ]
        for port, data in enumerate(self.read_data):
            m.d.comb += data.eq(self._returned(m, port))
        return m

    def _decoded(self, m: Module, name: str, ports: Any, addresses: Any) -> list[Signal]:
        """Decode for each region the ports that access it."""
        wanted = [Signal(len(ports), name=f"{name}_{region}") for region in range(self.regions)]
        for port, address in enumerate(addresses):
            for region, wants in enumerate(wanted):
                here = address[len(address) - self.region_bits :] == region if self.region_bits else 1
                m.d.comb += wants[port].eq(ports[port] & here)
        return wanted

    def _returned(self, m: Module, port: int):
        """Select the data that a reader read in the previous cycle."""
        if not self.region_bits:
            return self.memories[0].read_data
        address = self.read_address[port]
        region = Signal(self.region_bits, name=f"region_read_{port}", reset_less=True)
        with m.If(self.read[port]):
            m.d.sync += region.eq(address[len(address) - self.region_bits :])
        # Selected by one-hot terms, not by a chain of comparisons.
        return one_hot_mux([region == k for k in range(self.regions)], [memory.read_data for memory in self.memories])
