"""Command queue: fetches descriptors from their ring in memory."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import stream
from amaranth.lib.data import StructLayout
from amaranth.lib.wiring import In, Out, connect, flipped

from ..block import Block, placed
from ..configuration.core_config import CoreConfig
from ..configuration.descriptors import BITS, BYTES
from ..movers.axi import AxiReadSignature, bounds_layout
from ..movers.axi_reader import AxiReader, read_beat_layout
from ..movers.unit import COMMAND_BEATS, COMMAND_BITS

__all__ = ["CommandQueue", "fetched_layout"]

AHEAD = 2
"""Descriptors on their way at once."""


def fetched_layout() -> StructLayout:
    """A beat of a descriptor, whether memory answered its read with an error, and whether it is outside the bounds."""
    return StructLayout({**read_beat_layout(COMMAND_BITS).members, "outside": 1})


class CommandQueue(Block):
    """Asks for a descriptor as soon as it is in the ring and there is a place for it, so that it can always be taken.

    A descriptor outside of the bounds is not read. After all before it the queue offers beats that are marked, until it
    is reset.

    Timing: a descriptor in as many cycles as it has beats of the bus, or in 4 if there are less. Of a beat of the bus
    that has several of a descriptor the first passes through, and the others wait here; when the next one can be taken
    is known at the cycle's begin.

    Parameters
    ----------
    config : CoreConfig
        The core.

    Members
    -------
    enable : In(1), queue_base : In(address_bits + 1), queue_size : In(4), tail : In(32)
        Of the registers.
    done : In(32)
        Descriptors that have left their places.
    head : Out(32)
        Descriptors fetched.
    descriptors : Out(stream of fetched_layout)
        Four beats for each, its lowest bits first.
    axi : Out(AxiReadSignature)
        To memory.
    bounds : In(bounds_layout)
        The pages of memory that it may read.
    halt : In(1), idle : Out(1)
        As of `AxiReader`.

    Source: docs/core.md, "Registers".
    """

    def __init__(self, *, config: CoreConfig) -> None:
        self.config = config
        self.beats = BITS // config.axi_bits
        self._reader = AxiReader(
            data_bits=config.axi_bits,
            address_bits=config.address_bits,
            count_bits=self.beats.bit_length(),
            outstanding=AHEAD,
            burst=self.beats,
            whole=True,
        )
        super().__init__(
            {
                "enable": In(1),
                "queue_base": In(config.address_bits + 1),
                "queue_size": In(4),
                "tail": In(32),
                "done": In(32),
                "head": Out(32),
                "descriptors": Out(stream.Signature(fetched_layout())),
                "axi": Out(AxiReadSignature(data_bits=config.axi_bits, address_bits=config.address_bits)),
                "bounds": In(bounds_layout(config.address_bits)),
                "halt": In(1),
                "idle": Out(1),
            }
        )

    def elaborate(self, platform):
        """A count of those that were asked for, and what turns beats of the bus into beats of a descriptor."""
        m = Module()
        config, reader, out = self.config, self._reader, self.descriptors
        m.submodules.reader = placed(reader, platform)
        connect(m, flipped(self.axi), reader.axi)
        asked = Signal(32)
        place = Signal(15)
        shift = BYTES.bit_length() - 1
        address = Signal(config.address_bits - shift + 1)  # the highest bit: above the highest address
        in_ring = self.queue_base[shift:-1] + place
        wanted = Signal(32)
        m.d.comb += [
            wanted.eq(asked - self.done),
            place.eq(asked & ~(Const(-1, 15) << self.queue_size)),
            address.eq(Cat(in_ring[:-1], in_ring[-1] | self.queue_base[-1])),
            reader.request.valid.eq(self.enable & (asked != self.tail) & (wanted < config.window)),
            reader.request.payload.beat.eq(Cat(Const(0, self.beats.bit_length() - 1), address)),
            reader.request.payload.count.eq(self.beats),
            reader.bounds.eq(self.bounds),
            reader.halt.eq(self.halt),
            self.idle.eq(reader.idle),
        ]
        with m.If(reader.request.valid & reader.request.ready):
            m.d.sync += asked.eq(asked + 1)
        beat = Signal(range(COMMAND_BEATS))
        self._convert(m)
        refuses = Signal()  # all before the descriptor that is outside have passed
        with m.If(reader.outside & reader.idle & (beat == 0)):
            m.d.sync += refuses.eq(1)
        with m.If(refuses):
            m.d.comb += [out.valid.eq(1), out.payload.outside.eq(1)]
        with m.If(out.valid & out.ready & ~refuses):
            m.d.sync += beat.eq(beat + 1)
            with m.If(beat == COMMAND_BEATS - 1):
                m.d.sync += self.head.eq(self.head + 1)
        return m

    def _convert(self, m: Module) -> None:
        """Beats of the bus into beats of a descriptor."""
        beats, out, axi_bits = self._reader.beats, self.descriptors, self.config.axi_bits
        data: Value = beats.payload.data
        if axi_bits < COMMAND_BITS:
            count = COMMAND_BITS // axi_bits
            index = Signal(range(count))
            earlier = Signal(COMMAND_BITS - axi_bits, reset_less=True)
            wrong = Signal()
            whole = Cat(earlier, data)
            last = index == count - 1
            m.d.comb += [
                out.valid.eq(beats.valid & last),
                out.payload.data.eq(whole),
                out.payload.error.eq(beats.payload.error | wrong),
                beats.ready.eq(out.ready | ~last),
            ]
            with m.If(beats.valid & beats.ready):
                m.d.sync += [index.eq(index + 1), earlier.eq(whole[axi_bits:])]
                m.d.sync += wrong.eq(~last & (wrong | beats.payload.error))
            return
        count = axi_bits // COMMAND_BITS
        if count == 1:
            m.d.comb += [out.valid.eq(beats.valid), out.payload.error.eq(beats.payload.error)]
            m.d.comb += [out.payload.data.eq(data), beats.ready.eq(out.ready)]
            return
        index = Signal(range(count))  # of the next one; others than the first wait in `rest`
        rest = Signal(axi_bits - COMMAND_BITS, reset_less=True)
        failed = Signal(reset_less=True)
        first = index == 0
        m.d.comb += [
            out.valid.eq(beats.valid | ~first),
            out.payload.data.eq(Mux(first, data[:COMMAND_BITS], rest[:COMMAND_BITS])),
            out.payload.error.eq(Mux(first, beats.payload.error, failed)),
            beats.ready.eq(out.ready & first),
        ]
        with m.If(out.valid & out.ready):
            m.d.sync += [index.eq(index + 1), rest.eq(Mux(first, data[COMMAND_BITS:], rest[COMMAND_BITS:]))]
            with m.If(first):
                m.d.sync += failed.eq(beats.payload.error)
