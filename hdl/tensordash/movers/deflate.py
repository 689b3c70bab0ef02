"""Deflate: units of a compressed tensor from groups."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import stream
from amaranth.lib.wiring import In, Out

from ..block import Block
from ..configuration.parameters import require_int
from .axi_writer import write_beat_layout
from .compaction import Compaction, ring_slots

__all__ = ["Deflate"]


class Deflate(Block):
    """Takes a group in every cycle as long as there is room, and packs its mask and its values into beats.

    Units wait in a ring of whole beats: what enters is rotated, what leaves is not.

    Timing: a beat is offered in the cycle after its last unit came.

    Parameters
    ----------
    lanes, width, data_bits
        As of `Inflate`.

    Members
    -------
    start : In(1)
        Begin anew. Only while nothing is held.
    offset : In
        Then: units of the first beat that come before, whose strobes are low.
    groups : In(stream of lanes * lanes * width)
        Groups.
    need : Out
        Units of the group that is offered.
    flush : In(1)
        No group is to come: the last beat leaves though it is not full. Stays until nothing is held.
    whole : Out
        How many beats can leave without another group.
    beats : Out(stream of write_beat_layout)
        What to write.

    Raises
    ------
    TypeError, ValueError
        As of `Inflate`.

    Source: docs/core.md, "Tensors".
    """

    def __init__(self, *, lanes: int, width: int, data_bits: int) -> None:
        self.width = require_int("width", width, 8, 32)
        self.size = require_int("lanes", lanes, 2) ** 2
        if self.size % width:
            raise ValueError(f"width must divide lanes * lanes = {self.size}, not {width}")
        self.masks = self.size // width
        self.most = self.masks + self.size
        self.beat = require_int("data_bits", data_bits, width) // width
        self.slots = ring_slots(self.most, self.beat)
        self.shift = self.beat.bit_length() - 1
        super().__init__(
            {
                "start": In(1),
                "offset": In(max(1, self.shift)),
                "groups": In(stream.Signature(self.size * width)),
                "need": Out(range(self.most + 1)),
                "flush": In(1),
                "whole": Out(range(self.slots + 1)),
                "beats": Out(stream.Signature(write_beat_layout(data_bits))),
            }
        )

    def elaborate(self, platform):
        """A network that moves values together, a rotator, and a ring."""
        m = Module()
        places = self.slots * self.beat
        ring = [Signal(self.width, name=f"unit_{i}", reset_less=True) for i in range(places)]
        tail = Signal(range(places))  # where the next group's first unit goes
        read = Signal(range(self.slots))  # the slot of the next beat
        filled = Signal(range(places + 1))  # units from the begin of that slot on
        skipped = Signal(max(1, self.shift))  # of them, those that are not written

        group = self.groups.payload
        values = [group[j * self.width : (j + 1) * self.width] for j in range(self.size)]
        mask = Signal(self.size)
        m.d.comb += mask.eq(Cat(*(value.any() for value in values)))
        network = Compaction(m, mask)
        units = [mask[k * self.width : (k + 1) * self.width] for k in range(self.masks)] + network.together(m, values)
        there: list[Value] = [Const(1)] * self.masks + list(network.held)
        rotated, enables = self._rotated(m, units, there, tail)

        takes = Signal()
        leaves = Signal()
        partial = self.flush & (filled[: self.shift] != 0) if self.shift else Const(0)
        m.d.comb += [
            self.need.eq(network.ones + self.masks),
            self.groups.ready.eq(filled <= places - self.most),
            takes.eq(self.groups.valid & self.groups.ready),
            self.whole.eq((filled >> self.shift) + partial),
            self.beats.valid.eq(self.whole != 0),
            leaves.eq(self.beats.valid & self.beats.ready),
        ]
        for unit, value, enable in zip(ring, rotated, enables, strict=True):
            with m.If(takes & enable):
                m.d.sync += unit.eq(value)
        beat = Signal(self.beat * self.width)
        with m.Switch(read):
            for slot in range(self.slots):
                with m.Case(slot):
                    m.d.comb += beat.eq(Cat(*ring[slot * self.beat : (slot + 1) * self.beat]))
        for i in range(self.beat):
            written = Signal(name=f"written_{i}")
            place = slice(i * self.width, (i + 1) * self.width)
            m.d.comb += [
                written.eq((filled > i) & ((skipped <= i) if i < self.beat - 1 else 1)),
                self.beats.payload.strobe[i * self.width // 8 : (i + 1) * self.width // 8].eq(
                    written.replicate(self.width // 8)
                ),
                # What was there before does not get out.
                self.beats.payload.data[place].eq(beat[place] & written.replicate(self.width)),
            ]
        rest = Signal(range(places + 1))
        m.d.comb += rest.eq(Mux(leaves, Mux(filled < self.beat, 0, filled - self.beat), filled))
        m.d.sync += filled.eq(rest + Mux(takes, self.need, 0))
        with m.If(takes):
            m.d.sync += tail.eq(tail + self.need)
        with m.If(leaves):
            m.d.sync += [read.eq(read + 1), skipped.eq(0)]
        with m.If(self.start):
            offset = self.offset if self.shift else 0
            m.d.sync += [tail.eq(offset), filled.eq(offset), skipped.eq(offset), read.eq(0)]
        return m

    def _rotated(
        self, m: Module, units: list[Value], there: list[Value], tail: Signal
    ) -> tuple[list[Value], list[Value]]:
        """What goes to each place of the ring, and whether anything does. Earlier stages have less to move."""
        places = self.slots * self.beat
        for k in range(len(tail)):
            step, count = 1 << k, len(units)
            wider = min(places, count + step)
            moved, marks = [], []
            for i in range(wider):
                # What would come from nowhere is not there; at its full width the ring closes.
                before = (i - step) % wider if wider == places else i - step
                from_here, from_before = i < count, 0 <= before < count
                unit = Signal(self.width, name=f"rotated_{k}_{i}")
                mark = Signal(name=f"there_{k}_{i}")
                if from_here and from_before:
                    m.d.comb += unit.eq(Mux(tail[k], units[before], units[i]))
                else:
                    m.d.comb += unit.eq(units[i] if from_here else units[before])
                here = there[i] if from_here else Const(0)
                m.d.comb += mark.eq(Mux(tail[k], there[before] if from_before else Const(0), here))
                moved.append(unit)
                marks.append(mark)
            units, there = list(moved), list(marks)
        return units, there
