"""AXI writer: splits requests for any number of beats into bursts, sends their data, and counts the responses."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import stream
from amaranth.lib.data import StructLayout
from amaranth.lib.wiring import In, Out

from ..block import Block
from .axi import AxiWriteSignature, bounds_layout, request_layout
from .bursts import next_burst, require_bursts, within_bounds

__all__ = ["AxiWriter", "write_beat_layout"]

MAX_OUTSTANDING = 31
"""Bursts that may wait for a response. The writer stores nothing for them but their number."""


def write_beat_layout(data_bits: int) -> StructLayout:
    """Return the layout of a beat to memory: its data, and which bytes are written."""
    return StructLayout({"data": data_bits, "strobe": data_bits // 8})


class AxiWriter(Block):
    """Writes consecutive beats to memory, in bursts that end where the address is a multiple of a burst.

    The writer does not offer a burst outside of the bounds. It drops the rest of that request, and takes no request
    until it is reset. It finishes earlier bursts.

    Timing: a burst's address is offered in the cycle after its request or the previous address was taken, but not
    before all data of the last burst but one are sent. Its data follow from the next cycle on, one beat per cycle. Data
    pass through in the cycle in which they arrive.

    Parameters
    ----------
    data_bits, address_bits : int
        Widths of the bus. Addresses count bytes.
    count_bits : int
        Bits of the number of beats in a request.
    burst : int
        Beats of the longest burst, a power of two up to 256 and no more than 4 KiB.

    Members
    -------
    request : In(stream of request_layout)
        Beats to write.
    beats : In(stream of write_beat_layout)
        Data of all requests, in order. Data that arrive before their request wait.
    axi : Out(AxiWriteSignature)
        To memory.
    failed : Out(1)
        Memory answers a burst with an error in this cycle.
    bounds : In(bounds_layout)
        The pages that a burst may be in. Checked when its address is first offered.
    outside : Out(1)
        A burst has been outside of the bounds since the last reset.
    halt : In(1)
        From now on no burst begins, requests are dropped, and bursts that have begun end with strobes low.
    idle : Out(1)
        There is no request, and memory has answered every burst.

    Raises
    ------
    TypeError, ValueError
        For a parameter out of range.

    Source: docs/core.md, "Registers" (soft reset); AMBA AXI Protocol (IHI 0022), "Address structure" and
    "Dependencies between channel handshake signals".
    """

    def __init__(self, *, data_bits: int, address_bits: int, count_bits: int, burst: int = 32) -> None:
        self.skipped = require_bursts(data_bits, address_bits, count_bits, burst)  # bits of an address below a beat
        self.data_bits, self.address_bits, self.count_bits, self.burst = data_bits, address_bits, count_bits, burst
        super().__init__(
            {
                "request": In(stream.Signature(request_layout(address_bits - self.skipped, count_bits))),
                "beats": In(stream.Signature(write_beat_layout(data_bits))),
                "axi": Out(AxiWriteSignature(data_bits=data_bits, address_bits=address_bits)),
                "failed": Out(1),
                "bounds": In(bounds_layout(address_bits)),
                "outside": Out(1),
                "halt": In(1),
                "idle": Out(1),
            }
        )

    def elaborate(self, platform):
        """Let addresses run ahead of data by at most one burst, whose length waits in a register."""
        m = Module()
        axi, request = self.axi, self.request
        beat = Signal(self.address_bits - self.skipped + 1, reset_less=True)  # where the next burst begins
        left = Signal(self.count_bits)  # beats of the request whose address was not taken
        in_flight = Signal(range(MAX_OUTSTANDING + 1))  # bursts that memory has not answered
        offered = Signal()  # an address is offered, which must not be withdrawn
        waits = Signal()  # a burst has begun before all data of the previous one are sent
        length, closes = next_burst(m, beat, left, self.burst)
        begins = Signal()  # an address is offered for the first time
        address_taken = Signal()  # it is taken
        allowed = Signal()
        m.d.comb += [
            allowed.eq(within_bounds(self.bounds, beat, self.skipped)),
            begins.eq((left != 0) & ~offered & ~waits & (in_flight != MAX_OUTSTANDING) & allowed & ~self.halt),
            axi.awaddr.eq(Cat(Const(0, self.skipped), beat[:-1])),
            axi.awlen.eq(length - 1),
            axi.awvalid.eq(offered | begins),
            address_taken.eq(axi.awvalid & axi.awready),
            request.ready.eq(((left == 0) | (address_taken & closes)) & ~self.halt & ~self.outside),
            axi.bready.eq(1),
            self.failed.eq(axi.bvalid & axi.bresp[1]),
            self.idle.eq((left == 0) & (in_flight == 0)),
        ]
        m.d.sync += [offered.eq(axi.awvalid & ~axi.awready), in_flight.eq(in_flight + begins - axi.bvalid)]
        with m.If(address_taken):
            m.d.sync += [beat.eq(beat + length), left.eq(left - length)]
        with m.If(self.halt & (address_taken | ~offered)):
            m.d.sync += left.eq(0)
        with m.If((left != 0) & ~offered & ~allowed):
            m.d.sync += [left.eq(0), self.outside.eq(1)]
        with m.If(request.valid & request.ready):
            m.d.sync += [beat.eq(request.payload.beat), left.eq(request.payload.count)]
        self._send(m, begins, waits)
        return m

    def _send(self, m: Module, begins: Signal, waits: Signal) -> None:
        """Send the data of the bursts, one after the other."""
        axi, beats = self.axi, self.beats
        waiting_length = Signal(8, reset_less=True)
        sends = Signal()  # a burst whose data are not all sent
        after = Signal(8, reset_less=True)  # its beats after the next one
        passes = Signal()  # a beat is written; otherwise its strobes are low
        must_stay = Signal()  # a beat was offered before `halt` and is not taken: it must not change
        sent = Signal()
        enters = Signal()
        m.d.comb += [
            passes.eq(~self.halt | must_stay),
            axi.wvalid.eq(sends & (beats.valid | ~passes)),
            axi.wdata.eq(beats.payload.data & passes.replicate(self.data_bits)),
            axi.wstrb.eq(beats.payload.strobe & passes.replicate(self.data_bits // 8)),
            axi.wlast.eq(after == 0),
            beats.ready.eq(sends & passes & axi.wready),
            sent.eq(axi.wvalid & axi.wready),
            enters.eq((waits | begins) & (~sends | (sent & axi.wlast))),
        ]
        m.d.sync += [must_stay.eq(axi.wvalid & ~axi.wready & passes), waits.eq((waits | begins) & ~enters)]
        with m.If(begins):
            m.d.sync += waiting_length.eq(axi.awlen)
        with m.If(enters):
            m.d.sync += [sends.eq(1), after.eq(Mux(waits, waiting_length, axi.awlen))]
        with m.Elif(sent):
            m.d.sync += [sends.eq(~axi.wlast), after.eq(after - 1)]
