"""Buffer: banks of groups that several ports read and write at once."""

from collections.abc import Sequence
from typing import Any

from amaranth.hdl import Cat, Const, Module, Signal
from amaranth.lib.wiring import In

from ..block import Block, placed
from ..configuration.parameters import require_int
from .bank import Bank, group_address_bits, require_power
from .signature import BufferReadSignature, BufferWriteSignature

__all__ = ["Buffer"]


class Buffer(Block):
    """Holds groups in `lanes` banks, bank i with position i of each, in regions that never wait for each other.

    A request is taken whole or not at all. Those that want the same bank of the same region in one cycle go by index,
    the lowest first, except that one of them, in turn, goes before all others: the turn passes on with every request
    that has to wait, so that none waits for more than as many as there are ports.

    Timing: `ready` depends on `valid`, `enable` and `address` of all ports of its kind in the same cycle, but, of two
    ports, not on its own `valid`. A read's data are there in the cycle after it was taken; a read that is taken in a
    cycle after a write sees it. A read of a position that is written in the same cycle returns an undefined value.

    Parameters
    ----------
    lanes : int
        Banks: positions of a group, and values of a position.
    width : int
        Bits of a value.
    groups : int
        Groups in all, a power of two.
    regions : int
        Regions, a power of two; the highest bits of an address say which.
    readers, writers : int
        Ports.

    Members
    -------
    reads : In(BufferReadSignature), one for each reader
    writes : In(BufferWriteSignature), one for each writer

    Raises
    ------
    TypeError, ValueError
        For a parameter out of range.

    Source: docs/core.md, "Memories".
    """

    def __init__(self, *, lanes: int, width: int, groups: int, regions: int, readers: int, writers: int) -> None:
        self.lanes = require_int("lanes", lanes, 1)
        self.width = require_int("width", width, 1)
        self.groups = require_power("groups", groups)
        self.regions = require_power("regions", regions)
        if regions > groups:
            raise ValueError(f"regions must be at most groups = {groups}, not {regions}")
        self.readers = require_int("readers", readers, 1)
        self.writers = require_int("writers", writers, 1)
        self.address_bits = group_address_bits(groups)
        shape = {"lanes": lanes, "width": width, "address_bits": self.address_bits}
        super().__init__(
            {
                "reads": In(BufferReadSignature(**shape)).array(readers),
                "writes": In(BufferWriteSignature(**shape)).array(writers),
            },
        )
        self.banks = [
            Bank(groups=groups, regions=regions, bits=lanes * width, readers=readers, writers=writers)
            for _ in range(lanes)
        ]

    def elaborate(self, platform):
        """Banks, and who goes to them."""
        m = Module()
        reads = self._arbitrate(m, "read", self.reads)
        writes = self._arbitrate(m, "write", self.writes)
        for k, bank in enumerate(self.banks):
            m.submodules[f"bank_{k}"] = placed(bank, platform)
            m.d.comb += [
                bank.read.eq(Cat(goes & port.enable[k] for goes, port in zip(reads, self.reads, strict=True))),
                bank.write.eq(Cat(goes & port.enable[k] for goes, port in zip(writes, self.writes, strict=True))),
            ]
            for i, port in enumerate(self.reads):
                m.d.comb += [bank.read_address[i].eq(port.address[k]), port.data[k].eq(bank.read_data[i])]
            for i, port in enumerate(self.writes):
                m.d.comb += [bank.write_address[i].eq(port.address[k]), bank.write_data[i].eq(port.data[k])]
        return m

    def _arbitrate(self, m: Module, kind: str, ports: Sequence[Any]) -> Signal:
        """Return which of the ports' requests are granted."""
        count = len(ports)
        goes = Signal(count, name=f"{kind}_goes")
        if count == 1:
            m.d.comb += [ports[0].ready.eq(1), goes.eq(ports[0].valid)]
            return goes
        turn = Signal(count, init=1, name=f"{kind}_turn")  # the port that goes first, one-hot
        clashes = {}
        for i in range(count):
            for j in range(i):
                clashes[i, j] = clashes[j, i] = clash = Signal(name=f"{kind}_clash_{j}_{i}")
                m.d.comb += clash.eq(self._clash(ports[j], ports[i]))
        for i, port in enumerate(ports):
            # Of two ports, the one whose turn it is not waits for whatever the other wants.
            blocked = [
                clashes[i, j] & (other.valid if count == 2 else goes[j] if j < i else turn[j] & other.valid)
                for j, other in enumerate(ports)
                if j != i
            ]
            m.d.comb += [port.ready.eq(turn[i] | ~Cat(blocked).any()), goes[i].eq(port.valid & port.ready)]
        with m.If((Cat(port.valid for port in ports) & ~goes).any()):
            m.d.sync += turn.eq(turn.rotate_left(1))
        return goes

    def _region(self, port: Any, bank: int):
        """The region of a group, as a number."""
        return port.address[bank][-(self.regions.bit_length() - 1) :] if self.regions > 1 else Const(0, 1)

    def _clash(self, one: Any, other: Any):
        """Whether two requests want the same bank of the same region."""
        return Cat(
            one.enable[bank] & other.enable[bank] & (self._region(one, bank) == self._region(other, bank))
            for bank in range(self.lanes)
        ).any()
