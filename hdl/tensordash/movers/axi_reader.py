"""AXI reader: turns requests for any number of beats into bursts, and gives the beats in order."""

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
    """A beat that memory sent: its data, and whether memory answered with an error instead."""
    return StructLayout({"data": data_bits, "error": 1})


class AxiReader(Block):
    """Reads consecutive beats from memory, in bursts that end where the address is a multiple of a burst.

    A burst outside of the bounds is not offered. It and the rest of its request are dropped, and the reader takes no
    request until it is reset.

    Whoever asks must take the beats sooner or later whatever else happens, for the bus may be shared.

    Timing: a burst's address is offered in the cycle after its request was taken, or after the last address of the
    request before; one burst in a cycle. Beats pass through in the cycle in which they arrive.

    Parameters
    ----------
    data_bits, address_bits : int
        Of the bus; bytes are addressed.
    count_bits : int
        Of the number of beats in a request.
    outstanding : int
        Bursts on their way at once, 1 to 255.
    burst : int
        Beats of the longest burst, a power of two up to 256 and no more than 4 KiB.
    whole : bool
        Every request has `burst` beats, from an address that is a multiple of that: nothing is divided.

    Members
    -------
    request : In(stream of request_layout)
        What to read.
    beats : Out(stream of read_beat_layout)
        The beats.
    axi : Out(AxiReadSignature)
        To memory.
    bounds : In(bounds_layout)
        The pages that a burst may be in when its address is offered first.
    outside : Out(1)
        A burst was outside of the bounds since the last reset.
    halt : In(1)
        No burst begins from now on, requests are forgotten, beats that still come are dropped.
    idle : Out(1)
        There is no request, and no burst is on its way.

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
        """The rest of a request in a register, and a count of bursts."""
        m = Module()
        axi, request = self.axi, self.request
        beat = Signal(self.address_bits - self.skipped + 1, reset_less=True)  # where the next burst begins
        left = Signal(self.count_bits)  # beats for which no burst has begun
        on_way = Signal(range(self.outstanding + 1))
        offered = Signal()  # an address is offered, which must not be withdrawn
        length, closes = (left, Const(1)) if self.whole else next_burst(m, beat, left, self.burst)
        begun = Signal()
        ended = Signal()
        allowed = Signal()
        m.d.comb += [
            allowed.eq(within_bounds(self.bounds, beat, self.skipped)),
            axi.araddr.eq(Cat(Const(0, self.skipped), beat[:-1])),
            axi.arlen.eq(self.burst - 1 if self.whole else length - 1),
            axi.arvalid.eq(offered | ((left != 0) & (on_way != self.outstanding) & allowed & ~self.halt)),
            begun.eq(axi.arvalid & axi.arready),
            request.ready.eq(((left == 0) | (begun & closes)) & ~self.halt & ~self.outside),
            self.beats.valid.eq(axi.rvalid & ~self.halt),
            self.beats.payload.data.eq(axi.rdata),
            self.beats.payload.error.eq(axi.rresp[1]),
            axi.rready.eq(self.beats.ready | self.halt),
            ended.eq(axi.rvalid & axi.rready & axi.rlast),
            self.idle.eq((left == 0) & (on_way == 0)),
        ]
        m.d.sync += [offered.eq(axi.arvalid & ~axi.arready), on_way.eq(on_way + begun - ended)]
        with m.If(begun):
            m.d.sync += left.eq(left - length)
            if not self.whole:
                m.d.sync += beat.eq(beat + length)
        with m.If(self.halt & (begun | ~offered)):
            m.d.sync += left.eq(0)
        with m.If((left != 0) & ~offered & ~allowed):
            m.d.sync += [left.eq(0), self.outside.eq(1)]
        with m.If(request.valid & request.ready):
            m.d.sync += [beat.eq(request.payload.beat), left.eq(request.payload.count)]
        return m
