"""Command queue: fetches descriptors from their ring in memory, ahead of the sequencer."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import stream
from amaranth.lib.data import StructLayout
from amaranth.lib.wiring import In, Out, connect, flipped

from ..block import Block, placed
from ..configuration.core_config import CoreConfig
from ..configuration.descriptors import BITS, BYTES
from ..memory.memory import Memory
from ..movers.axi import AxiReadSignature, bounds_layout
from ..movers.axi_reader import AxiReader, read_beat_layout
from ..movers.unit import COMMAND_BEATS, COMMAND_BITS

__all__ = ["CommandQueue", "fetched_layout"]


def fetched_layout() -> StructLayout:
    """Return the layout of a descriptor's beat: data, whether memory answered with an error, whether out of bounds."""
    return StructLayout({**read_beat_layout(COMMAND_BITS).members, "outside": 1})


class CommandQueue(Block):
    """Fetches descriptors into a FIFO as soon as they are in the ring, and forwards them while the window has room.

    The queue reserves a place of the FIFO before it fetches a descriptor, so it takes each beat when it comes. The
    FIFO is a memory with a word for each beat of the bus.

    The queue does not read a descriptor outside of the bounds. After the descriptors before it, the queue offers marked
    beats until it is reset.

    Timing: a descriptor is offered 3 cycles after its first 128 bits arrived (with a bus of 32 or 64 bits: after their
    last beat). A descriptor takes as many cycles as it has beats of the bus, or 4 if it has fewer.

    Parameters
    ----------
    config : CoreConfig
        The core.

    Members
    -------
    enable : In(1), queue_base : In(address_bits + 1), queue_size : In(4), tail : In(32)
        Values of the registers.
    done : In(32)
        Descriptors that have left their places in the window.
    head : Out(32)
        Descriptors fetched.
    busy : Out(1)
        A descriptor waits for its fetch, or is fetched and not done.
    descriptors : Out(stream of fetched_layout)
        Four beats per descriptor, its lowest bits first.
    axi : Out(AxiReadSignature)
        To memory.
    bounds : In(bounds_layout)
        The pages of memory that it may read.
    halt : In(1), idle : Out(1)
        As in `AxiReader`.

    Source: docs/core.md, "Registers".
    """

    def __init__(self, *, config: CoreConfig) -> None:
        self.config = config
        self.beats = BITS // config.axi_bits
        self._reader = AxiReader(
            data_bits=config.axi_bits,
            address_bits=config.address_bits,
            count_bits=self.beats.bit_length(),
            outstanding=config.prefetch,
            burst=self.beats,
            whole=True,
        )
        self._words = config.prefetch * self.beats
        self._fifo = Memory(words=self._words, bits=config.axi_bits + 1)
        super().__init__(
            {
                "enable": In(1),
                "queue_base": In(config.address_bits + 1),
                "queue_size": In(4),
                "tail": In(32),
                "done": In(32),
                "head": Out(32),
                "busy": Out(1),
                "descriptors": Out(stream.Signature(fetched_layout())),
                "axi": Out(AxiReadSignature(data_bits=config.axi_bits, address_bits=config.address_bits)),
                "bounds": In(bounds_layout(config.address_bits)),
                "halt": In(1),
                "idle": Out(1),
            }
        )

    def elaborate(self, platform):
        """Count the descriptors requested and those forwarded. The FIFO is between the two."""
        m = Module()
        config, reader, out = self.config, self._reader, self.descriptors
        m.submodules.reader = placed(reader, platform)
        m.submodules.fifo = placed(self._fifo, platform)
        connect(m, flipped(self.axi), reader.axi)
        requested = Signal(32)
        # Differences of counts need the bits of the largest difference.
        count_bits = (config.window + config.prefetch).bit_length()
        forwarded = Signal(count_bits)
        ahead = Signal(count_bits)  # descriptors with a place in the FIFO
        held = Signal(count_bits)  # descriptors in the window
        in_ring = Signal()  # the ring holds a descriptor that was not requested
        unfetched = Signal()
        unfinished = Signal()  # a descriptor was requested and is not done
        place = Signal(15)
        shift = BYTES.bit_length() - 1
        address = Signal(config.address_bits - shift + 1)  # the highest bit is set above the highest address
        with_place = self.queue_base[shift:-1] + place
        m.d.comb += [
            ahead.eq(requested - forwarded),
            held.eq(forwarded - self.done),
            in_ring.eq(requested != self.tail),
            unfetched.eq(self.enable & in_ring),
            unfinished.eq(requested[:count_bits] != self.done[:count_bits]),
            self.busy.eq(unfetched | unfinished),
            place.eq(requested & ~(Const(-1, 15) << self.queue_size)),
            address.eq(Cat(with_place[:-1], with_place[-1] | self.queue_base[-1])),
            reader.request.valid.eq(unfetched & (ahead < config.prefetch)),
            reader.request.payload.beat.eq(Cat(Const(0, self.beats.bit_length() - 1), address)),
            reader.request.payload.count.eq(self.beats),
            reader.bounds.eq(self.bounds),
            reader.halt.eq(self.halt),
            self.idle.eq(reader.idle),
        ]
        with m.If(reader.request.valid & reader.request.ready):
            m.d.sync += requested.eq(requested + 1)
        beat = Signal(range(COMMAND_BEATS))
        room = held < config.window
        self._convert(m, self._store(m), room)
        refuses = Signal()  # all descriptors before the one out of bounds have passed
        with m.If(reader.outside & reader.idle & self._empty & (beat == 0)):
            m.d.sync += refuses.eq(1)
        with m.If(refuses):
            m.d.comb += [out.valid.eq(room), out.payload.outside.eq(1)]
        with m.If(out.valid & out.ready & ~refuses):
            m.d.sync += beat.eq(beat + 1)
            with m.If(beat == COMMAND_BEATS - 1):
                m.d.sync += forwarded.eq(forwarded + 1)
        return m

    def _store(self, m: Module) -> Signal:
        """Move beats of the bus through the FIFO; return a signal that the caller drives when the word is used up."""
        beats, fifo = self._reader.beats, self._fifo
        written = Signal(range(2 * self._words))
        read = Signal(range(2 * self._words))
        self._present = Signal(name="present")  # the FIFO's output is a word that is not used up
        used = Signal(name="used")
        self._empty = Signal(name="empty")
        m.d.comb += [
            self._empty.eq((written == read) & ~self._present),
            beats.ready.eq(1),
            fifo.write_enable.eq(beats.valid),
            fifo.write_address.eq(written),
            fifo.write_data.eq(Cat(beats.payload.data, beats.payload.error)),
            fifo.read_enable.eq((written != read) & (~self._present | used)),
            fifo.read_address.eq(read),
        ]
        with m.If(beats.valid):
            m.d.sync += written.eq(written + 1)
            with m.If(written % self.beats == self.beats - 1):
                m.d.sync += self.head.eq(self.head + 1)
        with m.If(fifo.read_enable):
            m.d.sync += [read.eq(read + 1), self._present.eq(1)]
        with m.Elif(used):
            m.d.sync += self._present.eq(0)
        return used

    def _convert(self, m: Module, used: Signal, room: Value) -> None:
        """Convert words of the FIFO to beats of a descriptor, while the window has room."""
        out, axi_bits, present = self.descriptors, self.config.axi_bits, self._present
        data, failed = self._fifo.read_data[:axi_bits], self._fifo.read_data[axi_bits]
        if axi_bits >= COMMAND_BITS:
            index = Signal(range(axi_bits // COMMAND_BITS))  # of the beat within the word
            last_part = Signal()
            m.d.comb += [
                last_part.eq(index == axi_bits // COMMAND_BITS - 1),
                out.valid.eq(present & room),
                out.payload.data.eq(data.word_select(index, COMMAND_BITS)),
                out.payload.error.eq(failed),
                used.eq(out.valid & out.ready & last_part),
            ]
            with m.If(out.valid & out.ready):
                m.d.sync += index.eq(index + 1)
            return
        count = COMMAND_BITS // axi_bits
        index = Signal(range(count))  # of the word within the beat
        earlier = Signal(COMMAND_BITS - axi_bits, reset_less=True)
        earlier_failed = Signal()
        whole = Cat(earlier, data)
        last = index == count - 1
        m.d.comb += [
            out.valid.eq(present & last & room),
            out.payload.data.eq(whole),
            out.payload.error.eq(failed | earlier_failed),
            used.eq(present & Mux(last, room & out.ready, 1)),
        ]
        with m.If(used):
            m.d.sync += [index.eq(index + 1), earlier.eq(whole[axi_bits:])]
            m.d.sync += earlier_failed.eq(~last & (earlier_failed | failed))
