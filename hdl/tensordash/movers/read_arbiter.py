"""Read arbiter: two readers at one AXI4 port."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib.wiring import In, Out

from ..block import Block
from .axi import AxiReadSignature

__all__ = ["ReadArbiter"]


class ReadArbiter(Block):
    """Gives the first reader's addresses priority over the second's, and routes data by ID: 0 and 1.

    The first reader must leave cycles without a request, so that the second one is served. A beat is transferred only
    while both readers are ready. So `rready` depends on nothing that memory drives in the same cycle, and the arbiter
    stores no beat. A reader must not wait for the other one's data. A beat that is not transferred stays.

    Timing: everything passes through in the same cycle. `rready` depends only on the readers' `rready`.

    Parameters
    ----------
    data_bits, address_bits : int
        Widths of the bus.

    Members
    -------
    first, second : In(AxiReadSignature)
        The readers, without IDs.
    axi : Out(AxiReadSignature)
        To memory, with an ID of one bit. Data of the two readers may arrive in any order.

    Source: AMBA AXI Protocol (IHI 0022), "Transaction ordering" and "Handshake process" (no combinational paths
    between inputs and outputs).
    """

    def __init__(self, *, data_bits: int, address_bits: int) -> None:
        self._skipped = (data_bits // 8).bit_length() - 1  # bits of an address below a beat
        shape = {"data_bits": data_bits, "address_bits": address_bits}
        super().__init__(
            {
                "first": In(AxiReadSignature(**shape)),
                "second": In(AxiReadSignature(**shape)),
                "axi": Out(AxiReadSignature(**shape, id_bits=1)),
            }
        )

    def elaborate(self, platform):
        """Select a reader, and hold the selection while its address waits."""
        m = Module()
        first, second, axi, skipped = self.first, self.second, self.axi, self._skipped
        chosen = Signal()  # 1: the second reader
        waits = Signal()
        earlier = Signal(reset_less=True)
        m.d.comb += [
            chosen.eq(Mux(waits, earlier, ~first.arvalid)),
            axi.arid.eq(chosen),
            # Bursts begin at a beat's address.
            axi.araddr.eq(Cat(Const(0, skipped), Mux(chosen, second.araddr[skipped:], first.araddr[skipped:]))),
            axi.arlen.eq(Mux(chosen, second.arlen, first.arlen)),
            axi.arvalid.eq(Mux(chosen, second.arvalid, first.arvalid)),
            axi.rready.eq(first.rready & second.rready),
        ]
        for number, (reader, other) in enumerate(((first, second), (second, first))):
            m.d.comb += [
                reader.arready.eq(axi.arready & (chosen == number)),
                reader.rvalid.eq(axi.rvalid & (axi.rid == number) & other.rready),
                reader.rdata.eq(axi.rdata),
                reader.rresp.eq(axi.rresp),
                reader.rlast.eq(axi.rlast),
            ]
        m.d.sync += waits.eq(axi.arvalid & ~axi.arready)
        with m.If(~waits):
            m.d.sync += earlier.eq(chosen)
        return m
