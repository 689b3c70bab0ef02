"""Buffer: banks of groups that several ports read and write in one cycle."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib.wiring import In

from ..block import Block, placed
from ..configuration.parameters import require_int
from .bank import Bank, group_address_bits, require_power
from .signature import BufferReadSignature, BufferWriteSignature, PairReadSignature

__all__ = ["Buffer", "PairBuffer"]


class Buffer(Block):
    """Holds groups in `lanes` banks, bank i with position i of each group. Regions never wait for each other.

    A request is taken completely or not at all. Requests for the same bank of the same region in one cycle go by index,
    the lowest first. One port, which has the turn, goes before all others. The turn passes on with every cycle in which
    a request waits, so a request waits for at most as many turns as there are ports.

    Timing: `ready` depends on `valid`, `enable` and `address` of all ports of its kind in the same cycle. With two
    ports it does not depend on its own `valid`. Data are valid in the cycle after their read was taken. A read that is
    taken after a write returns the data written. A read of a position that is written in the same cycle returns an
    undefined value.

    Parameters
    ----------
    lanes : int
        Banks: positions of a group, and values of a position.
    width : int
        Bits of a value.
    groups : int
        Groups in total, a power of two.
    regions : int
        Regions, a power of two. The highest bits of an address select the region.
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

    halves = 1

    def __init__(self, *, lanes: int, width: int, groups: int, regions: int, readers: int, writers: int) -> None:
        self.lanes = require_int("lanes", lanes, 1)
        self.width = require_int("width", width, 1)
        self.groups = require_power("groups", groups)
        self.regions = require_power("regions", regions)
        if regions * self.halves > groups:
            most = "groups" if self.halves == 1 else f"groups / {self.halves}"
            raise ValueError(f"regions must be at most {most} = {groups // self.halves}, not {regions}")
        self.readers = require_int("readers", readers, 1)
        self.writers = require_int("writers", writers, 1)
        self.address_bits = group_address_bits(groups)
        shape = {"lanes": lanes, "width": width, "address_bits": self.address_bits}
        super().__init__({**self._read_members(shape), "writes": In(BufferWriteSignature(**shape)).array(writers)})
        self.banks = [
            Bank(groups=groups // self.halves, regions=regions, bits=lanes * width, readers=readers, writers=writers)
            for _ in range(lanes * self.halves)
        ]

    def _read_members(self, shape: dict[str, int]) -> dict[str, Any]:
        return {"reads": In(BufferReadSignature(**shape)).array(self.readers)}

    @property
    def read_ports(self) -> list[Any]:
        """The readers' ports, in their order."""
        return list(self.reads)

    def elaborate(self, platform):
        """Connect the granted ports to the banks."""
        m = Module()
        read_ports = [self._bank_port(m, f"reads_{k}", port) for k, port in enumerate(self.read_ports)]
        write_ports = [self._bank_port(m, f"writes_{k}", port) for k, port in enumerate(self.writes)]
        reads = self._arbitrate(m, "read", read_ports)
        writes = self._arbitrate(m, "write", write_ports)
        for k, bank in enumerate(self.banks):
            m.submodules[f"bank_{k}"] = placed(bank, platform)
            m.d.comb += [
                bank.read.eq(Cat(grants & port.enable[k] for grants, port in zip(reads, read_ports, strict=True))),
                bank.write.eq(Cat(grants & port.enable[k] for grants, port in zip(writes, write_ports, strict=True))),
            ]
            for i, port in enumerate(read_ports):
                m.d.comb += [bank.read_address[i].eq(port.address[k]), port.data[k].eq(bank.read_data[i])]
            for i, port in enumerate(write_ports):
                m.d.comb += [bank.write_address[i].eq(port.address[k]), bank.write_data[i].eq(port.data[k])]
        return m

    def _bank_port(self, m: Module, name: str, port: Any) -> Any:
        """Return a port with one member per bank."""
        return port

    def _arbitrate(self, m: Module, kind: str, ports: Sequence[Any]) -> Signal:
        """Grant the ports' requests."""
        count = len(ports)
        grants = Signal(count, name=f"{kind}_grants")
        if count == 1:
            m.d.comb += [ports[0].ready.eq(1), grants.eq(ports[0].valid)]
            return grants
        turn = Signal(count, init=1, name=f"{kind}_turn")  # the port that goes first, one-hot
        clashes = {}
        for i in range(count):
            for j in range(i):
                clashes[i, j] = clashes[j, i] = clash = Signal(name=f"{kind}_clash_{j}_{i}")
                m.d.comb += clash.eq(self._clash(ports[j], ports[i]))
        for i, port in enumerate(ports):
            # Of two ports, the one without the turn waits for every request of the other.
            blocked = [
                clashes[i, j] & (other.valid if count == 2 else grants[j] if j < i else turn[j] & other.valid)
                for j, other in enumerate(ports)
                if j != i
            ]
            m.d.comb += [port.ready.eq(turn[i] | ~Cat(blocked).any()), grants[i].eq(port.valid & port.ready)]
        with m.If((Cat(port.valid for port in ports) & ~grants).any()):
            m.d.sync += turn.eq(turn.rotate_left(1))
        return grants

    def _region(self, port: Any, bank: int):
        """Return the region of a group."""
        return port.address[bank][-(self.regions.bit_length() - 1) :] if self.regions > 1 else Const(0, 1)

    def _clash(self, one: Any, other: Any):
        """Return whether two requests need the same bank of the same region."""
        return Cat(
            one.enable[bank] & other.enable[bank] & (self._region(one, bank) == self._region(other, bank))
            for bank in range(len(self.banks))
        ).any()


class PairBuffer(Buffer):
    """A buffer with two halves per bank. Each pair reader reads a position of each half.

    A group is in half 0 if the number of ones in its address is even. So consecutive groups of a walk by a power of two
    are mostly in different halves.

    Timing: as in `Buffer`, for halves of banks instead of banks.

    Parameters
    ----------
    lanes, width, groups, regions, readers, writers
        As in `Buffer`. Regions have at least two groups.
    pair_readers : int
        Number of readers with a PairReadSignature. They are the first ones.

    Members
    -------
    reads_0, ... : In(PairReadSignature) or In(BufferReadSignature), one for each reader
    writes : In(BufferWriteSignature), one for each writer

    Raises
    ------
    TypeError, ValueError
        For a parameter out of range.

    Source: docs/core.md, "Memories".
    """

    halves = 2

    def __init__(
        self, *, lanes: int, width: int, groups: int, regions: int, readers: int, writers: int, pair_readers: int
    ) -> None:
        self.pair_readers = require_int("pair_readers", pair_readers, 0, readers)
        super().__init__(lanes=lanes, width=width, groups=groups, regions=regions, readers=readers, writers=writers)

    def _read_members(self, shape: dict[str, int]) -> dict[str, Any]:
        kinds = (PairReadSignature if k < self.pair_readers else BufferReadSignature for k in range(self.readers))
        return {f"reads_{k}": In(kind(**shape)) for k, kind in enumerate(kinds)}

    @property
    def read_ports(self) -> list[Any]:
        """The readers' ports, in their order."""
        return [getattr(self, f"reads_{k}") for k in range(self.readers)]

    def _bank_port(self, m: Module, name: str, port: Any) -> Any:
        """Return a port with one member per half of a bank."""
        if len(port.enable) == len(self.banks):  # a pair reader's
            return port
        reads, banks, bits = name.startswith("reads"), len(self.banks), self.lanes * self.width
        enable = Signal(banks, name=f"{name}_halves")
        half = Signal(self.lanes, name=f"{name}_half")
        m.d.comb += [
            *(half[k].eq(port.address[k].xor()) for k in range(self.lanes)),
            *(enable[2 * k + h].eq(port.enable[k] & (half[k] == h)) for k in range(self.lanes) for h in range(2)),
        ]
        address = [port.address[bank // 2][1:] for bank in range(banks)]
        data = [port.data[bank // 2] for bank in range(banks)]
        if reads:
            half_read = Signal(self.lanes, name=f"{name}_half_read", reset_less=True)
            data = [Signal(bits, name=f"{name}_data_{bank}") for bank in range(banks)]
            with m.If(port.valid & port.ready):
                m.d.sync += half_read.eq(half)
            m.d.comb += [port.data[k].eq(Mux(half_read[k], data[2 * k + 1], data[2 * k])) for k in range(self.lanes)]
        return SimpleNamespace(valid=port.valid, ready=port.ready, enable=enable, address=address, data=data)
