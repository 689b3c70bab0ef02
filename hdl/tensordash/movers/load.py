"""Load: moves groups from memory to the buffer, and inflates them."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib.wiring import In, Out, connect, flipped

from ..block import Block, placed
from ..configuration.core_config import CoreConfig
from ..configuration.descriptors import OPERATIONS
from ..configuration.formats import FloatFormat
from ..configuration.registers import ERRORS
from ..memory.bank import group_address_bits
from ..memory.signature import BufferWriteSignature
from .axi import AxiReadSignature, bounds_layout
from .axi_reader import AxiReader
from .compaction import unit_bits
from .inflate import Inflate
from .move_walk import MoveWalk
from .nvfp4_expander import Nvfp4Expander
from .unit import CommandSignature, DescriptorRegister

__all__ = ["Load"]


class Load(Block):
    """Executes `load`: moves groups from memory into the buffer.

    The unit requests the next runs while data of earlier runs arrive. All beats but those of NVFP4 tensors pass through
    inflate, also plain ones.
    The unit writes the positions of a group that have arrived, even if memory answered with an error. A run that goes
    beyond the buffer's end is not read, and ends the move. A burst outside of the bounds also ends the move. The unit
    then takes no descriptor until a reset.

    A compressed move first reads two entries of the table: the first segment's, and the one after the last segment's.
    A division of the number of groups by `segment` gives the second entry's place. If the entries give more units than
    the groups can have, the move ends with an error and does not read the tensor.

    Timing: a plain move requests its first run two cycles after its descriptor arrived, then a run in each cycle. It
    writes a group every `group_bits / axi_bits` cycles; an NVFP4 move takes half of that. A compressed move requests
    its first entry after the same two cycles. The division takes one cycle for each bit of the buffer's number of
    groups. The unit requests the second entry after the division, and data after both entries have arrived. It then
    handles a beat or a group per cycle.

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
    bounds : In(bounds_layout)
        The pages of memory that it may read.
    halt : In(1)
        As in `AxiReader`: nothing new begins, and the unit does not work until a reset.
    idle : Out(1)
        No burst is outstanding.

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
        fmt, self._expander = config.tile.a_format, None
        if config.nvfp4:
            assert isinstance(fmt, FloatFormat)
            self._expander = Nvfp4Expander(lanes=lanes, fmt=fmt, data_bits=config.axi_bits)
        address_bits = group_address_bits(config.groups)
        super().__init__(
            {
                "command": In(CommandSignature()),
                "axi": Out(AxiReadSignature(data_bits=config.axi_bits, address_bits=config.address_bits)),
                "buffer": Out(BufferWriteSignature(lanes=lanes, width=width, address_bits=address_bits)),
                "bounds": In(bounds_layout(config.address_bits)),
                "halt": In(1),
                "idle": Out(1),
            }
        )

    def elaborate(self, platform):
        """Request runs of groups, and write the groups into the buffer as they arrive."""
        m = Module()
        reader, inflate = self._reader, self._inflate
        m.submodules.reader = placed(reader, platform)
        if inflate is not None:
            m.submodules.inflate = placed(inflate, platform)
        descriptor = DescriptorRegister(m, self.command, OPERATIONS["load"], counts=True, folded=inflate is not None)
        is_nvfp4 = descriptor["nvfp4"] if self._expander is not None else None
        walk = MoveWalk(m, descriptor, self.config, is_nvfp4)
        connect(m, flipped(self.axi), reader.axi)
        m.d.comb += [reader.bounds.eq(self.bounds), reader.halt.eq(self.halt), self.idle.eq(reader.idle)]

        compressed = descriptor["compressed"] if inflate is not None else Const(0)
        beyond = Signal()  # a run ends beyond the buffer
        refused = Signal()  # memory answered with an error
        wrong = Signal()  # an impossible table
        busy = inflate.active if inflate is not None else Const(0)
        found = wrong | (compressed & inflate.wrong) if inflate is not None else wrong
        in_bounds = Mux(beyond, ERRORS["range"], Mux(refused, ERRORS["read"], Mux(found, ERRORS["compressed"], 0)))
        m.d.comb += self.command.error.eq(Mux(reader.outside, ERRORS["bounds"], in_bounds))
        with m.If(reader.beats.valid & reader.beats.ready & reader.beats.payload.error):
            m.d.sync += refused.eq(1)
        data_arrives = Signal()
        starts = Signal()  # groups come from the next cycle on
        first = Signal()  # the cycle in which plain groups start
        stops = Signal()
        # Beats of a group, and beats for one of the walk's places, as powers of two.
        shift = self.beats.bit_length() - 1
        place_shift = shift
        count = descriptor["count_0"] << shift
        if is_nvfp4 is not None:
            place_shift -= 1
            count = Mux(is_nvfp4, descriptor["count_0"] << place_shift, count)
        with m.FSM(name="load"):
            with m.State("WAIT"):  # for a descriptor
                m.d.comb += walk.begin.eq(1)
                m.d.sync += [beyond.eq(0), refused.eq(0), wrong.eq(0)]
                with m.If(descriptor.present):
                    m.next = "FIRST"
            with m.State("FIRST"):  # the cycle that starts a move
                m.d.comb += [first.eq(1), starts.eq(~compressed)]
                m.next = "RUNS"
                if inflate is not None:
                    with m.If(compressed & walk.fits):
                        m.next = "TABLE"
            with m.State("RUNS"):  # request one run of groups after the other
                m.d.comb += [
                    reader.request.valid.eq(walk.fits),
                    reader.request.payload.beat.eq(walk.place << place_shift),
                    reader.request.payload.count.eq(count),
                    walk.step.eq(walk.fits & reader.request.ready),
                    data_arrives.eq(1),
                ]
                m.d.sync += beyond.eq(~walk.fits)
                with m.If(~walk.fits | (reader.request.ready & walk.last) | reader.outside):
                    m.next = "DRAIN"
            with m.State("DRAIN"):  # until the last group is in the buffer
                m.d.comb += data_arrives.eq(1)
                with m.If(reader.idle & ~busy):
                    m.d.comb += self.command.done.eq(1)
                    m.next = "WAIT"
                if inflate is not None:
                    with m.Elif(reader.idle & reader.outside & ~self.buffer.valid):
                        m.next = "STOP"
            if inflate is not None:
                with m.State("STOP"):  # beats out of bounds never arrive: stop inflate
                    m.d.comb += [starts.eq(1), stops.eq(1), self.command.done.eq(1)]
                    m.next = "WAIT"
                self._read_table(m, descriptor, inflate, refused, wrong, starts)
        if inflate is not None:
            to_inflate = Signal()
            m.d.comb += [to_inflate.eq(first | data_arrives), inflate.plain.eq((~compressed & to_inflate) | stops)]
            self._write_inflated(m, descriptor, inflate, to_inflate, starts, stops)
        else:
            self._write(m, descriptor, data_arrives if is_nvfp4 is None else data_arrives & ~is_nvfp4)
        if self._expander is not None:
            m.submodules.expander = placed(self._expander, platform)
            self._write_expanded(m, descriptor, data_arrives)
        return m

    def _read_table(
        self,
        m: Module,
        descriptor: DescriptorRegister,
        inflate: Inflate,
        refused: Signal,
        wrong: Signal,
        starts: Signal,
    ) -> None:
        """Build the states of a compressed move: read two entries of the table, then the units between them.

        The quotient count_0 / segment, rounded up, is the number of the second entry.
        """
        reader, config = self._reader, self.config
        unit_skipped = (config.value_bits // 8).bit_length() - 1
        count, segment = descriptor["count_0"], descriptor["segment"]
        words = config.axi_bits // 32
        word_bits = words.bit_length() - 1
        table = Cat(descriptor["table"], descriptor["table_high"])[2 : config.address_bits]
        memory = Cat(descriptor["memory"], descriptor["memory_high"])[unit_skipped : config.address_bits]
        first_requested = Signal()  # the first entry was requested
        both_requested = Signal()  # both entries were requested
        first_arrived = Signal()  # the first entry has arrived
        # A restoring division, one bit per cycle. The quotient replaces the dividend from below. Groups fit the buffer.
        bits = min(len(count), config.groups.bit_length())
        quotient = Signal(bits)
        rest = Signal(bits)
        bits_left = Signal(range(bits + 1))
        shifted = Cat(quotient[-1], rest[:-1])  # at most the number of groups
        difference = Signal(len(segment) + 1)
        below = difference[-1]
        divided = Signal()
        # The first entry until the division starts, since both terms are 0. Then the entry after the last segment.
        entry = Signal(len(table) + 1)
        word = Signal(32)
        memory_outside = Signal()  # above the highest address
        data_begin = memory + word
        units = Signal(33, reset_less=True)  # the first entry, then the units between the two
        place = Mux(first_arrived, entry[:word_bits], table[:word_bits])
        m.d.comb += [
            difference.eq(shifted - segment),
            divided.eq(bits_left == 0),
            entry.eq(table + quotient + (rest != 0)),
            word.eq(reader.beats.payload.data.word_select(place, 32) if word_bits else reader.beats.payload.data),
            reader.request.payload.beat.eq(entry[word_bits:]),
            reader.request.payload.count.eq(1),
        ]
        with m.State("TABLE"):  # divide, and read two entries of the table
            m.d.comb += reader.request.valid.eq(~first_requested | (divided & ~both_requested))
            with m.If(reader.request.valid & reader.request.ready):
                m.d.sync += [first_requested.eq(1), both_requested.eq(first_requested)]
                with m.If(~first_requested):
                    m.d.sync += [quotient.eq(count), bits_left.eq(bits)]
            with m.If(~divided):
                m.d.sync += [
                    quotient.eq(Cat(~below, quotient[:-1])),
                    rest.eq(Mux(below, shifted, difference)),
                    bits_left.eq(bits_left - 1),
                ]
            with m.If(reader.beats.valid):
                m.d.sync += [first_arrived.eq(1), units.eq(word - Mux(first_arrived, units[:32], 0))]
                with m.If(first_arrived):
                    m.d.sync += [
                        each.eq(0) for each in (first_requested, both_requested, first_arrived, quotient, rest)
                    ]
                    m.next = "UNITS"
                with m.Else():
                    m.d.sync += [memory.eq(data_begin), memory_outside.eq(data_begin[len(memory) :].any())]
            with m.If(reader.outside & reader.idle):
                m.next = "DRAIN"  # the unit takes no descriptor until a reset
        self._request_units(m, count, inflate, (memory, memory_outside), units, refused, wrong, starts)

    def _request_units(
        self,
        m: Module,
        count: Value,
        inflate: Inflate,
        begin: tuple[Value, Signal],
        units: Signal,
        refused: Signal,
        wrong: Signal,
        starts: Signal,
    ) -> None:
        # `begin` is an address in units, and whether it is above the highest address.
        reader, (memory, memory_outside) = self._reader, begin
        most = Signal(self.units)  # masks and values of all groups
        offset = memory[: inflate.shift]
        limit_rounded_up = Signal(self.units + 2)
        m.d.comb += [
            most.eq(count * inflate.most),
            inflate.limit.eq(units[: self.units] + offset),
            limit_rounded_up.eq(inflate.limit + (inflate.beat - 1)),
            inflate.offset.eq(offset),
            inflate.groups.eq(count),
        ]
        impossible = units[-1] | (units == 0) | (units > most)
        with m.State("UNITS"):  # request all data between the two entries
            m.d.comb += [
                reader.request.payload.beat.eq(Cat(memory[inflate.shift :], memory_outside)),
                reader.request.payload.count.eq(limit_rounded_up[inflate.shift :]),
            ]
            with m.If(refused):
                m.next = "DRAIN"
            with m.Elif(impossible):
                m.d.sync += wrong.eq(1)
                m.next = "DRAIN"
            with m.Else():
                m.d.comb += reader.request.valid.eq(1)
                with m.If(reader.request.ready):
                    m.d.comb += starts.eq(1)
                    m.next = "DRAIN"

    def _write_inflated(
        self,
        m: Module,
        descriptor: DescriptorRegister,
        inflate: Inflate,
        data_arrives: Value,
        starts: Signal,
        stops: Signal,
    ) -> None:
        """Write groups into the buffer as they arrive from inflate."""
        beats, buffer, out = self._reader.beats, self.buffer, inflate.out
        address = descriptor["address"]
        m.d.comb += [
            inflate.start.eq(starts),
            inflate.beats.valid.eq(beats.valid & data_arrives),
            inflate.beats.payload.eq(beats.payload.data),
            inflate.out.ready.eq(buffer.ready),
            beats.ready.eq(~data_arrives | inflate.beats.ready),
            buffer.valid.eq(out.valid & ~stops),
            buffer.data.as_value().eq(out.payload),
            buffer.enable.eq(Cat(bit.replicate(len(buffer.enable) // inflate.number) for bit in inflate.parts)),
            *(each.eq(address) for each in buffer.address),
        ]
        with m.If(out.valid & buffer.ready & inflate.last):
            m.d.sync += address.eq(address + 1)

    def _write(self, m: Module, descriptor: DescriptorRegister, data_arrives: Value) -> None:
        """Write groups into the buffer without inflate. Store all beats of a group but the last."""
        beats, buffer, axi_bits = self._reader.beats, self.buffer, self.config.axi_bits
        address = descriptor["address"]
        is_last_beat = Signal()  # the beat ends its group
        group: Value = beats.payload.data
        if self.beats > 1:
            index = Signal(range(self.beats))
            earlier = Signal((self.beats - 1) * axi_bits, reset_less=True)
            group = Cat(earlier, beats.payload.data)
            m.d.comb += is_last_beat.eq(index == self.beats - 1)
            with m.If(beats.valid & beats.ready & data_arrives):
                m.d.sync += [index.eq(index + 1), earlier.eq(group[axi_bits:])]
        else:
            m.d.comb += is_last_beat.eq(1)
        m.d.comb += [
            beats.ready.eq(~data_arrives | ~is_last_beat | buffer.ready),
            buffer.valid.eq(beats.valid & is_last_beat & data_arrives),
            buffer.enable.eq(-1),
            buffer.data.as_value().eq(group),
            *(each.eq(address) for each in buffer.address),
        ]
        with m.If(buffer.valid & buffer.ready):
            m.d.sync += address.eq(address + 1)

    def _write_expanded(self, m: Module, descriptor: DescriptorRegister, data_arrives: Signal) -> None:
        """Write the groups of an NVFP4 tensor, which bypass inflate."""
        expander, beats, buffer = self._expander, self._reader.beats, self.buffer
        assert expander is not None
        address, is_nvfp4 = descriptor["address"], descriptor["nvfp4"]
        m.d.comb += [
            expander.by_channel.eq(descriptor["by_channel"]),
            expander.beats.valid.eq(beats.valid & data_arrives & is_nvfp4),
            expander.beats.payload.eq(beats.payload.data),
            expander.out.ready.eq(buffer.ready),
        ]
        with m.If(is_nvfp4):
            m.d.comb += [
                beats.ready.eq(~data_arrives | expander.beats.ready),
                buffer.valid.eq(expander.out.valid),
                buffer.enable.eq(-1),
                buffer.data.as_value().eq(expander.out.payload),
            ]
            if self._inflate is not None:
                m.d.comb += self._inflate.beats.valid.eq(0)
        with m.If(expander.out.valid & buffer.ready):
            m.d.sync += address.eq(address + 1)
