"""Load: moves groups from memory to the buffer, and inflates them."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib.wiring import In, Out, connect, flipped

from ..block import Block, placed
from ..configuration.core_config import CoreConfig
from ..configuration.descriptors import OPERATIONS
from ..configuration.registers import ERRORS
from ..memory.bank import group_address_bits
from ..memory.signature import BufferWriteSignature
from .axi import AxiReadSignature
from .axi_reader import AxiReader
from .compaction import unit_bits
from .inflate import Inflate
from .move_walk import MoveWalk
from .unit import CommandSignature, DescriptorRegister

__all__ = ["Load"]

ENTRY = 4
"""Bytes of an entry of a table."""


class Load(Block):
    """The unit `load`.

    Addresses of the next runs go out while data of earlier ones come. Of a group that takes several beats all but the
    last are kept here; with the last one it is written, also where memory answered with an error. A run that goes
    beyond the buffer's end is not read, and ends the move.

    Of a compressed move two entries of the table are read first; between the two the number of segments is found, a bit
    of it in a cycle. Units that are more than any masks could say are not read.

    Timing: a plain move asks for its first run two cycles after its descriptor is there, then for a run in each cycle;
    a group in each `group_bits / axi_bits` cycles. A compressed one asks for data about 20 cycles later, and the time
    that memory takes; then a group in a cycle, as long as its units are there.

    Parameters
    ----------
    config : CoreConfig
        The core.

    Members
    -------
    command : In(CommandSignature)
        Descriptors.
    axi : Out(AxiReadSignature)
        To memory.
    buffer : Out(BufferWriteSignature)
        To the buffer.
    halt : In(1)
        As of `AxiReader`: nothing new begins, and the unit is of no use until a reset.
    idle : Out(1)
        No burst is on its way.

    Source: docs/core.md, "Loops", "Tensors" and "Errors".
    """

    def __init__(self, *, config: CoreConfig) -> None:
        self.config = config
        lanes, width = config.tile.lanes, config.value_bits
        self.beats = config.group_bits // config.axi_bits  # of a group
        self.units = unit_bits(lanes, width)
        self.skipped = (config.axi_bits // 8).bit_length() - 1
        self._reader = AxiReader(
            data_bits=config.axi_bits,
            address_bits=config.address_bits,
            count_bits=max(16 + self.beats.bit_length() - 1, self.units - (config.axi_bits // width).bit_length() + 2),
            outstanding=config.outstanding,
        )
        self._inflate = (
            Inflate(lanes=lanes, width=width, data_bits=config.axi_bits, count_bits=self.units)
            if config.compression
            else None
        )
        address_bits = group_address_bits(config.groups)
        super().__init__(
            {
                "command": In(CommandSignature()),
                "axi": Out(AxiReadSignature(data_bits=config.axi_bits, address_bits=config.address_bits)),
                "buffer": Out(BufferWriteSignature(lanes=lanes, width=width, address_bits=address_bits)),
                "halt": In(1),
                "idle": Out(1),
            }
        )

    def elaborate(self, platform):
        """Requests on one side, groups on the other; both are done when no beat is on its way."""
        m = Module()
        m.submodules.reader = placed(self._reader, platform)
        if self._inflate is not None:
            m.submodules.inflate = placed(self._inflate, platform)
        reader = self._reader
        descriptor = DescriptorRegister(m, self.command, OPERATIONS["load"])
        walk = MoveWalk(m, descriptor, self.config)
        connect(m, flipped(self.axi), reader.axi)
        m.d.comb += [reader.halt.eq(self.halt), self.idle.eq(reader.idle)]

        compressed = descriptor["compressed"] if self._inflate is not None else Const(0)
        beyond = Signal()  # a run goes beyond the buffer's end
        refused = Signal()  # memory answered with an error
        wrong = Signal()  # a table that cannot be
        busy = self._inflate.active if self._inflate is not None else Const(0)
        found = wrong | (compressed & self._inflate.wrong) if self._inflate is not None else wrong
        m.d.comb += self.command.error.eq(
            Mux(beyond, ERRORS["range"], Mux(refused, ERRORS["read"], Mux(found, ERRORS["compressed"], 0)))
        )
        with m.If(reader.beats.valid & reader.beats.ready & reader.beats.payload.error):
            m.d.sync += refused.eq(1)
        data_come = Signal()
        with m.FSM(name="state"):
            with m.State("WAIT"):
                m.d.comb += walk.begin.eq(1)
                m.d.sync += [beyond.eq(0), refused.eq(0), wrong.eq(0)]
                with m.If(descriptor.present):
                    m.next = "FIRST"
            with m.State("FIRST"):
                if self._inflate is not None:
                    with m.If(compressed & walk.fits):
                        m.next = "TABLE"
                    with m.Else():
                        m.next = "RUNS"
                else:
                    m.next = "RUNS"
            with m.State("RUNS"):
                shift = self.beats.bit_length() - 1
                m.d.comb += [
                    reader.request.valid.eq(walk.fits),
                    reader.request.payload.beat.eq(walk.place << shift),
                    reader.request.payload.count.eq(descriptor["count_0"] << shift),
                    data_come.eq(1),
                ]
                with m.If(~walk.fits | reader.request.ready):
                    m.d.comb += walk.step.eq(1)
                    m.d.sync += beyond.eq(~walk.fits)
                    with m.If(~walk.fits | walk.last):
                        m.next = "DRAIN"
            with m.State("DRAIN"):
                m.d.comb += data_come.eq(1)
                with m.If(reader.idle & ~busy):
                    m.d.comb += self.command.done.eq(1)
                    m.next = "WAIT"
            if self._inflate is not None:
                self._read_table(m, descriptor, refused, wrong)
        self._write(m, descriptor, compressed, data_come)
        return m

    def _read_table(self, m: Module, descriptor: DescriptorRegister, refused: Signal, wrong: Signal) -> None:
        """States of a compressed move: two entries, then all units."""
        reader, inflate, config = self._reader, self._inflate, self.config
        assert inflate is not None
        unit_skipped = (config.value_bits // 8).bit_length() - 1
        count, segment = descriptor["count_0"], descriptor["segment"]
        asked = Signal(2)  # entries
        come = Signal(2)
        quotient = Signal(16, reset_less=True)  # what is not divided yet above it
        remainder = Signal(16, reset_less=True)
        turns = Signal(range(17), reset_less=True)
        first = Signal(32, reset_less=True)  # the segment's first unit
        words = config.axi_bits // 32
        word_bits = words.bit_length() - 1
        entry = Signal(config.address_bits - 2)
        table = Cat(descriptor["table"], descriptor["table_high"])[2 : config.address_bits]
        segments = Signal(17)
        shifted = Signal(17)
        lesser = Signal(18)
        word = Signal(32)
        which = Signal(max(1, word_bits))  # word of the beat in which the next entry comes
        m.d.comb += [
            segments.eq(quotient + (remainder != 0)),
            entry.eq(table + Mux(asked == 0, 0, segments)),
            shifted.eq(Cat(quotient[-1], remainder)),
            lesser.eq(shifted - segment),
            which.eq((table + Mux(come == 0, 0, segments)) if word_bits else 0),
            word.eq(reader.beats.payload.data.word_select(which, 32)),
        ]
        units = Signal(33, reset_less=True)
        with m.State("TABLE"):
            with m.If(asked == 0):
                m.d.sync += [quotient.eq(count), remainder.eq(0), turns.eq(16)]
            with m.Elif(turns != 0):
                m.d.sync += [
                    quotient.eq(Cat(~lesser[-1], quotient[:-1])),
                    remainder.eq(Mux(lesser[-1], shifted, lesser)),
                    turns.eq(turns - 1),
                ]
            m.d.comb += [
                reader.request.valid.eq((asked == 0) | ((asked == 1) & (turns == 0))),
                reader.request.payload.beat.eq(entry[word_bits:]),
                reader.request.payload.count.eq(1),
            ]
            with m.If(reader.request.valid & reader.request.ready):
                m.d.sync += asked.eq(asked + 1)
            with m.If(reader.beats.valid):
                m.d.sync += [come.eq(come + 1), first.eq(Mux(come == 0, word, first)), units.eq(word - first)]
            with m.If(come == 2):
                m.d.sync += [asked.eq(0), come.eq(0)]
                m.next = "UNITS"
        size = inflate.most
        most = Signal(self.units)
        place = Signal(config.address_bits - unit_skipped)
        memory = Cat(descriptor["memory"], descriptor["memory_high"])[unit_skipped : config.address_bits]
        ends = Signal(self.units + 2)
        offset = place[: inflate.shift]
        m.d.comb += [
            most.eq(count * size),
            place.eq(memory + first),
            ends.eq(units[: self.units] + offset + (inflate.beat - 1)),
            inflate.offset.eq(offset),
            inflate.units.eq(units),
            inflate.groups.eq(count),
        ]
        with m.State("UNITS"):
            m.d.comb += [
                reader.request.payload.beat.eq(place[inflate.shift :]),
                reader.request.payload.count.eq(ends[inflate.shift :]),
            ]
            with m.If(refused):
                m.next = "DRAIN"
            with m.Elif(units[-1] | (units == 0) | (units > most)):
                m.d.sync += wrong.eq(1)
                m.next = "DRAIN"
            with m.Else():
                m.d.comb += reader.request.valid.eq(1)
                with m.If(reader.request.ready):
                    m.d.comb += inflate.start.eq(1)
                    m.next = "DRAIN"

    def _write(self, m: Module, descriptor: DescriptorRegister, compressed: Value, data_come: Signal) -> None:
        """Groups into the buffer, one after the other."""
        beats, buffer, axi_bits = self._reader.beats, self.buffer, self.config.axi_bits
        address = Signal(len(buffer.address[0]), reset_less=True)
        whole = Signal()  # the beat ends its group
        group: Value = beats.payload.data
        moves = beats.valid & beats.ready & data_come
        if self.beats > 1:
            index = Signal(range(self.beats))
            earlier = Signal((self.beats - 1) * axi_bits, reset_less=True)
            group = Cat(earlier, beats.payload.data)
            m.d.comb += whole.eq(index == self.beats - 1)
            with m.If(moves & ~compressed):
                m.d.sync += [index.eq(index + 1), earlier.eq(group[axi_bits:])]
        else:
            m.d.comb += whole.eq(1)
        data, valid = group, beats.valid & whole & data_come
        taken, ready = valid & buffer.ready, ~whole | buffer.ready
        inflate = self._inflate
        if inflate is not None:
            m.d.comb += [
                inflate.beats.valid.eq(beats.valid & data_come & compressed),
                inflate.beats.payload.eq(beats.payload.data),
                inflate.out.ready.eq(buffer.ready),
            ]
            data = Mux(compressed, inflate.out.payload, group)
            valid = Mux(compressed, inflate.out.valid, valid)
            taken = Mux(compressed, inflate.out.valid & buffer.ready, taken)
            ready = Mux(compressed, inflate.beats.ready, ready)
        m.d.comb += [
            beats.ready.eq(~data_come | ready),
            buffer.valid.eq(valid),
            buffer.enable.eq(-1),
            buffer.data.as_value().eq(data),
            *(each.eq(address) for each in buffer.address),
        ]
        with m.If(taken & data_come):
            m.d.sync += address.eq(address + 1)
        with m.If(~data_come):
            m.d.sync += address.eq(descriptor["address"])
