"""AXI writer: turns requests for any number of beats, and their data, into bursts, and counts the answers."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import stream
from amaranth.lib.data import StructLayout
from amaranth.lib.wiring import In, Out

from ..block import Block
from .axi import AxiWriteSignature, bounds_layout, request_layout
from .bursts import next_burst, require_bursts, within_bounds

__all__ = ["AxiWriter", "write_beat_layout"]

MAX_OUTSTANDING = 31
"""Bursts that may be without an answer. Nothing is kept of them, so that many cost next to nothing."""


def write_beat_layout(data_bits: int) -> StructLayout:
    """A beat for memory: its data, and which bytes are written."""
    return StructLayout({"data": data_bits, "strobe": data_bits // 8})


class AxiWriter(Block):
    """Writes beats that follow each other in memory, by bursts that end where the address is a multiple of a burst.

    A burst outside of the bounds is not offered. It and the rest of its request are dropped, and the writer takes no
    request until it is reset. Earlier bursts are finished.

    Timing: a burst's address is offered in the cycle after its request was taken, or after the address before it was,
    but not before the data of the last burst but one are sent; its data from the cycle after that on, one beat in a
    cycle. Data pass through in the cycle in which they come.

    Parameters
    ----------
    data_bits, address_bits : int
        Of the bus; bytes are addressed.
    count_bits : int
        Of the number of beats in a request.
    burst : int
        Beats of the longest burst, a power of two up to 256 and no more than 4 KiB.

    Members
    -------
    request : In(stream of request_layout)
        What to write.
    beats : In(stream of write_beat_layout)
        Data of all requests, one after the other. They may come before their request; they wait.
    axi : Out(AxiWriteSignature)
        To memory.
    failed : Out(1)
        In this cycle memory answers a burst with an error.
    bounds : In(bounds_layout)
        The pages that a burst may be in when its address is offered first.
    outside : Out(1)
        A burst was outside of the bounds since the last reset.
    halt : In(1)
        No burst begins from now on, requests are forgotten, and bursts that have begun end with strobes low.
    idle : Out(1)
        There is no request, and no burst without an answer.

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
        """Addresses run ahead of data by one burst at most: its length waits in a register."""
        m = Module()
        axi, request = self.axi, self.request
        beat = Signal(self.address_bits - self.skipped + 1, reset_less=True)  # where the next burst begins
        left = Signal(self.count_bits)  # beats that no address was taken for
        on_way = Signal(range(MAX_OUTSTANDING + 1))  # bursts without an answer
        offered = Signal()  # an address is offered, which must not be withdrawn
        waits = Signal()  # a burst has begun, and the data of the one before are not all sent
        length, closes = next_burst(m, beat, left, self.burst)
        begins = Signal()  # an address is offered for the first time
        begun = Signal()  # it is taken
        allowed = Signal()
        m.d.comb += [
            allowed.eq(within_bounds(self.bounds, beat, self.skipped)),
            begins.eq((left != 0) & ~offered & ~waits & (on_way != MAX_OUTSTANDING) & allowed & ~self.halt),
            axi.awaddr.eq(Cat(Const(0, self.skipped), beat[:-1])),
            axi.awlen.eq(length - 1),
            axi.awvalid.eq(offered | begins),
            begun.eq(axi.awvalid & axi.awready),
            request.ready.eq(((left == 0) | (begun & closes)) & ~self.halt & ~self.outside),
            axi.bready.eq(1),
            self.failed.eq(axi.bvalid & axi.bresp[1]),
            self.idle.eq((left == 0) & (on_way == 0)),
        ]
        m.d.sync += [offered.eq(axi.awvalid & ~axi.awready), on_way.eq(on_way + begins - axi.bvalid)]
        with m.If(begun):
            m.d.sync += [beat.eq(beat + length), left.eq(left - length)]
        with m.If(self.halt & (begun | ~offered)):
            m.d.sync += left.eq(0)
        with m.If((left != 0) & ~offered & ~allowed):
            m.d.sync += [left.eq(0), self.outside.eq(1)]
        with m.If(request.valid & request.ready):
            m.d.sync += [beat.eq(request.payload.beat), left.eq(request.payload.count)]
        self._send(m, begins, waits)
        return m

    def _send(self, m: Module, begins: Signal, waits: Signal) -> None:
        """The data of one burst after the other."""
        axi, beats = self.axi, self.beats
        waiting_length = Signal(8, reset_less=True)
        sends = Signal()  # a burst whose data are not all sent
        after = Signal(8, reset_less=True)  # its beats after the next one
        passes = Signal()  # a beat is what it shall be; otherwise its strobes are low
        stands = Signal()  # a beat was offered before `halt` and is not taken: it may not change
        sent = Signal()
        enters = Signal()
        m.d.comb += [
            passes.eq(~self.halt | stands),
            axi.wvalid.eq(sends & (beats.valid | ~passes)),
            axi.wdata.eq(beats.payload.data & passes.replicate(self.data_bits)),
            axi.wstrb.eq(beats.payload.strobe & passes.replicate(self.data_bits // 8)),
            axi.wlast.eq(after == 0),
            beats.ready.eq(sends & passes & axi.wready),
            sent.eq(axi.wvalid & axi.wready),
            enters.eq((waits | begins) & (~sends | (sent & axi.wlast))),
        ]
        m.d.sync += [stands.eq(axi.wvalid & ~axi.wready & passes), waits.eq((waits | begins) & ~enters)]
        with m.If(begins):
            m.d.sync += waiting_length.eq(axi.awlen)
        with m.If(enters):
            m.d.sync += [sends.eq(1), after.eq(Mux(waits, waiting_length, axi.awlen))]
        with m.Elif(sent):
            m.d.sync += [sends.eq(~axi.wlast), after.eq(after - 1)]
