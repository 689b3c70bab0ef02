"""AXI reader: splits requests for any number of beats into bursts, and returns the beats in order."""

from amaranth.hdl import Cat, Const, Module, Signal
from amaranth.lib import stream
from amaranth.lib.data import StructLayout
from amaranth.lib.wiring import In, Out

from ..block import Block
from ..configuration.parameters import require_bool, require_int
from .axi import AxiReadSignature, bounds_layout, request_layout
from .bursts import next_burst, require_bursts, within_bounds

__all__ = ["AxiReader", "read_beat_layout"]


def read_beat_layout(data_bits: int) -> StructLayout:
    """Return the layout of a beat from memory: its data, and whether memory answered with an error."""
    return StructLayout({"data": data_bits, "error": 1})


class AxiReader(Block):
    """Reads consecutive beats from memory, in bursts that end where the address is a multiple of a burst.

    The reader does not offer a burst outside of the bounds. It drops the rest of that request, and takes no request
    until it is reset.

    The requester must take the beats sooner or later, whatever else happens, because the bus may be shared.

    Timing: a request's first address is offered in the cycle after the request was taken, or after the last address of
    the previous request. Then one burst can begin in each cycle. Beats pass through in the cycle in which they arrive.

    Parameters
    ----------
    data_bits, address_bits : int
        Widths of the bus. Addresses count bytes.
    count_bits : int
        Bits of the number of beats in a request.
    outstanding : int
        Maximum number of outstanding bursts, 1 to 255.
    burst : int
        Beats of the longest burst, a power of two up to 256 and no more than 4 KiB.
    whole : bool
        Every request is one burst of `burst` beats, at a multiple of its size, and is not split.

    Members
    -------
    request : In(stream of request_layout)
        Beats to read.
    beats : Out(stream of read_beat_layout)
        The beats read.
    axi : Out(AxiReadSignature)
        To memory.
    bounds : In(bounds_layout)
        The pages that a burst may be in. Checked when its address is first offered.
    outside : Out(1)
        A burst has been outside of the bounds since the last reset.
    halt : In(1)
        From now on no burst begins, requests are dropped, and beats that still arrive are dropped.
    idle : Out(1)
        There is no request, and no burst is outstanding.

    Raises
    ------
    TypeError, ValueError
        For a parameter out of range.

    Source: docs/core.md, "Registers" (soft reset); AMBA AXI Protocol (IHI 0022), "Address structure".
    """

    def __init__(
        self,
        *,
        data_bits: int,
        address_bits: int,
        count_bits: int,
        outstanding: int,
        burst: int = 32,
        whole: bool = False,
    ) -> None:
        self.skipped = require_bursts(data_bits, address_bits, count_bits, burst)  # bits of an address below a beat
        self.data_bits, self.address_bits, self.count_bits, self.burst = data_bits, address_bits, count_bits, burst
        self.outstanding = require_int("outstanding", outstanding, 1, 255)
        self.whole = require_bool("whole", whole)
        super().__init__(
            {
                "request": In(stream.Signature(request_layout(address_bits - self.skipped, count_bits))),
                "beats": Out(stream.Signature(read_beat_layout(data_bits))),
                "axi": Out(AxiReadSignature(data_bits=data_bits, address_bits=address_bits)),
                "bounds": In(bounds_layout(address_bits)),
                "outside": Out(1),
                "halt": In(1),
                "idle": Out(1),
            },
            variant="whole" if whole else f"{burst}_beats",
        )

    def elaborate(self, platform):
        """Keep the rest of a request in registers, and count outstanding bursts."""
        m = Module()
        axi, request = self.axi, self.request
        beat = Signal(self.address_bits - self.skipped + 1, reset_less=True)  # where the next burst begins
        left = Signal(self.count_bits)  # beats of the request for which no burst has begun
        in_flight = Signal(range(self.outstanding + 1))
        offered = Signal()  # an address is offered, which must not be withdrawn
        length, closes = (left, Const(1)) if self.whole else next_burst(m, beat, left, self.burst)
        address_taken = Signal()
        ended = Signal()
        allowed = Signal()
        m.d.comb += [
            allowed.eq(within_bounds(self.bounds, beat, self.skipped)),
            axi.araddr.eq(Cat(Const(0, self.skipped), beat[:-1])),
            axi.arlen.eq(self.burst - 1 if self.whole else length - 1),
            axi.arvalid.eq(offered | ((left != 0) & (in_flight != self.outstanding) & allowed & ~self.halt)),
            address_taken.eq(axi.arvalid & axi.arready),
            request.ready.eq(((left == 0) | (address_taken & closes)) & ~self.halt & ~self.outside),
            self.beats.valid.eq(axi.rvalid & ~self.halt),
            self.beats.payload.data.eq(axi.rdata),
            self.beats.payload.error.eq(axi.rresp[1]),
            axi.rready.eq(self.beats.ready | self.halt),
            ended.eq(axi.rvalid & axi.rready & axi.rlast),
            self.idle.eq((left == 0) & (in_flight == 0)),
        ]
        m.d.sync += [offered.eq(axi.arvalid & ~axi.arready), in_flight.eq(in_flight + address_taken - ended)]
        with m.If(address_taken):
            m.d.sync += left.eq(left - length)
            if not self.whole:
                m.d.sync += beat.eq(beat + length)
        with m.If(self.halt & (address_taken | ~offered)):
            m.d.sync += left.eq(0)
        with m.If((left != 0) & ~offered & ~allowed):
            m.d.sync += [left.eq(0), self.outside.eq(1)]
        with m.If(request.valid & request.ready):
            m.d.sync += [beat.eq(request.payload.beat), left.eq(request.payload.count)]
        return m
