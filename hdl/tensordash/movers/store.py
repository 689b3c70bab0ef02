"""Store: moves groups from the buffer to memory, deflates them, and records counts."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib.wiring import In, Out, connect, flipped

from ..block import Block, placed
from ..configuration.core_config import CoreConfig
from ..configuration.descriptors import OPERATIONS
from ..configuration.registers import ERRORS
from ..memory.bank import group_address_bits
from ..memory.signature import BufferReadSignature
from .axi import AxiWriteSignature
from .axi_writer import AxiWriter
from .compaction import unit_bits
from .deflate import Deflate
from .move_walk import MoveWalk
from .unit import CommandSignature, DescriptorRegister

__all__ = ["Store"]

RECORD_BITS = 256


class Store(Block):
    """The unit `store`: operations `store` and `record`.

    What the buffer gives waits in one register. The next group is read before that one has left; if it comes too early,
    it is dropped, and read again when there is room. A run that goes beyond the buffer's end is not written, and ends
    the move.

    Of a compressed move nobody knows how long it becomes: a burst is asked for as soon as two beats of it are there.
    Entries of the table are bursts of one beat in between.

    Timing: a plain move asks for its first run two cycles after its descriptor is there, then for a run in each cycle;
    a group in each `group_bits / axi_bits` cycles. A compressed one takes a group in a cycle as long as the bus keeps
    up; at each entry of the table it waits until what was compressed before is sent.

    Parameters
    ----------
    config : CoreConfig
        The core.

    Members
    -------
    command : In(CommandSignature)
        Descriptors.
    buffer : Out(BufferReadSignature)
        To the buffer.
    axi : Out(AxiWriteSignature)
        To memory.
    zeros, non_finite, overflow : In(32)
        Counts of the output unit.
    clear : Out(1)
        They have been taken in this cycle, and begin anew.
    halt : In(1)
        As of `AxiWriter`: nothing new begins, and the unit is of no use until a reset.
    idle : Out(1)
        No burst is without an answer.

    Source: docs/core.md, "Loops", "Tensors", "Multiply" (counts) and "Errors".
    """

    def __init__(self, *, config: CoreConfig) -> None:
        self.config = config
        lanes, width = config.tile.lanes, config.value_bits
        self.beats = config.group_bits // config.axi_bits  # of a group
        self.record_beats = max(1, RECORD_BITS // config.axi_bits)
        self.skipped = (config.axi_bits // 8).bit_length() - 1
        self.units = unit_bits(lanes, width)
        self._writer = AxiWriter(
            data_bits=config.axi_bits,
            address_bits=config.address_bits,
            count_bits=max(4, 16 + self.beats.bit_length() - 1),
        )
        self._deflate = Deflate(lanes=lanes, width=width, data_bits=config.axi_bits) if config.compression else None
        address_bits = group_address_bits(config.groups)
        super().__init__(
            {
                "command": In(CommandSignature()),
                "buffer": Out(BufferReadSignature(lanes=lanes, width=width, address_bits=address_bits)),
                "axi": Out(AxiWriteSignature(data_bits=config.axi_bits, address_bits=config.address_bits)),
                "zeros": In(32),
                "non_finite": In(32),
                "overflow": In(32),
                "clear": Out(1),
                "halt": In(1),
                "idle": Out(1),
            }
        )
        self._waits = Signal(name="waits")  # there is no descriptor
        self._group = Signal(config.group_bits, name="group", reset_less=True)  # the oldest that was read
        self._present = Signal(name="group_present")
        self._leaves = Signal(name="group_leaves")
        self._beat = Signal(range(max(self.beats, 2)), name="beat")  # of the group, if it is sent as it is
        self._end = Signal(17, name="end_of_reads", reset_less=True)  # the group of the buffer after the last to read
        self._plain = Signal(name="plain")  # groups are sent as they are
        self._compressed = Signal(name="compressed")  # groups are deflated
        self._units_sent = Signal(name="units_sent")  # all of them, and the table
        self._all_read = Signal(name="all_read")  # none is to come

    def elaborate(self, platform):
        """Requests on one side, groups on the other; both are done when all bursts are answered."""
        m = Module()
        config, writer, deflate = self.config, self._writer, self._deflate
        m.submodules.writer = placed(writer, platform)
        connect(m, flipped(self.axi), writer.axi)
        descriptor = DescriptorRegister(m, self.command, OPERATIONS["store"])
        walk = MoveWalk(m, descriptor, config)
        self._read(m, descriptor)
        self._send_groups(m)
        beyond = Signal()  # a run goes beyond the buffer's end
        refused = Signal()  # memory answered with an error
        m.d.comb += [
            writer.halt.eq(self.halt),
            self.idle.eq(writer.idle),
            self.command.error.eq(Mux(beyond, ERRORS["range"], Mux(refused, ERRORS["write"], 0))),
        ]
        with m.If(writer.failed):
            m.d.sync += refused.eq(1)
        shift = self.beats.bit_length() - 1
        with m.FSM(name="state"):
            with m.State("WAIT"):
                m.d.comb += [walk.begin.eq(1), self._waits.eq(1)]
                m.d.sync += [beyond.eq(0), refused.eq(0), self._end.eq(descriptor["address"])]
                with m.If(descriptor.present):
                    m.next = "FIRST"
            with m.State("FIRST"):
                with m.If(descriptor["operation"] == OPERATIONS["record"].code):
                    m.d.comb += self.clear.eq(1)
                    m.next = "RECORD"
                with m.Elif((descriptor["compressed"] if deflate is not None else Const(0)) & walk.fits):
                    m.d.sync += self._end.eq(walk.end)
                    m.next = "UNITS" if deflate is not None else "RUNS"
                with m.Else():
                    m.next = "RUNS"
            with m.State("RUNS"):
                m.d.comb += [
                    writer.request.valid.eq(walk.fits),
                    writer.request.payload.beat.eq(walk.place << shift),
                    writer.request.payload.count.eq(descriptor["count_0"] << shift),
                ]
                m.d.comb += self._plain.eq(1)
                with m.If(~walk.fits | writer.request.ready):
                    m.d.comb += walk.step.eq(1)
                    m.d.sync += beyond.eq(~walk.fits)
                    with m.If(walk.fits):
                        m.d.sync += self._end.eq(walk.end)
                    with m.If(~walk.fits | walk.last):
                        m.next = "DRAIN"
            with m.State("DRAIN"):
                m.d.comb += self._plain.eq(1)
                with m.If(writer.idle):
                    m.d.comb += self.command.done.eq(1)
                    m.next = "WAIT"
            self._record(m, descriptor)
            if deflate is not None:
                with m.State("UNITS"):
                    m.d.comb += self._compressed.eq(1)
                    with m.If(self._units_sent):
                        m.next = "DRAIN"
        if deflate is not None:
            m.submodules.deflate = placed(deflate, platform)
            self._write_units(m, descriptor, deflate)
        return m

    def _read(self, m: Module, descriptor: DescriptorRegister) -> None:
        """Read groups up to `_end`, one ahead of the one that is held."""
        buffer, group, held, leaves = self.buffer, self._group, self._present, self._leaves
        address = Signal(17, reset_less=True)
        comes = Signal()  # the buffer gives one in this cycle
        dropped = Signal()  # for which there is no room
        stands = Signal(name="group_stands")  # one was dropped; nothing is read until the one that is held leaves
        asks = Signal()
        taken = Signal()
        # When the next one comes, the one that is held should be at its last beat; deflated it is gone in a cycle.
        soon = Signal(name="group_soon")
        if self.beats > 1:
            nearly = self._beat >= self.beats - 2 if self.beats > 2 else Const(1)
            m.d.comb += soon.eq(self._compressed | (~comes & (~held | nearly)))
        else:
            m.d.comb += soon.eq(1)
        m.d.comb += [
            asks.eq(~self._waits & (address != self._end)),
            self._all_read.eq(~asks & ~comes & ~held),
            dropped.eq(comes & held & ~leaves),
            buffer.valid.eq(asks & soon & ~dropped & (~stands | leaves)),
            buffer.enable.eq(-1),
            *(each.eq(address) for each in buffer.address),
            taken.eq(buffer.valid & buffer.ready),
        ]
        m.d.sync += [comes.eq(taken), held.eq((held & ~leaves) | comes)]
        with m.If(dropped):
            m.d.sync += [stands.eq(1), address.eq(address - 1)]
        with m.Elif(leaves):
            m.d.sync += stands.eq(0)
        with m.If(comes & ~dropped):
            m.d.sync += group.eq(buffer.data.as_value())
        with m.If(taken):
            m.d.sync += address.eq(address + 1)
        with m.If(self._waits):
            m.d.sync += address.eq(descriptor["address"])
        # Counts that change later must not change a beat that waits.
        counts = Cat(self.zeros, self.non_finite, self.overflow, Const(0, min(RECORD_BITS, len(group)) - 96))
        with m.If(self.clear):
            m.d.sync += group.eq(counts.replicate(max(1, len(group) // RECORD_BITS)))

    def _piece(self, index: Value) -> Value:
        """A beat of the oldest group."""
        axi_bits = self.config.axi_bits
        return self._group.word_select(index, axi_bits) if self.beats > 1 else self._group

    def _send_groups(self, m: Module) -> None:
        """Beats of groups as they are."""
        beats = self._writer.beats
        index = self._beat
        sent = Signal()
        m.d.comb += [
            sent.eq(self._plain & self._present & beats.ready),
            beats.valid.eq(self._plain & self._present),
            beats.payload.data.eq(self._piece(index)),
            beats.payload.strobe.eq(-1),
        ]
        with m.If(self._plain):
            m.d.comb += self._leaves.eq(sent & (index == self.beats - 1))
        if self.beats > 1:
            with m.If(sent):
                m.d.sync += index.eq(index + 1)

    def _record(self, m: Module, descriptor: DescriptorRegister) -> None:
        """The state of a record: counts stand where a group would."""
        writer, config = self._writer, self.config
        asked = Signal()
        sent = Signal(range(self.record_beats + 1))
        memory = Cat(descriptor["memory"], descriptor["memory_high"])[: config.address_bits]
        with m.State("RECORD"):
            m.d.comb += [
                writer.request.valid.eq(~asked),
                writer.request.payload.beat.eq(memory[self.skipped :]),
                writer.request.payload.count.eq(self.record_beats),
                writer.beats.valid.eq(sent != self.record_beats),
                # A small group has room for less than a record, whose upper half is zero.
                writer.beats.payload.data.eq(Mux(sent < self.beats, self._piece(sent), 0)),
            ]
            if config.axi_bits > RECORD_BITS:
                half = RECORD_BITS // 8
                m.d.comb += writer.beats.payload.strobe.eq(((1 << half) - 1) << (memory[5 : self.skipped] << 5))
            with m.If(writer.request.ready):
                m.d.sync += asked.eq(1)
            with m.If(writer.beats.valid & writer.beats.ready):
                m.d.sync += sent.eq(sent + 1)
            with m.If(asked & (sent == self.record_beats)):
                m.d.sync += [asked.eq(0), sent.eq(0)]
                m.next = "DRAIN"

    def _write_units(self, m: Module, descriptor: DescriptorRegister, deflate: Deflate) -> None:
        """A compressed store: bursts of units, and entries of the table in between."""
        writer, config = self._writer, self.config
        unit_skipped = (config.value_bits // 8).bit_length() - 1
        word_bits = self.skipped - 2
        memory = Cat(descriptor["memory"], descriptor["memory_high"])[: config.address_bits]
        table = Cat(descriptor["table"], descriptor["table_high"])[2 : config.address_bits]
        units = Signal(self.units, reset_less=True)  # all up to now
        segment_left = Signal(16, reset_less=True)  # groups of the segment that are to come
        entry = Signal(self.units, reset_less=True)
        entry_waits = Signal()
        entries_end = Signal()  # the last one, which says where all ends, has been made
        takes = Signal()
        begins_segment = Signal()
        m.d.comb += [
            begins_segment.eq(segment_left == 0),
            deflate.groups.payload.eq(self._group),
            deflate.offset.eq(memory[unit_skipped : self.skipped]),
            deflate.flush.eq(entries_end),
        ]
        place = Signal(config.address_bits - self.skipped, reset_less=True)  # of the next beat of units
        entry_place = Signal(config.address_bits - 2, reset_less=True)
        sends_entry = Signal()
        asks = Signal()
        to_send = Signal(range(deflate.slots + 1))  # beats that were asked for
        fresh = Signal(range(deflate.slots + 1))  # beats that can leave, and were not
        count = Signal(range(deflate.slots + 1), reset_less=True)
        sent = Signal()
        m.d.comb += fresh.eq(deflate.whole - to_send)
        with m.If(self._waits):
            m.d.comb += deflate.start.eq(1)
            m.d.sync += [
                units.eq(0),
                segment_left.eq(0),
                entries_end.eq(0),
                place.eq(memory[self.skipped :]),
                entry_place.eq(table),
            ]
        with m.If(self._compressed):
            m.d.comb += [
                deflate.groups.valid.eq(self._present & ~(begins_segment & entry_waits)),
                takes.eq(deflate.groups.valid & deflate.groups.ready),
                self._leaves.eq(takes),
            ]
            with m.If(takes):
                m.d.sync += [
                    units.eq(units + deflate.need),
                    segment_left.eq(Mux(begins_segment, descriptor["segment"], segment_left) - 1),
                ]
            with m.If((takes & begins_segment) | (self._all_read & ~entries_end & ~entry_waits)):
                m.d.sync += [entry.eq(units), entry_waits.eq(1), entries_end.eq(~takes)]
            with m.If(sent):
                m.d.sync += to_send.eq(to_send - 1)
            # Units are asked for while others are sent; an entry has to wait for them, as data go in order.
            with m.If(~asks & ~sends_entry):
                with m.If(entry_waits), m.If(to_send == 0):
                    m.d.sync += [sends_entry.eq(1), asks.eq(1), to_send.eq(1), count.eq(1)]
                with m.Elif((fresh > 1) | (entries_end & (fresh != 0))):
                    m.d.sync += [asks.eq(1), to_send.eq(deflate.whole - sent), count.eq(fresh)]
                with m.Elif(entries_end & (to_send == 0)):
                    m.d.comb += self._units_sent.eq(1)
            m.d.comb += [
                writer.request.valid.eq(asks),
                writer.request.payload.beat.eq(Mux(sends_entry, entry_place[word_bits:], place)),
                writer.request.payload.count.eq(count),
                writer.beats.valid.eq((to_send != 0) & (sends_entry | deflate.beats.valid)),
                deflate.beats.ready.eq((to_send != 0) & ~sends_entry & writer.beats.ready),
                sent.eq(writer.beats.valid & writer.beats.ready),
                writer.beats.payload.eq(deflate.beats.payload),
            ]
            with m.If(sends_entry):
                words = config.axi_bits // 32
                m.d.comb += [
                    writer.beats.payload.data.eq(Cat(entry, Const(0, 32 - self.units)).replicate(words)),
                    writer.beats.payload.strobe.eq(0xF << (entry_place[:word_bits] << 2) if word_bits else 0xF),
                ]
            with m.If(asks & writer.request.ready):
                m.d.sync += asks.eq(0)
                with m.If(~sends_entry):
                    m.d.sync += place.eq(place + count)
            # Its place and value are used until both have gone.
            asked, gone = ~asks | writer.request.ready, (to_send == 0) | sent
            with m.If(sends_entry & asked & gone):
                m.d.sync += [sends_entry.eq(0), entry_waits.eq(0), entry_place.eq(entry_place + 1)]
