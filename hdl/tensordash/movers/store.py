"""Store: moves groups from the buffer to memory, deflates them, and records counts."""

from collections.abc import Iterator

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib.wiring import In, Out, connect, flipped

from ..block import Block, placed
from ..configuration.core_config import CoreConfig
from ..configuration.descriptors import OPERATIONS
from ..configuration.registers import ERRORS
from ..memory.bank import group_address_bits
from ..memory.signature import BufferReadSignature
from .axi import AxiWriteSignature, bounds_layout
from .axi_writer import AxiWriter
from .deflate import Deflate
from .move_walk import MoveWalk
from .unit import CommandSignature, DescriptorRegister

__all__ = ["Store"]

RECORD_BITS = 256
COUNT_BITS = 96
"""Bits of a record's counts. The bits above them are zero."""
MAX_BEATS = 8
"""Maximum number of beats of units in a request."""


class Store(Block):
    """Executes `store` and `record`: moves groups from the buffer to memory.

    One register holds a group from the buffer. The unit reads the next group before that group has left. If the next
    group arrives too early, the unit drops it and reads it again. A run that goes beyond the buffer's end is not
    written, and ends the move. A burst outside of the bounds also ends the move. The unit then takes no descriptor
    until a reset.

    The length of a compressed move is unknown before its end, but each group takes at least its mask. The unit requests
    bursts of the beats that are certain before their data exist. Towards the end the bursts become shorter, down to the
    beats of one group. An entry of the table is a burst of one beat in between. Until the entry is requested, the
    unit requests nothing else.

    Timing: a plain move requests its first run two cycles after its descriptor arrived, then a run in each cycle. It
    moves a group every `group_bits / axi_bits` cycles. A compressed move sends a beat or takes a group in each cycle,
    or in every second cycle among the last groups (whose masks fill 2 beats). It pauses for about four cycles at each
    entry of the table.

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
        The unit takes the counts in this cycle, and they restart from zero.
    bounds : In(bounds_layout)
        The pages of memory that it may write.
    halt : In(1)
        As in `AxiWriter`: nothing new begins, and the unit does not work until a reset.
    idle : Out(1)
        Memory has answered every burst.

    Source: docs/core.md, "Loops", "Tensors", "Multiply" (counts) and "Errors".
    """

    def __init__(self, *, config: CoreConfig) -> None:
        self.config = config
        lanes, width = config.tile.lanes, config.value_bits
        self.beats = config.group_bits // config.axi_bits  # of a group
        self.record_beats = max(1, RECORD_BITS // config.axi_bits)
        self.skipped = (config.axi_bits // 8).bit_length() - 1
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
                "bounds": In(bounds_layout(config.address_bits)),
                "halt": In(1),
                "idle": Out(1),
            }
        )
        self._waits = Signal(name="waits")  # there is no descriptor
        # The oldest group that was read, in two signals. A record uses only the first.
        begins = max(config.axi_bits, RECORD_BITS // 2)
        self._first = Signal(begins, name="group_first", reset_less=True)
        rest = config.group_bits - begins
        self._group = Cat(self._first, Signal(rest, name="group_rest", reset_less=True)) if rest else self._first
        self._held = Signal(name="group_held")
        self._leaves = Signal(name="group_leaves")
        max_beats = self._deflate.max_beats if self._deflate is not None else self.beats
        self._left = Signal(range(max_beats + 1), name="beats_left")  # of the group
        self._sent = Signal(name="beat_sent")
        self._plain = Signal(name="plain")  # beats of groups may leave without a count
        self._records = Signal(name="records")
        self._to_send = Signal(range(2 * MAX_BEATS + 1), name="to_send")  # beats requested, of units or of a record
        self._entry = Signal(name="entry_next")  # the next beat is an entry of the table
        self._mute = Signal(name="mute")  # the beat has no data of a group
        self._memory_outside = Signal(name="memory_outside")  # units would be above the highest address
        self._all_read = Signal(name="all_read")  # no group is held or still to come

    def elaborate(self, platform):
        """Connect requests and groups. The move is done when all bursts are answered."""
        m = Module()
        config, writer, deflate = self.config, self._writer, self._deflate
        m.submodules.writer = placed(writer, platform)
        connect(m, flipped(self.axi), writer.axi)
        descriptor = DescriptorRegister(m, self.command, OPERATIONS["store"], counts=True, folded=deflate is not None)
        walk = MoveWalk(m, descriptor, config)
        memory = Cat(descriptor["memory"], descriptor["memory_high"])[self.skipped : config.address_bits]
        compressed = descriptor["compressed"] if deflate is not None else Const(0)
        self._read(m, descriptor, walk, compressed)
        if deflate is not None:
            m.submodules.deflate = placed(deflate, platform)
            self._send_deflated(m, descriptor, deflate, compressed)
        else:
            self._send_plain(m)
        beyond = Signal()  # a run ends beyond the buffer
        refused = Signal()  # memory answered with an error
        in_bounds = Mux(beyond, ERRORS["range"], Mux(refused, ERRORS["write"], 0))
        m.d.comb += [
            writer.bounds.eq(self.bounds),
            writer.halt.eq(self.halt),
            self.idle.eq(writer.idle),
            self.command.error.eq(Mux(writer.outside, ERRORS["bounds"], in_bounds)),
            writer.request.payload.beat.eq(Cat(memory, self._memory_outside)),
            self._sent.eq(writer.beats.valid & writer.beats.ready),
        ]
        with m.If(writer.failed):
            m.d.sync += refused.eq(1)
        with m.If(self._sent & ~self._entry & (self._to_send != 0)):
            m.d.sync += self._to_send.eq(self._to_send - 1)
        shift = self.beats.bit_length() - 1
        with m.FSM(name="store"):
            with m.State("WAIT"):  # for a descriptor
                m.d.comb += [walk.begin.eq(1), self._waits.eq(1)]
                m.d.sync += [beyond.eq(0), refused.eq(0), self._memory_outside.eq(0)]
                with m.If(descriptor.present):
                    m.next = "FIRST"
            with m.State("FIRST"):  # choose by the operation
                with m.If(descriptor["operation"] == OPERATIONS["record"].code):
                    m.d.comb += self.clear.eq(1)
                    m.next = "RECORD"
                with m.Elif(compressed & walk.fits):
                    m.d.comb += walk.skip.eq(1)
                    m.next = "UNITS" if deflate is not None else "RUNS"
                with m.Else():
                    m.next = "RUNS"
            with m.State("RUNS"):  # request one run of groups after the other
                m.d.comb += [
                    self._plain.eq(1),
                    writer.request.valid.eq(walk.fits),
                    writer.request.payload.beat.eq(walk.place << shift),
                    writer.request.payload.count.eq(descriptor["count_0"] << shift),
                    walk.step.eq(walk.fits & writer.request.ready),
                ]
                m.d.sync += beyond.eq(~walk.fits)
                with m.If(~walk.fits | (writer.request.ready & walk.last) | writer.outside):
                    m.next = "DRAIN"
            with m.State("DRAIN"):  # until memory has answered all writes
                m.d.comb += self._plain.eq(1)
                with m.If(writer.idle):
                    m.d.comb += self.command.done.eq(1)
                    m.next = "WAIT"
            self._record(m, descriptor)
            if deflate is not None:
                self._write_units(m, descriptor, deflate, memory)
        return m

    def _read(self, m: Module, descriptor: DescriptorRegister, walk: MoveWalk, compressed: Value) -> None:
        """Read groups up to the walk's place, one ahead of the group that is held."""
        buffer, group, held, leaves = self.buffer, self._group, self._held, self._leaves
        arrives = Signal()  # the buffer delivers a group in this cycle
        taken = Signal(name="group_taken")  # there is room for that group
        asks = Signal()
        soon = Signal(name="group_soon")  # there should be room when a group requested now arrives
        must_repeat = Signal()  # the request must not be withdrawn
        # The descriptor's field is the counter, unless it is too narrow for the group after the last.
        pointer: Value = descriptor["address"]
        if self.config.groups >> len(pointer):
            first, pointer = pointer, Signal(len(pointer) + 1, name="pointer", reset_less=True)
            with m.If(self._waits):
                m.d.sync += pointer.eq(first)
        next_group = Signal(len(pointer))
        # The number of a group's beats is unknown when it arrives. A deflated group mostly makes at most one.
        unknown = Const(1) if self.beats == 1 else compressed
        m.d.comb += [
            taken.eq(arrives & (~held | leaves)),
            next_group.eq(Mux(taken, pointer + 1, pointer)),
            asks.eq(~self._waits & (next_group != walk.address[: len(pointer)])),
            soon.eq(((self._left == 2) & self._sent) | ((~held | leaves) & (~arrives | unknown))),
            self._all_read.eq(~asks & ~arrives & ~held),
            buffer.valid.eq(asks & (soon | must_repeat)),
            buffer.enable.eq(-1),
            *(each.eq(next_group) for each in buffer.address),
        ]
        m.d.sync += [
            arrives.eq(buffer.valid & buffer.ready),
            must_repeat.eq(buffer.valid & ~buffer.ready),
            held.eq((held & ~leaves) | arrives),
        ]
        with m.If(self._waits):
            m.d.sync += held.eq(0)
        with m.If(taken):
            m.d.sync += [pointer.eq(next_group), group.eq(buffer.data.as_value())]
        # Counts that change later must not change a beat that waits.
        counts = Cat(self.zeros, self.non_finite, self.overflow, Const(0, RECORD_BITS - COUNT_BITS))
        if self.config.axi_bits > RECORD_BITS:
            counts = counts.replicate(self.config.axi_bits // RECORD_BITS)
        with m.If(self.clear):
            m.d.sync += self._first.eq(counts)

    def _send_plain(self, m: Module) -> None:
        """Send the beats of groups, without deflate."""
        beats = self._writer.beats
        index = Signal(range(max(self.beats, 2)), name="beat")  # of the group
        piece = self._group.word_select(index, self.config.axi_bits) if self.beats > 1 else self._group
        m.d.comb += [
            beats.valid.eq((self._plain & self._held) | (self._records & (self._to_send != 0))),
            beats.payload.data.eq(piece & (~self._mute).replicate(len(piece))),
            beats.payload.strobe.eq(-1),
            self._left.eq(Mux(self._held, self.beats - index, 0)),
            self._leaves.eq(self._held & self._sent & (index == self.beats - 1)),
        ]
        if self.beats > 1:
            with m.If(self._waits):
                m.d.sync += index.eq(0)
            with m.Elif(self._sent):
                m.d.sync += index.eq(index + 1)

    def _send_deflated(self, m: Module, descriptor: DescriptorRegister, deflate: Deflate, compressed: Value) -> None:
        """Send the beats of groups, plain or deflated."""
        beats = self._writer.beats
        sends = Signal()
        m.d.comb += [
            deflate.start.eq(self._waits),
            deflate.plain.eq(~compressed),
            deflate.mute.eq(self._mute),
            deflate.groups.payload.eq(self._group),
            deflate.groups.valid.eq(self._held | self._records),
            self._left.eq(deflate.whole_beats),
            self._leaves.eq(self._held & deflate.groups.valid & deflate.groups.ready),
            sends.eq(self._plain | ((self._to_send != 0) & ~self._entry)),
            beats.valid.eq(sends & deflate.beats.valid),
            deflate.beats.ready.eq(sends & beats.ready),
            beats.payload.eq(deflate.beats.payload),
        ]
        if deflate.offset_bits:
            m.d.comb += deflate.offset.eq(descriptor["memory"][4 : self.skipped])

    def _record(self, m: Module, descriptor: DescriptorRegister) -> None:
        """Build the states of a record. Its counts are in the register of a group."""
        writer, config = self._writer, self.config
        with m.State("RECORD"):  # request the write of the counts
            m.d.comb += [
                self._records.eq(1),
                writer.request.valid.eq(1),
                writer.request.payload.count.eq(self.record_beats),
            ]
            m.d.sync += self._to_send.eq(self.record_beats)
            with m.If(writer.request.ready):
                m.next = "COUNTS"
        with m.State("COUNTS"):  # send the counts
            zeros = self.record_beats - -(-COUNT_BITS // config.axi_bits)
            m.d.comb += [self._records.eq(1), self._mute.eq(self._to_send <= zeros)]
            if config.axi_bits > RECORD_BITS:
                half = RECORD_BITS // 8
                upper = descriptor["memory"][5 : self.skipped] << 5
                m.d.comb += writer.beats.payload.strobe.eq(((1 << half) - 1) << upper)
            refused = writer.outside & writer.idle
            with m.If(refused | (self._to_send == 0)):
                if self._deflate is not None:
                    m.d.comb += self._deflate.start.eq(1)  # drop the beats of a group that is larger than a record
                m.d.sync += self._to_send.eq(0)
                m.next = "DRAIN"

    def _write_units(self, m: Module, descriptor: DescriptorRegister, deflate: Deflate, memory: Value) -> None:
        """Build the state of a compressed store: bursts of units, and entries of the table in between."""
        writer, config, to_send = self._writer, self.config, self._to_send
        word_bits = (config.axi_bits // 32).bit_length() - 1
        table = Cat(descriptor["table"], descriptor["table_high"])[2 : config.address_bits]
        stored_table = Cat(descriptor.stored_bits("table"), descriptor.stored_bits("table_high"))[
            2 : config.address_bits
        ]
        later, segment = descriptor["count_0"], descriptor["segment"]  # groups in later segments, and in each
        segment_left = Signal(16)  # groups of this segment that are still to come
        entry = Signal(len(deflate.units), reset_less=True)
        entry_waits = Signal()
        entry_requested = Signal()
        entries_end = Signal()  # the last entry, at the end of all segments, has been made
        entry_sent = Signal()
        before_entry = Signal(len(to_send), reset_less=True)  # beats of units to send before the entry
        unit_sent = Signal()
        begins = Signal(name="begins_segment")
        shorter = Signal(17)  # groups left after the next segment; negative if that one is shorter
        makes = Signal(name="makes_entry")
        count = Signal(range(MAX_BEATS + 1))
        table_outside = Signal()  # the entry would be above the highest address
        next_table = table + 1
        next_memory = memory + count
        asks = Signal(name="asks_units")
        m.d.comb += [
            begins.eq(segment_left == 0),
            shorter.eq(later - segment),
            deflate.flush.eq(entries_end),
            makes.eq((self._leaves & begins) | (self._all_read & ~entries_end & ~entry_waits)),
        ]
        with m.State("UNITS"):  # write compressed groups, and table entries between them
            m.d.comb += deflate.groups.valid.eq(self._held & ~(begins & entry_waits))
            with m.If(self._leaves):
                m.d.sync += segment_left.eq(Mux(begins, Mux(shorter[-1], later, segment), segment_left) - 1)
            with m.If(self._leaves & begins):
                m.d.sync += later.eq(Mux(shorter[-1], 0, shorter))
            with m.If(makes):
                m.d.sync += [entry.eq(deflate.units), entry_waits.eq(1), entries_end.eq(~self._leaves)]
            m.d.comb += [count.eq(deflate.whole_beats - to_send), asks.eq(deflate.whole_beats > to_send)]
            for max_waiting, size, groups in _requests_ahead(deflate):
                sure = (segment_left >= groups) | (~entry_waits & (later >= groups) & (segment >= groups))
                with m.If((to_send <= max_waiting) & sure):
                    m.d.comb += [count.eq(size), asks.eq(1)]
            with m.If(entry_waits & ~entry_requested):
                m.d.comb += [
                    writer.request.valid.eq(1),
                    writer.request.payload.beat.eq(Cat(table[word_bits:], table_outside)),
                    writer.request.payload.count.eq(1),
                ]
                with m.If(writer.request.ready):
                    m.d.sync += [entry_requested.eq(1), before_entry.eq(to_send - unit_sent)]
            with m.Else():
                m.d.comb += [writer.request.valid.eq(asks), writer.request.payload.count.eq(count)]
                with m.If(asks & writer.request.ready):
                    m.d.sync += [to_send.eq(to_send + count - unit_sent), memory.eq(next_memory)]
                    m.d.sync += self._memory_outside.eq(self._memory_outside | next_memory[len(memory)])
                with m.If(unit_sent):
                    m.d.sync += before_entry.eq(before_entry - 1)
            # Data leave in the order of requests.
            m.d.comb += [self._entry.eq(entry_requested & (before_entry == 0)), unit_sent.eq(self._sent & ~self._entry)]
            with m.If(self._entry):
                m.d.comb += [
                    self._mute.eq(1),
                    entry_sent.eq(writer.beats.ready),
                    writer.beats.valid.eq(1),
                    writer.beats.payload.data.eq(
                        deflate.beats.payload.data | Cat(entry, Const(0, 32 - len(entry))).replicate(1 << word_bits)
                    ),
                    writer.beats.payload.strobe.eq(0xF << (table[:word_bits] << 2) if word_bits else 0xF),
                ]
            with m.If(entry_sent):
                m.d.sync += [entry_waits.eq(0), entry_requested.eq(0), stored_table.eq(next_table)]
                m.d.sync += table_outside.eq(next_table[len(table)])
            with m.If(entries_end & ~entry_waits & ~asks & (to_send == 0)):
                m.d.sync += [entries_end.eq(0), table_outside.eq(0)]
                m.next = "DRAIN"
            with m.If(writer.outside & writer.idle):  # all beats before the refused burst are written
                m.d.comb += deflate.start.eq(1)
                m.d.sync += [each.eq(0) for each in (to_send, segment_left, entry_waits, entry_requested, entries_end)]
                m.d.sync += table_outside.eq(0)
                m.next = "DRAIN"


def _requests_ahead(deflate: Deflate) -> Iterator[tuple[int, int, int]]:
    """Yield numbers of beats that may wait, beats to request then, and groups still to come that fill both.

    Each group still to come takes at least its mask. A group that has sent beats takes at least one beat. Groups of the
    next segment wait for the entry before theirs.
    """
    for max_waiting, size in ((0, 1), *((1 << k, 1 << k) for k in range(MAX_BEATS.bit_length()))):
        units = (max_waiting + size) * deflate.beat
        yield max_waiting, size, max(-(-units // deflate.masks), 1 - (deflate.beat - units) // deflate.masks)
