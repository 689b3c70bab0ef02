"""Write join: the write channels of several cores at one AXI4 port."""

from amaranth.hdl import Cat, Const, Module, Signal
from amaranth.lib.wiring import In, Out

from ..block import Block, placed
from ..one_hot import one_hot_mux
from ..short_queue import ShortQueue
from .axi import AxiWriteSignature
from .read_join import choose_least_recent, number_bits

__all__ = ["WriteJoin"]

QUEUED = 8
"""Maximum number of bursts whose data have not been written."""


class WriteJoin(Block):
    """Joins the writes of several cores. Addresses are taken in turn, and data in the order of addresses.

    Timing: an address is offered to memory in the cycle after it was taken. An address can be taken in each cycle.
    Data and answers pass through in the cycle in which they arrive; data not before the cycle after their address was
    taken.

    Parameters
    ----------
    cores : int
        Number of cores, 2 to 16.
    data_bits, address_bits : int
        Widths of the bus.

    Members
    -------
    cores : In(AxiWriteSignature), array
        The cores' writes. A core must offer an address, whatever becomes of its data.
    axi : Out(AxiWriteSignature)
        To memory. Writes of core k have ID 2k. Answers of different IDs may arrive in any order.

    Raises
    ------
    TypeError, ValueError
        For a parameter out of range.

    Source: AMBA AXI Protocol (IHI 0022), "Transaction ordering" and "Dependencies between channel handshake signals".
    """

    def __init__(self, *, cores: int, data_bits: int, address_bits: int) -> None:
        id_bits = 1 + number_bits(cores)
        self.number = cores
        self._queue = ShortQueue(bits=cores, places=QUEUED)
        bus = {"data_bits": data_bits, "address_bits": address_bits}
        super().__init__(
            {
                "cores": In(AxiWriteSignature(**bus, id_bits=1)).array(cores),
                "axi": Out(AxiWriteSignature(**bus, id_bits=id_bits)),
            }
        )

    def elaborate(self, platform):
        """Choose an address, and queue its core until its last beat of data is written."""
        m = Module()
        axi, number = self.axi, self.number
        queue = self._queue
        m.submodules.queue = placed(queue, platform)
        free = Signal()  # an address can be taken
        taken = Signal()
        valid = Cat(core.awvalid for core in self.cores)
        m.d.comb += [
            free.eq((~axi.awvalid | axi.awready) & ~queue.full),
            taken.eq(free & valid.any()),
        ]
        chosen = choose_least_recent(m, valid, taken)
        with m.If(axi.awready):
            m.d.sync += axi.awvalid.eq(0)
        with m.If(taken):
            m.d.sync += [
                axi.awvalid.eq(1),
                axi.awaddr.eq(one_hot_mux(chosen, [core.awaddr for core in self.cores])),
                axi.awlen.eq(one_hot_mux(chosen, [core.awlen for core in self.cores])),
                axi.awid.eq(one_hot_mux(chosen, [Const(k << 1, len(axi.awid)) for k in range(number)])),
            ]
        sender = queue.first  # the core whose data are written
        m.d.comb += [
            queue.added.eq(chosen),
            queue.adds.eq(taken),
            queue.leaves.eq(axi.wvalid & axi.wready & axi.wlast),
            *(
                getattr(axi, name).eq(one_hot_mux(sender, [getattr(core, name) for core in self.cores]))
                for name in ("wdata", "wstrb", "wlast", "wvalid")
            ),
            axi.bready.eq(Cat(core.bready for core in self.cores).all()),
        ]
        for k, core in enumerate(self.cores):
            m.d.comb += [
                core.awready.eq(taken & chosen[k]),
                core.wready.eq(axi.wready & sender[k]),
                core.bid.eq(0),
                core.bresp.eq(axi.bresp),
                core.bvalid.eq(axi.bvalid & axi.bready & (axi.bid[1:] == k)),
            ]
        return m
